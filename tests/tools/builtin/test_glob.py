"""`glob`: finding files by name. Asks a real ripgrep."""

# ruff: noqa: ASYNC240 -- the files are small

import json
import os
from pathlib import Path

import pytest
import trio

from engine.core.arguments import parse
from engine.core.errors import InvalidArguments, ToolError
from engine.process.kill_tree import find_marked
from engine.tools.builtin.glob import GLOB, glob
from engine.tools.call_values import Need, ToolOutput
from engine.tools.search.name_search import newest, search_names
from engine.tools.search.search_arguments import Glob
from engine.tools.shell_environment import marker
from engine.tools.tool_context import ToolContext
from tests.support.searched import RIPGREP, Link, make

pytestmark = pytest.mark.os


async def run(ctx: ToolContext, arguments: str, **bounds: float) -> ToolOutput:
    with trio.fail_after(60):
        return await search_names(RIPGREP, parse(Glob, arguments), ctx, **bounds)  # type: ignore[arg-type]  # int or float


TREE = {
    "src": {"a.py": "", "b.ts": "", "deep": {"c.py": "", "deeper": {"d.tsx": ""}}},
    "a.md": "",
    ".gitignore": "build/\n*.log\n!keep.log\n",
    "build": {"out.py": ""},
    "x.log": "",
    "keep.log": "",
    ".github": {"ci.yml": ""},
    ".git": {"config": "", "a.py": ""},
    "app": {"[id]": {"page.tsx": "", "[slug].tsx": ""}, "i": {"page.tsx": ""}},
    "link.py": Link("src/a.py"),
    "loop": Link("."),
    "é": {"ü.py": ""},
}


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("*.py", ".", "src/a.py src/deep/c.py é/ü.py"),
        ("**/*.py", ".", "src/a.py src/deep/c.py é/ü.py"),
        ("./*.md", ".", "a.md"),
        ("/*.md", ".", ""),
        ("*/*.py", ".", "src/a.py é/ü.py"),
        ("src/*.py", ".", "src/a.py"),
        ("src/**/*.py", ".", "src/a.py src/deep/c.py"),
        ("src/**", ".", "src/a.py src/b.ts src/deep/c.py src/deep/deeper/d.tsx"),
        ("src/", ".", "src/a.py src/b.ts src/deep/c.py src/deep/deeper/d.tsx"),
        ("**/deep/", ".", "src/deep/c.py src/deep/deeper/d.tsx"),
        ("**/*.{ts,tsx}", "src", "src/b.ts src/deep/deeper/d.tsx"),
        ("{src,é}/*.py", ".", "src/a.py é/ü.py"),
        ("[ac].py", ".", "src/a.py src/deep/c.py"),
        ("[!a].py", ".", "src/deep/c.py é/ü.py"),
        ("?.py", ".", "src/a.py src/deep/c.py é/ü.py"),
        ("ü.*", ".", "é/ü.py"),
        ("*.py", "src/deep", "src/deep/c.py"),
        ("c.py", ".", "src/deep/c.py"),
        ("src/deep/c.py", ".", "src/deep/c.py"),
        ("*.log", ".", "keep.log"),
        ("build/*", ".", "build/out.py"),
        ("*", "build", "build/out.py"),
        ("*.yml", ".", ".github/ci.yml"),
        (".git/*", ".", ".git/a.py .git/config"),
        ("app/[id]/page.tsx", ".", "app/[id]/page.tsx"),
        ("app/[id]/[slug].tsx", ".", "app/[id]/[slug].tsx"),
        ("app/*/page.tsx", ".", "app/[id]/page.tsx app/i/page.tsx"),
        ("*.py", "loop", "loop/src/a.py loop/src/deep/c.py loop/é/ü.py"),
        ("-x", ".", ""),
    ],
)
async def test_matching_files(ctx: ToolContext, tmp_path: Path, pattern: str, path: str, expected: str) -> None:
    make(tmp_path, TREE)
    output = await run(ctx, json.dumps({"pattern": pattern, "path": path, "sort": "path"}))
    paths = expected.split()
    many = f"{len(paths)} file{'s' * (len(paths) != 1)}"
    absent = f"No file matches {pattern} (what ignore files exclude was not searched)."
    assert output.text == ("\n".join([*paths, f"({many}, by path)"]) if paths else absent)
    assert json.loads(output.metadata)["files"] == len(paths)


