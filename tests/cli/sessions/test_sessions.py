"""`engine sessions …` and `engine stats` over real files: what they say, what they make, and what they refuse."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import cast

import attrs
import pytest
import trio

from engine.cli import main
from engine.cli.command_table.find_command import load_spec
from engine.cli.sessions.session_command import resolve_session_id, short_ids
from engine.cli.sessions.stats import utc_offsets
from engine.cli.sessions.table import display_width
from engine.core.events import Durable, InputAdmitted, SessionCreated, SessionTitled
from engine.core.ids import CallId, InputId, MessageId, PartId, SessionId
from engine.core.messages import TextPart, UserMessage
from engine.journal.fold import fold
from engine.store.sqlite.store import open_sqlite_store
from engine.store.store_protocols import FullStore
from engine.tools.output.spill import SpillStore
from tests.cli.conftest import Start
from tests.export.atif_format import check_trajectory
from tests.export.histories import journal_of
from tests.store.journals import numbered, session

ONE, TWO, ELSEWHERE = SessionId("ses_aaaa1111bbbb000001"), SessionId("ses_aaaa2222bbbb000001"), SessionId("ses_cc01")
CHILD = SessionId("ses_dd01")
DAY = 86_400


@attrs.frozen
class Said:
    """What a command has said, and its exit code."""

    code: int
    out: str
    err: str


Engine = Callable[..., Said]


@pytest.fixture
def engine_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Engine:
    """Run `engine …` in a folder of its own, in this process, with nothing of the user's."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    for name in ("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    monkeypatch.setenv("ENGINE_STORE", str(tmp_path / "sessions.db"))

    def run(*arguments: str) -> Said:
        code = main(list(arguments))
        captured = capsys.readouterr()
        return Said(code, captured.out, captured.err)

    return run


def keep(*journals: Sequence[Durable]) -> None:
    """Put journals into the store, as engines before have."""

    async def put() -> None:
        store = await open_sqlite_store(os.environ["ENGINE_STORE"])
        for journal in journals:
            for event in journal:
                store.put(event)
        await store.aclose()

    trio.run(put)


def kept(session_id: SessionId) -> list[Durable]:
    async def load() -> list[Durable]:
        store = await open_sqlite_store(os.environ["ENGINE_STORE"])
        try:
            return list(await store.load(session_id))
        finally:
            await store.aclose()

    return trio.run(load)


def here(session_id: SessionId, *turns: tuple[str, str], ago: float = 3600, steps: int = 1) -> list[Durable]:
    return session(session_id, *turns, cwd=str(Path.cwd()), at=time.time() - ago, steps=steps)


@pytest.fixture
def three(engine_here: Engine) -> Engine:
    """Two sessions of this folder, one with a sub-agent, and one of another folder."""
    child = session(CHILD, ("look for it", "found it"), parent=ONE, at=time.time() - 7000)
    first = cast("SessionCreated", child[0])
    child[0] = attrs.evolve(first, parent_call_id=CallId("m1.1.c"), agent="explore")
    keep(
        here(ONE, ("Fix the parser", "I mended the parser."), ago=7200, steps=2),
        child,
        here(TWO, ("Write the docs", "Written.")),
        session(ELSEWHERE, ("In another folder", "Yes."), cwd="/elsewhere", at=time.time() - 10),
    )
    return engine_here


def documents(said: Said) -> list[dict[str, object]]:
    assert said.code == 0, said.err
    return cast("list[dict[str, object]]", json.loads(said.out))


# ---- list, search, show --------------------------------------------------------------------------------------


def test_sessions_of_this_folder_are_listed(three: Engine) -> None:
    lines = three("sessions").out.splitlines()
    assert lines[0].split() == ["id", "when", "title", "messages", "cost"]
    assert [line.split()[0] for line in lines[1:]] == ["aaaa2222", "aaaa1111"]
    assert "Write the docs" in lines[1]
    assert lines[2].endswith("3  $0.75")  # with what its sub-agent has spent, as `engine stats` has it
    assert three("sessions", "list").out == "\n".join(lines) + "\n"


