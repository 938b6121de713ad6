"""`engine run` with sessions that are kept: going on, resuming one, forking it, and what can be wrong with that."""

from __future__ import annotations

import json
import re
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import trio

from engine import open_engine
from engine.core.llm_types import ModelInfo
from engine.testing.scripted_provider import ScriptedProvider
from tests.cli.conftest import Start

pytestmark = pytest.mark.slow


SESSION = re.compile(r'"session_id": ?"(ses_\w+)"')


def run(engine: Start, *arguments: str, **env: str) -> str:
    command = engine("run", *arguments, terminal=False, **env)
    code = command.wait()
    assert code == 0, command.output
    return command.output


def session_of(output: str) -> str:
    found = SESSION.search(output)
    assert found is not None, output
    return found.group(1)


def test_continue_uses_the_newest_session_here(engine: Start, tmp_path: Path) -> None:
    first = run(engine, "remember one")
    assert "has heard: remember one." in first
    assert (tmp_path / "data" / "engine" / "sessions.db").stat().st_mode & 0o777 == 0o600
    assert "has heard: remember one / two." in run(engine, "--continue", "two")
    assert "has heard: remember one / two / three." in run(engine, "-c", "three")
    assert "has heard: remember apart." in run(engine, "remember apart")
    other = tmp_path / "other"
    other.mkdir()
    elsewhere = engine("run", "-c", "four", "--cwd", str(other))
    assert elsewhere.wait() == 2
    assert f"engine run: no session in {other}\nNext: engine sessions list --all" in elsewhere.output


def test_resume_uses_the_sessions_folder(engine: Start, tmp_path: Path) -> None:
    session = session_of(run(engine, "remember one", "--json"))
    run(engine, "remember something else")
    other = tmp_path / "other"
    other.mkdir()
    for name in (session, session.removeprefix("ses_"), session[-8:]):
        again = run(engine, "--resume", name, f"by {name}", "--cwd", str(other), "--json")
        assert session_of(again) == session
    wrong = engine("run", "--resume", "ses_none", "hello")
    assert wrong.wait() == 2
    assert wrong.output == "engine run: unknown session 'ses_none'\nNext: engine sessions list --all\n"
    both = engine("run", "--resume", "ses_", "hello")
    assert both.wait() == 2
    assert "'ses_' is ambiguous; 2 sessions match: ses_" in both.output


def test_profile_of_a_session_is_reported_or_replaced(engine: Start, tmp_path: Path) -> None:
    session_id = session_of(run(engine, "remember one", "--json"))
    store = tmp_path / "data" / "engine" / "sessions.db"
    with closing(sqlite3.connect(store)) as connection:
        (model,) = connection.execute("SELECT model FROM sessions WHERE id = ?", (session_id,)).fetchone()

    async def select() -> None:
        provider = ScriptedProvider([], info=ModelInfo(name=model))
        async with open_engine(model=provider, store=store) as eng:
            await eng.use_profile(await eng.open_session(session_id), "full", by="phone")

    trio.run(select)
    said = "this session has the permission profile 'full', set by phone; --profile replaces it\n"
    assert said in run(engine, "--resume", session_id, "two")
    for arguments in (["--profile", "ask"], []):
        assert "permission profile" not in run(engine, "--resume", session_id, "three", *arguments)


