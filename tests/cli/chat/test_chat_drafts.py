"""The files of drafts and history (cli C13): private, for a project and for all, and never a reason to fail."""

from pathlib import Path

from engine.cli.chat.chat_drafts import ChatDrafts, DraftChanges


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
