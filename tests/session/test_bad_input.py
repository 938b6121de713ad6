"""Bad input: whatever a host, a tool, a hook, a provider or a port does wrong is a typed error, and the session goes on.

Each test ends with a next prompt that completes. What tools raise and return is in nursery/test_worker.py, what hooks
do wrong in nursery/test_pipeline.py and nursery/test_loop_stop_hooks.py.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import attrs
import pytest
import trio
from trio.testing import MockClock

import engine
from engine.core.errors import (
    ConfigError,
    CursorInUse,
    EngineClosed,
    EngineError,
    Overloaded,
    ProviderError,
    RequestNotFound,
    SessionBusy,
    SessionError,
    SessionNotFound,
    StoreError,
    TurnNotEnded,
    TurnOver,
    UnknownModel,
)
from engine.core.events import CallSettled, Durable, Notice, PermissionAsked, TurnEnded
from engine.core.ids import SessionId, TurnId
from engine.core.llm_types import (
    Finished,
    ModelInfo,
    ModelRequest,
    ProviderItem,
    ReasoningChunk,
    ReasoningDone,
    TextChunk,
    TextStarted,
    ToolCallChunk,
    ToolCallDone,
    ToolCallStarted,
    UsageReported,
)
from engine.core.messages import Message, Usage, UserMessage
from engine.core.permission_types import Allowance, Judgement, PermissionQuery
from engine.core.protocols import ContextView
from engine.core.settings import Limits, RetryPolicy, Settings, Timeouts
from engine.journal.fold import fold
from engine.journal.position import Position
from engine.permission.allow_all import AllowAll
from engine.permission.policy import Policy
from engine.session.engine_options import ContextOptions, FileOptions, PermissionOptions, Ports
from engine.session.session import Session, live_session
from engine.session.turn import Turn
from engine.testing.fakes import CountingIds, ScriptedKeeper, ScriptedSnapshots, SlowStore, TrioClock
from engine.testing.invariants import check_transcript
from engine.testing.script import Answer, call, done, text
from engine.testing.scripted_provider import ScriptedProvider
from engine.tools.call_values import Need
from tests.support.bench import Bench, Nothing
from tests.support.world import Seen, about, world

DONE: Answer = [*text("Done."), *done()]
NO_RETRY = Settings(retry=RetryPolicy(attempts=0))
NO_TEXT: list[object] = [5, None, b"bytes", ["list"], "", "  \n"]


def shown(value: object) -> str:
    """A test's id that is the same in each process: no addresses."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))


def told(error: pytest.ExceptionInfo[BaseException], *what: str) -> None:
    """The error is one of ours, and its text names what is wrong."""
    assert isinstance(error.value, EngineError)
    for part in what:
        assert part in str(error.value)


# -- where an engine runs ---------------------------------------------------------------------------------


def test_engine_outside_of_trio_says_what_it_needs() -> None:
    async def main() -> None:
        async with engine.open_engine(model=ScriptedProvider([DONE])):
            pass

    # What asyncio does with it: no module of this project imports asyncio.
    with pytest.raises(ConfigError, match="guest"):
        main().send(None)


@pytest.mark.parametrize("store", ["sessions.db", ":memory:"])
async def test_jumping_clock_is_refused_with_a_file(store: str, tmp_path: Path, autojump_clock: MockClock) -> None:
    place = store if store == ":memory:" else str(tmp_path / store)
    with pytest.raises(ConfigError, match="MockClock"):
        async with engine.open_engine(model=ScriptedProvider([DONE]), store=place):
            pass
    autojump_clock.autojump_threshold = 1
    async with engine.open_engine(model=ScriptedProvider([DONE]), store=place) as eng:
        session = await eng.create_session()
        assert (await session.run("go")).durable


async def test_session_needs_a_folder_that_exists(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    async with engine.open_engine(model=ScriptedProvider([DONE])) as eng:
        for wrong in ("/nosuch", tmp_path / "file"):
            with pytest.raises(ConfigError, match="must be a directory that exists"):
                await eng.create_session(cwd=wrong)
        session = await eng.create_session(cwd=tmp_path)
        assert (await session.run("go")).stop_reason == "completed"


# -- opening an engine ------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", [5, [], [5], object(), [None, "anthropic/x"], {"a": 1}], ids=shown)
def test_open_engine_with_a_wrong_model(model: object) -> None:
    with pytest.raises(ConfigError) as error:
        engine.open_engine(model=model)  # type: ignore[arg-type]  # the point of it
    told(error, "model")


@pytest.mark.parametrize("name", ["nosuch/model", "claude", "", "/", "anthropic/"])
async def test_unknown_model_suggests_names(name: str) -> None:
    with pytest.raises(UnknownModel) as error:
        async with engine.open_engine(model=name):
            raise AssertionError("unreachable")
    told(error, "anthropic/")


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"tools": 5}, "tools"),
        ({"tools": [5]}, "engine.tool"),
        ({"tools": [print]}, "engine.tool"),
        ({"settings": 5}, "Settings"),
        ({"settings": Limits()}, "Settings"),
        ({"hooks": []}, "Hooks"),
        ({"permissions": PermissionOptions(approver=5)}, "approver"),  # type: ignore[arg-type]
        ({"permissions": PermissionOptions(approver=Policy)}, "approver"),  # type: ignore[arg-type]
        ({"permissions": PermissionOptions(approver=AllowAll(), rules=["deny bash *"])}, "pass one or the other"),
        ({"permissions": PermissionOptions(approver=AllowAll(), profile="ask")}, "pass one or the other"),
        ({"permissions": PermissionOptions(profile=5)}, "the profile is one of ask, auto-edit, read-only, full, not 5"),  # type: ignore[arg-type]
        ({"permissions": PermissionOptions(profile="")}, "the profile is one of"),
        ({"permissions": PermissionOptions(profile="lax")}, "not 'lax'"),
        ({"permissions": PermissionOptions(profile=["ask"])}, "the profile is one of"),  # type: ignore[arg-type]
        ({"permissions": PermissionOptions(rules=5)}, "rules are a sequence of texts"),  # type: ignore[arg-type]
        ({"permissions": PermissionOptions(rules=None)}, "rules are a sequence of texts"),  # type: ignore[arg-type]
        ({"permissions": PermissionOptions(rules="deny bash *")}, "rules are a sequence of texts"),
        ({"permissions": PermissionOptions(rules=b"deny bash *")}, "rules are a sequence of texts"),  # type: ignore[arg-type]
        ({"permissions": PermissionOptions(rules=[5])}, "rules are a sequence of texts"),  # type: ignore[list-item]
        ({"permissions": PermissionOptions(rules=[""])}, "the rule ''"),
        ({"permissions": PermissionOptions(rules=["deny bash"])}, "the rule 'deny bash'"),
        ({"permissions": PermissionOptions(rules=["forbid bash *"])}, "there is no action 'forbid'"),
        ({"permissions": PermissionOptions(rules=["deny! bash *"])}, "a deny needs no override"),
        ({"permissions": PermissionOptions(rules=["deny bash \0"])}, "matches nothing"),
        ({"permissions": PermissionOptions(rules=["deny read a/../b"])}, "the rule 'deny read a/../b'"),
        ({"permissions": PermissionOptions(opinion="yes")}, "opinion"),  # type: ignore[arg-type]
        ({"permissions": PermissionOptions(opinion=5)}, "opinion"),  # type: ignore[arg-type]
        ({"store": 7}, "store"),
        ({"permissions": 5}, "PermissionOptions"),
        ({"files": "here"}, "FileOptions"),
        ({"context": ContextOptions(keeper=5)}, "keeper"),  # type: ignore[arg-type]
        ({"ports": Ports(clock=5)}, "clock"),  # type: ignore[arg-type]
        ({"ports": Ports(clock=trio.current_time)}, "clock"),  # type: ignore[arg-type]
        ({"ports": Ports(ids=iter("abc"))}, "ids"),  # type: ignore[arg-type]
        ({"ports": Ports(trace=print)}, "trace"),  # type: ignore[arg-type]
        ({"ports": Ports(jitter=0.5)}, "jitter"),  # type: ignore[arg-type]
    ],
    ids=shown,
)
def test_open_engine_with_a_wrong_port(wrong: dict[str, object], named: str) -> None:
    with pytest.raises(ConfigError) as error:
        engine.open_engine(model=ScriptedProvider([]), **wrong)  # type: ignore[arg-type]  # the point of it
    told(error, named)


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(ConfigError) as error:
        engine.open_engine(model=ScriptedProvider([]), tools=[*Bench().tools(), *Bench().tools()])
    told(error, "two tools are named read")


