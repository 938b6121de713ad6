"""`grep`: what the model reads of a search. Asks a real ripgrep."""

# ruff: noqa: ASYNC240 -- the files are small

import itertools
import json
import os
import re
import shutil
import threading
import time
import tracemalloc
from itertools import pairwise
from pathlib import Path

import pytest
import trio

from engine.core.arguments import parse
from engine.core.errors import InvalidArguments, ToolError
from engine.process.kill_tree import find_marked
from engine.tools.builtin.grep import GREP, grep
from engine.tools.call_values import Need, ToolOutput
from engine.tools.search.content_search import search_contents
from engine.tools.search.ripgrep import MAX_COLUMNS
from engine.tools.search.search_arguments import MAX_BYTES, MAX_LIMIT, MAX_LINE_CHARS, Grep
from engine.tools.shell_environment import marker
from engine.tools.tool_context import ToolContext
from tests.support.searched import RIPGREP, Link, make

pytestmark = pytest.mark.os


async def run(ctx: ToolContext, arguments: str, seconds: float = 30, *, ripgrep: str = RIPGREP) -> ToolOutput:
    with trio.fail_after(60):
        return await search_contents(ripgrep, parse(Grep, arguments), ctx, timeout=seconds)


TREE = {
    "src": {"a.py": "import os\nfoo = 1\nbar = foo\n", "b.ts": "foo\n", "deep": {"c.py": "x\nfoo()\n"}},
    "docs.md": "about foo\r\nand Foo\r\n",
    ".gitignore": "build/\n*.log\n!keep.log\n",
    "build": {"out.py": "foo\n"},
    "x.log": "foo\n",
    "keep.log": "foo\n",
    ".hidden": "foo\n",
    ".git": {"config": "foo\n"},
    "binary": b"foo\n\0",
    "link.py": Link("src/a.py"),
    "loop": Link("."),
    "latin": b"th\xe9 foo\n",
}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            '{"pattern": "foo"}',
            ".hidden\n1: foo\n\ndocs.md\n1: about foo\n\nkeep.log\n1: foo\n\nlatin\n1: th� foo\n\nsrc/a.py\n2: foo = 1\n"
            "3: bar = foo\n\nsrc/b.ts\n1: foo\n\nsrc/deep/c.py\n2: foo()",
        ),
        (
            '{"pattern": "foo", "path": "src"}',
            "src/a.py\n2: foo = 1\n3: bar = foo\n\nsrc/b.ts\n1: foo\n\nsrc/deep/c.py\n2: foo()",
        ),
        ('{"pattern": "foo", "path": "src/a.py"}', "src/a.py\n2: foo = 1\n3: bar = foo"),
        ('{"pattern": "foo", "path": "link.py"}', "link.py\n2: foo = 1\n3: bar = foo"),
        ('{"pattern": "foo", "path": "build"}', "build/out.py\n1: foo"),
        ('{"pattern": "foo", "path": "x.log"}', "x.log\n1: foo"),
        ('{"pattern": "foo", "path": ".git"}', ".git/config\n1: foo"),
        ('{"pattern": "foo", "path": "loop", "glob": "*.ts"}', "loop/src/b.ts\n1: foo"),
        ('{"pattern": "foo", "glob": "*.py"}', "src/a.py\n2: foo = 1\n3: bar = foo\n\nsrc/deep/c.py\n2: foo()"),
        ('{"pattern": "foo", "glob": "src/*.py"}', "src/a.py\n2: foo = 1\n3: bar = foo"),
        ('{"pattern": "foo", "glob": "src/**/c.*"}', "src/deep/c.py\n2: foo()"),
        ('{"pattern": "foo", "glob": "*.{ts,md}"}', "docs.md\n1: about foo\n\nsrc/b.ts\n1: foo"),
        ('{"pattern": "foo", "glob": "build/*"}', "build/out.py\n1: foo"),
        ('{"pattern": "foo", "glob": "[ac].py"}', "src/a.py\n2: foo = 1\n3: bar = foo\n\nsrc/deep/c.py\n2: foo()"),
        ('{"pattern": "foo", "type": "typescript"}', "src/b.ts\n1: foo"),
        ('{"pattern": "foo", "type": "py", "glob": "c*"}', "src/deep/c.py\n2: foo()"),
        ('{"pattern": "foo", "type": "ts", "path": "src", "include_ignored": true}', "src/b.ts\n1: foo"),
        ('{"pattern": "foo", "glob": "*.log", "include_ignored": true}', "keep.log\n1: foo\n\nx.log\n1: foo"),
        ('{"pattern": "foo", "type": "py", "output": "files"}', "src/a.py\nsrc/deep/c.py"),
        ('{"pattern": "foo", "type": "py", "output": "count"}', "src/a.py: 2\nsrc/deep/c.py: 1\n(3 lines in 2 files)"),
        ('{"pattern": "FOO", "type": "md", "ignore_case": true}', "docs.md\n1: about foo\n2: and Foo"),
        ('{"pattern": "foo$", "type": "md"}', "docs.md\n1: about foo"),
        ('{"pattern": "foo()", "literal": true}', "src/deep/c.py\n2: foo()"),
        ('{"pattern": "th. ", "literal": true}', "Nothing matches (what ignore files exclude was not searched)."),
        ('{"pattern": "bar", "before": 1}', "src/a.py\n2- foo = 1\n3: bar = foo"),
        ('{"pattern": "import", "after": 1}', "src/a.py\n1: import os\n2- foo = 1"),
        (
            '{"pattern": "foo = |about", "context": 1}',
            "docs.md\n1: about foo\n2- and Foo\n\nsrc/a.py\n1- import os\n2: foo = 1\n3- bar = foo",
        ),
        ('{"pattern": "os\\nfoo", "multiline": true}', "src/a.py\n1: import os\n2: foo = 1"),
        ('{"pattern": "os.foo", "multiline": true, "output": "count"}', "src/a.py: 2\n(2 lines in 1 file)"),
        ('{"pattern": "os.foo", "multiline": true, "output": "files"}', "src/a.py"),
        ('{"pattern": "nope"}', "Nothing matches (what ignore files exclude was not searched)."),
        ('{"pattern": "nope", "include_ignored": true}', "Nothing matches."),
        ('{"pattern": "nope", "path": "src/a.py"}', "Nothing matches."),
    ],
)
async def test_matching_files(ctx: ToolContext, tmp_path: Path, arguments: str, expected: str) -> None:
    make(tmp_path, TREE)
    output = await run(ctx, arguments)
    assert output.text == expected
    assert not output.failed


