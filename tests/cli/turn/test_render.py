"""The renderer, a pure function of events."""

from collections.abc import Sequence
from typing import get_args

import attrs
import pytest

from engine.cli.terminal.terminal_text import ASCII, WORDS
from engine.cli.turn.render import CONTINUED, Margins, Renderer
from engine.core.errors import ErrorInfo
from engine.core.events import (
    CONTINUE_REASONS,
    DURABLE_TYPES,
    LIVE_TYPES,
    CallAnnounced,
    CallHeartbeat,
    CallProgress,
    CallQueued,
    CallSettled,
    CallStarted,
    CompactionEnded,
    CompactionStarted,
    DoomDetected,
    Durable,
    HistoryReplaced,
    InputAdmitted,
    InputPromoted,
    Live,
    LoopContinued,
    Notice,
    PartDiscarded,
    PartEnded,
    PartReplaced,
    PartStarted,
    PromptUpdated,
    ReasoningDelta,
    RetryScheduled,
    TextDelta,
)
from engine.core.ids import CallId, InputId, MessageId, PartId, SessionId
from engine.core.messages import ReasoningPart, Settlement, TextPart, UserMessage
from engine.core.prompt_section import PromptSection
from engine.journal.state import Resync, SessionState
from engine.tools.tool_text import main_argument

M, P = MessageId("m"), PartId("p")
ROOT, CHILD = (SessionId("root"),), (SessionId("root"), SessionId("child"))

Event = Durable | Live | Resync


def said(text: str, part: PartId = P) -> list[Event]:
    return [
        PartStarted(message_id=M, part_id=part, kind="text"),
        *(
            TextDelta(message_id=M, part_id=part, after=0, offset=i, text=piece)
            for i, piece in enumerate(text.split("|"))
        ),
        PartEnded(message_id=M, part=TextPart(id=part, text=text.replace("|", ""))),
    ]


def asked(name: str, tool: str, arguments: str) -> list[Event]:
    return [
        CallAnnounced(call_id=CallId(name), message_id=M, part_id=P, tool=tool),
        CallQueued(call_id=CallId(name), tool=tool, arguments=arguments),
    ]


def settled(name: str, status: str = "completed", text: str = "", *, time: float = 0.0, **more: object) -> CallSettled:
    settlement = Settlement(status=status, text=text, **more)  # type: ignore[arg-type]
    return CallSettled(call_id=CallId(name), settlement=settlement, time=time)


def updated(*sections: tuple[str, str], removed: tuple[str, ...] = ()) -> PromptUpdated:
    message = UserMessage(id=M, parts=(TextPart(id=P, text="…"),), origin="engine")
    told = tuple(PromptSection(name=name, text="…", source=source) for name, source in sections)
    return PromptUpdated(message=message, sections=told, removed=removed)


def beat(name: str, time: float) -> CallHeartbeat:
    return CallHeartbeat(call_id=CallId(name), tool="bash", elapsed=time, last_progress="", pending_inputs=0, time=time)


def along(path: tuple[SessionId, ...], events: Sequence[Event]) -> list[Event]:
    return [event if isinstance(event, Resync) else attrs.evolve(event, path=path) for event in events]


def render(*events: Event, renderer: Renderer | None = None) -> str:
    machine = renderer or Renderer()
    return "".join(machine.feed(event) for event in events)


# ---- the answer ------------------------------------------------------------------------------------------------------


def test_text_streams_and_its_line_is_ended() -> None:
    machine = Renderer()
    assert [machine.feed(event) for event in said("The|re\nyou")] == ["", "The", "re\nyou", "\n"]


def test_text_with_newline_gets_no_empty_line() -> None:
    assert render(*said("done.\n")) == "done.\n"


def test_margin_precedes_each_nonempty_line() -> None:
    assert (
        render(*said("a|b\n|\nc\n"), renderer=Renderer(margins=Margins(model="model  ")))
        == "model  ab\nmodel\nmodel  c\n"
    )