async def test_falsy_port_is_used(autojump_clock: MockClock) -> None:
    class Empty(SlowStore):
        def __len__(self) -> int:
            return 0

    store = Empty()
    async with world(DONE, store=store) as w:
        await w.play()
        assert len(await store.load(w.session.id)) > 0


# -- the engine before, after, twice -------------------------------------------------------------------------


async def test_use_before_open() -> None:
    eng = engine.open_engine(model=ScriptedProvider([]))
    uses: list[Callable[[], Awaitable[object]]] = [eng.create_session, lambda: eng.open_session("ses_1")]
    for use in uses:
        with pytest.raises(EngineClosed) as error:
            await use()
        told(error, "async with open_engine(")


async def test_use_after_close(autojump_clock: MockClock) -> None:
    async with world(DONE) as w:
        played = await w.play()
        turn = w.session.prompt("later")
    uses: list[Callable[[], Awaitable[object]]] = [
        w.engine.create_session,
        lambda: w.engine.open_session(w.session.id),
        lambda: w.session.run("more"),
        turn.__aenter__,
    ]
    for use in uses:
        with pytest.raises(EngineClosed) as error:
            await use()
        told(error, "open a new one")
    with pytest.raises(EngineClosed):
        w.session.inputs.queue("more")
    with pytest.raises(EngineClosed):
        w.engine.start_turn(w.session, "more")
    assert w.session.state.last_result == played.result, "looking is still allowed"
    assert w.session.subscribe(after=0).try_next() is not None
    with pytest.raises(RequestNotFound):
        await w.session.reply("ask_1", engine.Once())


async def test_an_engine_is_opened_once(autojump_clock: MockClock) -> None:
    async with world(DONE) as w:
        with pytest.raises(EngineClosed) as error:
            await w.engine.__aenter__()
        told(error, "call open_engine() again")
        await w.goes_on()
    with pytest.raises(EngineClosed):
        await w.engine.__aenter__()


# -- sessions ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"cwd": 5}, "cwd"),
        ({"cwd": None}, "cwd"),
        ({"cwd": b"bytes"}, "cwd"),
        ({"settings": 5}, "Settings"),
        ({"tools": 5}, "tools"),
        ({"tools": ["read"]}, "engine.tool"),
        ({"model": 5}, "model"),
        ({"model": []}, "model"),
        ({"model": "nosuch/model"}, "nosuch"),
    ],
    ids=shown,
)
async def test_create_session_with_something_wrong(
    autojump_clock: MockClock, wrong: dict[str, object], named: str
) -> None:
    async with world(DONE) as w:
        with pytest.raises(ConfigError) as error:
            await w.engine.create_session(**wrong)  # type: ignore[arg-type]  # the point of it
        told(error, named)
        await w.goes_on()
        await w.goes_on(await w.engine.create_session())


@pytest.mark.parametrize("session_id", ["ses_none", "", 5, None, ["ses_1"]])
async def test_open_session_with_an_id_that_is_none(autojump_clock: MockClock, session_id: str) -> None:
    async with world(DONE) as w:
        with pytest.raises((SessionNotFound, ConfigError)):
            await w.engine.open_session(session_id)
        await w.goes_on()


@pytest.mark.parametrize("session", ["ses_1", None, 5])
async def test_start_turn_with_no_session(autojump_clock: MockClock, session: Session) -> None:
    async with world(DONE) as w:
        with pytest.raises(ConfigError) as error:
            w.engine.start_turn(session, "go")
        told(error, "Session")
        await w.goes_on()


async def test_start_turn_with_a_session_of_another_engine(autojump_clock: MockClock) -> None:
    async with world(DONE) as one, world(DONE) as other:
        with pytest.raises(ConfigError) as error:
            one.engine.start_turn(other.session, "go")
        told(error, "another engine")
        await one.goes_on()
        await other.goes_on()


# -- prompts -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prompt", NO_TEXT)
async def test_a_prompt_that_is_no_text(autojump_clock: MockClock, prompt: str) -> None:
    async with world(DONE) as w:
        with pytest.raises(ConfigError):
            w.session.prompt(prompt)
        with pytest.raises(ConfigError):
            await w.session.run(prompt)
        with pytest.raises(ConfigError):
            w.engine.start_turn(w.session, prompt)
        with pytest.raises(ConfigError):
            w.session.inputs.queue(prompt)
        assert w.requests == []
        await w.goes_on()


