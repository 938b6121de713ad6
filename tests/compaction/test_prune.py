"""Clearing old results (T9)."""

from __future__ import annotations

import json
from collections.abc import Sequence

import attrs
import pytest
import trio

import engine
from engine.compaction.compaction_policy import Keeper
from engine.compaction.prune import CLEARED, PruneRules, prune, without_media
from engine.compaction.token_estimate import result_tokens
from engine.core.errors import ConfigError
from engine.core.llm_types import ModelInfo
from engine.core.messages import (
    AssistantMessage,
    FilePart,
    ImagePart,
    Message,
    ResultsMessage,
    Settlement,
    TextPart,
    UserMessage,
)
from engine.providers.wire import normalize_transcript as items
from engine.testing.invariants import check_transcript
from engine.tools.registry import Registry
from tests.support.histories import answers, calls, exchange, gives, says, view, words

M = "m"
LARGE = ModelInfo(name="scripted/model", context=200_000)


def history(*sizes: int, tool: str = "read") -> list[Message]:
    """Old results of those sizes, then two turns of the user."""
    old = [message for n, size in enumerate(sizes) for message in exchange(n, tool, words(size))]
    return [
        says("first", id="u1"),
        *old,
        says("second", id="u2"),
        *exchange(100, tool, words(30_000)),
        says("third", id="u3"),
    ]


def texts(messages: Sequence[Message]) -> list[str]:
    return [r.settlement.text for m in messages if isinstance(m, ResultsMessage) for r in m.results]


def cleared(messages: Sequence[Message]) -> list[bool]:
    return [text.startswith(CLEARED) for text in texts(messages)]


def test_t9_39_k_of_old_results_stay() -> None:
    assert prune(history(*[1_000] * 39), PruneRules(), M) is None


def test_t9_oldest_25k_of_65k_are_cleared() -> None:
    pruned = prune(history(*[1_000] * 65), PruneRules(), M)
    assert pruned is not None
    assert cleared(pruned.messages) == [True] * 25 + [False] * 41
    assert 20_000 < pruned.spared < 25_000, "a word stays in the place of each"


def test_t9_of_55_k_nothing_is_cleared() -> None:
    assert prune(history(*[1_000] * 55), PruneRules(), M) is None


def test_t9_last_two_turns_are_kept() -> None:
    messages: list[Message] = [
        says("only", id="u1"),
        *exchange(1, "read", words(90_000)),
        says("again", id="u2"),
        *exchange(2, "read", words(90_000)),
    ]
    assert prune(messages, PruneRules(), M) is None
    pruned = prune([*messages, says("third", id="u3")], PruneRules(), M)
    assert pruned is not None
    assert cleared(pruned.messages) == [True, False]


def test_t9_engine_messages_are_no_user_turns() -> None:
    messages: list[Message] = [
        says("only", id="u1"),
        *exchange(1, "read", words(90_000)),
        *(says("hm", id=f"e{n}", origin="engine") for n in range(3)),
    ]
    assert prune(messages, PruneRules(), M) is None


def test_t9_a_protected_tool_is_never_cleared() -> None:
    messages = history(*[1_000] * 65, tool="skill")
    assert prune(messages, PruneRules(protected=frozenset({"skill"})), M) is None


def test_t9_second_run_changes_nothing() -> None:
    pruned = prune(history(*[1_000] * 65), PruneRules(), M)
    assert pruned is not None
    assert prune(pruned.messages, PruneRules(), M) is None


def test_t9_clearing_leaves_a_valid_transcript() -> None:
    before = history(*[1_000] * 65)
    pruned = prune(before, PruneRules(), M)
    assert pruned is not None
    assert check_transcript(pruned.messages) == []
    assert [m.id for m in pruned.messages] == [m.id for m in before]
    same = [new is old for new, old in zip(pruned.messages, before, strict=True)]
    assert same.count(False) == 25


def writing(size: int, **more: object) -> list[Message]:
    """Files of that size that were written, then two turns of the user."""
    old = [
        message
        for n in range(40)
        for message in exchange(n, "write", "ok", path=f"file{n}.py", content=words(size), **more)
    ]
    return [says("first", id="u1"), *old, says("second", id="u2"), says("third", id="u3")]


def arguments(messages: Sequence[Message]) -> list[dict[str, object]]:
    return [json.loads(call.arguments) for m in messages if isinstance(m, AssistantMessage) for call in m.calls]