def test_all_sessions_are_listed_with_their_folders(three: Engine) -> None:
    said = three("sessions", "--all")
    assert [line.split()[0] for line in said.out.splitlines()[1:]] == ["cc01", "aaaa2222", "aaaa1111"]
    assert "/elsewhere" in said.out
    assert three("sessions", "list", "--all", "--limit", "1").out.endswith("there are more; --limit 2 shows them\n")


def test_a_list_as_json_has_it_all(three: Engine) -> None:
    rows = documents(three("sessions", "list", "--json"))
    assert [row["id"] for row in rows] == [TWO, ONE]
    row = rows[1]
    assert (row["title"], row["titled_by"], row["status"], row["open"]) == ("Fix the parser", None, "idle", "nobody")
    assert (row["messages"], row["cost"], row["folder"]) == (3, 0.75, str(Path.cwd()))
    assert len(documents(three("sessions", "list", "--json", "--all"))) == 3


def test_empty_session_is_not_stored(engine_here: Engine) -> None:
    assert engine_here("sessions") == Said(0, "no sessions in this folder\n", "")
    assert engine_here("sessions", "--all").out == "no sessions\n"
    assert documents(engine_here("sessions", "list", "--json")) == []
    assert engine_here("sessions", "search", "x").out == "no matches\n"
    assert engine_here("stats").out == "nothing was spent in the last 30 days\n"
    said = engine_here("sessions", "show", "last")
    assert (said.code, said.err.startswith("engine sessions show: there are no sessions so far: ")) == (2, True)
    assert not Path(os.environ["ENGINE_STORE"]).exists()


def test_other_folders_are_hinted_at(engine_here: Engine) -> None:
    keep(session(ELSEWHERE, ("needle", "-"), cwd="/elsewhere"))
    assert "--all lists those of other folders" in engine_here("sessions").out
    assert engine_here("sessions", "search", "needle").out == "no matches in this folder; --all searches all folders\n"


def test_search_finds_messages(three: Engine) -> None:
    said = three("sessions", "search", "mended", "pars")
    assert said.out.splitlines()[1] == "    I mended the parser."
    assert said.out.startswith("aaaa1111  ")
    assert [hit["snippet"] for hit in documents(three("sessions", "search", "--all", "--json", "another"))] == [
        "In another folder"
    ]
    assert three("sessions", "search", "--all", "nowhere").out == "no matches\n"


def test_a_session_is_shown(three: Engine) -> None:
    said = three("sessions", "show", "aaaa1")
    lines = said.out.splitlines()
    assert lines[0] == "Fix the parser"
    assert lines[1].startswith(f"{ONE} · ")
    assert [line for line in lines[2:] if line and not line.startswith("──")] == [
        "Fix the parser",
        "I mended the parser.",
        '  [completed] read {"path":"engine/service.py","offset":100}',
        "I mended the parser.",
    ]
    assert "    read it" in three("sessions", "show", ONE, "--results").out
    document = json.loads(three("sessions", "show", ONE, "--json").out)
    assert [message["message"]["type"] for message in document["messages"]] == [
        "user",
        "assistant",
        "results",
        "assistant",
    ]
    assert three("sessions", "show", CHILD[4:]).out.startswith("look for it\n")


def test_usage_per_request_and_turn(three: Engine) -> None:
    lines = three("sessions", "show", ONE, "--usage").out.splitlines()
    taken = [line.strip() for line in lines if line.startswith("  (")]
    assert taken == [
        *["(180 tokens, 15% of the prompt from the cache, $0.25)"] * 2,
        "(completed: 2 requests, with sub-agents 360 tokens, 15% of the prompt from the cache, $0.50)",
    ]
    document = json.loads(three("sessions", "show", ONE, "--json").out)
    assert [message.get("cost") for message in document["messages"]] == [None, 0.25, None, 0.25]
    assert [message.get("usage", {}).get("output") for message in document["messages"]] == [None, 50, None, 50]
    (turn,) = document["turns"]
    assert (turn["stop_reason"], turn["steps"], turn["cost"]) == ("completed", 2, 0.5)