@pytest.mark.parametrize("settings", [5, "fast", Limits(), {"parallel": 3}], ids=shown)
async def test_a_prompt_with_wrong_settings(autojump_clock: MockClock, settings: Settings) -> None:
    async with world(DONE) as w:
        with pytest.raises(ConfigError) as error:
            await w.session.run("go", settings=settings)
        told(error, "Settings")
        with pytest.raises(ConfigError):
            w.session.prompt("go", settings=settings)
        with pytest.raises(ConfigError):
            w.engine.start_turn(w.session, "go", settings=settings)
        assert (w.requests, w.session.state.turns) == ([], 0)
        await w.goes_on()


@attrs.frozen
class Unspeakable:
    """A class that no schema can express."""

    what: complex


@pytest.mark.parametrize("output", [int, "Report", 5, Unspeakable, object])
async def test_a_prompt_with_a_wrong_output_class(autojump_clock: MockClock, output: type[Nothing]) -> None:
    async with world(DONE) as w:
        with pytest.raises(ConfigError):
            await w.session.run("go", output=output)
        assert (w.requests, w.session.state.turns) == ([], 0)
        await w.goes_on()


async def test_two_prompts_at_once(autojump_clock: MockClock) -> None:
    bench = Bench()
    slow: Answer = [*call("read", {"name": "a", "seconds": 5}, id="1"), *done("calls")]
    async with world(slow, DONE, tools=bench.tools()) as w:
        async with w.session.prompt("one") as turn:
            await trio.sleep(1)
            for use in (lambda: w.session.run("two"), lambda: w.session.prompt("two").__aenter__()):
                with pytest.raises(SessionBusy) as error:
                    await use()
                told(error, w.session.id, "wait for its end, steer it, or use session.inputs.queue()")
            with pytest.raises(SessionBusy):
                w.engine.start_turn(w.session, "two")
            assert (await turn.wait()).stop_reason == "completed"
        assert w.session.state.turns == 1
        await w.goes_on()


# -- turns -------------------------------------------------------------------------------------------------------------------


async def test_a_turn_before_it_is_entered(autojump_clock: MockClock) -> None:
    async with world(DONE) as w:
        turn = w.session.prompt("go")
        with pytest.raises(TurnNotEnded) as not_ended:
            _ = turn.result
        told(not_ended, "await turn.wait()")
        uses: list[Callable[[], Awaitable[object]]] = [turn.wait, turn.__anext__]
        for use in uses:
            with pytest.raises(SessionError) as error:
                await use()
            told(error, "async with session.prompt(")
        for call_it in (lambda: turn.steer("x"), turn.skip_wait, lambda: turn.id):
            with pytest.raises(SessionError):
                call_it()
        with pytest.raises(RequestNotFound):
            await turn.reply("ask_1", engine.Once())
        async with turn:
            assert (await turn.wait()).stop_reason == "completed"
        await w.goes_on()


async def test_a_turn_is_entered_once(autojump_clock: MockClock) -> None:
    async with world([*text("One."), *done()]) as w:
        turn = w.session.prompt("go")
        async with turn:
            with pytest.raises(SessionError) as error:
                await turn.__aenter__()
            told(error, "call session.prompt() again")
            assert (await turn.wait()).text == "One."
        with pytest.raises(SessionError):
            await turn.__aenter__()
        assert turn.result.text == "One."
        await w.goes_on()


async def test_the_result_before_the_end(autojump_clock: MockClock) -> None:
    bench = Bench()
    slow: Answer = [*call("read", {"name": "a", "seconds": 5}, id="1"), *done("calls")]
    async with world(slow, DONE, tools=bench.tools()) as w:
        async with w.session.prompt("go") as turn:
            for _ in range(5):
                with pytest.raises(TurnNotEnded):
                    _ = turn.result
                await trio.sleep(0.5)
            await turn.wait()
            assert turn.result.stop_reason == "completed"
        await w.goes_on()


async def test_two_iterators_over_one_turn(autojump_clock: MockClock) -> None:
    bench = Bench()
    slow: Answer = [*call("read", {"name": "a", "seconds": 5}, id="1"), *done("calls")]
    async with world(slow, DONE, tools=bench.tools()) as w:
        async with w.session.prompt("go") as turn, trio.open_nursery() as nursery:
            seen: list[Seen] = []

            async def watch() -> None:
                async for event in turn:
                    seen.append(event)  # noqa: PERF401  # a comprehension would hide what was seen so far

            nursery.start_soon(watch)
            await trio.sleep(1)
            with pytest.raises(CursorInUse) as error:
                await turn.__anext__()
            told(error, "session.subscribe()")
        assert isinstance(seen[-1], TurnEnded)
        assert turn.result.stop_reason == "completed"
        await w.goes_on()


async def test_abandoned_iteration_can_be_continued(autojump_clock: MockClock) -> None:
    async with world([*text("One.", pieces=4), *done()]) as w:
        async with w.session.prompt("go") as turn:
            first = [await turn.__anext__() for _ in range(3)]
            rest = [event async for event in turn]
            assert [event async for event in turn] == [], "after the end there is nothing, and no error"
        await w.check(w.session, [*first, *rest])
        await w.goes_on()


async def test_a_turn_after_its_end(autojump_clock: MockClock) -> None:
    async with world(DONE) as w:
        async with w.session.prompt("go") as turn:
            await turn.wait()
        with pytest.raises(TurnOver) as error:
            turn.steer("more")
        told(error, "use session.prompt() or session.inputs.queue()")
        turn.cancel()
        turn.skip_wait()
        assert (await turn.wait()).stop_reason == turn.result.stop_reason == "completed"
        await w.goes_on()


@pytest.mark.parametrize("rules", [5, None, "deny bash *", [5], ["deny bash"]], ids=shown)
async def test_a_session_with_rules_that_are_none(autojump_clock: MockClock, rules: Any) -> None:
    async with world(DONE) as w:
        with pytest.raises(ConfigError) as error:
            await w.engine.create_session(rules=rules)
        told(error, "rule")
        await w.goes_on()


def always(**facts: Any) -> engine.Always:
    return engine.Always(**facts)


WRONG_ANSWERS: list[tuple[object, str]] = [
    *((answer, "engine.Reject(") for answer in (None, "yes", True, engine.Once, engine.Reject(feedback=5))),  # type: ignore[arg-type]
    *((always(offer=offer), "the offer of an Always is a number from 0") for offer in (-1, True, "0", 0.0, None)),
    *((always(offer=offer), f"the question has no offer number {offer}") for offer in (1, 10**9)),
    *((always(scope=scope), "turn, session, project") for scope in ("forever", "", None, 5, ["turn"])),
    *((always(seconds=s), "a number above 0, or None") for s in (0, -1, float("inf"), float("nan"), "60", True)),
]