async def test_absolute_patterns(ctx: ToolContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outside = tmp_path.with_name(f"{tmp_path.name}-outside")
    make(outside, {"a.py": "", "b": {"c.py": ""}})
    make(tmp_path, TREE)
    monkeypatch.setenv("HOME", str(outside))
    for pattern, expected in [
        (f"{outside}/*.py", [f"{outside}/a.py"]),
        (f"../{outside.name}/**", [f"{outside}/a.py", f"{outside}/b/c.py"]),
        ("~/*.py", [f"{outside}/a.py"]),
        (f"{tmp_path}/src/*.py", ["src/a.py"]),
    ]:
        output = await run(ctx, json.dumps({"pattern": pattern, "sort": "path"}))
        assert output.text.split("\n")[:-1] == expected


async def test_ignored_files_can_be_included(ctx: ToolContext, tmp_path: Path) -> None:
    make(tmp_path, TREE)
    output = await run(ctx, '{"pattern": "{*.log,out.*}", "sort": "path", "include_ignored": true}')
    assert output.text == "build/out.py\nkeep.log\nx.log\n(3 files, by path)"
    output = await run(ctx, '{"pattern": "nope", "include_ignored": true}')
    assert output.text == "No file matches nope."


async def test_the_newest_come_first(ctx: ToolContext, tmp_path: Path) -> None:
    for name, changed in [("a", 2), ("b", 3), ("c", 1), ("d", 3), ("e", 2)]:
        make(tmp_path, {name: ""})
        os.utime(tmp_path / name, ns=(0, changed))
    output = await run(ctx, '{"pattern": "*"}')
    assert output.text == "b\nd\na\ne\nc\n(5 files, the newest first)"
    output = await run(ctx, '{"pattern": "*", "limit": 2}')
    assert output.text == (
        "b\nd\n(2 of 5 files are shown, the newest first; more are available: narrow the pattern or raise the limit)"
    )
    output = await run(ctx, '{"pattern": "*", "limit": 2, "sort": "path"}')
    assert output.text.startswith("a\nb\n(2 of 5 files are shown, by path; more are available")


async def test_too_many_to_be_sorted_by_time(ctx: ToolContext, tmp_path: Path) -> None:
    make(tmp_path, {f"{n:03}": "" for n in range(300)})
    output = await run(ctx, '{"pattern": "*", "limit": 2}', held=1_000)
    assert output.text == (
        "000\n001\n(2 files are shown, by path; more are available: narrow the pattern or raise the limit)\n"
        "(They are too many to be sorted by time.)"
    )
    assert json.loads(output.metadata) == {"summary": "more than 2 files", "files": None, "timed_out": False}


async def test_long_paths_are_bounded_in_bytes(ctx: ToolContext, tmp_path: Path) -> None:
    deep = "/".join(["x" * 200] * 5)
    make(tmp_path, {f"{deep}/{n:03}": "" for n in range(100)})
    output = await run(ctx, '{"pattern": "*", "sort": "path"}')
    assert len(output.text.encode()) < 41_500
    assert "of 100 files are shown" in output.text


async def test_odd_names(ctx: ToolContext, tmp_path: Path) -> None:
    make(tmp_path, {"two\nlines": "", "-rf": ""})
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff")).touch()
    output = await run(ctx, '{"pattern": "*", "sort": "path"}')
    assert output.text == "-rf\ntwo\\nlines\n�\n(3 files, by path)"


async def test_a_folder_is_no_file_but_named(ctx: ToolContext, tmp_path: Path) -> None:
    make(tmp_path, TREE)
    for pattern in ("src", "src/deep", str(tmp_path / "src")):
        text = (await run(ctx, json.dumps({"pattern": pattern}))).text
        assert text.endswith(f"\n{pattern} is a folder: {pattern}/** finds the files in it, and list shows it.")


async def test_partial_results_after_the_time_limit(ctx: ToolContext, tmp_path: Path) -> None:
    make(tmp_path, {"a": ""})
    output = await run(ctx, '{"pattern": "*"}', timeout=0.0)
    assert output.failed
    assert "(The search was ended after 0 s, before all was searched. Look in a smaller folder.)" in output.text


async def test_a_cancel_ends_the_program(ctx: ToolContext, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ".gitignore")  # ripgrep waits for ever for somebody to write to it
    is_ours = marker(ctx.session_id, ctx.call_id).__eq__
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run, ctx, '{"pattern": "*"}')
            while not find_marked(is_ours):
                await trio.sleep(0.01)
            nursery.cancel_scope.cancel(reason="test")
            cancelled = trio.current_time()
    assert trio.current_time() - cancelled < 20
    assert find_marked(is_ours) == []