def test_output_is_escaped_for_the_terminal(engine_here: Engine) -> None:
    hostile = "\x1b[2Jnothing \u202egnp.exe needle"
    keep([*here(ONE, (hostile, hostile)), *numbered([SessionTitled(title=hostile, by="user")], ONE, after=9)])
    for arguments in (
        ["list"],
        ["list", "--all"],
        ["search", "needle"],
        ["show", "last"],
        ["export", "last", "--format", "markdown"],
    ):
        said = engine_here("sessions", *arguments)
        assert said.code == 0, said.err
        assert not set(said.out + said.err) & {"\x1b", "\u202e"}, arguments


# ---- which session is meant ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("zzz", "unknown session 'zzz'\nNext: engine sessions list --all"),
        ("", "unknown session ''"),
        ("ses_", "'ses_' is ambiguous; 4 sessions match: "),
        ("aaaa", f"'aaaa' is ambiguous; 2 sessions match: {ONE}, {TWO}"),
        ("\x1b[2J", "unknown session '\\x1b[2J'"),
    ],
)
def test_unknown_name_is_reported(three: Engine, name: str, complaint: str) -> None:
    said = three("sessions", "show", name)
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith(f"engine sessions show: {complaint}")


def test_exact_id_wins_over_prefix(engine_here: Engine) -> None:
    keep(here(SessionId("ses_1"), ("one", "-")), here(SessionId("ses_12"), ("two", "-")))
    assert engine_here("sessions", "show", "ses_1").out.startswith("one\n")
    assert engine_here("sessions", "show", "2").out.startswith("two\n")


def test_short_ids_are_as_short_as_possible() -> None:
    ids = [SessionId(name) for name in ("other", "ses_aaaa1111bbbb000001", "ses_aaaa1111bbbb000002", "ses_bbbb")]
    assert list(short_ids(ids).values()) == ["other", "aaaa1111bbbb000001", "aaaa1111bbbb000002", "bbbb"]


def test_short_ids_name_their_sessions() -> None:
    ids = [
        SessionId(f"ses_{name}") for name in ("aaaa", "aaaab", "aaaa1111bbbb1", "aaaa1111bbbb2", "bbbb", "last1234567")
    ]
    ids += [SessionId(name) for name in ("aaaa1111bbbb1", "bbbbcccc", "other", "zzzz1111zzzz")]

    @attrs.frozen
    class Ids:
        async def ids(self) -> list[SessionId]:
            await trio.lowlevel.checkpoint()
            return ids

    for session_id, short in short_ids(ids).items():
        found = trio.run(resolve_session_id, cast("FullStore", Ids()), short)
        assert found == session_id, short


def test_wide_characters_take_two_columns() -> None:
    assert [display_width(text) for text in ("abc", "日本", "e\u0301", "")] == [3, 4, 1, 0]


# ---- rename, fork ----------------------------------------------------------------------------------------------


def test_a_session_is_renamed(three: Engine) -> None:
    assert three("sessions", "rename", "last", "The", " docs\n").out == f"{TWO} renamed to The docs\n"
    assert documents(three("sessions", "list", "--json"))[0]["titled_by"] == "user"
    assert (
        three("sessions", "rename", "last", " \n ").err
        == "engine sessions rename: the title is empty\nNext: engine sessions rename SESSION TITLE\n"
    )
    assert three("sessions", "search", "the docs").out.splitlines()[1] == "    title: The docs"


def test_fork_at_a_message_id_suffix(three: Engine) -> None:
    fresh = SessionId(three("sessions", "fork", ONE, "--at", "m1.1").out.splitlines()[0])
    state = fold(kept(fresh))
    assert [message.id for message in state.transcript] == ["u1", "m1.1", "m1.1.results"]
    assert (state.forked_from, state.parent_id, state.context.cwd) == (ONE, None, str(Path.cwd()))
    whole = SessionId(three("sessions", "fork", ONE).out.splitlines()[0])
    assert fold(kept(whole)).transcript == fold(kept(ONE)).transcript
    assert three("sessions", "fork", ONE, "--at", "nope").err == (
        f"engine sessions fork: session {ONE} never had a message 'nope'\nNext: engine sessions show\n"
    )
    assert "is ambiguous" in three("sessions", "fork", ONE, "--at", "1").err


