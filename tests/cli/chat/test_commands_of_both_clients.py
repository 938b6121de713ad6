"""The slash commands, over a session of this process and over one of a server: the same words, or why not."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Literal

import attrs
import pytest
import trio

from engine.cli.chat.command_result import CommandResult
from engine.cli.chat.local_client import LocalClient
from engine.cli.chat.machine.slash_commands import HANDLED_BY_THE_CHAT
from engine.cli.chat.remote_client import RemoteClient
from engine.cli.chat.remote_commands import RemoteCommands
from engine.cli.chat.session_commands import CommandSetup, SessionCommands
from engine.cli.chat.state_commands import StateCommands
from engine.config.config import Config
from engine.core.errors import ConfigError, UndoConflict
from engine.core.events import Notice
from engine.core.ids import CallId
from engine.core.messages import Usage, UserMessage
from engine.permission.allow_all import AllowAll
from engine.permission.grants.grants import Grant, GrantOrigin
from engine.permission.policy import Policy
from engine.prompt.command_text import Command
from engine.prompt.commands import Commands
from engine.session.engine import Engine
from engine.session.engine_options import FileOptions, PermissionOptions
from engine.session.session import Session
from engine.snapshots.project_snapshots import ProjectSnapshots
from engine.store.sqlite.store import open_sqlite_store
from engine.testing.script import Answer, call, done, text
from engine.tools.builtin.bash import BASH
from engine.tools.builtin.write import WRITE
from tests.cli.conftest import environment_for
from tests.cli.processes import REPOSITORY
from tests.support.client_world import client_world

Where = Literal["local", "remote"]
pytestmark = pytest.mark.os


def writes(path: str, content: str) -> list[Answer]:
    return [[*call("write", {"path": path, "content": content}, id="1"), *done("calls")], [*text("Done."), *done()]]


# The second has the name of a command of the chat, and the third could not be told from a message.
OWN = Commands(
    available=tuple(Command(name=name, text="Tidy up $1.", agent="plan") for name in ("git:Tidy", "review", "2"))
)
HELLO: Answer = [*text("Hello."), *done()]
SCRIPT = [*writes("a.txt", "1\n"), *writes("a.txt", "2\n"), [*text("Summary."), *done()]]


@attrs.frozen
class Commander:
    """The commands of a client. `session` is what they are about, `root` its folder, `engine` where it runs."""

    commands: StateCommands
    session: Session
    root: Path
    engine: Engine

    async def run(self, line: str) -> CommandResult:
        name, _, argument = line.partition(" ")
        return await self.commands.run(name, argument)

    async def choices(self, line: str) -> list[tuple[str, str]]:
        picker = (await self.run(line)).picker
        assert picker is not None
        return [(item.value.partition(" ")[2], item.label) for item in picker.items]

    @property
    def prompts(self) -> list[str]:
        return [message.text for message in self.session.state.transcript if isinstance(message, UserMessage)]


def grant(session: Session) -> Grant:
    """What a user has allowed for the session, but not for another one."""
    origin = GrantOrigin(session_id=session.id, call_id=CallId("c"), tool="bash", granted=0.0)
    return Grant(
        id="g1",
        permission="bash",
        pattern="ls *",
        scope="session",
        project=session.state.context.cwd,
        session_id=session.id,
        origin=origin,
    )


@asynccontextmanager
async def commander(where: Where, folder: Path, *script: Answer) -> AsyncGenerator[Commander]:
    """The commands of a client; without a *script*, after two turns that have written a file. With `HELLO`, rules decide."""
    permissions = PermissionOptions(approver=None if HELLO in script else AllowAll())
    root = folder / "project"
    root.mkdir()
    files = FileOptions(snapshots=ProjectSnapshots(folder=folder / "kept"))
    policy = Policy(home=str(folder))
    async with (
        aclosing(await open_sqlite_store(folder / "sessions.db")) as store,
        client_world(
            folder, "pair", *(script or SCRIPT), tools=(WRITE, BASH), files=files, store=store, permissions=permissions
        ) as world,
    ):
        session = await world.engine.create_session(cwd=root)
        ours = grant(session)
        policy.grants.add_all([ours, attrs.evolve(ours, id="g2", scope="project", session_id=None)])
        if not script:
            await session.run("first")
            await session.run("second")
        if where == "local":
            client = LocalClient(world.engine, session, Config())
            setup = CommandSetup(config=Config(), place=str(folder / "sessions.db"), policy=policy, own=OWN)
            yield Commander(SessionCommands(world.engine, client, store, setup), session, root, world.engine)
            return
        async with world.client() as remote, trio.open_nursery() as nursery:
            theirs = remote.session(session.id)
            nursery.start_soon(RemoteClient(remote, theirs, Config()).watch, lambda _: None)
            while theirs.state is None:
                await trio.sleep(0.01)
            yield Commander(RemoteCommands(remote, theirs, Config(), OWN), session, root, world.engine)
            nursery.cancel_scope.cancel()


@pytest.fixture(params=["local", "remote"])
def where(request: pytest.FixtureRequest) -> Where:
    assert request.param in {"local", "remote"}
    return "local" if request.param == "local" else "remote"


# -- going back ----------------------------------------------------------------------------------------------


async def test_rewind_lists_prompts_and_choices(where: Where, tmp_path: Path) -> None:
    async with commander(where, tmp_path) as chat:
        assert [label.partition("  ")[0] for _, label in await chat.choices("rewind")] == ["second", "first"]
        assert [choice for choice, _ in await chat.choices("rewind 2")] == [
            "both",
            "conversation",
            "files",
            "summarise",
        ]
        assert "-2\n" in (await chat.run("rewind 2")).diff


async def test_rewind_and_redo_take_several_turns(where: Where, tmp_path: Path) -> None:
    async with commander(where, tmp_path) as chat:
        result = await chat.run("rewind 2 both")
        assert result.lines == (
            "Undone: 2 turns. The prompt is in the composer; /redo, without that prompt, takes it back.",
            "Restored: a.txt",
        )
        assert (result.draft, chat.prompts, (chat.root / "a.txt").exists()) == ("first", [], False)
        assert (await chat.run("redo")).lines == ("Redone.", "Changed: a.txt")
        assert (chat.prompts, (chat.root / "a.txt").read_text()) == (["first", "second"], "2\n")


async def test_conversation_or_files_alone(where: Where, tmp_path: Path) -> None:
    async with commander(where, tmp_path) as chat:
        assert (await chat.run("rewind 1 conversation")).draft == "second"
        assert (chat.prompts, (chat.root / "a.txt").read_text()) == (["first"], "2\n")
        await chat.run("redo")
        result = await chat.run("rewind 1 files")
        # The prompt stays where it is, in the conversation.
        assert (result.draft, chat.prompts) == ("", ["first", "second"])
        assert (chat.root / "a.txt").read_text() == "1\n"
        await chat.run("redo")
        assert (chat.root / "a.txt").read_text() == "2\n"


async def test_conflict_is_overwritten_on_purpose_only(where: Where, tmp_path: Path) -> None:
    async with commander(where, tmp_path) as chat:
        (chat.root / "a.txt").write_text("mine\n")
        shown = await chat.run("rewind 1")
        assert shown.lines == ("Changed by another program since: a.txt",)
        assert "-mine\n" in shown.diff
        # What Enter chooses overwrites nothing.
        assert [choice for choice, _ in await chat.choices("rewind 1")] == [
            "conversation",
            "summarise",
            "both force",
            "files force",
        ]
        for scope in ("both", "files"):
            with pytest.raises(UndoConflict, match=r"a\.txt"):
                await chat.run(f"rewind 1 {scope}")
        with pytest.raises(UndoConflict, match=r"a\.txt"):
            await chat.run("undo")
        assert (chat.prompts, (chat.root / "a.txt").read_text()) == (["first", "second"], "mine\n")
        await chat.run("rewind 1 conversation")
        assert (chat.root / "a.txt").read_text() == "mine\n"
        await chat.run("redo")
        await chat.run("rewind 1 files force")
        assert (chat.root / "a.txt").read_text() == "1\n"
        await chat.run("redo")
        assert (chat.root / "a.txt").read_text() == "mine\n"


async def test_summary_from_a_prompt_is_undone(where: Where, tmp_path: Path) -> None:
    async with commander(where, tmp_path) as chat:
        result = await chat.run("rewind 1 summarise")
        # The script's summary has no headings.
        assert result.lines[0].startswith("Not summarised: ")
        assert (chat.session.state.turn, chat.prompts) == (None, ["first", "second"])


async def test_nonsense_rewinds_nothing(where: Where, tmp_path: Path) -> None:
    async with commander(where, tmp_path) as chat:
        for line in ("rewind 9", "rewind x", "rewind 1 nonsense", "rewind 1 both please"):
            with pytest.raises(ConfigError, match="Next: /rewind"):
                await chat.run(line)
        assert chat.prompts == ["first", "second"]


async def test_diff_is_shown_and_copied(where: Where, tmp_path: Path) -> None:
    async with commander(where, tmp_path) as chat:
        assert "+2\n" in (await chat.run("diff")).diff
        assert "+2\n" in (await chat.run("copy diff")).copied
        await chat.run("undo")
        await chat.run("undo")
        assert (await chat.run("diff")).lines == ("No file was changed.",)
        assert (await chat.run("rewind")).lines == ("There is no prompt to rewind to.",)


async def test_costs_are_those_of_each_model(where: Where, tmp_path: Path) -> None:
    spent = [*text("Hello."), *done(usage=Usage(input=1_000, output=50))]
    async with commander(where, tmp_path, spent) as chat:
        await chat.session.run("go")
        model, total = (await chat.run("cost")).lines
        assert model == "  scripted/model: 1,000 tokens in, 50 out, unknown price"
        assert total == "  in all: unknown price"


# -- every command -------------------------------------------------------------------------------------------


async def test_each_command_works_or_says_why_not(where: Where, tmp_path: Path) -> None:
    """Those that start a program have tests of their own."""
    programs = {"config", "doctor", "mcp", "permissions"}
    async with commander(where, tmp_path) as chat:
        for command in chat.commands.available:
            if command.name in HANDLED_BY_THE_CHAT | programs:
                continue
            result, failure = CommandResult(), ""
            try:
                result = await chat.run(command.name)
            except ConfigError as error:
                failure = str(error)
            # What it needs is named; the end of a summary is an event.
            while chat.session.state.turn is not None:
                await trio.sleep(0.01)
            assert "Next: /" in failure or result != CommandResult() or command.name == "compact", command.name


async def test_both_clients_have_the_same_commands(tmp_path: Path) -> None:
    (tmp_path / "remote").mkdir()
    async with commander("local", tmp_path) as here, commander("remote", tmp_path / "remote") as there:
        assert here.commands.available == there.commands.available


async def test_attached_chat_says_what_to_do_instead(tmp_path: Path) -> None:
    async with commander("remote", tmp_path, HELLO) as chat:
        for name in ("effort", "agent", "agents", "jobs", "sessions", "new", "fork", "export", "share", "mcp"):
            (line,) = (await chat.run(f"{name} x")).lines
            assert line.startswith(f"/{name} does not work over attach: ")


async def test_attached_chat_renames_and_configures(tmp_path: Path) -> None:
    async with commander("remote", tmp_path, HELLO) as chat:
        assert (await chat.run("rename Another title")).lines == ("Renamed.",)
        await chat.run("profile read-only")
        assert (chat.session.state.title, chat.session.state.profile) == ("Another title", "read-only")
        assert "scripted/model" in [value for value, _ in await _labels(chat, "model")]
        assert (await chat.run("permissions")).lines == ("Nothing is allowed for longer than a call.",)
        assert (await chat.run("permissions revoke other")).lines == ("There is no such grant.",)
        assert "at the server" in (await chat.run("bug")).lines[-1]


# -- a session of this process ---------------------------------------------------------------------------------


async def test_effort_and_agent_are_chosen(tmp_path: Path) -> None:
    async with commander("local", tmp_path, HELLO) as chat:
        assert (await chat.run("effort high")).effort == "high"
        with pytest.raises(ConfigError, match="unknown effort nonsense"):
            await chat.run("effort nonsense")
        values = [value for value, _ in await _labels(chat, "agent")]
        change = (await chat.run(f"agent {values[0]}")).change
        assert change is not None
        assert (change.kind, change.session_id, change.agent) == ("fork", chat.session.id, values[0])
        with pytest.raises(ConfigError, match="nonsense"):
            await chat.run("agent nonsense")
        assert (await chat.run("agents")).lines == ("This session has had no sub-agents.",)


async def test_grants_of_the_session_are_listed_and_revoked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environment_for("http://127.0.0.1:9", tmp_path).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    async with commander("local", tmp_path, HELLO) as chat:
        assert (await chat.run("permissions")).lines[-2:] == ("grants for this session", "  g1  bash ls *  (session)")
        assert (await chat.run("permissions revoke g1")).lines == ("Revoked.",)
        assert (await chat.run("permissions")).lines[-1] == "no grants for this session"


async def test_other_sessions_are_chosen(tmp_path: Path) -> None:
    async with commander("local", tmp_path, HELLO) as chat:
        assert (await chat.run("sessions")).lines == ("There is no other session.",)
        for name, kind in (("new", "new"), ("fork", "fork")):
            change = (await chat.run(name)).change
            assert change is not None
            assert change.kind == kind


async def test_model_reads_the_project_and_the_changes(where: Where, tmp_path: Path) -> None:
    async with commander(where, tmp_path, HELLO) as chat:
        assert (await chat.run("init keep it short")).prompt.endswith("keep it short")
        assert "not committed" in (await chat.run("review")).prompt
        assert (await chat.run("review a.txt")).prompt.startswith("Review a.txt.")


async def test_own_command_becomes_a_prompt(where: Where, tmp_path: Path) -> None:
    async with commander(where, tmp_path, HELLO) as chat:
        own = await chat.run('git:Tidy "the docs" now')
        assert (own.prompt, own.lines) == ("Tidy up the docs.", ("It asks for the agent plan. Next: /agent plan",))
        assert [each.name for each in chat.commands.available].count("review") == 1
        assert "2" not in [each.name for each in chat.commands.available]


async def _labels(chat: Commander, name: str) -> list[tuple[str, str]]:
    return [(item.value, item.label) for item in await chat.commands.arguments(name)]


async def test_resume_lists_this_folder_then_all(tmp_path: Path) -> None:
    async with commander("local", tmp_path, HELLO) as chat:
        assert (await chat.run("resume")).lines == ("There is no other session.",)
        for title, folder in (("There", tmp_path), ("Here", chat.root), ("Here too", chat.root)):
            other = await chat.engine.create_session(cwd=folder)
            await other.rename(title)
        picker = (await chat.run("resume")).picker
        assert picker is not None
        assert picker.more is not None
        names = [item.label.partition("  ")[0] for item in picker.items]
        assert sorted(names) == ["Here", "Here too"]
        assert sorted(item.label.partition("  ")[0] for item in picker.more()) == [*sorted(names), "There"]
        assert str(tmp_path) in " ".join(item.label for item in picker.more())


async def test_export_needs_a_name_that_is_free(tmp_path: Path) -> None:
    async with commander("local", tmp_path, HELLO) as chat:
        with pytest.raises(ConfigError, match=r"must end with \.md, \.html or \.json"):
            await chat.run("export a.pdf")
        with pytest.raises(ConfigError, match=r"must end with \.html"):
            await chat.run("share a.md")
        (chat.root / "a.md").touch()
        with pytest.raises(ConfigError, match=r"Next: /export a\.md force"):
            await chat.run("export a.md")


async def test_job_is_listed_added_and_stopped(tmp_path: Path) -> None:
    job = {"command": "echo one; echo ready; sleep 86400", "background": True, "name": "web"}
    script: list[Answer] = [[*call("bash", job, id="1"), *done("calls")], [*text("Started."), *done()]]
    async with commander("local", tmp_path, *script) as chat:
        assert (await chat.run("jobs")).lines == ("No background commands.",)
        await chat.session.run("go")
        (line,) = (await chat.run("jobs")).lines
        assert re.fullmatch(r"  web  running for \S+ s  pid \d+  echo one; echo ready; sleep 86400  ready", line)
        os.kill(int(line.partition("pid ")[2].split()[0]), 0)
        assert "```\none\nready\n```" in (await chat.run("jobs add web")).draft
        for nonsense in ("stop other", "add", "nonsense web"):
            with pytest.raises(ConfigError, match=r"Next: /jobs, /jobs stop\|add NAME"):
                await chat.run(f"jobs {nonsense}")
        cursor = chat.session.subscribe()
        assert (await chat.run("jobs stop web")).lines == ("Stopping web.",)
        with trio.fail_after(60):
            while not (isinstance(event := await anext(cursor), Notice) and event.code == "job_ended"):
                pass
        assert event.text.startswith("the background job web has ended: ")
        assert "pid" not in (await chat.run("jobs")).lines[0]