async def test_paths_outside_are_shown_as_a_whole(ctx: ToolContext, tmp_path: Path) -> None:
    outside = tmp_path.with_name(f"{tmp_path.name}-outside")
    make(outside, {"a.py": "foo\n"})
    for path in (str(outside), f"../{outside.name}", f"{outside}/a.py"):
        assert (await run(ctx, json.dumps({"pattern": "foo", "path": path}))).text == f"{outside}/a.py\n1: foo"
    assert (await run(ctx, json.dumps({"pattern": "foo", "glob": f"{outside}/*.py"}))).text == f"{outside}/a.py\n1: foo"


async def test_odd_names_can_be_read(ctx: ToolContext, tmp_path: Path) -> None:
    make(tmp_path, {"two\nlines": "foo\n", "-rf": "foo\n", "a:1:foo": "foo\n"})
    (Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))).write_text("foo\n")
    output = await run(ctx, '{"pattern": "foo"}')
    assert output.text == "-rf\n1: foo\n\na:1:foo\n1: foo\n\ntwo\\nlines\n1: foo\n\n�\n1: foo"
    assert (await run(ctx, '{"pattern": "foo", "path": "-rf"}')).text == "-rf\n1: foo"


# -- limits ----------------------------------------------------------------------------------------------------------


def pages(text: str) -> list[str]:
    return re.findall(r"^\d+: .*", text, re.MULTILINE)