# ---- export, import, share -----------------------------------------------------------------------------------


def test_an_export_comes_back_as_it_was(three: Engine, tmp_path: Path) -> None:
    before = kept(ONE), kept(CHILD)
    said = three("sessions", "export", ONE, "-o", "one.json")
    assert said.out.startswith("one.json: ")
    assert stat.S_IMODE(Path("one.json").stat().st_mode) == 0o600
    assert three("sessions", "delete", ONE, "--yes").out == "1 session deleted, with 1 sub-agent\n"
    assert kept(ONE) == []
    assert three("sessions", "import", "one.json").out.startswith(f"{ONE}\n")
    assert (kept(ONE), kept(CHILD)) == before
    # It is there now: once more it gets another id, and so has its sub-agent.
    again = SessionId(three("sessions", "import", "one.json").out.split()[0])
    assert again != ONE
    state = fold(kept(again))
    assert attrs.evolve(state, session_id=ONE) == fold(before[0])
    assert len(documents(three("sessions", "list", "--json"))) == 3
    moved = SessionId(three("sessions", "import", "one.json", "--cwd", str(tmp_path)).out.split()[0])
    assert fold(kept(moved)).context.cwd == str(tmp_path)


def test_import_reports_settings_of_the_file(engine_here: Engine) -> None:
    said = UserMessage(id=MessageId("m"), parts=(TextPart(id=PartId("p"), text="and \x1b[2Jthen\nsend it away"),))
    waiting = InputAdmitted(input_id=InputId("i"), mode="queue", message=said)
    journal = here(ONE, ("a", "b"))
    keep([*journal, *numbered([waiting], ONE, after=len(journal))])
    engine_here("sessions", "export", ONE, "-o", "one.json")
    lines = engine_here("sessions", "import", "one.json").out.splitlines()
    assert lines[1:3] == [
        f"folder: {Path.cwd()}",
        "queued message, to be sent as yours: and ^[[2Jthen send it away",
    ]


def test_trajectory_is_what_its_readers_accept(three: Engine) -> None:
    check_trajectory(json.loads(three("sessions", "export", ONE, "--format", "atif").out))


def test_export_format_follows_the_file_name(three: Engine) -> None:
    three("sessions", "export", ONE, "-o", "one.md")
    three("sessions", "export", ONE, "-o", "one.html")
    assert Path("one.md").read_text().startswith("---\nformat: engine-conversation/1\ntitle: Fix the parser\n")
    assert Path("one.html").read_text().startswith("<!DOCTYPE html>")
    assert three("sessions", "export", ONE, "--format", "markdown").out == Path("one.md").read_text()
    assert three("sessions", "export", ONE, "-o", "-").out.startswith('{"format":"engine-session"')
    said = three("sessions", "export", ONE, "-o", "one.md")
    assert (said.code, said.err) == (
        2,
        "engine sessions export: one.md exists already\nNext: add --force to overwrite it\n",
    )
    assert three("sessions", "export", ONE, "-o", "one.md", "--force").code == 0
    said = three("sessions", "export", ONE, "-o", "no/one.md")
    assert (said.code, "no/one.md can't be written: No such file" in said.err) == (74, True)
    assert sorted(path.name for path in Path().iterdir()) == ["one.html", "one.md"]


def test_markdown_comes_back_as_a_conversation(three: Engine) -> None:
    three("sessions", "export", ONE, "-o", "one.md")
    fresh = SessionId(three("sessions", "import", "one.md").out.split()[0])
    (row,) = [row for row in documents(three("sessions", "list", "--json")) if row["id"] == fresh]
    assert (row["title"], row["folder"], row["messages"]) == ("Fix the parser", str(Path.cwd()), 2)
    assert "I mended the parser." in three("sessions", "show", fresh).out


def test_a_session_is_shared_as_one_page(three: Engine) -> None:
    said = three("sessions", "share", ONE, "-o", "one.html")
    assert "review it before you share it" in said.err
    page = Path("one.html").read_text()
    assert "found it" in page
    assert "default-src 'none'" in page
    assert three("sessions", "share", ONE).code == 2


