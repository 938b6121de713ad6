"""The files of drafts and history (cli C13): private, for a project and for all, and never a reason to fail."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import trio
import trio.testing

from engine.cli.chat.chat_client import SessionEffect
from engine.cli.chat.chat_drafts import ChatDrafts, DraftChanges
from engine.cli.chat.chat_driver import ChatParts
from engine.cli.chat.line_driver import LineDriver
from engine.cli.chat.local_client import LocalClient
from engine.cli.chat.machine.chat_events import ChatEvent
from engine.cli.chat.user_shell import UserShell
from engine.config.chat_keys import bind_keys
from engine.config.config import Config
from engine.journal.state import SessionState
from engine.session.engine import open_engine
from engine.session.engine_options import FileOptions
from engine.testing.fakes import SlowStore
from engine.testing.script import done, text
from engine.testing.scripted_provider import ScriptedProvider
from tests.cli.chat.chat_machine import new_machine
from tests.cli.chat.driven_chat import DraftsInMemory, NoCommands, TypedActs, TypedLines, Written, leave_at_once


def test_history_is_that_of_the_project_and_of_all(tmp_path: Path) -> None:
    here, there = ChatDrafts(tmp_path / "chat", "/here"), ChatDrafts(tmp_path / "chat", "/there")
    here.update(DraftChanges(draft="", entries=("one\n  two lines", "three"), session_id=""))
    there.update(DraftChanges(draft="", entries=("elsewhere",), session_id=""))
    # What a crash has left of a line, and what another program has written.
    with (tmp_path / "chat/history.jsonl").open("a") as file:
        file.write('[1]\n{"cwd": "/here"}\n{"cwd": "/he')
    ours = ["one\n  two lines", "three"]
    assert here.entries() == (ours, [*ours, "elsewhere"])
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "chat").iterdir()} == {0o600}


def test_draft_moves_from_its_folder_to_its_session(tmp_path: Path) -> None:
    drafts = ChatDrafts(tmp_path, "/here")
    drafts.save("of the folder")
    assert ChatDrafts(tmp_path, "/here").load() == "of the folder"
    drafts.update(DraftChanges(draft="of the session", entries=(), session_id="ses_1"))
    assert ChatDrafts(tmp_path, "/here").load() == ""
    assert ChatDrafts(tmp_path, "/elsewhere", "ses_1").load() == "of the session"
    drafts.save(" ")
    assert not list(tmp_path.glob("*.draft"))


class NotedDrafts(DraftsInMemory):
    """Drafts in memory. `saved` are all in order; `has_message` and `is_empty_again` are set as they come."""

    def __init__(self) -> None:
        super().__init__()
        self.saved: list[str] = []
        self.has_message, self.is_empty_again = trio.Event(), trio.Event()
        self._token = trio.lowlevel.current_trio_token()

    def save(self, text: str) -> None:
        # The driver saves in a thread.
        self._token.run_sync_soon(self._note, text)

    def _note(self, text: str) -> None:
        self.saved.append(text)
        (self.has_message if text else self.is_empty_again).set()


class LateClient:
    """A session that gets no message until the draft was saved with it."""

    def __init__(self, client: LocalClient, has_message: trio.Event) -> None:
        self._client, self._has_message = client, has_message

    @property
    def state(self) -> SessionState:
        return self._client.state

    async def watch(self, deliver: Callable[[ChatEvent], None]) -> None:
        await self._client.watch(deliver)

    async def perform(self, effect: SessionEffect) -> None:
        await self._has_message.wait()
        await self._client.perform(effect)

    async def idle(self) -> None:
        await self._client.idle()

    async def leave(self) -> None:
        await self._client.leave()


class EndAfter:
    """A signal that comes after an event."""

    def __init__(self, event: trio.Event) -> None:
        self._event = event
        self._has_come = False

    def __aiter__(self) -> "EndAfter":
        return self

    async def __anext__(self) -> int:
        if self._has_come:
            await trio.sleep_forever()
        await self._event.wait()
        self._has_come = True
        return signal.SIGTERM


async def test_draft_is_saved_again_after_arrival(autojump_clock: trio.testing.MockClock) -> None:
    """A message that is on its way is a part of the draft; after its arrival a crash must not bring it back."""
    del autojump_clock
    # No time limit: the clock jumps to it while a thread saves the draft.
    async with open_engine(
        model=ScriptedProvider(script=[[*text("Hello."), *done()]]),
        store=SlowStore(),
        files=FileOptions(spill=os.devnull),
    ) as engine:
        session = await engine.create_session(cwd="/opt")
        drafts = NotedDrafts()
        parts = ChatParts(
            machine=new_machine(bind_keys({}), is_accessible=True),
            client=LateClient(LocalClient(engine, session, Config()), drafts.has_message),
            output=Written(),
            commands=NoCommands(),
            drafts=drafts,
            shell=UserShell(lambda: "/opt", session.id),
            leave_at_once=leave_at_once,
        )
        driver = LineDriver(parts, TypedLines(TypedActs(["first"], [])))
        assert await driver.run(EndAfter(drafts.is_empty_again)) == 128 + signal.SIGTERM
        assert drafts.saved[:2] == ["first", ""]