def test_missing_session_folder_is_reported(engine: Start, tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.mkdir()
    session = session_of(run(engine, "remember one", "--json", "--cwd", str(there)))
    there.rmdir()
    for fork in ([], ["--fork"]):
        refused = engine("run", "--resume", session, *fork, "hello")
        assert refused.wait() == 2
        assert f"the directory of session {session} does not exist: {there}\n" in refused.output
        assert "import FILE --cwd DIR" in refused.output


def test_missing_model_is_reported_once(engine: Start, tmp_path: Path) -> None:
    (tmp_path / "said.md").write_text("---\nmodel: nobody/none\n---\n## User\n\nhello\n")
    taken_in = engine("sessions", "import", "said.md")
    assert taken_in.wait() == 0
    assert run(engine, "-c", "remember").count("the session's model is not available here") == 1


def test_a_fork_goes_its_own_way(engine: Start) -> None:
    session = session_of(run(engine, "remember one", "--json"))
    fork = run(engine, "--resume", session, "--fork", "two", "--json")
    assert session_of(fork) != session
    assert "has heard: remember one / two." in fork
    assert "has heard: remember one / three." in run(engine, "--resume", session, "three")
    lonely = engine("run", "--fork", "hello")
    assert lonely.wait() == 2
    assert "--fork needs --continue or --resume" in lonely.output


def test_session_keeps_its_model_unless_overridden(engine: Start) -> None:
    run(engine, "remember one", "--model", "anthropic/claude-haiku-4-5")
    assert "claude-haiku-4-5 has heard: remember one / two." in run(engine, "-c", "two")
    assert "claude-sonnet-4-5 has heard" in run(engine, "-c", "three", "--model", "anthropic/claude-sonnet-4-5")
    assert "claude-sonnet-4-5 has heard" in run(engine, "-c", "four", ENGINE_MODEL="anthropic/claude-haiku-4-5")


def test_memory_store_keeps_nothing(engine: Start, tmp_path: Path) -> None:
    run(engine, "remember one", "--store", ":memory:")
    run(engine, "remember one", ENGINE_STORE=":memory:")
    assert not (tmp_path / "data").exists()
    run(engine, "remember one", ENGINE_STORE=str(tmp_path / "mine.db"))
    assert "has heard: remember one / two." in run(engine, "-c", "two", "--store", str(tmp_path / "mine.db"))


@pytest.mark.parametrize("arguments", [(), ("--json",)])
def test_unusable_store_is_reported_and_nothing_runs(engine: Start, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    damaged = tmp_path / "s.db"
    damaged.write_text("no database, this")
    command = engine("run", "remember one", "--store", str(damaged), *arguments)
    assert command.wait() == 2
    assert command.output.startswith(f"engine run: the store {damaged}")
    assert 'Next: engine run --ephemeral "TASK"\n' in command.output
    if arguments:
        error = json.loads(command.output[command.output.index("{") :])["error"]
        assert error["next"] == 'engine run --ephemeral "TASK"'
    assert "heard" not in command.output
    assert damaged.read_text() == "no database, this"


def test_a_session_that_runs_elsewhere_is_refused(engine: Start, tmp_path: Path) -> None:
    first = engine("run", "--stream", "slow")
    first.read_until("word word")
    second = engine("run", "-c", "hello")
    assert second.wait() == 11
    assert re.search(r"engine run: Session ses_\w+ is open in process \d+\nNext: engine attach ses_", second.output)
    assert second.output.endswith(' --fork "TASK"\n')
    first.send(signal.SIGINT)
    first.wait()
    with closing(sqlite3.connect(tmp_path / "data" / "engine" / "sessions.db")) as connection:
        assert connection.execute("SELECT count(*) FROM leases").fetchone() == (0,)


def listed(engine: Start) -> str:
    command = engine("sessions", "list")
    assert command.wait() == 0
    return command.output


def test_open_question_is_asked_again_after_kill(engine: Start, tmp_path: Path) -> None:
    first = engine("run", "bash touch made.txt", terminal=True)
    first.read_until("\r\n  Answer: ")
    while "waiting for you" not in listed(engine):  # until it is on the disk
        pass
    first.send(signal.SIGKILL)
    first.wait()
    assert "waiting for you" in listed(engine)
    again = engine("run", "--continue", terminal=True)
    again.read_until("\r\n  Answer: ")
    assert not (tmp_path / "made.txt").exists()
    again.type("y\n")
    assert again.wait() == 0
    assert "All done." in again.output
    assert (tmp_path / "made.txt").exists()
    over = engine("run", "--continue")
    assert over.wait() == 2
    assert re.search(r'nothing to resume in session (ses_\w+)\nNext: engine run --resume \1 "TASK"\n', over.output)
    for wrong in ((), ("--continue", "--fork")):
        missing = engine("run", *wrong)
        assert missing.wait() == 2
        assert "engine run: the task is missing" in missing.output