def test_reasoning_is_not_shown() -> None:
    part = ReasoningPart(id=P, text="hm")
    assert (
        render(
            ReasoningDelta(message_id=M, part_id=P, after=0, offset=0, text="hm"), PartEnded(message_id=M, part=part)
        )
        == ""
    )


def test_model_text_cannot_control_the_terminal() -> None:
    assert render(*said("\x1b[2J|\x1b]0;title\x07")) == "^[[2J^[]0;title^G\n"


@pytest.mark.parametrize(
    "event", [PartDiscarded(message_id=M, part_id=P, reason="provider_retry"), PartReplaced(message_id=M, part_id=P)]
)
def test_discarded_text_is_reported(event: Event) -> None:
    assert render(*said("half an")[:2], event, *said("whole")) == (
        "half an\n· Retrying; ignore the partial answer above.\nwhole\n"
    )
    assert render(*said("")[:1], event) == "", "nobody has seen it"


def test_sub_agent_text_is_hidden_but_calls_not() -> None:
    events = [*said("hidden"), *asked("c", "read", '{"path":"a"}'), settled("c")]
    assert render(*along(CHILD, events)) == "  ✓ read  a\n"
    assert render(*along(ROOT, said("shown"))) == "shown\n"


# ---- calls -----------------------------------------------------------------------------------------------------------


def test_a_quick_call_has_one_line() -> None:
    events = [
        *asked("c", "bash", '{"command": "pytest -q"}'),
        CallStarted(call_id=CallId("c"), time=10),
        settled("c", time=11.43, metadata='{"summary": "exit code 0"}'),
    ]
    assert render(*events) == "✓ bash  pytest -q  exit code 0  1.4 s\n"


def test_a_slow_call_has_a_line_before() -> None:
    events = [
        *asked("c", "bash", '{"command": "make"}'),
        CallStarted(call_id=CallId("c"), time=1),
        beat("c", 1.25),
        beat("c", 1.5),
        settled("c", time=3, failed=True, metadata='{"summary": "exit code 2"}'),
    ]
    assert render(*events) == "● bash  make  running\n✗ bash  make  exit code 2  2.0 s\n"
    assert (
        render(*events, renderer=Renderer(symbols=WORDS))
        == "running: bash  make\nfailed: bash  make  exit code 2  2.0 s\n"
    )


def test_heartbeat_shows_all_running_calls() -> None:
    events = [
        *asked("a", "bash", '{"command": "one"}'),
        *asked("b", "bash", '{"command": "two"}'),
        *asked("q", "bash", '{"command": "waits"}'),
        CallStarted(call_id=CallId("a")),
        CallStarted(call_id=CallId("b")),
        beat("a", 0.25),
    ]
    assert render(*events) == "● bash  one  running\n● bash  two  running\n"


def test_a_call_ends_the_open_line_of_text() -> None:
    assert render(*said("Let me")[:2], *asked("c", "list", "{}"), settled("c")) == "Let me\n✓ list\n"


@pytest.mark.parametrize(
    ("settlement", "line"),
    [
        (Settlement(status="completed", text="x"), "✓ t     v"),
        (Settlement(status="completed", text="x", metadata="no json"), "✓ t     v"),
        (Settlement(status="completed", text="x", metadata='["a"]'), "✓ t     v"),
        (Settlement(status="completed", text="x", metadata='{"summary": 5}'), "✓ t     v"),
        (Settlement(status="error", text="a.py does\nnot exist."), "✗ t     v  error: a.py does not exist."),
        (Settlement(status="error", text=""), "✗ t     v  error"),
        (Settlement(status="denied", text="Denied: nobody."), "✗ t     v  Denied: nobody."),
        (Settlement(status="denied", text="Rejected by the user."), "✗ t     v  denied: Rejected by the user."),
        (Settlement(status="aborted", text="", reason="cancelled"), "■ t     v  aborted: cancelled"),
        (Settlement(status="aborted", text="", reason="not_executed"), "■ t     v  aborted: not executed"),
        (Settlement(status="aborted", text=""), "■ t     v  aborted: cancelled"),
        (
            Settlement(status="aborted", text="", reason="cancelled", outcome_unknown=True),
            "■ t     v  aborted: cancelled, would not stop",
        ),
        (
            Settlement(status="aborted", text="", reason="interrupted_by_crash", outcome_unknown=True),
            "■ t     v  aborted: the engine's process ended; what it did is not known",
        ),
    ],
)
def test_how_a_call_ended(settlement: Settlement, line: str) -> None:
    assert render(*asked("c", "t", '{"x":"v"}'), CallSettled(call_id=CallId("c"), settlement=settlement)) == f"{line}\n"