@pytest.mark.parametrize(("answer", "named"), WRONG_ANSWERS, ids=shown)
async def test_a_reply_that_is_no_answer(autojump_clock: MockClock, answer: engine.Once, named: str) -> None:
    bench = Bench()
    asking: Answer = [*call("write", {"name": "a"}, id="1"), *done("calls")]
    async with world(asking, DONE, tools=bench.tools(), approver=Policy()) as w:

        async def reply(turn: Turn, event: Seen) -> None:
            if isinstance(event, PermissionAsked):
                with pytest.raises(ConfigError) as error:
                    await turn.reply(event.request_id, answer)
                told(error, named)
                await turn.reply(event.request_id, engine.Once())

        played = await w.play(react=reply)
        assert (played.stop_reason, played.statuses) == ("completed", ["completed"])
        await w.goes_on()


@pytest.mark.parametrize("request_id", ["ask_none", "", 5, None, ["ask_1"]])
async def test_reply_to_a_closed_question(autojump_clock: MockClock, request_id: str) -> None:
    async with world(DONE) as w:
        with pytest.raises(EngineError):
            await w.session.reply(request_id, engine.Once())
        async with w.session.prompt("go") as turn:
            with pytest.raises(EngineError):
                await turn.reply(request_id, engine.Once())
            await turn.wait()
        await w.goes_on()


@pytest.mark.parametrize("after", ["3", 3.5, b"x", [], object()], ids=shown)
async def test_a_subscription_from_nowhere(autojump_clock: MockClock, after: int) -> None:
    async with world(DONE) as w:
        with pytest.raises(ConfigError) as error:
            w.session.subscribe(after=after)
        told(error, "Position")
        await w.goes_on()


@pytest.mark.parametrize("after", [-1, 10_000, Position(epoch="another", seq=1), Position(epoch="test", seq=99)])
async def test_subscription_from_unknown_position_gets_resync(autojump_clock: MockClock, after: int | Position) -> None:
    async with world(DONE) as w:
        await w.play()
        event = w.session.subscribe(after=after).try_next()
        assert type(event).__name__ == "Resync"
        await w.goes_on()


# -- settings and limits ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        lambda: Limits(steps=0),
        lambda: Limits(steps="3"),  # type: ignore[arg-type]
        lambda: Limits(tokens=-1),
        lambda: Limits(cost=-0.1),
        lambda: Limits(seconds=float("nan")),
        lambda: Settings(parallel=0),
        lambda: Settings(parallel="10"),  # type: ignore[arg-type]
        lambda: Settings(limits=3),  # type: ignore[arg-type]
        lambda: Settings(timeouts=None),  # type: ignore[arg-type]
        lambda: Settings(retry=5),  # type: ignore[arg-type]
        lambda: Settings(headless="maybe"),  # type: ignore[arg-type]
        lambda: Settings(hook_timeout=0),
        lambda: Settings(system=5),  # type: ignore[arg-type]
        lambda: Timeouts(idle=0),
        lambda: RetryPolicy(attempts=-1),
    ],
)
def test_settings_that_make_no_sense(make: Callable[[], object]) -> None:
    with pytest.raises(ConfigError):
        make()


# -- tools as they are declared ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        lambda: engine.tool(5),  # type: ignore[call-overload]
        lambda: engine.tool(lambda args, ctx: "x"),  # type: ignore[arg-type, return-value]
        lambda: engine.tool(name="has blanks")(_fine),
        lambda: engine.tool(timeout=0)(_fine),
        lambda: engine.tool(timeout=-1)(_fine),
        lambda: engine.tool(grace=-1)(_fine),
        lambda: engine.tool(_one_parameter),  # type: ignore[arg-type]
        lambda: engine.tool(_not_annotated),
        lambda: engine.tool(_anything(_no_class)),
        lambda: engine.tool(_unspeakable),
    ],
)
def test_tools_that_are_none(make: Callable[[], object]) -> None:
    with pytest.raises(ConfigError):
        make()


@pytest.mark.parametrize(
    "make",
    [
        lambda: engine.tool(name=5)(_fine),  # type: ignore[call-overload]
        lambda: engine.tool(description=5)(_fine),  # type: ignore[call-overload]
        lambda: engine.tool(timeout="5")(_fine),  # type: ignore[call-overload]
        lambda: engine.tool(grace="5")(_fine),  # type: ignore[call-overload]
        lambda: engine.tool(grace=None)(_fine),  # type: ignore[call-overload]
        lambda: engine.tool(need=5)(_fine),  # type: ignore[call-overload]
        lambda: engine.tool(safe="no")(_fine),  # type: ignore[call-overload]
    ],
)
def test_tools_that_are_declared_with_wrong_types(make: Callable[[], object]) -> None:
    with pytest.raises(ConfigError):
        make()


async def _fine(args: Nothing, ctx: engine.ToolContext) -> str:
    return "ok"


async def _one_parameter(args: Nothing) -> str:
    return "ok"


async def _not_annotated(args, ctx):  # type: ignore[no-untyped-def]
    return "ok"


def _anything(value: object) -> Any:  # hides a wrong type from the checkers
    return value


async def _no_class(args: dict[str, str], ctx: engine.ToolContext) -> str:
    return "ok"


async def _unspeakable(args: Unspeakable, ctx: engine.ToolContext) -> str:
    return "ok"


def test_tool_may_use_names_assigned_later() -> None:
    """As in any other function: a name of the enclosing one that is not there yet is no error."""

    @engine.tool(read_only=True)
    async def early(args: Nothing, ctx: engine.ToolContext) -> str:
        return later

    later = "assigned"
    assert early.name == "early"


# -- a tool that uses its context badly ---------------------------------------------------------------------------------------------------


MISUSES: dict[str, Callable[[engine.ToolContext], Awaitable[object]]] = {}


def misuse(function: Callable[[engine.ToolContext], Awaitable[object]]) -> None:
    MISUSES[function.__name__] = function


@misuse
async def progress_no_text(ctx: engine.ToolContext) -> None:
    ctx.progress(5)  # type: ignore[arg-type]


@misuse
async def output_no_text(ctx: engine.ToolContext) -> None:
    ctx.progress(output=b"bytes")  # type: ignore[arg-type]


@misuse
async def ask_for_nothing(ctx: engine.ToolContext) -> None:
    await ctx.ask("please")  # type: ignore[arg-type]


