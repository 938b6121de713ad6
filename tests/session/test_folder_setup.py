"""Sessions set up by folder: what each has is decided by the folder in which it began, and a client widens nothing."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import attrs
import pytest
import trio

import engine
from engine.config.agent_config import AgentConfig
from engine.config.config import Config, ModelConfig
from engine.config.formatter_config import FileProgram
from engine.core.errors import ConfigError
from engine.core.events import Notice
from engine.core.ids import SessionId
from engine.core.protocols import Store
from engine.permission.allow_all import AllowAll
from engine.permission.policy import Policy
from engine.session.engine_options import FolderSetup, PermissionOptions, Ports
from engine.store.memory import MemoryStore
from engine.testing.cancellation.trio_internals import seed_scheduler
from engine.testing.fakes import TrioClock
from engine.testing.script import call, done, text
from engine.testing.scripted_provider import ScriptedProvider
from engine.tools.builtin.builtin_tools import builtin_tools
from tests.conftest import CountRuns
from tests.session.test_sub_agents import DONE, WRITING, Script, agent_tools, by_prompt, task
from tests.support.bench import Bench, Nothing
from tests.support.cancel_at import CancelAt

Configure = Callable[[str], FolderSetup | None]
STRICT = FolderSetup(config=Config(), profile="read-only")


def strict_in(folder: Path) -> Configure:
    return lambda cwd: STRICT if cwd == str(folder) else None


@pytest.fixture
def strict(tmp_path: Path) -> Path:
    folder = tmp_path / "strict"
    folder.mkdir()
    return folder


def opened(
    bench: Bench, configure: Configure, store: Store | None = None, results: list[engine.TurnResult] | None = None
) -> engine.Engine:
    """Return an engine whose policy allows everything, and whose model writes once in each session."""
    script: Script = {
        "go": [WRITING, DONE] * 5,
        "delegate": [[*task("go"), *done("calls")], DONE] * 2,
    }
    return engine.open_engine(
        model=ScriptedProvider([by_prompt(script)], repeat=True),
        tools=[*agent_tools(results), *bench.tools()],
        permissions=PermissionOptions(approver=Policy(profile="full")),
        store=store,
        ports=Ports(clock=TrioClock(), configure=configure),
    )


async def test_profile_is_that_of_the_folder(strict: Path, tmp_path: Path) -> None:
    bench, store = Bench(), MemoryStore()
    async with opened(bench, strict_in(strict), store) as eng:
        session = await eng.create_session(cwd=strict)
        await session.run("go")
        fork = await eng.fork_session(session.id)
        await fork.run("go")
        assert await eng.close_session(session.id)
        await (await eng.open_session(session.id)).run("go")
        assert bench.log == []
        await (await eng.create_session(cwd=tmp_path)).run("go")
        assert bench.log == ["+a", "-a"]
    async with opened(bench, strict_in(strict), store) as eng:
        await (await eng.open_session(fork.id)).run("go")
        assert bench.log == ["+a", "-a"]


async def test_clients_lift_no_folder_profile(strict: Path, tmp_path: Path) -> None:
    bench, store = Bench(), MemoryStore()
    async with opened(bench, lambda _: None, store) as eng:
        session = await eng.create_session(cwd=strict)
        await eng.use_profile(session, "auto-edit")
    async with opened(bench, strict_in(strict), store) as eng:
        session = await eng.open_session(session.id)
        assert session.state.profile == ""
        assert "profile_not_used" in {event.code for event in session.events() if isinstance(event, Notice)}
        for profile in ("full", "ask"):
            with pytest.raises(ConfigError, match="'read-only' denies"):
                await eng.use_profile(session, profile)
        await eng.use_profile(session, None)
        await session.run("go")
        assert bench.log == []
        # Where the folder says nothing, a profile may be selected, also back to the engine's own.
        other = await eng.create_session(cwd=tmp_path)
        await eng.use_profile(other, "read-only")
        await other.run("go")
        assert bench.log == []
        await eng.use_profile(other, "full")
        await other.run("go")
        assert bench.log == ["+a", "-a"]


async def test_engine_profile_replaces_that_of_folder(tmp_path: Path) -> None:
    bench = Bench()
    async with opened(bench, lambda _: FolderSetup(config=Config(), profile="ask")) as eng:
        session = await eng.create_session(cwd=tmp_path)
        await eng.use_profile(session, "full")
        await session.run("go")
    assert bench.log == ["+a", "-a"]


async def test_sub_agents_have_the_folder_profile(strict: Path, tmp_path: Path) -> None:
    bench, results = Bench(), list[engine.TurnResult]()
    async with opened(bench, strict_in(strict), results=results) as eng:
        session = await eng.create_session(cwd=strict, rules=["allow! task *"])
        await session.run("delegate")
        assert (len(results), bench.log) == (1, [])
        await (await eng.create_session(cwd=tmp_path)).run("delegate")
    assert bench.log == ["+a", "-a"]


async def test_session_keeps_the_folder_it_began_in(strict: Path, tmp_path: Path) -> None:
    store = MemoryStore()
    asked: list[str] = []

    def configure(cwd: str) -> None:
        asked.append(cwd)

    @engine.tool(read_only=True)
    async def move(args: Nothing, ctx: engine.ToolContext) -> engine.ToolOutput:
        return engine.ToolOutput(text="moved", modify=lambda context: context.merged(str(tmp_path), ()))

    async with engine.open_engine(
        model=ScriptedProvider([[*call("move", {}, id="1"), *done("calls")], DONE]),
        tools=[move],
        permissions=PermissionOptions(approver=AllowAll()),
        store=store,
        ports=Ports(configure=configure),
    ) as eng:
        session = await eng.create_session(cwd=strict)
        await session.run("go")
        assert session.state.context.cwd == str(tmp_path)
        await eng.close_session(session.id)
        await eng.open_session(session.id)
    assert asked == [str(strict), str(strict)]


async def test_agents_and_tools_are_those_of_the_folder(strict: Path, tmp_path: Path) -> None:
    bench = Bench()
    theirs = Config(agents={"theirs": AgentConfig(system="You are theirs.")})
    setup = FolderSetup(config=theirs, tools=bench.tools()[:1])
    async with opened(bench, lambda cwd: setup if cwd == str(strict) else None) as eng:
        session = await eng.create_session(cwd=strict, agent="theirs")
        assert await eng.close_session(session.id)
        session = await eng.open_session(session.id)
        assert session.state.agent == "theirs"
        await session.run("go")
        assert bench.log == []  # there is no such tool
        for wrong in (
            partial(eng.create_session, cwd=tmp_path, agent="theirs"),
            partial(eng.create_session, cwd=strict, agent="others"),
            partial(eng.fork_session, session.id, agent="others"),
        ):
            with pytest.raises(ConfigError, match="unknown agent"):
                await wrong()
        await (await eng.create_session(cwd=tmp_path)).run("go")
    assert bench.log == ["+a", "-a"]


@pytest.mark.os
async def test_formatter_is_that_of_the_folder(strict: Path, tmp_path: Path) -> None:
    formatter = FileProgram(command=("sed", "-i", "s/one/two/"), patterns=("*.txt",))
    setup = FolderSetup(config=Config(formatters={"sed": formatter}))
    async with engine.open_engine(
        model=ScriptedProvider(
            [[*call("write", {"path": "a.txt", "content": "one\n"}, id="1"), *done("calls")], [*text("Yes."), *done()]]
            * 2
        ),
        tools=builtin_tools(),
        permissions=PermissionOptions(approver=AllowAll()),
        ports=Ports(configure=lambda cwd: setup if cwd == str(strict) else None),
    ) as eng:
        for folder, content in ((strict, "two\n"), (tmp_path, "one\n")):
            await (await eng.create_session(cwd=folder)).run("go")
            assert (folder / "a.txt").read_text() == content


async def test_name_of_a_model_is_that_of_the_folder(
    strict: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "test-key-0123456789")

    def configure(cwd: str) -> FolderSetup:
        real = "openai/gpt-4o" if cwd == str(strict) else "anthropic/claude-sonnet-4-5"
        return FolderSetup(config=Config(models={"anthropic/ours": ModelConfig(same_as=real)}))

    async with opened(Bench(), configure) as eng:
        sizes = [
            (await eng.create_session(cwd=folder, model="anthropic/ours")).context.report().usable
            for folder in (strict, tmp_path, strict)
        ]
        switched = await eng.create_session(cwd=strict)
        await switched.switch_model("anthropic/ours")
    assert sizes[0] == sizes[2] == switched.context.report().usable
    assert sizes[0] != sizes[1]


async def test_failed_setup_makes_no_session(strict: Path) -> None:
    def fail(cwd: str) -> FolderSetup:
        raise ConfigError(f"{cwd} is broken")

    store = MemoryStore()
    for configure, message in (
        (fail, "strict is broken"),
        (lambda _: FolderSetup(config=Config(), profile="none"), "there is no profile 'none'"),
        (lambda _: "read-only", "FolderSetup"),
    ):
        async with opened(Bench(), configure, store) as eng:  # type: ignore[arg-type]  # one of them is the point
            with pytest.raises(ConfigError, match=message):
                await eng.create_session(cwd=strict, session_id="mine")
            assert not await store.load(SessionId("mine"))
    async with opened(Bench(), lambda _: None, store) as eng:
        await eng.create_session(cwd=strict, session_id="mine")
    async with opened(Bench(), fail, store) as eng:
        with pytest.raises(ConfigError, match="strict is broken"):
            await eng.open_session("mine")
    async with opened(Bench(), strict_in(strict), store) as eng:
        await eng.open_session("mine")


async def test_setup_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="configure must be a function"):
        opened(Bench(), "a folder")  # type: ignore[arg-type]  # the point of it
    async with engine.open_engine(
        model=ScriptedProvider([]),
        permissions=PermissionOptions(approver=AllowAll()),
        ports=Ports(configure=lambda _: STRICT),
    ) as eng:
        with pytest.raises(ConfigError, match="without profiles"):
            await eng.create_session(cwd=tmp_path)


# -- cancelled at every step ------------------------------------------------------------------------------------------


@attrs.define(eq=False)
class Leased(MemoryStore):
    """A store in memory that notes which sessions are claimed."""

    claimed: set[SessionId] = attrs.field(factory=set[SessionId])

    async def claim(self, session_id: SessionId) -> None:
        await trio.lowlevel.checkpoint()
        self.claimed.add(session_id)

    def release(self, session_id: SessionId) -> None:
        self.claimed.discard(session_id)


async def _begin(at: CancelAt, way: str, folder: Path) -> None:
    bench, store = Bench(), Leased()
    async with opened(bench, strict_in(folder), store) as eng:
        if way != "create":
            await eng.create_session(cwd=folder, session_id="first")
            await eng.close_session("first")
        name = "first" if way == "open" else "second"
        begin = {
            "create": partial(eng.create_session, cwd=folder, session_id=name),
            "open": partial(eng.open_session, name),
            "fork": partial(eng.fork_session, "first", fork_id=name),
        }[way]
        with at.scope():
            await begin()
        # What was not made locks nobody out; and what was made has the profile of its folder.
        session = await begin()
        await session.run("go")
        assert bench.log == []
        assert await eng.close_session(name)
        assert not store.claimed


@pytest.mark.parametrize("way", ["create", "open", "fork"])
def test_beginning_is_cancelled_at_every_step(way: str, strict: Path, count_runs: CountRuns) -> None:
    def play(step: int | None) -> CancelAt:
        seed_scheduler(0)
        at = CancelAt(step)
        trio.run(partial(_begin, at, way, strict), instruments=[at])
        return at

    # The number of steps differs by a few: there is a thread.
    step = 0
    while play(step).has_fired:
        step += 1
    assert step > 10
    count_runs(step)