def test_trace_writes_one_private_page(three: Engine) -> None:
    done = three("trace", ONE, "--html", "one.html")
    page = Path("one.html").read_text(encoding="utf-8")
    assert (done.code, done.out) == (0, f"one.html: {len(page.encode()):,} bytes\n")
    assert "<title>Fix the parser</title>" in page
    assert stat.S_IMODE(Path("one.html").stat().st_mode) == 0o600, "it holds arguments and results"
    assert three("trace", ONE, "--html", "-").out.startswith("<!DOCTYPE html>")
    again = three("trace", "last", "--html", "one.html")
    assert (again.code, "one.html exists already" in again.err) == (2, True)
    assert three("trace", "last", "--html", "one.html", "--force").code == 0
    assert "Turn 1  " in three("trace", ONE).out
    assert three("trace", ONE, "--html", "-", "--requests").code == 2, "one or the other"
    assert three("trace", "ses_none", "--html", "-").code == 2


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"", "there is no conversation in this Markdown"),
        (b"\xff\xfe\x00", "neither JSON nor Markdown in UTF-8"),
        (b"{", "this is no whole JSON document"),
        (b"[]", "this is no exported session"),
        (b'{"format":"engine-session","version":7,"sessions":[]}', "this is version 7 of an exported session"),
        (b"# Notes\n", "there is no conversation"),
        (b"\x1b[2J{", "there is no conversation"),
    ],
)
def test_invalid_import_changes_nothing(engine_here: Engine, data: bytes, complaint: str) -> None:
    Path("x").write_bytes(data)
    said = engine_here("sessions", "import", "x")
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith(f"engine sessions import: x can't be imported: {complaint}")
    assert not Path(os.environ["ENGINE_STORE"]).exists()


