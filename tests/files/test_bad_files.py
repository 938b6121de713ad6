"""Bad input, tool by tool, as one table: whatever is wrong with a file, the answer is clear and nothing is lost."""

import json
import os
import stat
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest
import trio

from engine.core.errors import ToolError
from engine.core.messages import Settlement
from engine.files.text_files import MAX_TEXT_BYTES
from engine.tools.builtin.builtin_tools import builtin_tools
from engine.tools.call_values import ToolOutput
from engine.tools.registry import Registry
from engine.tools.tool_context import ToolContext
from tests.support.needs import need_in
from tests.support.reading import having_read

TOOLS: Final = Registry.of(builtin_tools({}))


pytestmark = pytest.mark.os


def patch(path: str) -> str:
    return f"*** Begin Patch\n*** Update File: {path}\n@@\n-a\n+b\n*** End Patch"


# What each tool is asked to do with the file or folder at a path.
ARGUMENTS: Final[Mapping[str, Callable[[str], dict[str, object]]]] = {
    "read": lambda path: {"path": path},
    "write": lambda path: {"path": path, "content": "b\n"},
    "edit": lambda path: {"path": path, "old_string": "a", "new_string": "b"},
    "multi_edit": lambda path: {"path": path, "edits": [{"old_string": "a", "new_string": "b"}]},
    "apply_patch": lambda path: {"patch": patch(path)},
    "list": lambda path: {"path": path},
    "glob": lambda path: {"path": path, "pattern": "*"},
    "grep": lambda path: {"path": path, "pattern": "a"},
}


EDITORS: Final = ("write", "edit", "multi_edit", "apply_patch")
FOLDERS_ONLY: Final = ("list", "glob")


def make(folder: Path) -> None:
    """Put what is wrong into *folder*."""
    (folder / "plain.txt").write_text("a\n")
    (folder / "folder").mkdir()
    (folder / "binary").write_bytes(b"a\0b")
    (folder / "utf-16").write_bytes("a\n".encode("utf-16"))
    (folder / "latin").write_bytes(b"na\xefve a\n")
    (folder / "loop").symlink_to("loop")
    (folder / "dangling").symlink_to("nowhere/at/all")
    os.mkfifo(folder / "pipe")
    (folder / "locked").write_text("a\n")
    (folder / "locked").chmod(0)
    (folder / "closed").mkdir()
    (folder / "closed/inner").write_text("a\n")
    (folder / "closed").chmod(0)


MISSING: Final = "plainn.txt does not exist. Did you mean plain.txt, in the same folder?"
NO_FOLDER: Final = "no/where.txt does not exist. Not even its folder does: the nearest one is "
NOWHERE: Final = "dangling does not exist. It is a link that leads to nowhere/at/all, where nothing is."
A_FOLDER: Final = "folder is a folder. Use the list tool to see what is in it."
A_FILE: Final = "is no folder. If it is a text file, use the read tool to see what is in it."
PART: Final = "plain.txt/inner: a part of this path is a file, not a folder."
HUGE: Final = "huge has 20,000,002 bytes; the limit of this tool is 20,000,000. Use bash."
LATIN: Final = "latin is not UTF-8 (byte 2), so this tool would damage it."
PIPE: Final = "pipe is no regular file but a pipe, a socket or a device."


def all_of(text: str, **others: str) -> dict[str, str]:
    """Return an answer for each tool: the same error, but for some."""
    return {tool: others.get(tool, f"error: {text}") for tool in ARGUMENTS}


def editors(text: str, **others: str) -> dict[str, str]:
    """Return the same for the tools that change files, and for the others what they say."""
    return {**dict.fromkeys(EDITORS, f"error: {text}"), **others}


