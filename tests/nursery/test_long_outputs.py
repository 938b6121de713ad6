"""Results that are too long for the model: cut in the pipeline, kept for the tree of sessions, read back by the model."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import pytest
import trio

import engine
from engine.core.errors import ToolError
from engine.core.events import Durable, Verdict
from engine.core.hooks import Hooks, ToolDecision, ToolUse
from engine.core.ids import SessionId
from engine.core.messages import ImagePart, Settlement
from engine.core.permission_types import Allowance, Approver, Judgement, PermissionQuery
from engine.core.settings import Settings
from engine.permission.allow_all import AllowAll
from engine.session.engine_options import FileOptions, PermissionOptions
from engine.store.memory import MemoryStore
from engine.testing import ScriptedProvider, call, cancel_everywhere, done, text, tool_scenario
from engine.testing.script import Answer
from engine.testing.scripted_provider import ScriptedAnswer
from engine.tools.builtin.read import READ
from engine.tools.call_values import ToolOutput
from engine.tools.output.truncate import Rest, cut, fits
from engine.tools.tool import Direction, Tool

pytestmark = pytest.mark.os

SPILL = re.compile(r'path="spill:([0-9a-f]{16})"')
LONG = "".join(f"line {n} é\n" for n in range(1, 10_001))
DONE: Answer = [*text("Done."), *done()]


@attrs.frozen
class Size:
    """Write something long."""

    what: str = "text"


def writer(direction: Direction = "both", *, name: str = "talk", long: str = LONG) -> Tool:
    @engine.tool(name=name, read_only=True, direction=direction)
    async def talk(args: Size, ctx: engine.ToolContext) -> str | ToolOutput:
        await trio.lowlevel.checkpoint()
        match args.what:
            case "error":
                raise ToolError(long)
            case "crash":
                raise RuntimeError(long)
            case "own":
                return ToolOutput(text=long, is_cut=True)
            case "rich":
                image = ImagePart(media_type="image/png", data="AAAA")
                return ToolOutput(text=long, images=(image,), failed=True, metadata='{"a": 1}', stop="enough")
            case _:
                return long

    return talk


@attrs.define(eq=False)
class Asking:
    """Asks about all that is read, or forbids it."""

    verdict: Verdict = "ask"
    asked: list[tuple[str, ...]] = attrs.field(factory=list[tuple[str, ...]])

    def judge(self, query: PermissionQuery) -> Judgement:
        if query.permission != "read":
            return Judgement(verdict="allow", source="a rule")
        self.asked.append(query.patterns)
        return Judgement(verdict=self.verdict, source="a rule")

    def grant(self, query: PermissionQuery, allowance: Allowance) -> None:
        raise AssertionError


@attrs.define(eq=False)
class Kept:
    """A store that another engine goes on with, as if it were on a disk."""

    _store: MemoryStore

    @property
    def epoch(self) -> str:
        return self._store.epoch

    def put(self, event: Durable) -> None:
        self._store.put(event)

    async def flushed(self, session_id: SessionId, seq: int) -> None:
        await self._store.flushed(session_id, seq)

    async def load(self, session_id: SessionId) -> Sequence[Durable]:
        return await self._store.load(session_id)

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()


@asynccontextmanager
async def opened(
    spill: Path,
    *answers: ScriptedAnswer,
    tools: Sequence[Tool],
    hooks: Hooks | None = None,
    approver: Approver | None = None,
) -> AsyncGenerator[engine.Engine]:
    model = ScriptedProvider(list(answers))
    async with engine.open_engine(
        model=model,
        tools=tools,
        hooks=hooks,
        permissions=PermissionOptions(approver=approver or AllowAll()),
        files=FileOptions(spill=spill),
    ) as eng:
        yield eng


async def settled(session: engine.Session, settings: Settings | None = None) -> list[Settlement]:
    found: list[Settlement] = []
    async with session.prompt("go", settings=settings) as turn:
        found += [event.settlement async for event in turn if isinstance(event, engine.CallSettled)]
    return found


async def results(
    spill: Path,
    *calls: tuple[str, dict[str, object]],
    tools: Sequence[Tool],
    hooks: Hooks | None = None,
    approver: Approver | None = None,
    settings: Settings | None = None,
) -> list[Settlement]:
    """The results of these calls, one in each step."""
    answers = [[*call(name, arguments, id=f"c{n}"), *done("calls")] for n, (name, arguments) in enumerate(calls)]
    async with opened(spill, *answers, DONE, tools=tools, hooks=hooks, approver=approver) as eng:
        cwd = next(folder for folder in spill.parents if folder.is_dir())
        return await settled(await eng.create_session(cwd=cwd), settings)


def kept(spill: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted(spill.glob("*/*"))]


def spill_id(settlement: Settlement) -> str:
    found = SPILL.search(settlement.text)
    assert found is not None, settlement.text[:500]
    return found[1]


@pytest.fixture
def spill(tmp_path: Path) -> Path:
    return tmp_path / "spill"


# ---- cutting ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("direction", "share"), [("both", 0.5), ("head", 1.0), ("tail", 0.0)])
async def test_a_long_result_is_cut_and_kept(spill: Path, direction: Direction, share: float) -> None:
    (result,) = await results(spill, ("talk", {}), tools=[writer(direction), READ])
    assert result.text == cut(LONG.encode(), share, Rest(spill_id=spill_id(result)))
    assert fits(result.text)
    assert result.status == "completed"
    assert kept(spill) == [LONG.encode()]


@pytest.mark.parametrize("long", ["x" * 51_200, "x\n" * 2_000], ids=["bytes", "lines"])
async def test_output_at_the_limit_is_not_cut(spill: Path, long: str) -> None:
    (result,) = await results(spill, ("talk", {}), tools=[writer(long=long), READ])
    assert result.text == long
    assert kept(spill) == []


async def test_output_cut_by_the_tool_is_kept(spill: Path) -> None:
    (result,) = await results(spill, ("talk", {"what": "own"}), tools=[writer(), READ])
    assert result.text == LONG
    assert kept(spill) == []


async def test_other_fields_of_the_result_stay(spill: Path) -> None:
    (result,) = await results(spill, ("talk", {"what": "rich"}), tools=[writer(), READ])
    image = ImagePart(media_type="image/png", data="AAAA")
    assert (result.images, result.failed, result.metadata) == ((image,), True, '{"a": 1}')
    assert fits(result.text)


@pytest.mark.parametrize("what", ["error", "crash"])
async def test_an_error_is_cut_too(spill: Path, what: str) -> None:
    (result,) = await results(spill, ("talk", {"what": what}), tools=[writer(), READ])
    assert result.status == "error"
    assert fits(result.text)


async def test_cut_reported_by_the_tool_is_checked(spill: Path) -> None:
    @engine.tool(read_only=True)
    async def talk(args: Size, ctx: engine.ToolContext) -> ToolOutput:
        """Talk."""
        await trio.lowlevel.checkpoint()
        return ToolOutput(text="x", is_cut="no")  # type: ignore[arg-type]

    (result,) = await results(spill, ("talk", {}), tools=[talk, READ])
    assert result.text == "The tool returned a ToolOutput whose is_cut must be a bool."


async def test_the_same_result_is_the_same_text(spill: Path) -> None:
    """(So that going in circles is seen.)"""
    one, other = await results(spill, ("talk", {}), ("talk", {"what": "again"}), tools=[writer(), READ])
    assert one == other
    assert len(kept(spill)) == 1


# ---- hooks after it --------------------------------------------------------------------------------------------------


async def test_hooks_see_what_the_model_would(spill: Path) -> None:
    seen: list[str] = []

    async def look(use: ToolUse) -> ToolDecision:
        await trio.lowlevel.checkpoint()
        assert use.settlement is not None
        seen.append(use.settlement.text)
        return ToolDecision(text="hidden")

    (result,) = await results(spill, ("talk", {}), tools=[writer(), READ], hooks=Hooks(after_tool=(look,)))
    assert result.text == "hidden"
    (text_,) = seen
    assert fits(text_)
    assert SPILL.search(text_)


@pytest.mark.parametrize("what", ["text", "own", "error"])
async def test_replacement_by_a_hook_is_cut_too(spill: Path, what: str) -> None:
    other = "".join(f"other {n}\n" for n in range(1, 10_001))

    async def put(use: ToolUse) -> ToolDecision:
        await trio.lowlevel.checkpoint()
        return ToolDecision(text=other)

    (result,) = await results(
        spill, ("talk", {"what": what}), tools=[writer("tail"), READ], hooks=Hooks(after_tool=(put,))
    )
    assert result.text == cut(other.encode(), 0.0, Rest(spill_id=spill_id(result)))
    assert fits(result.text)
    assert other.encode() in kept(spill)


# ---- reading it back -------------------------------------------------------------------------------------------------


def reads_it(**more: object) -> Callable[[object], Answer]:
    """An answer that reads what the last result names."""

    def answer(request: object) -> Answer:
        found = SPILL.findall(repr(request))
        return [*call("read", {"path": f"spill:{found[-1]}", **more}, id="r"), *done("calls")]

    return answer


TALK: Answer = [*call("talk", {}, id="c"), *done("calls")]


async def test_the_model_reads_it_without_a_question(spill: Path) -> None:
    asking = Asking()
    async with opened(
        spill, TALK, reads_it(offset=5_000, limit=1), DONE, tools=[writer(), READ], approver=asking
    ) as eng:
        talked, read = await settled(await eng.create_session(cwd=spill.parent), Settings(headless="deny"))
    assert asking.asked == [(f"spill:{spill_id(talked)}",)]
    assert read.text == "  5000\tline 5000 é\n(lines 5000-5000; the file goes on: read it with offset=5001)"


async def test_other_files_need_permission(spill: Path) -> None:
    (spill.parent / "a.txt").write_text("secret")
    arguments: dict[str, object] = {"path": "a.txt"}
    (read,) = await results(
        spill, ("read", arguments), tools=[READ], approver=Asking(), settings=Settings(headless="deny")
    )
    assert read.status == "denied"


@pytest.mark.parametrize("path", ["spill:0123456789abcdef", "spill:../../a.txt", "spill:/etc/passwd"])
async def test_a_rule_may_deny_it_all_the_same(spill: Path, path: str) -> None:
    arguments: dict[str, object] = {"path": path}
    (read,) = await results(spill, ("read", arguments), tools=[READ], approver=Asking("deny"))
    assert (read.status, read.text) == ("denied", "Denied by a rule. Don't try to get around it.")


async def test_a_hook_may_ask_all_the_same(spill: Path) -> None:
    async def ask(use: ToolUse) -> ToolDecision | None:
        await trio.lowlevel.checkpoint()
        return ToolDecision(verdict="ask") if use.tool == "read" else None

    async with opened(spill, TALK, reads_it(), DONE, tools=[writer(), READ], hooks=Hooks(before_tool=(ask,))) as eng:
        _, read = await settled(await eng.create_session(cwd=spill.parent), Settings(headless="deny"))
    assert read.status == "denied"


async def test_sub_agent_and_parent_share_outputs(spill: Path) -> None:
    @engine.tool(name="delegate", read_only=True)
    async def delegate(args: Size, ctx: engine.ToolContext) -> str:
        """Let a sub-agent do it."""
        return (await ctx.run_agent(args.what)).text

    def child_reads(request: object) -> Answer:
        return [*call("delegate", {"what": f"read spill:{SPILL.findall(repr(request))[-1]}"}, id="d"), *done("calls")]

    def told(request: object) -> Answer:
        found = re.findall(r"spill:([0-9a-f]{16})", repr(request))
        return [*call("read", {"path": f"spill:{found[-1]}", "limit": 1}, id="r"), *done("calls")]

    names: Answer = [*text("see spill:" + "0" * 16), *done()]
    async with opened(spill, TALK, child_reads, told, names, DONE, tools=[writer(), READ, delegate]) as eng:
        session = await eng.create_session(cwd=spill.parent)
        async with session.prompt("go") as turn:
            found = [event async for event in turn if isinstance(event, engine.CallSettled)]
    assert [len(event.path) for event in found] == [1, 2, 1]
    assert found[1].settlement.text.startswith("     1\tline 1 é\n")
    assert len(kept(spill)) == 1


async def test_other_session_cannot_read_outputs(spill: Path) -> None:
    async with opened(spill, TALK, DONE, reads_it(), DONE, tools=[writer(), READ]) as eng:
        one, other = [await eng.create_session(cwd=spill.parent) for _ in range(2)]
        (talked,) = await settled(one)
        found: list[Settlement] = []
        async with other.prompt(talked.text) as turn:
            found += [event.settlement async for event in turn if isinstance(event, engine.CallSettled)]
    assert [result.status for result in found] == ["error"]
    assert found[0].text.startswith(f"There is no spill:{spill_id(talked)}: this session kept no such output")


async def test_outputs_survive_reopening(spill: Path) -> None:
    store = MemoryStore()
    model = ScriptedProvider([TALK, DONE])
    tools = [writer(), READ]
    async with engine.open_engine(model=model, tools=tools, store=Kept(store), files=FileOptions(spill=spill)) as eng:
        session = await eng.create_session(cwd=spill.parent)
        await settled(session)
    model = ScriptedProvider([reads_it(offset=10_000), DONE])
    async with engine.open_engine(model=model, tools=tools, store=Kept(store), files=FileOptions(spill=spill)) as eng:
        (read,) = await settled(await eng.open_session(session.id))
    assert read.text == " 10000\tline 10000 é"


# ---- where it can't be kept ------------------------------------------------------------------------------------------


async def test_unreadable_output_is_not_kept(spill: Path) -> None:
    (result,) = await results(spill, ("talk", {}), tools=[writer()])
    assert result.text == cut(LONG.encode(), 0.5, Rest())
    assert kept(spill) == []


async def test_disk_error_costs_only_the_middle(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (result,) = await results(tmp_path / "file" / "spill", ("talk", {}), tools=[writer(), READ])
    assert result.status == "completed"
    assert result.text == cut(LONG.encode(), 0.5, Rest(trouble="Not a directory"))
    assert fits(result.text)


async def test_a_host_may_want_nothing_kept(spill: Path) -> None:
    (result,) = await results(Path(os.devnull), ("talk", {}), tools=[writer(), READ])
    assert result.text == cut(LONG.encode(), 0.5, Rest())


# ---- cancelling ------------------------------------------------------------------------------------------------------


async def test_cancelled_while_it_is_kept_the_result_stands(spill: Path) -> None:
    long = os.urandom(1 << 20).hex() * 100
    finished = trio.Event()

    @engine.tool(read_only=True)
    async def talk(args: Size, ctx: engine.ToolContext) -> str:
        """Talk."""
        await trio.lowlevel.checkpoint()
        finished.set()
        return long

    async with opened(spill, TALK, DONE, tools=[talk, READ]) as eng:
        session = await eng.create_session(cwd=spill.parent)
        found: list[Settlement] = []
        async with session.prompt("go") as turn, trio.open_nursery() as nursery:

            async def cancel() -> None:
                await finished.wait()
                turn.cancel()

            nursery.start_soon(cancel)
            found += [event.settlement async for event in turn if isinstance(event, engine.CallSettled)]
        assert turn.result.stop_reason == "aborted"
        (result,) = found
        assert result.status == "completed"
        assert result.text == cut(long.encode(), 0.5, Rest(trouble="the turn ended"))
        with trio.fail_after(60):
            while kept(spill):
                await trio.sleep(0.01)


@pytest.mark.slow
def test_cancelled_at_any_instant(is_full: bool) -> None:
    """(The kit's engines keep nothing, so it is cut only.)"""

    @engine.tool(name="read", read_only=True)
    async def long(args: Size, ctx: engine.ToolContext) -> str:
        """Read something long."""
        await trio.lowlevel.checkpoint()
        return LONG

    async def put(use: ToolUse) -> ToolDecision:
        await trio.lowlevel.checkpoint()
        return ToolDecision(text=LONG + LONG)

    for hooks in (Hooks(), Hooks(after_tool=(put,))):
        report = cancel_everywhere(attrs.evolve(tool_scenario(long, {}), hooks=hooks), every=1 if is_full else 9)
        assert report.runs > 20