def test_lines_fit_the_width() -> None:
    machine = Renderer(width=80)
    long = "x" * 200
    events = [
        *asked("c", "bash", f'{{"command": "{long}"}}'),
        CallStarted(call_id=CallId("c")),
        settled("c", "error", long, time=1.5),
    ]
    line = render(*events, renderer=machine)
    assert len(line) <= 81
    assert line.endswith("…  1.5 s\n")


def test_a_narrow_terminal_is_no_error() -> None:
    machine = Renderer(width=1, plain=False)
    assert "…" in render(*asked("c", "bash", '{"command": "' + "x" * 50 + '"}'), settled("c"), renderer=machine)


def test_signs_without_unicode() -> None:
    assert render(*asked("c", "read", '{"path":"a"}'), settled("c"), renderer=Renderer(symbols=ASCII)) == "+ read  a\n"


def test_unannounced_calls_are_ignored() -> None:
    assert render(CallStarted(call_id=CallId("?")), settled("?")) == ""


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ('{"x": 1, "command": "ls"}', "ls"),
        ('{"limit": "5", "path": "a"}', "a"),
        ('{"other": "o"}', "o"),
        ('{"n": 5}', '{"n": 5}'),
        ("{}", ""),
        ("", ""),
        ("[1]", "[1]"),
        ('{"cut', '{"cut'),
        ("[" * 90_000, "[" * 90_000),
        ('{"command": "  "}', '{"command": "  "}'),
        ('{"questions": [7, {"n": 1}, {"question": "Which one?", "options": ["a"]}]}', "Which one?"),
    ],
)
def test_the_telling_argument(arguments: str, what: str) -> None:
    assert main_argument(arguments) == what


# ---- the status line -------------------------------------------------------------------------------------------------


def test_status_shows_running_call_time_and_output() -> None:
    machine = Renderer(plain=False)
    shown = render(
        *asked("c", "bash", '{"command": "make"}'),
        CallStarted(call_id=CallId("c"), time=1),
        CallProgress(call_id=CallId("c"), message="", output="compiling\n\x1b[1mlinking\n", time=2),
        beat("c", 4.6),
        renderer=machine,
    )
    assert shown == ""
    assert machine.status == "● bash make running 3 s · ^[[1mlinking"
    render(*asked("d", "read", "{}"), CallStarted(call_id=CallId("d"), time=5), renderer=machine)
    assert machine.status == "● bash make running 4 s (+1 more) · ^[[1mlinking"
    render(settled("c"), settled("d"), renderer=machine)
    assert machine.status == ""


def test_status_is_the_text_while_it_is_written() -> None:
    machine = Renderer(plain=False)
    render(*asked("c", "bash", "{}"), CallStarted(call_id=CallId("c")), *said("wor")[:2], renderer=machine)
    assert machine.status == "wor"
    assert machine.end_line() == "wor\n"
    assert machine.status != ""


# ---- the rest --------------------------------------------------------------------------------------------------------


def admitted(mode: str) -> list[Event]:
    message = UserMessage(id=M, parts=(TextPart(id=P, text="hi"),))
    return [
        InputAdmitted(input_id=InputId("i"), mode=mode, message=message),  # type: ignore[arg-type]
        InputPromoted(input_id=InputId("i")),
    ]


