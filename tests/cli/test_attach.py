"""`engine attach` as a process, and in a terminal: watching, answering, leaving, cancelling."""

import re
import signal
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import aclosing, closing
from functools import partial
from pathlib import Path

import pytest
import trio

from engine.core.events import CallStarted
from engine.core.settings import Settings
from engine.store.sqlite.store import open_sqlite_store
from engine.testing.script import Answer, call, done
from tests.cli.conftest import Quick, Start
from tests.cli.processes import Command
from tests.support.served_engine import served


@pytest.fixture(autouse=True)
def runtime() -> Iterator[str]:
    """A folder with a short name, for the Unix socket."""
    with tempfile.TemporaryDirectory() as folder:
        yield folder


@pytest.fixture
def server(engine: Start, runtime: str) -> Command:
    command = engine("serve", XDG_RUNTIME_DIR=runtime)
    command.read_until("Ctrl-C ends it.")
    return command


@pytest.mark.slow
def test_prompt_is_watched_to_the_end(engine: Start, server: Command, runtime: str) -> None:
    del server
    command = engine("attach", "--prompt", "hello", XDG_RUNTIME_DIR=runtime)
    assert command.wait() == 0
    assert "Hello, wörld.\nTwo lines." in command.output
    assert "Done in" in command.output
    again = engine("attach", XDG_RUNTIME_DIR=runtime)
    assert again.wait() == 0
    assert "is idle; 2 messages" in again.output


@pytest.mark.slow
def test_question_is_answered_by_who_comes_later(engine: Start, server: Command, runtime: str) -> None:
    del server
    first = engine("attach", "--prompt", "bash touch there", XDG_RUNTIME_DIR=runtime)
    first.read_until("A question waits for an answer")
    first.send(signal.SIGINT)
    assert first.wait() == 0
    assert "Detached. The turn continues." in first.output
    second = engine("attach", terminal=True, XDG_RUNTIME_DIR=runtime)
    second.read_until("[y] Yes, once")
    third = engine("attach", "--accessible", terminal=True, XDG_RUNTIME_DIR=runtime)
    third.read_until("1. Yes, once")
    second.type("\ty")
    third.read_until("Note: Allowed once: bash touch there; by terminal; asked by the rule 'ask * *'")
    # It joined a turn that ran, and does not know how long.
    second.read_until("Done · 2 requests")
    second.type("\x04")
    assert second.wait() == 0
    assert "Detached.\r\nNext: engine attach ses_" in second.output
    third.read_until("Note: Done, 2 requests")
    third.type("\x04")
    assert third.wait() == 0
    assert "\x1b" not in third.output


@pytest.mark.slow
def test_message_after_a_killed_server_begins_a_turn(engine: Start, server: Command, runtime: str) -> None:
    prompt = engine("attach", "--prompt", "bash sleep 60", XDG_RUNTIME_DIR=runtime)
    prompt.read_until("I'll run it.")
    session_id = re.findall(r"ses_\w+", prompt.output)[0]
    working = engine("attach", session_id, terminal=True, XDG_RUNTIME_DIR=runtime)
    working.read_until("● bash sleep 60")
    server.send(signal.SIGKILL)
    server.wait()
    successor = engine("serve", XDG_RUNTIME_DIR=runtime)
    successor.read_until("Ctrl-C ends it")
    working.read_until("turn was interrupted")
    working.read_until("Interrupted ·")
    resumed = engine("attach", session_id, "--resume", XDG_RUNTIME_DIR=runtime)
    assert resumed.wait() == 0
    assert "was interrupted; " in resumed.output
    assert "Interrupted: the engine's process ended while this turn was running." in resumed.output
    assert "All done." in resumed.output
    working.read_until("All done.")
    working.type("go on\r")
    working.read_until("Done in")
    assert "Not sent" not in working.output
    assert "the engine's process ended" in working.output


@pytest.mark.slow
def test_second_command_cancels(engine: Start, server: Command, runtime: str) -> None:
    first = engine("attach", terminal=True, XDG_RUNTIME_DIR=runtime)
    assert first.wait() == 2, first.output
    assert "--prompt TEXT" in first.output
    working = engine("attach", "--prompt", "bash touch there", XDG_RUNTIME_DIR=runtime)
    working.read_until("A question waits for an answer")
    session_id = re.findall(r"ses_\w+", working.output)[0]
    cancel = engine("attach", session_id, "--cancel", XDG_RUNTIME_DIR=runtime)
    assert cancel.wait() == 0
    assert "the turn has ended (aborted)" in cancel.output
    assert working.wait() == 1
    assert "The turn is ending (cancelled by terminal)." in working.output
    idle = engine("attach", session_id, "--cancel", XDG_RUNTIME_DIR=runtime)
    assert idle.wait() == 1
    assert "no turn runs" in idle.output
    nothing = engine("attach", session_id, "--resume", XDG_RUNTIME_DIR=runtime)
    assert nothing.wait() == 1
    assert "has no parked turn" in nothing.output
    assert "\nNext: engine attach" in nothing.output
    # The end of the server is shown, and Ctrl-D still leaves.
    watching = engine("attach", session_id, terminal=True, XDG_RUNTIME_DIR=runtime)
    watching.read_until("Ready")
    server.send(signal.SIGTERM)
    watching.read_until("The connection is lost; trying again.")
    watching.type("\x04")
    assert watching.wait() == 0


@pytest.mark.slow
async def test_d5_cancel_that_is_not_answered_is_reported(quick: Quick, runtime: str) -> None:
    script: list[Answer] = [[*call("wait_forever", id="c1"), *done("calls")]]
    # It waits longer for the lock than anything here lasts.
    store = await open_sqlite_store(Path(runtime) / "sessions.db", lock_timeout=600)
    async with (
        aclosing(store),
        served(Path(runtime), *script, store=store, settings=Settings(durable_within=600.0)) as server,
    ):
        session = await server.engine.create_session(cwd=runtime)
        server.engine.start_turn(session, "Go")
        while not any(isinstance(event, CallStarted) for event in session.events()):
            await trio.sleep(0.01)
        # Another program keeps the store from writing, so the turn can't be saved, and does not end.
        with closing(sqlite3.connect(Path(runtime) / "sessions.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            arguments = ("attach", session.id, "--cancel", "--url", f"unix:{server.at.socket}")
            ended = await trio.to_thread.run_sync(partial(quick, *arguments))
            other.execute("ROLLBACK")
    assert (ended.code, ended.stdout) == (1, b"")
    assert b"no answer from the server: the turn may still run" in ended.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "error"),
    [
        ([], 1, "no server runs for the store"),
        (["--url", "http://127.0.0.1:9"], 1, "\nNext: engine serve\nor: "),
        (["--store", "other.db"], 1, "no server runs for the store"),
        (["--url", "nonsense"], 2, "the address of a server begins with"),
        (["--prompt", "x", "--cancel"], 2, "not allowed with"),
    ],
)
def test_errors_name_the_next_command(engine: Start, runtime: str, arguments: list[str], code: int, error: str) -> None:
    command = engine("attach", *arguments, XDG_RUNTIME_DIR=runtime)
    assert command.wait() == code
    assert error in command.output