@misuse
async def ask_with_nonsense(ctx: engine.ToolContext) -> None:
    await ctx.ask(Need(permission=5))  # type: ignore[arg-type]


@misuse
async def agent_without_prompt(ctx: engine.ToolContext) -> None:
    await ctx.run_agent(5)  # type: ignore[arg-type]


@misuse
async def agent_with_an_empty_prompt(ctx: engine.ToolContext) -> None:
    await ctx.run_agent("")


@misuse
async def agent_with_an_unknown_model(ctx: engine.ToolContext) -> None:
    await ctx.run_agent("go", model="nosuch/model")


@misuse
async def agent_with_a_wrong_model(ctx: engine.ToolContext) -> None:
    await ctx.run_agent("go", model=5)  # type: ignore[arg-type]


@misuse
async def agent_with_wrong_steps(ctx: engine.ToolContext) -> None:
    await ctx.run_agent("go", steps="many")  # type: ignore[arg-type]


@misuse
async def agent_with_no_steps(ctx: engine.ToolContext) -> None:
    await ctx.run_agent("go", steps=0)


@misuse
async def agent_with_a_wrong_system(ctx: engine.ToolContext) -> None:
    await ctx.run_agent("go", system=5)  # type: ignore[arg-type]


@misuse
async def agent_with_one_tool_that_is_no_collection(ctx: engine.ToolContext) -> None:
    await ctx.run_agent("go", tools="read")


@misuse
async def agent_with_wrong_tools(ctx: engine.ToolContext) -> None:
    await ctx.run_agent("go", tools=[5])  # type: ignore[list-item]


@misuse
async def agent_with_a_number_of_tools(ctx: engine.ToolContext) -> None:
    await ctx.run_agent("go", tools=5)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", MISUSES)
async def test_misused_context_is_an_error_of_the_tool(autojump_clock: MockClock, name: str) -> None:
    @engine.tool(read_only=True)
    async def bad(args: Nothing, ctx: engine.ToolContext) -> str:
        await MISUSES[name](ctx)
        return "unreachable"

    first: Answer = [*call("bad", {}, id="1"), *done("calls")]
    async with world(first, DONE, DONE, tools=[bad]) as w:
        played = await w.play()
        assert played.statuses == ["error"]
        assert played.stop_reason == "completed"
        assert len(w.requests) == 2, "no sub-agent began"
        await w.goes_on()


# -- needs and safety predicates -------------------------------------------------------------------------------------------------------------


def raising(args: object) -> NoReturn:
    raise RuntimeError("no idea")


@pytest.mark.parametrize(
    "need",
    [
        raising,
        lambda args: None,
        lambda args: "write",
        lambda args: Need(permission=5),  # type: ignore[arg-type]
        lambda args: Need(permission="w", patterns=5),  # type: ignore[arg-type]
        lambda args: Need(permission="w", offers=(None,)),  # type: ignore[arg-type]
    ],
)
async def test_undeterminable_rights_are_denied(autojump_clock: MockClock, need: Callable[[Nothing], Need]) -> None:
    log: list[str] = []

    @engine.tool(need=need)
    async def odd(args: Nothing, ctx: engine.ToolContext) -> str:
        log.append("ran")
        return "ran"

    first: Answer = [*call("odd", {}, id="1"), *done("calls")]
    async with world(first, DONE, tools=[odd], approver=AllowAll()) as w:
        played = await w.play()
        assert log == []
        assert played.statuses == ["denied"]
        assert played.stop_reason == "completed"
        await w.goes_on()


# -- providers that break their protocol --------------------------------------------------------------------------------------------------------


class Rude(BaseException):
    """No ordinary exception."""


@attrs.define(eq=False)
class OddStream:
    """Gives what it is told to; an exception is raised, a callable is called."""

    items: list[object]
    close: object = None

    async def receive(self) -> object:
        await trio.lowlevel.checkpoint()
        if not self.items:
            return ()
        item = self.items.pop(0)
        if isinstance(item, BaseException):
            raise item
        return item

    async def aclose(self) -> None:
        if isinstance(self.close, BaseException):
            raise self.close
        if self.close == "hang":
            await trio.sleep_forever()
        await trio.lowlevel.checkpoint()


@attrs.define(eq=False)
class OddModel:
    """Gives what it is told to for the first request, then a fine answer for each."""

    first: object
    info: ModelInfo = ModelInfo(name="odd/model")
    requests: list[ModelRequest] = attrs.field(factory=list[ModelRequest])

    async def open(self, request: ModelRequest) -> object:
        await trio.lowlevel.checkpoint()
        self.requests.append(request)
        if len(self.requests) > 1:
            return OddStream([list(text("Fine.")), list(done())])
        if isinstance(self.first, BaseException):
            raise self.first
        return self.first


async def odd_turn(first: object, *, settings: Settings = NO_RETRY) -> tuple[OddModel, engine.TurnResult, Session]:
    """Play a turn with an odd provider and check that the session goes on."""
    model = OddModel(first)
    bench = Bench()
    async with engine.open_engine(
        model=model,  # type: ignore[arg-type]  # the point of it
        tools=bench.tools(),
        permissions=PermissionOptions(approver=AllowAll()),
        ports=Ports(clock=TrioClock(), ids=CountingIds()),
        settings=settings,
    ) as eng:
        session = await eng.create_session()
        with trio.fail_after(500):
            result = await session.run("go")
            assert (await session.run("and now?")).text in {"Fine.", result.text}
            assert session.state.last_result is not None
            assert session.state.last_result.stop_reason == "completed"
        return model, result, session