@pytest.mark.parametrize(
    ("events", "text"),
    [
        (admitted("steer"), "· the model reads your message now\n"),
        (admitted("prompt"), ""),
        ([RetryScheduled(attempt=2, message="overloaded", next_at=14, time=10)], "· overloaded; retry 2 in 4.0 s\n"),
        ([LoopContinued(reason="next_step", step=1)], ""),
        (
            [
                LoopContinued(
                    reason="model_fallback",
                    step=1,
                    model="a/b",
                    failure=ErrorInfo(code="overloaded", host="openai", http_status=529),
                )
            ],
            "· OpenAI is overloaded (529). Continuing with a/b.\n",
        ),
        ([LoopContinued(reason="model_fallback", step=1, model="a/b")], "· Continuing with a/b.\n"),
        ([LoopContinued(reason="resume_after_break", step=1)], "· Connection lost. Continuing from the saved part.\n"),
        ([DoomDetected(kind="repeat", action="nudge", detail="the same call 3 times")], "· going in circles: the same call 3 times\n"),
        ([updated(("instructions:/p/AGENTS.md", "/p/AGENTS.md"))], "· the prompt was updated: added /p/AGENTS.md\n"),
        ([updated(removed=("instructions:/p/a.md", "skills"))], "· the prompt was updated: removed /p/a.md, skills\n"),
        (
            [updated(("mode", "plan mode"), ("git", "x"), removed=("extra:house", "date"))],
            "· the prompt was updated: added plan mode; removed house\n",
        ),
        ([updated(("date", "the clock"))], ""),
        ([Notice(level="warning", code="c", text="look\nout")], "· look out\n"),
        ([Notice(level="info", code="c", text="by the way")], ""),
        ([Notice(level="warning", code="loop_blocked", text="for developers")], ""),
        ([HistoryReplaced(kind="prune", messages=())], "· Old tool results were cleared to free space in the context window\n"),
        ([HistoryReplaced(kind="compact", messages=())], ""),
        (
            [CompactionStarted(trigger="full", messages=9)],
            "· The context window is nearly full: summarising old messages\n",
        ),
        (
            [CompactionStarted(trigger="overflow", messages=9)],
            "· The request was too large: summarising old messages\n",
        ),
        ([CompactionStarted(trigger="manual", messages=9)], "· Summarising old messages\n"),
        ([CompactionEnded(outcome="cancelled")], "· Compaction cancelled: the history is unchanged\n"),
        ([CompactionEnded(outcome="failed", detail="why")], ""),
        (
            [CompactionEnded(outcome="compacted", source=8, before=11_000, after=2_000)],
            "· History summarised: from about 11,000 to about 2,000 tokens\n",
        ),
        (
            [CompactionEnded(outcome="compacted", detail="images and files\x1b were taken out")],
            "· History shortened; images and files^[ were taken out\n",
        ),
        ([HistoryReplaced(kind="restore", messages=())], "· The newest summary was undone: the full history is back\n"),
        ([HistoryReplaced(kind="fork", messages=())], ""),
        ([Resync(session_id=SessionId("s"), epoch="e", seq=0, state=SessionState())], "· The output above may be incomplete.\n"),
    ],
)  # fmt: skip
def test_notes(events: list[Event], text: str) -> None:
    assert render(*events) == text


def test_a_note_ends_the_open_line() -> None:
    assert render(*said("wor")[:2], Notice(level="warning", code="c", text="oh")) == "wor\n· oh\n"


def test_continue_notes_match_reasons() -> None:
    assert set(CONTINUED) <= set(CONTINUE_REASONS)


@pytest.mark.parametrize("kind", [*DURABLE_TYPES, *LIVE_TYPES], ids=lambda kind: kind.__name__)
def test_every_event_is_rendered(kind: type) -> None:
    """`feed` has a case for it: mypy proves it, and this shows that the union in the test is the union there."""
    assert kind in get_args(Durable | Live)