def test_t9_long_arguments_are_cut_as_json() -> None:
    before = writing(2_000, mode=6, edits=[{"old": words(500), "new": "b"}])
    pruned = prune(before, PruneRules(), M)
    assert pruned is not None
    assert check_transcript(pruned.messages) == []
    shown = arguments(pruned.messages)
    assert [(given["path"], given["mode"]) for given in shown] == [(f"file{n}.py", 6) for n in range(40)]
    sizes = [len(str(given)) for given in shown]
    assert (max(sizes[:23]) < 1_500, min(sizes[-15:]) > 8_000) == (True, True), "the newest stay whole"
    first = shown[0]["content"]
    assert isinstance(first, str)
    assert f"{CLEARED}7,680 characters, which the tool was given]" in first
    assert texts(pruned.messages) == ["ok"] * 40
    spared = sum(len(a.calls[0].arguments) for a in before if isinstance(a, AssistantMessage)) // 4 - (
        sum(len(a.calls[0].arguments) for a in pruned.messages if isinstance(a, AssistantMessage)) // 4
    )
    assert pruned.spared == pytest.approx(spared, rel=0.02)
    again = prune(pruned.messages, PruneRules(newest=0, turns=0, least=0), M)
    assert again is not None
    assert prune(again.messages, PruneRules(newest=0, turns=0, least=0), M) is None


def test_t9_short_arguments_are_cut_together() -> None:
    (call,) = arguments_of_one({"lines": [f"line {n}" for n in range(2_000)]})
    assert list(call) == ["cleared"]
    for broken in ('{"content": "' + words(9_000), json.dumps([words(9_000)]), "[" * 90_000):
        messages: list[Message] = [says("a"), *exchange_of(broken), says("b"), says("c")]
        made = prune(messages, PruneRules(newest=0, least=0), M)
        assert made is not None
        (said,) = (m for m in made.messages if isinstance(m, AssistantMessage))
        assert len(said.calls[0].arguments) < 500
        assert items.arguments_of(said.calls[0]) == "{}", "as it was sent before"


def arguments_of_one(given: dict[str, object]) -> list[dict[str, object]]:
    made = prune([says("a"), *exchange(1, "x", "ok", **given), says("b"), says("c")], PruneRules(newest=0, least=0), M)
    assert made is not None
    return arguments(made.messages)


def exchange_of(raw: str) -> list[Message]:
    call = attrs.evolve(calls("write", {}, id="broken"), arguments=raw)
    return [answers("", calls=[call]), gives((call, "no"))]


def test_t9_patch_with_inner_file_names_stays() -> None:
    patch = "".join(f"*** Update File: src/f{n}.py\n@@\n-{words(200)}\n" for n in range(20))
    messages: list[Message] = [says("a"), *exchange(1, "apply_patch", "ok", patch=patch), says("b"), says("c")]
    assert prune(messages, PruneRules(newest=0, least=0), M) is None


def test_t9_result_cannot_imitate_a_cleared_one() -> None:
    messages = history(*[1_000] * 65)
    evil = exchange(200, "read", f"{CLEARED}{words(30_000)}")
    pruned = prune([messages[0], *evil, *messages[1:]], PruneRules(), M)
    assert pruned is not None
    assert len(texts(pruned.messages)[0]) < 1_000


@pytest.mark.parametrize(
    ("tool", "end", "again"),
    [
        ("read", "", "call read with the same arguments"),
        (
            "bash",
            '[… To read them: read with path="spill:0123456789abcdef", offset=3]',
            'read with path="spill:0123456789abcdef"',
        ),
        ("bash", "", "It was not kept; its effects remain."),
    ],
)
def test_t9_cleared_result_keeps_its_ends(tool: str, end: str, again: str) -> None:
    call = calls(tool, {"path": "src/app.py"}, id="c")
    body = f"first line\n{words(30_000)}\nlast line{end}"
    messages: list[Message] = [
        says("a", id="u1"),
        answers("", calls=[call]),
        gives((call, body)),
        says("b", id="u2"),
        says("c", id="u3"),
    ]
    pruned = prune(messages, PruneRules(newest=0, read_only=frozenset({"read"})), M)
    assert pruned is not None
    (text,) = texts(pruned.messages)
    assert text.startswith(f'{CLEARED}the result of {tool}({{"path": "src/app.py"}}), {len(body):,} characters')
    assert again in text
    assert "first line" in text
    assert "last line" in text
    assert len(text) < 1_000