# What is wrong: the path, and how each tool's answer begins.
TABLE: Final[Mapping[str, tuple[str, Mapping[str, str]]]] = {
    "missing": ("plainn.txt", all_of(MISSING, write="Created plainn.txt (1 line).")),
    "missing folder": ("no/where.txt", all_of(NO_FOLDER, write="Created no/where.txt (1 line).")),
    "link to nowhere": (
        "dangling",
        all_of(NOWHERE, write="Created dangling (1 line).")
        | dict.fromkeys(
            ("edit", "multi_edit", "apply_patch"), "error: dangling does not exist. Not even its folder does"
        ),
    ),
    "folder": (
        "folder",
        editors(
            A_FOLDER,
            read="(folder is an empty folder)",
            list="(folder is empty)",
            glob="No file matches *",
            grep="Nothing matches",
        ),
    ),
    "file in place of a folder": ("plain.txt/inner", all_of(PART)),
    "huge": (
        "huge",
        editors(HUGE, read="     1\ta\n", grep="huge\n1: a\n", **dict.fromkeys(FOLDERS_ONLY, f"error: huge {A_FILE}")),
    ),
    "binary": (
        "binary",
        editors(
            "binary is a binary file.",
            **dict.fromkeys(("read", "grep"), "error: binary is a binary file of 3 bytes."),
            **dict.fromkeys(FOLDERS_ONLY, f"error: binary {A_FILE}"),
        ),
    ),
    "UTF-16": (
        "utf-16",
        editors(
            "utf-16 is a text in UTF-16, which this tool would damage. Convert it: iconv -t UTF-8.",
            read="error: utf-16 is a text in UTF-16, which this tool does not read.",
            grep="utf-16\n1: a",
            **dict.fromkeys(FOLDERS_ONLY, f"error: utf-16 {A_FILE}"),
        ),
    ),
    "not UTF-8": (
        "latin",
        editors(
            LATIN,
            read="     1\tna\ufffdve a\n(what is no UTF-8 text in it is shown as \ufffd)",
            grep="latin\n1: na\ufffdve a",
            **dict.fromkeys(FOLDERS_ONLY, f"error: latin {A_FILE}"),
        ),
    ),
    "loop of links": ("loop", all_of("loop: Too many levels of symbolic links.")),
    "pipe": ("pipe", all_of(PIPE, **dict.fromkeys(FOLDERS_ONLY, f"error: pipe {A_FILE}"))),
    "no right": (
        "locked",
        all_of("locked: permission denied.", **dict.fromkeys(FOLDERS_ONLY, f"error: locked {A_FILE}")),
    ),
    "no right to its folder": ("closed/inner", all_of("closed/inner: permission denied.")),
    "no path": ("a\0b", all_of("'a\\x00b' is no path: no file can have that name.")),
    "empty path": (
        "",
        all_of("The path is empty.", apply_patch="error: Line 2 of the patch can't be read: the path is missing"),
    ),
    "of nobody": ("~nobody-of-that-name/x", all_of("~nobody-of-that-name/x does not exist.", write="Created ~nobody")),
}


async def answer(tool: str, arguments: dict[str, object], ctx: ToolContext) -> str:
    """Return what the model reads of a call."""
    prepared = TOOLS.prepare(tool, json.dumps(arguments))
    assert not isinstance(prepared, Settlement), prepared
    try:
        output = await prepared.tool.body(prepared.arguments, ctx)
    except ToolError as error:
        return f"error: {error}"
    return output.text if isinstance(output, ToolOutput) else output


def content(folder: Path) -> dict[str, object]:
    """Return all that is in *folder*, link by link and byte by byte, as far as it can be told."""
    found: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        state = path.lstat()
        is_file = stat.S_ISREG(state.st_mode) and state.st_mode & 0o400
        found[str(path.relative_to(folder))] = (state.st_mode, path.read_bytes() if is_file else state.st_size)
    return found