@pytest.mark.parametrize("held", [0, 1 << 23])
async def test_pages_follow_one_another(ctx: ToolContext, tmp_path: Path, held: int) -> None:
    """Whether all was held and sorted, or it was too much and came in order."""
    make(tmp_path, {f"{name}.txt": "".join(f"{name}{n}\n" for n in range(7)) for name in "zyxwvu"})
    whole = pages((await run(ctx, '{"pattern": "[0-9]"}')).text)
    assert len(whole) == 42
    seen: list[str] = []
    for offset in (0, 10, 20, 30, 40):
        output = await search_contents(
            RIPGREP,
            parse(Grep, json.dumps({"pattern": "[0-9]", "limit": 10, "offset": offset})),
            ctx,
            timeout=30,
            held=held,
        )
        seen += pages(output.text)
        note = output.text.rsplit("\n", 1)[-1]
        if offset < 40:
            of_all = " of 42" if held else ""
            first = f", from number {offset + 1} on" if offset else ""
            assert note == (
                f"(10{of_all} matching lines are shown{first}. There are more: set offset={offset + 10}, or search for less)"
            )
        assert json.loads(output.metadata)["matches"] == (42 if held or offset == 40 else None)
    assert seen == whole


async def test_an_offset_behind_the_end(ctx: ToolContext, tmp_path: Path) -> None:
    make(tmp_path, {"a": "foo\nfoo\n"})
    with pytest.raises(ToolError) as raised:
        await run(ctx, '{"pattern": "foo", "offset": 2}')
    assert str(raised.value) == "There are only 2 matches; offset=2 is behind the last one."


async def test_result_is_bounded_and_paged(ctx: ToolContext, tmp_path: Path) -> None:
    make(tmp_path, {f"{n:03}": f"{n:03}{'é' * 400}\n" for n in range(200)})
    seen: list[str] = []
    offset = 0
    while True:
        output = await run(ctx, json.dumps({"pattern": "é", "limit": MAX_LIMIT, "offset": offset}))
        assert len(output.text.encode()) <= MAX_BYTES + 200
        assert output.is_cut
        seen += pages(output.text)
        match = re.search(r"set offset=(\d+)", output.text)
        if match is None:
            break
        offset = int(match[1])
    assert seen == [f"1: {n:03}{'é' * 400}" for n in range(200)]


@pytest.mark.parametrize("match", ["foo", "foo" + "é" * 490])
async def test_match_is_shown_without_room_for_context(ctx: ToolContext, tmp_path: Path, match: str) -> None:
    make(tmp_path, {"a": f"{'é' * 499}\n" * 50 + f"{match}\n" + f"{'é' * 499}\n" * 50})
    text = (await run(ctx, '{"pattern": "foo", "context": 50}')).text
    assert text.endswith(f"\n--\n51: {match}\n(Not all of the context is shown.)")
    assert len(text.encode()) <= MAX_BYTES + 1_000


async def test_long_lines_are_cut_around_the_match(ctx: ToolContext, tmp_path: Path) -> None:
    make(
        tmp_path,
        {
            "a-head": "foo" + "x" * MAX_LINE_CHARS + "\n",
            "b-exact": "x" * (MAX_LINE_CHARS - 3) + "foo\n",
            "c-within": "y" * (MAX_COLUMNS - 3) + "foo\n",
            "d-far": "first\n" + "é" * 100_000 + "foo" + "z" * 100_000 + "\nnext\n",
            "e-end": "y" * 1_000_000 + "foo",
            "f-utf16": ("y" * 10_000 + "foo\n").encode("utf-16"),
            "g-context": "foo\n" + "é" * 10_000 + "\n",
        },
    )
    lines = (await run(ctx, '{"pattern": "foo", "after": 1}')).text.split("\n")
    shown = {name: line for name, line in pairwise(lines) if "-" in name[:2]}
    assert shown["a-head"] == f"1: foo{'x' * (MAX_LINE_CHARS - 3)} [...]"
    assert shown["b-exact"] == f"1: {'x' * (MAX_LINE_CHARS - 3)}foo"
    assert shown["c-within"] == f"1: [...] {'y' * 120}foo"
    assert shown["d-far"] == f"2: [...] {'é' * 60}foo{'z' * (MAX_LINE_CHARS - 63)} [...]"
    assert shown["e-end"] == f"1: [...] {'y' * 120}foo"
    assert shown["f-utf16"] == f"1: {'y' * MAX_LINE_CHARS} [...]"
    assert lines[-1] == f"2- {'é' * MAX_LINE_CHARS} [...]"