def test_t9_errors_are_cleared_too_and_stay_errors() -> None:
    call = calls("bash", {"command": "make"}, id="c")
    failed = Settlement(status="error", text=words(30_000), failed=True)
    pruned = prune(
        [says("a"), answers("", calls=[call]), gives((call, failed)), says("b"), says("c")], PruneRules(newest=0), M
    )
    assert pruned is not None
    (result,) = [r for m in pruned.messages if isinstance(m, ResultsMessage) for r in m.results]
    assert (result.settlement.status, result.settlement.failed) == ("error", True)


def test_t9_images_of_cleared_results_are_named() -> None:
    call = calls("read", {"path": "a.png"}, id="c")
    shown = Settlement(
        status="completed", text="an image", images=(ImagePart(media_type="image/png", data="A" * 400_000),)
    )
    pruned = prune(
        [says("a"), answers("", calls=[call]), gives((call, shown)), says("b"), says("c")],
        PruneRules(newest=0, least=0),
        M,
    )
    assert pruned is not None
    (result,) = [r for m in pruned.messages if isinstance(m, ResultsMessage) for r in m.results]
    assert result.settlement.images == ()
    assert "an image of type image/png (0.3 MB)" in result.settlement.text


# -- the keeper --------------------------------------------------------------------------------------------------------


def pruned_by(keeper: Keeper, messages: Sequence[Message], info: ModelInfo = LARGE) -> Sequence[Message] | None:
    return trio.run(keeper.prune, view(messages, info=info, max_output=8_192))


def test_t9_nothing_is_cleared_while_there_is_room() -> None:
    assert pruned_by(Keeper(), history(*[1_000] * 65)) is None


def test_t9_clearing_may_spare_a_summary() -> None:
    messages: list[Message] = [*history(*[1_000] * 100), answers(words(55_000), id="long"), says("fourth", id="u4")]
    pruned = pruned_by(Keeper(), messages)
    assert pruned is not None
    assert not Keeper().wants_compaction(view(pruned, info=LARGE, max_output=8_192))


def test_t9_insufficient_clearing_is_skipped() -> None:
    messages: list[Message] = [*history(*[1_000] * 70), answers(words(150_000), id="long"), says("fourth", id="u4")]
    assert pruned_by(Keeper(), messages) is None
    assert Keeper().wants_compaction(view(messages, info=LARGE, max_output=8_192))


@pytest.mark.parametrize("keeper", [Keeper(auto=False), Keeper(clears=False)])
def test_t9_nothing_is_cleared_where_that_is_off(keeper: Keeper) -> None:
    messages: list[Message] = [*history(*[1_000] * 100), answers(words(55_000), id="long"), says("fourth", id="u4")]
    assert pruned_by(keeper, messages) is None


# -- media that a host refuses -----------------------------------------------------------------------------------------


def test_t11_media_leave_their_names_and_the_reason() -> None:
    plan = FilePart(media_type="application/pdf", data="A" * 27_000_000, name="plan.pdf")
    call = calls("read", {"path": "a.png"}, id="c")
    shown = Settlement(status="completed", text="an image", images=(ImagePart(media_type="image/png", data="AAAA"),))
    bare = without_media([says("look", media=[plan]), answers("", calls=[call]), gives((call, shown))])
    assert bare is not None
    first, _, last = bare
    assert isinstance(first, UserMessage)
    said = [part.text for part in first.parts if isinstance(part, TextPart)]
    assert "a file 'plan.pdf' of type application/pdf (20.2 MB) was here" in said[0]
    assert "refused the request because of its size" in said[0]
    assert said[1] == "look"
    assert isinstance(last, ResultsMessage)
    assert last.results[0].settlement.images == ()
    assert last.results[0].settlement.text.startswith("an image\n[an image of type image/png")
    assert without_media(bare) is None


def test_result_tokens_count_media_as_well() -> None:
    shown = Settlement(status="completed", text="", images=(ImagePart(media_type="image/png", data="AAAA"),))
    assert result_tokens(shown, M) == 1_600
    assert result_tokens(attrs.evolve(shown, images=()), M) == 0


@attrs.frozen
class Ask:
    """Ask the oracle."""

    question: str


def test_t9_tool_can_pin_its_results() -> None:
    async def oracle(args: Ask, ctx: engine.ToolContext) -> str:
        await trio.lowlevel.checkpoint()
        return "42"

    registry = Registry.of([engine.tool(protected=True)(oracle), engine.tool(name="other", read_only=True)(oracle)])
    assert (registry.protected, registry.read_only) == (frozenset({"oracle"}), frozenset({"other"}))
    with pytest.raises(ConfigError, match="'protected' of tool oracle is True or False"):
        engine.tool(protected="yes")(oracle)  # type: ignore[call-overload]  # a host may be untyped