@pytest.mark.usefixtures("not_root")
@pytest.mark.parametrize("tool", ARGUMENTS)
@pytest.mark.parametrize("wrong", TABLE)
async def test_errors_are_reported_and_nothing_is_lost(ctx: ToolContext, tmp_path: Path, wrong: str, tool: str) -> None:
    make(tmp_path)
    if wrong == "huge":
        (tmp_path / "huge").write_bytes(b"a\n" * (MAX_TEXT_BYTES // 2 + 1))
    path, answers = TABLE[wrong]
    before = content(tmp_path)
    with trio.fail_after(30):
        told = await answer(tool, ARGUMENTS[tool](path), ctx)
    assert told.startswith(answers[tool])
    after = content(tmp_path)
    if told.startswith("Created"):
        after = {name: there for name, there in after.items() if name in before}
    assert after == before


# -- what a session knows, and what others do meanwhile ------------------------------------------------


@pytest.mark.parametrize("tool", EDITORS)
async def test_a_file_that_was_never_read(ctx: ToolContext, tmp_path: Path, tool: str) -> None:
    make(tmp_path)
    before = content(tmp_path)
    told = await answer(tool, ARGUMENTS[tool]("plain.txt"), ctx)
    assert told.startswith("error: plain.txt exists, but has not been read in this session.")
    assert content(tmp_path) == before


@pytest.mark.parametrize("tool", EDITORS)
async def test_another_writer_between_the_reading_and_the_change(ctx: ToolContext, tmp_path: Path, tool: str) -> None:
    (tmp_path / "plain.txt").write_text("a\n")
    reader = having_read(ctx, "plain.txt")
    (tmp_path / "plain.txt").write_text("a\ntheirs\n")
    told = await answer(tool, ARGUMENTS[tool]("plain.txt"), reader)
    assert told.startswith("error: plain.txt has changed since it was last read.")
    assert content(tmp_path).keys() == {"plain.txt"}
    assert (tmp_path / "plain.txt").read_text() == "a\ntheirs\n"


@pytest.mark.parametrize("tool", EDITORS)
async def test_concurrent_changes_are_serialised(ctx: ToolContext, tmp_path: Path, tool: str) -> None:
    """The later one sees that the file is not as it was read, and says so."""
    (tmp_path / "plain.txt").write_text("a\n")
    reader = having_read(ctx, "plain.txt")
    told: list[str] = []

    async def change() -> None:
        told.append(await answer(tool, ARGUMENTS[tool]("plain.txt"), reader))

    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(change)
    # To write what is there already is no change that could be lost.
    assert sum(text.startswith("error: plain.txt has changed since it was last read.") for text in told) == 4
    assert (tmp_path / "plain.txt").read_text() == "b\n"


@pytest.mark.parametrize("tool", ["read", "grep", "list", "glob"])
async def test_looking_while_files_come_and_go(ctx: ToolContext, tmp_path: Path, tool: str) -> None:
    (tmp_path / "plain.txt").write_text("a\n")
    stop = threading.Event()

    def come_and_go() -> None:
        while not stop.is_set():
            for n in range(20):
                (tmp_path / f"f{n}").write_text("b\n" * n)
            for n in range(20):
                (tmp_path / f"f{n}").unlink()

    writer = threading.Thread(target=come_and_go)
    writer.start()
    try:
        for _ in range(5):
            told = await answer(tool, ARGUMENTS[tool]("."), ctx)
            assert "plain.txt" in told
            assert "error" not in told
    finally:
        stop.set()
        writer.join()


@pytest.mark.parametrize("tool", ARGUMENTS)
async def test_outside_the_project_the_whole_path_counts(ctx: ToolContext, tmp_path: Path, tool: str) -> None:
    """What may be done there is for the rules to say, and they must know where it is."""
    outside = tmp_path.with_name(f"{tmp_path.name}-outside")
    outside.mkdir()
    (outside / "plain.txt").write_text("a\n")
    (tmp_path / "link").symlink_to(outside)
    name = "" if tool in FOLDERS_ONLY else "/plain.txt"
    for path in (f"../{outside.name}{name}", f"{outside}{name}", f"link{name}"):
        prepared = TOOLS.prepare(tool, json.dumps(ARGUMENTS[tool](path)))
        assert not isinstance(prepared, Settlement)
        need = await need_in(ctx, prepared.tool, prepared.arguments)
        assert f"{outside}{name}" in need.patterns


# -- a full disk -----------------------------------------------------------------------------------------


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 64 KiB with a file that just fits."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("may not mount a disk")
    try:
        (disk / "plain.txt").write_text("a\n" + "x" * 40_000)
        yield disk
    finally:
        subprocess.run(["umount", disk], check=True)


@pytest.mark.parametrize("tool", EDITORS)
async def test_a_full_disk(ctx: ToolContext, full_disk: Path, tool: str) -> None:
    reader = having_read(ctx, "disk/plain.txt")
    before = content(full_disk)
    arguments = ARGUMENTS[tool]("disk/plain.txt")
    if tool == "write":
        arguments["content"] = "b" * 40_000
    told = await answer(tool, arguments, reader)
    assert told.startswith("error: disk/plain.txt: No space left on device.")
    assert content(full_disk) == before


# -- wrong arguments -----------------------------------------------------------------------------------

# For each tool: what the model writes, and what the answer names.
WRONG: Final[Mapping[str, Sequence[tuple[str, str]]]] = {
    "read": (("{}", "path"), ('{"path": 1.5}', "path"), ('{"path": "a", "offset": 0}', "offset")),
    "write": (("{}", "path"), ('{"path": "a"}', "content"), ('{"path": "a", "content": {}}', "content")),
    "edit": (
        ('{"path": "a", "old_string": "b"}', "new_string"),
        ('{"path": "a", "old": "b", "new_string": "c"}', "old_string"),
        ('{"path": "a", "old_string": "b", "new_string": "c", "replace_all": "maybe"}', "replace_all"),
    ),
    "multi_edit": (
        ('{"path": "a"}', "edits"),
        ('{"path": "a", "edits": []}', "edits"),
        ('{"path": "a", "edits": [{"old_string": "b"}]}', "edits[0].new_string"),
    ),
    "apply_patch": (("{}", "patch"), ('{"patch": ["a", 1]}', "patch"), ('{"input": "a"}', "patch")),
    "list": (('{"path": {}}', "path"), ('{"depth": 0}', "depth"), ('{"depth": "deep"}', "depth")),
    "glob": (("{}", "pattern"), ('{"pattern": ""}', "pattern"), ('{"pattern": "*", "limit": 0}', "limit")),
    "grep": (
        ("{}", "pattern"),
        ('{"pattern": "a", "output": "all"}', "output"),
        ('{"pattern": "a", "context": -1}', "context"),
    ),
    "bash": (("{}", "command"), ('{"command": ""}', "command"), ('{"command": "a", "timeout": -1}', "timeout")),
    "bash_output": (('{"name": {}}', "name"), ('{"name": "a", "limit": 0}', "limit")),
    "bash_stop": (("{}", "name"), ('{"name": {}}', "name")),
    "web_fetch": (("{}", "url"), ('{"url": 7.5}', "url"), ('{"url": "http://x/", "timeout": 0}', "timeout")),
    "todo_write": (("{}", "todos"), ('{"todos": [{}]}', "todos[0]"), ('{"todos": 1}', "todos")),
    "todo_read": (('{"a": 1}', "a"),),
    "context": (('{"a": 1}', "a"),),
    "question": (("{}", "questions"), ('{"questions": [{}]}', "questions[0]")),
    "plan_exit": (("{}", "plan"),),
}


@pytest.mark.parametrize("tool", TOOLS.names)
def test_wrong_arguments_are_named_and_nothing_runs(tool: str) -> None:
    for text, named in (*WRONG[tool], ("[]", "object"), ('{"path": "a', "valid JSON"), ("nothing", "JSON")):
        settled = TOOLS.prepare(tool, text)
        assert isinstance(settled, Settlement), text
        assert settled.status == "error"
        assert tool in settled.text
        assert named in settled.text
        assert len(settled.text) < 1_500
