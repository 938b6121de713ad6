"""`engine sessions undo|redo|diff|restore`, as people use them: a store in a file, a folder."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import attrs
import pytest
import trio

import engine
from engine.cli import main
from engine.permission.allow_all import AllowAll
from engine.session.engine_options import FileOptions, PermissionOptions
from engine.snapshots.project_snapshots import ProjectSnapshots
from engine.testing.script import call, done, text
from engine.testing.scripted_provider import ScriptedProvider
from engine.tools.builtin.bash import BASH

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")


@attrs.frozen
class Kept:
    """A folder in which the agent has worked, and the session."""

    root: Path
    home: Path
    session_id: str
    capture: pytest.CaptureFixture[str]

    def sessions(self, *arguments: str, code: int = 0) -> str:
        """Run `engine sessions …` in the folder; return all that it says."""
        assert main(["sessions", *arguments]) == code
        said = self.capture.readouterr()
        return said.out + said.err

    def again(self, command: str) -> None:
        """Have the agent run another command in another turn."""
        trio.run(work, self.root, self.home, command, self.session_id)


async def work(root: Path, home: Path, command: str, session_id: str | None) -> str:
    """Have the agent run a command in a folder; return the session's id."""
    model = ScriptedProvider([[*call("bash", {"command": command}, id="1"), *done("calls")], [*text("Done."), *done()]])
    async with engine.open_engine(
        model=model,
        tools=(BASH,),
        permissions=PermissionOptions(approver=AllowAll()),
        store=home / "sessions.db",
        files=FileOptions(snapshots=ProjectSnapshots()),
    ) as eng:
        session = await (eng.create_session(cwd=root) if session_id is None else eng.open_session(session_id))
        assert (await session.run("Change\nit.")).stop_reason == "completed"
        return session.id


def _places(home: Path) -> dict[str, str]:
    names = ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")
    return {"HOME": str(home), **{name: str(home / name) for name in names}, "ENGINE_STORE": str(home / "sessions.db")}


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Kept:
    root, home = tmp_path / "project", tmp_path / "home"
    root.mkdir()
    home.mkdir()
    for name, place in _places(home).items():
        monkeypatch.setenv(name, place)
    (root / "a.txt").write_text("one\n")
    monkeypatch.chdir(root)

    command = "echo two > a.txt; printf 'x\\033[31m\\n' > b.txt; printf '\\0' > bin"
    return Kept(root, home, trio.run(work, root, home, command, None), capsys)


def test_turn_is_diffed_undone_and_redone(kept: Kept) -> None:
    shown = kept.sessions("diff", "last")
    assert "-one\n+two\n" in shown
    assert "x␛[31m" in shown or "\033" not in shown
    assert "new: bin\n" in shown
    assert kept.sessions("undo", kept.session_id) == (
        "undone: Change it.\nrestored: a.txt\nrestored: b.txt\nrestored: bin\n"
        "changed while `echo two > a.txt; printf 'x\\033[31m\\n' …` ran, perhaps by another program: a.txt, b.txt, bin\n"
    )
    assert sorted(path.name for path in kept.root.iterdir()) == ["a.txt"]
    assert (kept.root / "a.txt").read_text() == "one\n"
    assert "there is no turn to undo" in kept.sessions("undo", "last", code=1)
    assert kept.sessions("redo", "last") == ("redone: Change it.\nchanged: a.txt\nchanged: b.txt\nchanged: bin\n")
    assert (kept.root / "a.txt").read_text() == "two\n"
    assert "there is no turn to redo" in kept.sessions("redo", "last", code=1)


def test_conflicts_are_named_and_forced(kept: Kept) -> None:
    (kept.root / "a.txt").write_text("mine\n")
    said = kept.sessions("undo", "last", code=1)
    assert said.startswith(
        "engine sessions undo: nothing was done: these files were changed since: a.txt\nNext: engine sessions undo"
    )
    assert (kept.root / "a.txt").read_text() == "mine\n"
    assert "restored: a.txt" in kept.sessions("undo", "--force", "last")
    assert (kept.root / "a.txt").read_text() == "one\n"


def test_chosen_files_are_restored(kept: Kept) -> None:
    assert kept.sessions("restore", "last", "a.txt") == "restored: a.txt\n"
    assert kept.sessions("restore", "last", "a.txt") == (
        "nothing to restore: these paths are as they were before the turn\n"
    )
    assert (kept.root / "b.txt").exists()
    assert "there is no turn 'turn_x'" in kept.sessions("restore", "last", "a.txt", "--turn", "turn_x", code=1)