def test_truncated_export_is_not_imported(three: Engine) -> None:
    whole = three("sessions", "export", ONE).out.rstrip()  # it is whole without its last line's end as well
    three("sessions", "delete", ONE, "--yes")
    for size in range(0, len(whole), len(whole) // 40):
        Path("part.json").write_text(whole[:size])
        assert three("sessions", "import", "part.json").code == 2
    assert len(documents(three("sessions", "list", "--all", "--json"))) == 2


def test_unreadable_file_is_reported(engine_here: Engine) -> None:
    assert engine_here("sessions", "import", "nothere").err == (
        "engine sessions import: nothere can't be read: No such file or directory\nNext: choose another file\n"
    )
    assert (
        engine_here("sessions", "import", ".").err
        == "engine sessions import: . is a directory\nNext: name a file in it\n"
    )
    assert engine_here("sessions", "import", "x", "--cwd", "nowhere").err.endswith(
        "Not a directory: nowhere\nNext: choose another --cwd\n"
    )


# ---- delete, prune, repair -----------------------------------------------------------------------------------


def test_missing_terminal_skips_confirmation(three: Engine) -> None:
    said = three("sessions", "delete", ONE)
    assert (said.code, said.err) == (
        1,
        "engine sessions delete: no terminal to ask for confirmation\nNext: engine sessions delete ID --yes\n",
    )
    assert kept(ONE) != []


def test_delete_removes_kept_files(three: Engine) -> None:
    store = SpillStore(None)

    async def spill(tree: str) -> None:
        spills = store.of(tree)
        assert spills is not None
        await spills.keep(b"a long output")

    trio.run(spill, ONE)
    trio.run(spill, TWO)
    files = [path for path in store.directory.glob("*/*") if path.is_file()]
    assert len(files) == 2
    three("sessions", "delete", ONE, "--yes")
    assert sum(path.exists() for path in files) == 1
    three("sessions", "prune", "--older-than", "0h")
    assert [path for path in store.directory.glob("*/*") if path.is_file()] == []


def test_old_sessions_are_pruned(engine_here: Engine) -> None:
    names = [SessionId(f"ses_{number}") for number in range(5)]
    keep(*(here(name, (f"session {name}", "-"), ago=number * 10 * DAY) for number, name in enumerate(names, 1)))
    dry = engine_here("sessions", "prune", "--older-than", "25d", "--dry-run")
    assert dry.out.splitlines() == [
        "ses_2  session ses_2",
        "ses_3  session ses_3",
        "ses_4  session ses_4",
        "3 sessions would be deleted",
    ]
    assert engine_here("sessions", "prune", "--older-than", "3w", "--keep", "4").out == "1 session deleted\n"
    assert engine_here("sessions", "prune", "--older-than", "600h").out == "2 sessions deleted\n"
    assert [row["id"] for row in documents(engine_here("sessions", "list", "--json"))] == ["ses_0", "ses_1"]
    for age in ("", "30", "d", "-1d", "1.5d", "30m", "9999999d"):
        assert engine_here("sessions", "prune", f"--older-than={age}").code == 2
    assert engine_here("sessions", "prune").code == 2


def test_open_session_is_not_deleted(three: Engine) -> None:
    async def hold() -> list[Said]:
        store = await open_sqlite_store(os.environ["ENGINE_STORE"])
        await store.claim(ONE)
        found = [
            await trio.to_thread.run_sync(three, "sessions", *arguments)
            for arguments in (
                ("delete", ONE, "--yes"),
                ("rename", ONE, "x"),
                ("prune", "--older-than", "0h"),
                ("show", ONE),
                ("list",),
            )
        ]
        await store.aclose()
        return found

    deleted, renamed, pruned, shown, listed = trio.run(hold)
    for said in (deleted, renamed):
        assert (said.code, f"session {ONE} is open in another engine (process {os.getpid()} on " in said.err) == (
            11,
            True,
        )
    assert pruned.out == "2 sessions deleted; 1 session kept, because open or just used\n"
    assert shown.code == 0
    assert listed.out.splitlines()[1].endswith("open")


def test_repair_copies_a_damaged_store(three: Engine) -> None:
    store = os.environ["ENGINE_STORE"]
    with sqlite3.connect(store) as connection:
        connection.execute("DELETE FROM events WHERE session_id = ? AND seq = 5", (ONE,))
    connection.close()
    broken = three("sessions", "show", ONE)
    assert (broken.code, "`engine sessions repair`" in broken.err) == (74, True)
    said = three("sessions", "repair")
    assert said.code == 1
    assert said.out.splitlines()[0].startswith(f"{store}.repaired has 4 sessions with ")
    assert f"  {ONE} ends before event 5: event 5 is lost" in said.out
    assert "1 session lost events.\n" in said.out
    assert "later events after the gap could be read and saved separately" in said.out
    assert Path(f"{store}.repaired.beside.jsonl").exists()
    assert len(documents(three("sessions", "list", "--all", "--json", "--store", f"{store}.repaired"))) == 3
    assert "already exists: give the path of a new file\n" in three("sessions", "repair").err
    assert three("sessions", "repair", f"{store}.repaired", "-o", "whole.db").code == 0
    assert (
        three("sessions", "repair", "nothere").err
        == "engine sessions repair: there is no file nothere\nNext: engine doctor\n"
    )
    assert three("sessions", "repair", ":memory:").code == 2
    told = three("sessions", "repair", "postgresql://me:secret@host/db")
    assert (told.code, "secret" in told.err) == (2, False)


def test_invalid_store_is_reported(engine_here: Engine) -> None:
    Path("x").write_text("no database at all, but long enough to be one " * 50)
    said = engine_here("sessions", "--store", "x")
    assert (said.code, "the file is no SQLite database" in said.err) == (2, True)
    assert engine_here("sessions", "list", "--store", "/dev/null/x").code == 74


@pytest.mark.usefixtures("not_root")
def test_store_that_can_not_be_written_is_read(three: Engine, tmp_path: Path) -> None:
    """As on a disk that was mounted read-only after an error; the second time with a log that an engine has left."""
    folder, file = tmp_path / "disk", tmp_path / "disk" / "sessions.db"
    lost = tmp_path / "lost"
    folder.mkdir()
    lost.mkdir()
    Path(os.environ["ENGINE_STORE"]).rename(file)
    store = ("--store", str(file))
    for title in ("Write the docs", "In the log"):
        with closing(sqlite3.connect(file)) as engine:
            if title == "In the log":
                engine.execute("UPDATE sessions SET given_title = ?, title = ? WHERE id = ?", (title, title, TWO))
                engine.commit()
                file.chmod(0o400)
                # Without the file that SQLite needs next to a log, as in a backup.
                for ending in ("", "-wal"):
                    shutil.copyfile(f"{file}{ending}", f"{lost}/sessions.db{ending}")
                lost.chmod(0o500)
            folder.chmod(0o500)
            try:
                assert title in three("sessions", "list", *store).out
                assert "mended the parser" in three("sessions", "search", "mended", *store).out
                assert "Written." in three("sessions", "show", TWO, *store).out
                assert three("sessions", "export", ONE, "-o", "-", *store).code == 0
                assert three("stats", *store).out.startswith("in the last 30 days: 3 sessions")
                assert three("sessions", "prune", "--older-than", "0h", "--dry-run", *store).code == 0
                refused = three("sessions", "rename", TWO, "New", *store)
                assert (refused.code, "is read-only" in refused.err) == (74, True)
            finally:
                folder.chmod(0o700)
    try:
        assert "In the log" in three("sessions", "list", "--store", f"{lost}/sessions.db").out
        assert sorted(path.name for path in lost.iterdir()) == ["sessions.db", "sessions.db-wal"]
    finally:
        lost.chmod(0o700)


# ---- stats -----------------------------------------------------------------------------------------------------


def test_stats_show_spending(three: Engine) -> None:
    said = three("stats")
    assert said.out.startswith("in the last 30 days: 3 sessions, 5 requests, 900 tokens (")
    assert "$1.25" in said.out
    assert "anthropic/claude-sonnet-4-5" in said.out
    assert [row["key"] for row in json.loads(three("stats", "--by", "folder", "--json").out)["folder"]] == [
        str(Path.cwd()),
        "/elsewhere",
    ]
    assert f"{ONE}  Fix the parser" in three("stats", "--by", "session").out
    document = json.loads(three("stats", "--json", "--by", "session").out)
    assert document["total"]["cost"] == 1.25
    assert document["session"][0]["key"] == ONE
    assert sum(row["cost"] for row in document["session"]) == 1.25


def test_stats_respect_the_period(engine_here: Engine) -> None:
    keep(here(ONE, ("old", "-"), ago=40 * DAY), here(TWO, ("new", "-"), ago=60))
    assert engine_here("stats").out.startswith("in the last 30 days: 1 session, 1 request, ")
    assert engine_here("stats", "--all").out.startswith("in total: 2 sessions, 2 requests, ")
    assert engine_here("stats", "--days", "50").out.startswith("in the last 50 days: 2 sessions")
    days = json.loads(engine_here("stats", "--all", "--by", "day", "--json").out)["day"]
    assert [row["key"] for row in days] == [
        time.strftime("%Y-%m-%d", time.localtime(time.time() - ago)) for ago in (40 * DAY, 50)
    ]
    for days in ("0", "-1", "x", "1e9"):
        assert engine_here("stats", f"--days={days}").code == 2


def test_stats_count_deleted_sessions(three: Engine) -> None:
    before = json.loads(three("stats", "--json").out)["total"]
    three("sessions", "delete", ONE, TWO, "--yes")
    after = json.loads(three("stats", "--json").out)["total"]
    assert {**after, "sessions": 3} == before
    assert "(deleted)" in three("stats", "--by", "session").out


def test_the_clock_changes_with_the_season(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        told = utc_offsets(1_700_000_000.0)
    finally:
        monkeypatch.undo()
        time.tzset()
    assert told[-1] == (1_698_541_200.0, 3600)  # 29 October 2023, 01:00 UTC
    assert told[-2] == (1_679_792_400.0, 7200)  # 26 March 2023, 01:00 UTC


# ---- the command -----------------------------------------------------------------------------------------------


def test_the_help_names_every_subcommand(engine_here: Engine) -> None:
    said = engine_here("sessions", "--help")
    for spec in load_spec("sessions").subcommands:
        name = spec.name.partition(" ")[2]
        assert f"  {name} " in said.out
        helped = engine_here("sessions", name, "--help")
        assert (helped.code, f"usage: engine sessions {name} " in helped.out) == (0, True)
    assert "usage: engine stats " in engine_here("stats", "--help").out
    assert (
        engine_here("sessions", "lst").err
        == "engine sessions: unknown subcommand 'lst': did you mean list?\nNext: engine sessions --help\n"
    )
    assert engine_here("sessions", "\x1b").code == 2


# ---- as real processes -----------------------------------------------------------------------------------------


@pytest.mark.os
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_run_to_deletion_at_a_terminal(engine: Start, tmp_path: Path) -> None:
    run = engine("run", "hello")
    assert run.wait() == 0, run.output
    listed = engine("sessions")
    assert listed.wait() == 0
    assert "hello" in listed.output
    shown = engine("sessions", "show", "last")
    assert shown.wait() == 0
    assert "Hello, wörld." in shown.output
    for answer, left in (("n\n", 1), ("y\n", 0)):
        deleting = engine("sessions", "delete", "last", terminal=True)
        deleting.read_until("Delete it permanently? [y/N] ")
        deleting.type(answer)
        assert deleting.wait() == (1 if left else 0)
        listed = engine("sessions", "list", "--json")
        assert listed.wait() == 0
        assert len(json.loads(listed.output)) == left


@pytest.mark.os
@pytest.mark.parametrize("arguments", ["list --all", "search --all asked", "show last", "export last", "stats"])
def test_a_reader_who_leaves_is_no_error(engine_here: Engine, arguments: str) -> None:
    keep(*(here(SessionId(f"ses_{n:03}"), (f"asked {n} {'word ' * 200}", "x" * 1000)) for n in range(40)))
    command = f"{sys.executable} -m engine {'sessions ' if arguments != 'stats' else ''}{arguments} --limit 0"
    command = command if arguments.startswith(("list", "search")) else command.removesuffix(" --limit 0")
    repository = str(Path(__file__).resolve().parents[3])
    result = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command} | head -c 1 >/dev/null"],
        env={**os.environ, "PYTHONPATH": repository},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.os
def test_killed_import_is_atomic(engine_here: Engine) -> None:
    turns = [(f"question {n}", "answer " * 50) for n in range(150)]
    keep(here(ONE, *turns, steps=3), session(CHILD, *turns, parent=ONE))
    whole = kept(ONE), kept(CHILD)
    engine_here("sessions", "export", ONE, "-o", "big.json")
    engine_here("sessions", "delete", ONE, "--yes")
    repository = str(Path(__file__).resolve().parents[3])
    killed = 0
    for number in range(6):
        with subprocess.Popen(
            [sys.executable, "-m", "engine", "sessions", "import", "big.json"],
            env={**os.environ, "PYTHONPATH": repository},
            stdout=subprocess.DEVNULL,
        ) as process:
            try:
                process.wait(0.1 + 0.3 * number)
            except subprocess.TimeoutExpired:
                process.kill()
                killed += 1
        found = kept(ONE), kept(CHILD)
        assert found in (([], []), whole)
        if found == whole:
            engine_here("sessions", "delete", ONE, "--yes")
    assert killed


def test_compacted_and_undone_session_can_be_forked(engine_here: Engine) -> None:
    journal = journal_of(["turn", "turn", "compact", "turn", "undo"])
    moved = [attrs.evolve(event, session_id=ONE, path=(ONE,)) for event in journal]
    keep(moved)
    for at, expected in (("m2.1", ["u2", "m2.1"]), ("m5.1", ["sum4", "u3", "m3.1", "u5", "m5.1"])):
        fresh = SessionId(engine_here("sessions", "fork", ONE, "--at", at).out.splitlines()[0])
        assert [message.id for message in fold(kept(fresh)).transcript] == expected


def test_title_leaves_out_added_files(engine_here: Engine) -> None:
    with_file = ('look at @a.txt\n\n<file path="a.txt">\n1  secret\n</file>', "Seen.")
    keep(here(ONE, with_file), here(TWO, ("review\n\n<stdin>\nsecret\n</stdin>", "Seen.")))
    listed = engine_here("sessions").out
    assert "look at @a.txt" in listed
    assert "review" in listed
    assert "secret" not in listed