START = TextStarted("t")
HELLO = TextChunk("t", "Hello")
VIOLATIONS: dict[str, object] = {
    "none": None,
    "int": 5,
    "str": "text",
    "bytes": b"data",
    "dict": {"a": 1},
    "set": {HELLO},
    "iterator": iter([HELLO]),
    "no-event": [5],
    "none-in-list": [None],
    "class": [TextStarted],
    "another-event": [Notice(level="info", code="x", text="x")],
    "text-int": [TextChunk("t", 5)],  # type: ignore[arg-type]
    "text-none": [TextChunk("t", None)],  # type: ignore[arg-type]
    "text-bytes": [TextChunk("t", b"x")],  # type: ignore[arg-type]
    "id-int": [TextChunk(5, "x")],  # type: ignore[arg-type]
    "id-unhashable": [TextStarted([])],  # type: ignore[arg-type]
    "reasoning-int": [ReasoningChunk("r", 5)],  # type: ignore[arg-type]
    "signature-int": [ReasoningChunk("r", "x"), ReasoningDone("r", 5)],  # type: ignore[arg-type]
    "tool-none": [ToolCallStarted("9", None)],  # type: ignore[arg-type]
    "arguments-dict": [ToolCallStarted("9", "read"), ToolCallDone("9", {"name": "a"})],  # type: ignore[arg-type]
    "arguments-none": [ToolCallStarted("9", "read"), ToolCallChunk("9", None)],  # type: ignore[arg-type]
    "item-none": [ProviderItem("p", "search", None)],  # type: ignore[arg-type]
    "usage-none": [UsageReported(None)],  # type: ignore[arg-type]
    "usage-text": [UsageReported(Usage(input="5"))],  # type: ignore[arg-type]
    "usage-negative": [UsageReported(Usage(input=-5))],
    "usage-float": [UsageReported(Usage(output=0.5))],  # type: ignore[arg-type]
    "finish-unknown": [Finished("banana")],  # type: ignore[arg-type]
    "finish-none": [Finished(None)],  # type: ignore[arg-type]
    "finish-detail": [Finished("refusal", detail=5)],  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", VIOLATIONS)
async def test_provider_nonsense_is_a_typed_error(autojump_clock: MockClock, name: str) -> None:
    violation = VIOLATIONS[name]
    model, result, session = await odd_turn(OddStream([[START], [HELLO], violation]))
    assert result.stop_reason == "provider_error"
    assert "the provider broke its protocol" in result.detail
    assert result.text == "Hello", "what came before is kept"
    assert len(model.requests) == 2, "it is not asked again for that"
    assert session.state.turns == 2


@pytest.mark.parametrize("name", [n for n, v in VIOLATIONS.items() if isinstance(v, list)])
async def test_valid_part_of_a_chunk_is_kept(autojump_clock: MockClock, name: str) -> None:
    violation = VIOLATIONS[name]
    assert isinstance(violation, list)
    _, result, _ = await odd_turn(OddStream([[START, HELLO, *violation, TextChunk("t", " and more")]]))
    assert (result.stop_reason, result.text) == ("provider_error", "Hello")


@pytest.mark.parametrize("name", VIOLATIONS)
async def test_invalid_event_lets_a_running_call_finish(autojump_clock: MockClock, name: str) -> None:
    bench = Bench()
    violation = VIOLATIONS[name]
    model = OddModel(OddStream([list(call("read", {"name": "a", "seconds": 3}, id="1")), violation]))
    async with engine.open_engine(
        model=model,  # type: ignore[arg-type]
        tools=bench.tools(),
        permissions=PermissionOptions(approver=AllowAll()),
    ) as eng:
        session = await eng.create_session()
        result = await session.run("go")
        assert (result.stop_reason, result.text) == ("completed", "Fine.")
        assert bench.log == ["+a", "-a"]
        settled = [e.settlement.status for e in session.events() if isinstance(e, CallSettled)]
        assert [status for status in settled if status != "aborted"] == ["completed"]


@pytest.mark.parametrize("opened", [None, 5, "stream", [], object(), OddStream], ids=shown)
async def test_open_without_a_stream_is_a_typed_error(autojump_clock: MockClock, opened: object) -> None:
    if opened is OddStream:
        opened = object()
    model, result, _ = await odd_turn(opened)
    assert result.stop_reason == "provider_error"
    assert "no stream" in result.detail
    assert len(model.requests) == 2


FOREIGN: dict[str, Callable[[], BaseException]] = {
    "ValueError": lambda: ValueError("bad value"),
    "OSError": lambda: OSError(111, "refused"),
    "BrokenResourceError": trio.BrokenResourceError,
    "TooSlowError": trio.TooSlowError,
    "AssertionError": AssertionError,
    "custom-base": Rude,
    "group": lambda: ExceptionGroup("two", [ValueError("one"), OSError("two")]),
    "base-group": lambda: BaseExceptionGroup("two", [Rude(), OSError("two")]),
    "our-own": lambda: ConfigError("no such thing"),
}


@pytest.mark.parametrize("name", FOREIGN)
@pytest.mark.parametrize("where", ["open", "receive"])
async def test_a_provider_that_raises_foreign_errors(autojump_clock: MockClock, name: str, where: str) -> None:
    error = FOREIGN[name]()
    first: object = error if where == "open" else OddStream([[START, HELLO], error])
    model, result, _ = await odd_turn(first)
    assert result.stop_reason == "provider_error"
    assert "the provider failed" in result.detail
    assert result.text == ("" if where == "open" else "Hello")
    assert len(model.requests) == 2


async def test_provider_error_in_a_group_is_unwrapped(autojump_clock: MockClock) -> None:
    error = ExceptionGroup("one", [Overloaded("busy", retryable=True)])
    model, result, _ = await odd_turn(error, settings=Settings())
    assert (result.stop_reason, result.text, len(model.requests)) == ("completed", "Fine.", 3)


@pytest.mark.parametrize("close", [ValueError("x"), Rude(), ExceptionGroup("x", [OSError()]), "hang"], ids=shown)
async def test_stream_close_error_keeps_the_answer(autojump_clock: MockClock, close: object) -> None:
    _, result, session = await odd_turn(OddStream([list(text("Hello")), list(done())], close=close))
    assert (result.stop_reason, result.text) == ("completed", "Hello")
    notices = [e.code for e in session.events() if isinstance(e, Notice)]
    assert notices == ([] if close == "hang" else ["close_failed"])


async def test_stream_error_hides_its_close_error(autojump_clock: MockClock) -> None:
    failing = OddStream([[START, HELLO], ProviderError("the first")], close=ValueError("the second"))
    _, result, _ = await odd_turn(failing)
    assert (result.stop_reason, result.detail) == ("provider_error", "the first")


async def test_a_hanging_close_does_not_delay_a_cancel(autojump_clock: MockClock) -> None:
    model = OddModel(OddStream([[START], [HELLO]], close="hang"))
    async with engine.open_engine(model=model) as eng:  # type: ignore[arg-type]  # the point of it
        session = await eng.create_session()
        with trio.move_on_after(0.1) as scope:
            await session.run("go")
        assert scope.cancelled_caught
        assert trio.current_time() == about(0.1)
        assert (await session.run("more")).text == "Fine."


def test_a_model_that_is_not_async(autojump_clock: MockClock) -> None:
    class Sync:
        info = ModelInfo(name="odd/sync")

        def open(self, request: ModelRequest) -> OddStream:
            return OddStream([])

    async def main() -> None:
        async with engine.open_engine(model=Sync(), settings=NO_RETRY) as eng:  # type: ignore[arg-type]
            session = await eng.create_session()
            assert (await session.run("go")).stop_reason == "provider_error"

    trio.run(main)


# -- ports that fail -----------------------------------------------------------------------------------------------------------------------------


@attrs.define(eq=False)
class Failing:
    """Raises at the n-th use, once or from then on."""

    at: int
    forever: bool
    error: BaseException
    uses: int = 0
    fired: bool = False

    def use(self) -> None:
        self.uses += 1
        if self.uses == self.at or (self.forever and self.uses > self.at):
            self.fired = True
            raise self.error


@attrs.define(eq=False)
class FailingIds(CountingIds):
    failing: Failing | None = None

    def new(self, kind: str) -> str:
        if self.failing is not None:
            self.failing.use()
        return super().new(kind)


@pytest.mark.parametrize("at", range(1, 15))
async def test_ids_failing_once_end_one_turn(autojump_clock: MockClock, at: int) -> None:
    bench = Bench()
    first: Answer = [
        *text("Hi."),
        *call("write", {"name": "a"}, id="1"),
        *call("read", {"name": "b"}, id="2"),
        *done("calls"),
    ]
    model = ScriptedProvider([first, *[DONE] * 5])
    ids = FailingIds()
    async with engine.open_engine(
        model=model,
        tools=bench.tools(),
        permissions=PermissionOptions(approver=AllowAll()),
        ports=Ports(ids=ids, clock=TrioClock()),
    ) as eng:
        session = await eng.create_session()
        ids.failing = Failing(at, forever=False, error=RuntimeError("no ids left"))
        with trio.fail_after(100):
            try:
                result = await session.run("go")
            except RuntimeError as error:
                assert str(error) == "no ids left", "raised to whoever began the turn, which did not begin"  # noqa: PT017
            else:
                assert result.stop_reason in {"completed", "internal_error", "provider_error"}
                if result.stop_reason == "internal_error":
                    assert "no ids left" in result.detail
            assert ids.failing.fired
            assert (await session.run("and now?")).text == "Done."
        assert session.state.turn is None
        assert fold(session.events()) == live_session(session).journal.state


class Broken(AllowAll):
    def judge(self, query: PermissionQuery) -> Judgement:
        raise RuntimeError("no rules")


async def test_rules_that_fail_deny(autojump_clock: MockClock) -> None:
    bench = Bench()
    first: Answer = [*call("write", {"name": "a"}, id="1"), *done("calls")]
    async with world(first, DONE, tools=bench.tools(), approver=Broken()) as w:
        played = await w.play()
        assert bench.log == []
        assert played.statuses == ["error"]
        assert "no rules" in played.settlements[0].text
        assert played.stop_reason == "completed"
        await w.goes_on()


class Forgetful(Policy):
    def grant(self, query: PermissionQuery, allowance: Allowance) -> None:
        raise RuntimeError("can't remember")


async def test_failed_grant_keeps_the_question_open(
    autojump_clock: MockClock,
) -> None:
    bench = Bench()
    first: Answer = [*call("write", {"name": "a"}, id="1"), *done("calls")]
    async with world(first, DONE, tools=bench.tools(), approver=Forgetful()) as w:

        async def reply(turn: Turn, event: Seen) -> None:
            if isinstance(event, PermissionAsked):
                with pytest.raises(RuntimeError, match="can't remember"):
                    await turn.reply(event.request_id, engine.Always())
                await turn.reply(event.request_id, engine.Once())

        played = await w.play(react=reply)
        assert played.statuses == ["completed"]
        await w.goes_on()


@pytest.mark.parametrize("error", [RuntimeError("no room"), Rude(), ExceptionGroup("x", [ValueError()])], ids=shown)
async def test_failing_keeper_is_an_internal_error(autojump_clock: MockClock, error: BaseException) -> None:
    class BrokenKeeper(ScriptedKeeper):
        async def prune(self, view: ContextView) -> Sequence[Message] | None:
            if broken:
                raise error
            return await super().prune(view)

    broken = True
    async with world(DONE, keeper=BrokenKeeper()) as w:
        played = await w.play()
        assert (played.stop_reason, w.requests) == ("internal_error", [])
        broken = False
        await w.goes_on()


@pytest.mark.parametrize("returned", [5, "text", ["no message"], [None]], ids=shown)
async def test_invalid_keeper_result_is_an_internal_error(
    autojump_clock: MockClock, returned: Sequence[Message]
) -> None:
    keeper = ScriptedKeeper(prunes=[lambda view: returned])
    async with world(DONE, keeper=keeper) as w:
        played = await w.play("first")
        assert (played.stop_reason, w.requests) == ("internal_error", [])
        assert [m.text for m in w.session.state.transcript if isinstance(m, UserMessage)] == ["first"]
        await w.goes_on()


async def test_invalid_jitter_is_an_internal_error(autojump_clock: MockClock) -> None:
    def jitter() -> float:
        return values.pop(0)

    values: list[float] = ["x", 0.5, 0.5]  # type: ignore[list-item]  # the point of it
    broken: Answer = [*text("x"), *done()]
    model = ScriptedProvider([broken, DONE])
    async with engine.open_engine(model=model, ports=Ports(jitter=jitter)) as eng:
        session = await eng.create_session()
        result = await session.run("go")
        assert result.stop_reason in {"completed", "internal_error"}
        assert (await session.run("more")).stop_reason == "completed"


async def test_a_store_that_hangs_ends_the_turn_undurably(autojump_clock: MockClock) -> None:
    store = SlowStore(hangs=True)
    async with world(DONE, store=store) as w:
        async with w.session.prompt("go") as turn:
            await trio.sleep(1)
            turn.cancel()
            result = await turn.wait()
            assert trio.current_time() == about(1 + 0.25 + 5) or trio.current_time() == about(1 + 5)
        assert (result.stop_reason, result.durable) == ("aborted", False)
        store.hangs = False
        await w.goes_on()


async def test_store_close_error_follows_settlement(autojump_clock: MockClock) -> None:
    class Unclosable(SlowStore):
        async def aclose(self) -> None:
            await trio.lowlevel.checkpoint()
            raise RuntimeError("can't close")

    sessions: list[Session] = []
    with pytest.raises(StoreError, match="can't close"):
        async with world(DONE, store=Unclosable()) as w:
            await w.goes_on()
            sessions.append(w.session)
    assert sessions[0].state.turn is None


async def test_hanging_store_close_is_bounded(autojump_clock: MockClock) -> None:
    class Hanging(SlowStore):
        async def aclose(self) -> None:
            await trio.sleep_forever()

    closing: list[float] = []
    with pytest.raises(StoreError, match="was not closed within 5 s: what it has not written by then may be lost"):
        async with world(DONE, store=Hanging()) as w:
            await w.goes_on()
            closing.append(trio.current_time())
    assert trio.current_time() == about(closing[0] + 5)


# -- one bad turn among good ones ---------------------------------------------------------------------------------------------------------------------


async def test_a_bug_in_one_turn_ends_no_other(autojump_clock: MockClock) -> None:
    """Two sessions of one engine: the keeper fails in one of them while the other works."""
    bench = Bench()

    class Picky(ScriptedKeeper):
        async def prune(self, view: ContextView) -> Sequence[Message] | None:
            await trio.lowlevel.checkpoint()
            if any("bad" in getattr(m, "text", "") for m in view.transcript):
                raise RuntimeError("bad")
            return None

    slow: Answer = [*call("read", {"name": "a", "seconds": 5}, id="1"), *done("calls")]
    async with world(slow, DONE, tools=bench.tools(), keeper=Picky()) as w:
        other = await w.engine.create_session()
        good = w.engine.start_turn(w.session, "good")
        await trio.sleep(1)
        bad = w.engine.start_turn(other, "bad")
        assert (await bad.wait()).stop_reason == "internal_error"
        assert (await good.wait()).stop_reason == "completed"
        await w.goes_on()


class _Forgetful(AllowAll):
    """An approver that fails when a turn or a session has ended."""

    def end_turn(self, turn_id: TurnId) -> None:
        raise RuntimeError("no such turn")

    def end_session(self, session_id: SessionId) -> None:
        raise RuntimeError("no such session")


async def test_a_port_that_fails_after_a_turn_ends_no_other(autojump_clock: MockClock) -> None:
    bench = Bench()
    slow: Answer = [*call("read", {"name": "a", "seconds": 5}, id="1"), *done("calls")]
    async with engine.open_engine(
        model=ScriptedProvider([slow, *[DONE] * 3]),
        tools=bench.tools(),
        permissions=PermissionOptions(approver=_Forgetful()),
    ) as eng:
        first, second = await eng.create_session(), await eng.create_session()
        async with first.prompt("long") as long:
            await trio.sleep(1)
            assert (await second.run("short")).stop_reason == "completed"
            assert (await long.wait()).stop_reason == "completed"


class _Untidy(ScriptedSnapshots):
    """Snapshots that fail at what the engine does beside its turns."""

    async def tend(self) -> None:
        await trio.sleep(2)
        raise OSError("no space left")


async def test_an_error_beside_the_turns_ends_none(autojump_clock: MockClock, tmp_path: Path) -> None:
    bench = Bench()
    slow: Answer = [*call("read", {"name": "a", "seconds": 5}, id="1"), *done("calls")]
    async with engine.open_engine(
        model=ScriptedProvider([slow, DONE]),
        tools=bench.tools(),
        permissions=PermissionOptions(approver=AllowAll()),
        files=FileOptions(snapshots=_Untidy()),
    ) as eng:
        session = await eng.create_session(cwd=tmp_path)
        assert (await session.run("long")).stop_reason == "completed"


@pytest.mark.parametrize("at", range(1, 15))
async def test_failing_ids_end_the_turn_with_a_record(autojump_clock: MockClock, at: int) -> None:
    bench = Bench()
    first: Answer = [
        *text("Hi."),
        *call("write", {"name": "a"}, id="1"),
        *call("read", {"name": "b"}, id="2"),
        *done("calls"),
    ]
    ids = FailingIds()
    async with engine.open_engine(
        model=ScriptedProvider([first, *[DONE] * 5]),
        tools=bench.tools(),
        permissions=PermissionOptions(approver=AllowAll()),
        ports=Ports(ids=ids, clock=TrioClock()),
    ) as eng:
        session = await eng.create_session()
        ids.failing = Failing(at, forever=True, error=RuntimeError("no ids left"))
        with trio.fail_after(100):
            try:
                result = await session.run("go")
            except RuntimeError:
                assert at <= 4, "raised to whoever began the turn, which did not begin"
            else:
                assert result.stop_reason in {"internal_error", "provider_error"}
                assert "no ids left" in result.detail
            assert ids.failing.fired
            assert session.state.turn is None
            assert fold(session.events()) == live_session(session).journal.state
            assert check_transcript(session.state.transcript) == []
            ids.failing = None
            assert (await session.run("and now?")).stop_reason == "completed"


async def test_failing_queued_turn_spoils_nothing(autojump_clock: MockClock) -> None:
    ids = FailingIds()
    async with engine.open_engine(
        model=ScriptedProvider([DONE, DONE, DONE]), ports=Ports(ids=ids, clock=TrioClock())
    ) as eng:
        session, other = await eng.create_session(), await eng.create_session()
        busy = eng.start_turn(other, "meanwhile")
        async with session.prompt("go") as turn:
            session.inputs.queue("later")
            async for event in turn:
                if type(event).__name__ == "StepEnded":
                    ids.failing = Failing(1, forever=False, error=RuntimeError("no ids left"))
            assert turn.result.stop_reason == "completed"
        assert (await busy.wait()).stop_reason == "completed"
        told = [e.text for e in session.events() if isinstance(e, Notice)]
        assert len(told) == 1
        assert "no ids left" in told[0]
        assert [p.message.text for p in session.state.inbox] == ["later"], "it waits for the next word"
        assert (await session.run("more")).stop_reason == "completed"


async def test_refusing_store_makes_the_turn_undurable(autojump_clock: MockClock) -> None:
    class Full(SlowStore):
        def put(self, event: Durable) -> None:
            if full:
                raise OSError(28, "no space left")
            super().put(event)

    full = False
    bench = Bench()
    first: Answer = [*call("write", {"name": "a"}, id="1"), *call("read", {"name": "b"}, id="2"), *done("calls")]
    async with engine.open_engine(
        model=ScriptedProvider([first, DONE, DONE]),
        tools=bench.tools(),
        permissions=PermissionOptions(approver=AllowAll()),
        store=Full(),
        ports=Ports(clock=TrioClock()),
    ) as eng:
        session = await eng.create_session()
        full = True
        result = await session.run("go")
        assert (result.stop_reason, result.durable) == ("completed", False)
        assert bench.log == ["+b", "-b"], "what changes something is not run if it can't be recorded"
        told = [e.text for e in session.events() if isinstance(e, Notice)]
        assert len(told) == 1
        assert "no space left" in told[0]
        assert fold(session.events()) == live_session(session).journal.state
        assert (await session.run("more")).stop_reason == "completed"