def test_turn_is_named_by_a_message_id(kept: Kept) -> None:
    shown = json.loads(kept.sessions("show", "last", "--json"))["messages"]
    turn, messages = shown[0]["turn"], [entry["message"]["id"] for entry in shown]
    assert kept.sessions("show", "last").count(messages[0][-6:]) == 1
    diff = kept.sessions("diff", "last")
    for name in (turn, messages[0], messages[0][-6:], messages[-1][-6:]):
        assert kept.sessions("diff", "last", "--turn", name) == diff
    assert kept.sessions("restore", "last", "bin", "--turn", messages[0][-6:]) == "restored: bin\n"
    assert "there is no turn ''" in kept.sessions("diff", "last", "--turn", "", code=1)
    # Undone, it can be compared still, by its own id.
    kept.sessions("undo", "last", "--force")
    assert kept.sessions("diff", "last", "--turn", turn) == diff


def test_file_name_stays_on_its_line(kept: Kept) -> None:
    (kept.root / "a.txt").write_text("one\n")
    kept.again("rm -f a.txt b.txt bin; echo x > \"$(printf 'n\\nrestored: all\\033[2J')\"; echo o > t\\ny")
    assert "+++ n\\nrestored: all^[[2J\n" in kept.sessions("diff", "last")
    assert "restored: n^Jrestored: all^[[2J\n" in kept.sessions("undo", "last")


def test_nonsense_is_reported(kept: Kept) -> None:
    assert "unknown session" in kept.sessions("undo", "nobody", code=2)
    assert "missing: " in kept.sessions("undo", code=2)
    assert "missing: " in kept.sessions("restore", "last", code=2)
    assert "usage: engine sessions restore" in kept.sessions("restore", "--help")


def test_without_the_snapshots_only_force_undoes(kept: Kept) -> None:
    shutil.rmtree(kept.home / "XDG_DATA_HOME" / "engine" / "snapshots")
    said = kept.sessions("undo", "last", code=1)
    assert "the snapshot is gone" in said
    assert said.endswith("\nNext: add --force to undo only the messages\n")
    assert "--force" not in kept.sessions("diff", "last", code=1)
    assert "no file was changed: the snapshot is gone" in kept.sessions("undo", "last", "--force")
    assert (kept.root / "a.txt").read_text() == "two\n"


def test_a_deleted_session_keeps_no_snapshots(kept: Kept) -> None:
    refs = kept.home / "XDG_DATA_HOME" / "engine" / "snapshots"
    assert [path.name for path in refs.glob("*/git/refs/snapshots/*")] == [kept.session_id]
    kept.sessions("delete", "--yes", kept.session_id)
    assert list(refs.glob("*/git/refs/snapshots/*")) == []


def test_versions_of_a_file_are_listed_and_restored(kept: Kept) -> None:
    (kept.root / "a.txt").write_text("mine\n")
    kept.sessions("restore", "--force", "last", "a.txt")
    listed = kept.sessions("versions", "last", "a.txt").splitlines()
    assert [line.endswith("(as it is now)") for line in listed] == [True, False, False]
    assert kept.sessions("restore", "last", "a.txt", "--version", listed[2].split()[0]) == "restored: a.txt\n"
    assert (kept.root / "a.txt").read_text() == "mine\n"
    assert "no version of this file is 'x'" in kept.sessions("restore", "last", "a.txt", "--version", "x", code=1)
    assert kept.sessions("versions", "last", "none") == "no snapshot shows another content of this file\n"


def test_undo_to_a_prompt_and_back(kept: Kept) -> None:
    kept.again("echo three > a.txt; echo three > c.txt")
    listed = kept.sessions("undo", "last", "--list").splitlines()
    assert [line.strip()[0] for line in listed] == ["1", "2"]
    assert "Change it.  (a.txt, c.txt)" in listed[0]
    shown = kept.sessions("undo", "last", "--to", "2", "--show")
    assert shown.startswith("2 turns would be undone\n")
    assert "-three\n+one\n" in shown
    assert (kept.root / "a.txt").read_text() == "three\n"
    assert kept.sessions("undo", "last", "--to", "2").startswith(
        "undone: 2 turns, to before: Change it.\nrestored: a.txt"
    )
    assert sorted(path.name for path in kept.root.iterdir()) == ["a.txt"]
    kept.sessions("redo", "last")
    assert (kept.root / "a.txt").read_text() == "three\n"
    assert kept.sessions("undo", "last", "--only", "conversation") == (
        "undone: the messages of 1 turn; files are unchanged\n"
    )
    assert (kept.root / "c.txt").exists()
    kept.sessions("redo", "last")
    kept.sessions("undo", "last", "--only", "files")
    assert not (kept.root / "c.txt").exists()
    assert len(kept.sessions("undo", "last", "--list").splitlines()) == 2
    said = kept.sessions("undo", "last", "--to", "9", code=2)
    assert said == ("engine sessions undo: --to 9: the session has 2 prompts\nNext: engine sessions undo last --list\n")


def test_conflict_repeats_the_flags(kept: Kept) -> None:
    (kept.root / "a.txt").write_text("mine\n")
    said = kept.sessions("undo", "last", "--to", "1", "--only", "files", code=1)
    assert "Next: engine sessions undo last --to 1 --only files --force" in said