async def test_memory_is_independent_of_matches(ctx: ToolContext, tmp_path: Path) -> None:
    line = b"foo" + b"x" * 97 + b"\n"
    with (tmp_path / "huge").open("wb") as file:
        for _ in range(30):
            file.write(line * 10_000)
    await run(ctx, '{"pattern": "foo", "limit": 1}')
    tracemalloc.start()
    try:
        for arguments in (
            '{"pattern": "foo"}',
            '{"pattern": "foo.*?foo", "multiline": true}',
            '{"pattern": "foo", "output": "count"}',
        ):
            text = (await run(ctx, arguments)).text
            assert "There are more" in text or "300,000 lines in 1 file" in text
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 32_000_000


async def test_a_program_that_never_stops_is_stopped(ctx: ToolContext, tmp_path: Path) -> None:
    """What it finds comes in no order, so it is asked again, for the first ones."""
    make(
        tmp_path,
        {
            "a": "",
            "rg": '#!/bin/sh\ncase "$*" in *--sort=path*) a=sorted;; *) a=any;; esac\nn=0\n'
            "while :; do n=$((n+1)); printf './a\\0%d\\0371\\0370\\037foo %s\\n' $n $a; done\n",
        },
    )
    (tmp_path / "rg").chmod(0o755)
    output = await search_contents(
        str(tmp_path / "rg"), parse(Grep, '{"pattern": "foo", "limit": 2}'), ctx, timeout=30, held=100_000
    )
    assert (
        output.text
        == "a\n1: foo sorted\n2: foo sorted\n(2 matching lines are shown. There are more: set offset=2, or search for less)"
    )
    assert_nothing_left(ctx)


# -- time, and cancelling --------------------------------------------------------------------------------------------


def assert_nothing_left(ctx: ToolContext) -> None:
    assert find_marked(marker(ctx.session_id, ctx.call_id).__eq__) == []


def hang(folder: Path) -> None:
    """Make a search hang for ever: ripgrep reads a pipe that nobody writes to."""
    make(folder, {"a": "foo\n", "z": {"b": "foo\n"}})
    os.mkfifo(folder / "z" / ".gitignore")


async def test_partial_results_after_the_time_limit(ctx: ToolContext, tmp_path: Path) -> None:
    hang(tmp_path)
    make(tmp_path, {f"b{n:05}": "foo bar\n" * 20 for n in range(1_000)})
    began = time.monotonic()
    output = await run(ctx, '{"pattern": "foo"}', 1.5)
    assert time.monotonic() - began < 30
    assert output.failed
    assert "(The search was ended after 1.5 s; " in output.text
    assert json.loads(output.metadata)["timed_out"] is True
    assert_nothing_left(ctx)


async def test_a_cancel_ends_the_program(ctx: ToolContext, tmp_path: Path) -> None:
    hang(tmp_path)
    with trio.move_on_after(1) as scope:
        await run(ctx, '{"pattern": "foo"}')
    assert scope.cancelled_caught
    assert trio.current_time() - scope.deadline < 30
    assert_nothing_left(ctx)


