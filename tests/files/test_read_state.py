"""What a session knows of its files: noted, followed through links, bounded."""

import json
import os
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from engine.core.events import SharedContext
from engine.files.read_state import REMEMBERED, digest, hasher, last_read, note_gone, note_read, together

EMPTY = SharedContext(cwd="/")


def test_unread_file_is_unknown() -> None:
    assert last_read(EMPTY, "/a") is None
    assert last_read(note_read("/b", "d")(EMPTY), "/a") is None


def test_the_last_note_counts() -> None:
    context = note_read("/a", "new")(note_read("/b", "other")(note_read("/a", "old")(EMPTY)))
    assert (last_read(context, "/a"), last_read(context, "/b")) == ("new", "other")
    assert last_read(note_gone("/a")(context), "/a") is None
    assert note_gone("/nothing")(EMPTY) == EMPTY


def test_a_file_has_one_real_path(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").touch()
    (tmp_path / "link").symlink_to("folder/file")
    context = note_read(tmp_path / "link", "d")(EMPTY)
    assert last_read(context, str(tmp_path / "folder" / ".." / "folder" / "file")) == "d"
    (tmp_path / "loop").symlink_to("loop")
    assert last_read(note_read(tmp_path / "loop", "d")(EMPTY), tmp_path / "loop") == "d"


def test_names_of_any_bytes_and_what_others_keep() -> None:
    name = os.fsdecode(b"/th\xe9")
    context = together(note_read(name, "d"), note_read("/thé", "e"))(EMPTY.with_value("todo", "[]"))
    assert (last_read(context, name), last_read(context, "/thé"), context.get("todo")) == ("d", "e", "[]")
    assert [name.encode().decode() for name, _ in context.values] == [name for name, _ in context.values]
    assert all(json.loads(value) is not None for _, value in context.values)


def test_the_oldest_is_forgotten() -> None:
    context = EMPTY
    for number in range(REMEMBERED):
        context = note_read(f"/{number}", "d")(context)
    context = note_read("/0", "again")(context)
    context = note_read("/new", "d")(context)
    assert len(context.values) == REMEMBERED
    assert (last_read(context, "/0"), last_read(context, "/1"), last_read(context, "/2")) == ("again", None, "d")


@given(st.lists(st.binary()))
def test_incremental_digest_equals_the_whole(pieces: list[bytes]) -> None:
    partial = hasher()
    for piece in pieces:
        partial.update(piece)
    assert partial.hexdigest() == digest(b"".join(pieces))
