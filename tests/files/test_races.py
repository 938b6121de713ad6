"""What was judged is what is opened, while somebody swaps files and folders for links as quickly as he can."""

import ctypes
import os
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import attrs
import pytest

from engine.core.errors import ToolError
from engine.files.real_folder import RealFolder, Swapped, open_real
from engine.tools.builtin.edit import EDIT, Edit
from engine.tools.builtin.read import READ, Read
from engine.tools.builtin.write import WRITE, Write
from engine.tools.call_values import ToolOutput
from engine.tools.tool_context import ToolContext
from tests.support.reading import having_read

pytestmark = [
    pytest.mark.os,
    pytest.mark.skipif(sys.platform != "linux", reason="exchanges two names at once, which is Linux's alone"),
]

SWAPS = 30_000
_FOLDER = -100
_EXCHANGE = 2
_libc = ctypes.CDLL(None, use_errno=True)


def exchange(one: Path, other: Path) -> None:
    """Let two names change places, at once: there is never nothing."""
    if _libc.renameat2(_FOLDER, os.fsencode(one), _FOLDER, os.fsencode(other), _EXCHANGE) != 0:
        raise OSError(ctypes.get_errno(), "renameat2")


@attrs.frozen
class Place:
    """A project with a folder `dir`, and what lies outside of it; `link` in the project leads there."""

    project: Path
    outside: Path

    def what_is_outside(self) -> dict[str, str]:
        return {path.name: path.read_text() for path in self.outside.iterdir()}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    found = Place(tmp_path, tmp_path.with_name(f"{tmp_path.name}-outside"))
    for folder, text in ((found.project / "dir", "inside\n"), (found.outside, "outside\n")):
        folder.mkdir()
        (folder / "f").write_text(text)
    return found


@contextmanager
def swapping(one: Path, other: Path) -> Generator[threading.Event]:
    """Let another thread exchange two names all the time; the event is set once it has done so often enough."""
    enough, stopped = threading.Event(), threading.Event()

    def swap() -> None:
        count = 0
        while not stopped.is_set():
            exchange(one, other)
            count += 1
            if count == SWAPS:
                enough.set()

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        yield enough
    finally:
        stopped.set()
        thread.join()


def judged(ctx: ToolContext, place: Place, *names: str) -> ToolContext:
    return attrs.evolve(ctx, approved_paths=frozenset(str(place.project / name) for name in names))


async def read(ctx: ToolContext, path: str) -> ToolOutput | None:
    with suppress(ToolError):
        found = await READ.body(Read(path), ctx)
        assert isinstance(found, ToolOutput)
        return found
    return None


@pytest.mark.parametrize("swapped", ["folder", "file"])
async def test_a_read_shows_nothing_from_outside(ctx: ToolContext, place: Place, swapped: str) -> None:
    one, link = (
        (place.project / "dir", place.outside)
        if swapped == "folder"
        else (place.project / "dir/f", place.outside / "f")
    )
    (place.project / "link").symlink_to(link)
    ctx = judged(ctx, place, "dir", "dir/f")
    outcomes = {"read": 0, "refused": 0}
    with swapping(one, place.project / "link") as enough:
        while not enough.is_set() or 0 in outcomes.values():
            found = await read(ctx, "dir/f")
            assert found is None or found.text == "     1\tinside"
            outcomes["refused" if found is None else "read"] += 1


async def test_listed_folder_is_the_judged_one(ctx: ToolContext, place: Place) -> None:
    (place.outside / "secret").write_text("")
    (place.project / "link").symlink_to(place.outside)
    ctx = judged(ctx, place, "dir")
    with swapping(place.project / "dir", place.project / "link") as enough:
        while not enough.is_set():
            found = await read(ctx, "dir")
            assert found is None or found.text == "(dir is a folder)\nf"


async def write(ctx: ToolContext, path: str, content: str) -> ToolOutput | None:
    with suppress(ToolError):
        found = await WRITE.body(Write(path, content), ctx)
        assert isinstance(found, ToolOutput)
        return found
    return None


async def test_new_files_come_into_being_nowhere_outside(ctx: ToolContext, place: Place) -> None:
    (place.project / "link").symlink_to(place.outside)
    outcomes = {"made": 0, "refused": 0}
    number = 0
    with swapping(place.project / "dir", place.project / "link") as enough:
        while not enough.is_set() or 0 in outcomes.values():
            number += 1
            for name in (f"dir/{number}", f"dir/sub{number}/new"):
                made = await write(judged(ctx, place, name), name, "x\n")
                outcomes["refused" if made is None else "made"] += 1
    assert place.what_is_outside() == {"f": "outside\n"}


async def test_a_file_is_replaced_nowhere_outside(ctx: ToolContext, place: Place) -> None:
    (place.project / "link").symlink_to(place.outside / "f")
    ctx = having_read(judged(ctx, place, "dir/f"), "dir/f")
    outcomes = {"made": 0, "refused": 0}
    with swapping(place.project / "dir/f", place.project / "link") as enough:
        while not enough.is_set() or 0 in outcomes.values():
            made = await write(ctx, "dir/f", "inside\n" * (outcomes["made"] % 2 + 1))
            outcomes["refused" if made is None else "made"] += 1
            if made is not None and made.modify is not None:
                ctx = attrs.evolve(ctx, shared=made.modify(ctx.shared))
    assert place.what_is_outside() == {"f": "outside\n"}


async def test_a_link_that_was_changed_after_the_answer(ctx: ToolContext, place: Place) -> None:
    """There may be minutes between the judgement and the call: a person was asked."""
    (place.project / "link").symlink_to("dir")
    ctx = judged(ctx, place, "dir/f")
    assert (await read(ctx, "link/f")) is not None
    (place.project / "link").unlink()
    (place.project / "link").symlink_to(place.outside)
    told = "link/f leads to another file than when it was allowed: a link on its way was changed. Nothing was done."
    for tool, args in ((READ, Read("link/f")), (WRITE, Write("link/f", "x")), (EDIT, Edit("link/f", "outside", "x"))):
        with pytest.raises(ToolError) as raised:
            await tool.body(args, ctx)
        assert str(raised.value) == told
    assert place.what_is_outside() == {"f": "outside\n"}


# ---- opening ---------------------------------------------------------------------------------------------------------


def test_links_are_refused_wherever_they_stand(place: Place) -> None:
    (place.project / "link").symlink_to("dir")
    (place.project / "dir/name").symlink_to("f")
    os.close(open_real(place.project / "dir/f", os.O_RDONLY))
    for path in ("link", "link/f", "dir/name"):
        with pytest.raises(Swapped, match="has been replaced by a symbolic link"):
            open_real(place.project / path, os.O_RDONLY)
    for path, error in {"dir/f/x": NotADirectoryError, "nothing/x": FileNotFoundError, "x": FileNotFoundError}.items():
        with pytest.raises(error):
            open_real(place.project / path, os.O_RDONLY)
    root = open_real("/", os.O_RDONLY)
    assert os.path.samestat(os.fstat(root), Path("/").stat())
    os.close(root)


def test_folders_are_made_and_removed_again(place: Place) -> None:
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    folder = RealFolder.above(place.project / "a/b/c/f", make=True)
    assert (place.project / "a/b/c").is_dir()
    (place.project / "a/kept").write_text("")
    folder.remove_made()
    folder.close()
    assert [path.name for path in (place.project / "a").iterdir()] == ["kept"]
    with pytest.raises(NotADirectoryError):
        RealFolder.above(place.project / "new/../dir/f/x/y", make=True)
    assert len(list(Path("/proc/self/fd").iterdir())) == descriptors, "none is left open"