# -- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ('{"pattern": "foo", "path": ""}', "The path is empty."),
        ('{"pattern": "foo", "path": "srk"}', "srk does not exist. Did you mean src, in the same folder?"),
        ('{"pattern": "foo", "path": "src/a.py/x"}', "src/a.py/x: a part of this path is a file, not a folder."),
        ('{"pattern": "foo", "path": "binary"}', "binary is a binary file of 5 bytes."),
        ('{"pattern": "foo", "path": "pipe"}', "pipe is no regular file but a pipe, a socket or a device."),
        ('{"pattern": "foo", "path": "/dev/zero"}', "/dev/zero is no regular file but a pipe, a socket or a device."),
        ('{"pattern": "foo", "path": "self"}', "self: Too many levels of symbolic links."),
        (
            '{"pattern": "foo", "path": "nowhere"}',
            "nowhere does not exist. It is a link that leads to gone, where nothing is.",
        ),
        ('{"pattern": "foo", "path": "a\\u0000b"}', "'a\\x00b' is no path: no file can have that name."),
        ('{"pattern": "foo", "path": "\\ud800"}', "'\\ud800' is no path: no file can have that name."),
        ('{"pattern": "foo", "glob": "{a"}', "The pattern {a makes no sense: there is a { without a } after it."),
        ('{"pattern": "foo", "glob": "*/../x"}', "*/../x: after a wildcard there can be no '..'."),
        ('{"pattern": "foo", "glob": "srk/*.py"}', "srk does not exist. Did you mean src, in the same folder?"),
        (
            '{"pattern": "foo", "glob": "docs.md/*"}',
            "docs.md is no folder. If it is a text file, use the read tool to see what is in it.",
        ),
        (
            '{"pattern": "foo", "type": "pytn"}',
            "There is no type of files named 'pytn'. Did you mean py? Or use glob.",
        ),
        ('{"pattern": "a\\u0000b"}', "The pattern holds a NUL, which no text file does."),
        ('{"pattern": "\\ud800"}', "The pattern holds half a character (a lone surrogate), which no file can hold."),
        ('{"pattern": "a\\nb"}', "The pattern has a line end in it, so it needs multiline=true."),
    ],
)
async def test_unsearchable_paths(ctx: ToolContext, tmp_path: Path, arguments: str, error: str) -> None:
    make(tmp_path, TREE)
    os.mkfifo(tmp_path / "pipe")
    make(tmp_path, {"self": Link("self"), "nowhere": Link("gone")})
    with pytest.raises(ToolError) as raised:
        await run(ctx, arguments)
    assert str(raised.value) == error
    assert_nothing_left(ctx)


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("foo(", "unclosed group"),
        ("[a", "unclosed character class"),
        ("*", "repetition operator missing expression"),
        ("a\\n", "multiline=true"),
        ("(?=a)", "not supported"),
        ("(a)\\1", "backreferences are not supported"),
    ],
)
async def test_invalid_patterns(ctx: ToolContext, tmp_path: Path, pattern: str, words: str) -> None:
    make(tmp_path, TREE)
    with pytest.raises(ToolError) as raised:
        await run(ctx, json.dumps({"pattern": pattern}))
    text = str(raised.value)
    assert text.startswith("The pattern could not be used: ")
    assert text.endswith("\nTo search for a text as it is, set literal=true.")
    assert words in text
    assert "--" not in text  # no advice about options that the model does not have


@pytest.mark.parametrize(
    "arguments",
    [
        "{}",
        '{"pattern": ""}',
        '{"pattern": "a", "limit": 0}',
        '{"pattern": "a", "limit": 1001}',
        '{"pattern": "a", "offset": -1}',
        '{"pattern": "a", "context": 51}',
        '{"pattern": "a", "output": "lines"}',
        '{"pattern": "a", "colour": true}',
        '{"pattern": "' + "a" * 4_001 + '"}',
    ],
)
def test_arguments_that_do_not_fit(arguments: str) -> None:
    with pytest.raises(InvalidArguments):
        parse(Grep, arguments)


async def test_the_longest_pattern_can_be_searched_for(ctx: ToolContext, tmp_path: Path) -> None:
    make(tmp_path, {"a": "𝄞" * 4_000})
    assert (await run(ctx, json.dumps({"pattern": "𝄞" * 4_000, "output": "files"}))).text == "a"


@pytest.mark.usefixtures("not_root")
async def test_unreadable_files_are_reported(ctx: ToolContext, tmp_path: Path) -> None:
    if not os.access(RIPGREP, os.X_OK, effective_ids=True):
        pytest.skip("nobody may run this program here")
    make(tmp_path, {"a": "foo\n", "b": "foo\n", "c": {"d": "foo\n"}})
    (tmp_path / "b").chmod(0)
    (tmp_path / "c").chmod(0)
    output = await run(ctx, '{"pattern": "foo"}')
    assert output.text == "a\n1: foo\n(Some files or folders could not be read.)"
    for path in ("b", "c/d"):
        with pytest.raises(ToolError, match="permission denied"):
            await run(ctx, json.dumps({"pattern": "foo", "path": path}))
    (tmp_path / "c").chmod(0o700)