def test_stat_calls_stop_when_cancelled(tmp_path: Path) -> None:
    make(tmp_path, {"a": "", "b": ""})
    os.utime(tmp_path / "a", ns=(0, 1))
    assert newest(tmp_path, [b"b", b"gone", b"a"], 5, lambda: False) == [b"b", b"a"]
    asked = iter([False, True])
    assert newest(tmp_path, [b"a", b"b"], 5, lambda: next(asked)) == [b"a"]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"pattern": "*", "path": ""}, "The path is empty."),
        ({"pattern": "*", "path": "srk"}, "srk does not exist. Did you mean src, in the same folder?"),
        ({"pattern": "srk/*.py"}, "srk does not exist. Did you mean src, in the same folder?"),
        (
            {"pattern": "*", "path": "a.md"},
            "a.md is no folder. If it is a text file, use the read tool to see what is in it.",
        ),
        ({"pattern": "a.md/*"}, "a.md is no folder. If it is a text file, use the read tool to see what is in it."),
        ({"pattern": "*", "path": "self"}, "self: Too many levels of symbolic links."),
        ({"pattern": "*", "path": "a\0b"}, "'a\\x00b' is no path: no file can have that name."),
        ({"pattern": "a\0b/*"}, "'a\\x00b' is no path: no file can have that name."),
        ({"pattern": "\ud800/*"}, "'\\ud800' is no path: no file can have that name."),
        ({"pattern": "{a"}, "The pattern {a makes no sense: there is a { without a } after it."),
        ({"pattern": "a}"}, "The pattern a} makes no sense: there is a } without a { before it."),
        ({"pattern": "[b-a]"}, "The pattern [b-a] makes no sense: b-a is no range."),
        ({"pattern": "a\\"}, "The pattern a\\ makes no sense: it ends with a backslash that escapes nothing."),
        (
            {"pattern": "{a,b}" * 20},
            f"The pattern {'{a,b}' * 20} makes no sense: its braces stand for more than 1,000 patterns.",
        ),
        ({"pattern": "*/../x"}, "*/../x: after a wildcard there can be no '..'."),
        ({"pattern": "/"}, "The pattern names a folder: add ** to it."),
    ],
)
async def test_invalid_arguments(ctx: ToolContext, tmp_path: Path, arguments: dict[str, str], error: str) -> None:
    make(tmp_path, {**TREE, "self": Link("self")})
    with pytest.raises(ToolError) as raised:
        await run(ctx, json.dumps(arguments))
    assert str(raised.value) == error


async def test_patterns_without_matches(ctx: ToolContext, tmp_path: Path) -> None:
    make(tmp_path, TREE)
    for pattern in ("a\0b", "\ud800", "*" * 3_999 + "q", "q" * 4_000, "?" * 300):
        assert (await run(ctx, json.dumps({"pattern": pattern}))).text.startswith("No file matches ")


@pytest.mark.parametrize(
    "arguments",
    [
        "{}",
        '{"pattern": ""}',
        '{"pattern": "*", "limit": 0}',
        '{"pattern": "*", "limit": 1001}',
        '{"pattern": "*", "sort": "size"}',
    ],
)
def test_arguments_that_do_not_fit(arguments: str) -> None:
    with pytest.raises(InvalidArguments):
        parse(Glob, arguments)


@pytest.mark.usefixtures("not_root")
async def test_unreadable_folders_are_reported(ctx: ToolContext, tmp_path: Path) -> None:
    if not os.access(RIPGREP, os.X_OK, effective_ids=True):
        pytest.skip("nobody may run this program here")
    make(tmp_path, {"a": "", "c": {"d": ""}})
    (tmp_path / "c").chmod(0)
    output = await run(ctx, '{"pattern": "*"}')
    assert output.text == "a\n(1 file, the newest first)\n(Some folders could not be read.)"
    for pattern in ("c/*", "c/d", "c/d/*"):
        with pytest.raises(ToolError, match="permission denied"):
            await run(ctx, json.dumps({"pattern": pattern}))
    (tmp_path / "c").chmod(0o700)


async def test_the_tool_finds_its_program(ctx: ToolContext, tmp_path: Path) -> None:
    make(tmp_path, {"a": ""})
    assert (await glob(Glob(pattern="*"), ctx)).text == "a\n(1 file, the newest first)"


async def needed(ctx: ToolContext, pattern: str, path: str = ".") -> Need:
    told = GLOB.need(Glob(pattern=pattern, path=path), ctx)
    assert not isinstance(told, Need)
    return await told


async def test_required_rights(ctx: ToolContext, tmp_path: Path) -> None:
    outside = tmp_path.with_name(f"{tmp_path.name}-secret")
    make(outside, {"a": ""})
    make(tmp_path, {"src": {"a.py": ""}, "link": Link(str(outside))})
    for pattern, path, patterns in [
        ("*", ".", (".",)),
        ("*", "src", ("src",)),
        ("src/*", ".", ("src",)),
        ("../*", ".", (str(tmp_path.parent),)),
        (f"{outside}/**", ".", (str(outside),)),
        ("link/*", ".", (str(outside),)),
        ("", "missing", ("missing",)),
        ("x/\0/*", ".", (".",)),
    ]:
        need = await needed(ctx, pattern or "*", path)
        assert (need.permission, need.patterns) == ("read", patterns)