async def test_a_senseless_ignore_file_is_no_trouble(ctx: ToolContext, tmp_path: Path) -> None:
    make(tmp_path, {".gitignore": "{a\nx\n", "sub": {".gitignore": "b}\n", "a": "foo\n", "x": "foo\n"}})
    assert (await run(ctx, '{"pattern": "foo", "path": "sub"}')).text == "sub/a\n1: foo"


async def test_changing_files_do_no_harm(ctx: ToolContext, tmp_path: Path) -> None:
    make(tmp_path, {"z": "foo\n"})
    is_over = threading.Event()

    def churn() -> None:
        for n in itertools.count():
            if is_over.is_set():
                return
            make(tmp_path, {f"a{n % 50}": "foo\n" * 100, "d": {f"b{n % 50}": "foo\n"}})
            shutil.rmtree(tmp_path / "d")
            (tmp_path / f"a{(n + 25) % 50}").unlink(missing_ok=True)

    writer = threading.Thread(target=churn)
    writer.start()
    try:
        for output in ("content", "files", "count"):
            text = (await run(ctx, json.dumps({"pattern": "foo", "output": output, "limit": 1_000}))).text
            assert "\nz" in f"\n{text}" or "There are more" in text
    finally:
        is_over.set()
        writer.join()


async def test_a_working_directory_that_went_away(ctx: ToolContext, tmp_path: Path) -> None:
    tmp_path.rmdir()
    with pytest.raises(ToolError, match="does not exist"):
        await run(ctx, '{"pattern": "foo"}')


async def test_a_program_that_fails(ctx: ToolContext, tmp_path: Path) -> None:
    make(tmp_path, {"a": "foo\n", "rg": "#!/bin/sh\necho >&2 broken\nexit 101\n"})
    (tmp_path / "rg").chmod(0o755)
    with pytest.raises(ToolError) as raised:
        await run(ctx, '{"pattern": "foo"}', ripgrep=str(tmp_path / "rg"))
    assert str(raised.value) == "The search failed (exit code 101). broken"
    make(tmp_path, {"killed": "#!/bin/sh\nkill -9 $$\n"})
    (tmp_path / "killed").chmod(0o755)
    with pytest.raises(ToolError, match="signal 9"):
        await run(ctx, '{"pattern": "foo"}', ripgrep=str(tmp_path / "killed"))
    with pytest.raises(ToolError, match="The search could not be started: No such file or directory"):
        await run(ctx, '{"pattern": "foo"}', ripgrep=str(tmp_path / "none"))


# -- the tool --------------------------------------------------------------------------------------------------------


async def test_the_tool_finds_its_program(ctx: ToolContext, tmp_path: Path) -> None:
    make(tmp_path, {"a": "foo\n"})
    assert (await grep(Grep(pattern="foo"), ctx)).text == "a\n1: foo"


async def needed(ctx: ToolContext, **arguments: str) -> Need:
    told = GREP.need(Grep(pattern="foo", **arguments), ctx)  # type: ignore[arg-type]  # all of these are texts
    assert not isinstance(told, Need)
    return await told


async def test_required_rights(ctx: ToolContext, tmp_path: Path) -> None:
    outside = tmp_path.with_name(f"{tmp_path.name}-secret")
    make(outside, {"a": ""})
    make(tmp_path, {"src": {"a.py": ""}, "link": Link(str(outside))})
    for arguments, patterns in [
        ({}, (".",)),
        ({"path": "src"}, ("src",)),
        ({"path": str(tmp_path / "src/a.py")}, ("src/a.py",)),
        ({"path": "src/../src"}, ("src",)),
        ({"path": ".."}, (str(tmp_path.parent),)),
        ({"path": "link"}, (str(outside),)),
        ({"path": "link/a"}, (f"{outside}/a",)),
        ({"glob": "src/*.py"}, ("src",)),
        ({"glob": f"{outside}/*"}, (str(outside),)),
        ({"path": "no\0path"}, ("no\0path",)),
        ({"path": "missing"}, ("missing",)),
    ]:
        need = await needed(ctx, **arguments)
        assert (need.permission, need.patterns) == ("read", patterns)


def test_declarations() -> None:
    assert GREP.read_only
    assert GREP.safe(Grep(pattern="foo"))
