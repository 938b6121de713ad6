"""What the tools that change files share: locks, races, cancels, formatters, diagnostics."""

# ruff: noqa: ASYNC240 -- the files are small

import gc
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest
import trio

import engine
from engine.config.formatter_config import FileProgram
from engine.core.errors import ConfigError, ToolError
from engine.permission.allow_all import AllowAll
from engine.session.engine_options import FileOptions, PermissionOptions
from engine.settings_file.config_file import read_config
from engine.testing.script import Answer, call, done, text
from engine.testing.scripted_provider import ScriptedProvider
from engine.tools.builtin.apply_patch import ApplyPatch, apply_patch_tool
from engine.tools.builtin.builtin_tools import builtin_tools
from engine.tools.builtin.edit import EDIT, Edit, edit_tool
from engine.tools.builtin.multi_edit import MultiEdit, Replacement, multi_edit_tool
from engine.tools.builtin.write import WRITE, Write, write_tool
from engine.tools.edit.formatters import EditChecks
from engine.tools.tool_context import ToolContext
from tests.support.needs import output_of
from tests.support.reading import having_read
from tests.tools.conftest import Listener

# -- in a turn ----------------------------------------------------------------------------------


def model(*answers: Answer) -> ScriptedProvider:
    return ScriptedProvider([*answers, [*text("done"), *done()]])


def edit_call(old: str, new: str, id: str, path: str = "f") -> Answer:  # noqa: A002
    return list(call("edit", {"path": path, "old_string": old, "new_string": new}, id=id))


async def results(
    session: engine.Session, prompt: str = "go", on_question: Callable[[], object] = lambda: None
) -> list[str]:
    """Return the texts of the results of a turn; questions are answered with yes, after *on_question*."""
    found: list[str] = []
    async with session.prompt(prompt) as turn:
        async for event in turn:
            if isinstance(event, engine.PermissionAsked):
                on_question()
                await turn.reply(event.request_id, engine.Once())
            if isinstance(event, engine.CallSettled):
                found.append(event.settlement.text)
    return found


READ_F: Answer = [*call("read", {"path": "f"}, id="r"), *done("calls")]


async def test_two_edits_in_one_answer_are_both_made(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("a\nb\n")
    script = model(READ_F, [*edit_call("a", "A", "c1"), *edit_call("b", "B", "c2"), *done("calls")])
    async with engine.open_engine(
        model=script, tools=builtin_tools(), permissions=PermissionOptions(approver=AllowAll())
    ) as eng:
        session = await eng.create_session(cwd=str(tmp_path))
        _, *edits = await results(session)
    assert (tmp_path / "f").read_text() == "A\nB\n"
    assert [told.partition(":")[0] for told in edits] == ["Edited f", "Edited f"]


async def test_read_state_belongs_to_one_session(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("a\n")
    script = model(READ_F, [*text("ok"), *done()], [*edit_call("a", "A", "c1"), *done("calls")])
    async with engine.open_engine(
        model=script, tools=builtin_tools(), permissions=PermissionOptions(approver=AllowAll())
    ) as eng:
        await results(await eng.create_session(cwd=str(tmp_path)))
        (told,) = await results(await eng.create_session(cwd=str(tmp_path)))
    assert told.startswith("f exists, but has not been read in this session.")


async def test_change_during_the_question_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("a\n")
    script = model(
        READ_F, [*edit_call("a", "A", "c1"), *done("calls")], READ_F, [*edit_call("a", "A", "c2"), *done("calls")]
    )
    async with engine.open_engine(model=script, tools=builtin_tools()) as eng:
        session = await eng.create_session(cwd=str(tmp_path))
        contents = iter(["b\na\n"])
        _, stale, _, fresh = await results(
            session, on_question=lambda: (tmp_path / "f").write_text(next(contents, (tmp_path / "f").read_text()))
        )
    assert stale == "f has changed since it was last read. Read it again; nothing was changed."
    assert fresh.startswith("Edited f: 1 replacement at line 2.")
    assert (tmp_path / "f").read_text() == "b\nA\n"


# -- beside others --------------------------------------------------------------------------------


async def test_edits_of_one_file_are_serialised(ctx: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("a\nb\n")
    (tmp_path / "link").symlink_to("f")
    reader = having_read(ctx, "f")
    told: list[str] = []

    async def edit(path: str, old: str) -> None:
        try:
            told.append((await output_of(EDIT, Edit(path, old, old.upper()), reader)).text)
        except ToolError as error:
            told.append(str(error))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(edit, "f", "a")
        nursery.start_soon(edit, "link", "b")
    assert sorted(line.partition(" since")[0].partition(":")[0] for line in told) in (
        ["Edited f", "link has changed"],
        ["Edited link", "f has changed"],
    )
    assert (tmp_path / "f").read_text() in ("A\nb\n", "a\nB\n")
    assert len(ctx.locks) == 0


async def test_waiting_edit_can_be_cancelled(ctx: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("a\n")
    reader = having_read(ctx, "f")
    (tmp_path / "other").write_text("a\n")

    held = trio.Event()

    async def hold() -> None:
        async with ctx.locks.hold(f"file:{os.path.realpath(tmp_path / 'f')}"):
            held.set()
            await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(hold)
        await held.wait()
        with trio.move_on_after(0.05) as scope:
            await EDIT.body(Edit("f", "a", "b"), reader)
        assert scope.cancelled_caught
        await EDIT.body(Edit("other", "a", "b"), having_read(ctx, "other"))
        nursery.cancel_scope.cancel()
    assert ((tmp_path / "f").read_text(), (tmp_path / "other").read_text()) == ("a\n", "b\n")


def slow(seconds: float = 0.0, then: str = "") -> EditChecks:
    """A formatter that gives others time, and does something to the copy."""
    script = f"import sys, time, pathlib; p = pathlib.Path(sys.argv[1]); time.sleep({seconds}); {then}"
    return EditChecks(formatters=(FileProgram((sys.executable, "-E", "-c", script), ("*",)),))


async def test_a_race_with_another_program_is_noticed(ctx: ToolContext, tmp_path: Path) -> None:
    """What it writes between the plan and the rename is not lost."""
    target = tmp_path / "f"
    target.write_text("a\n")
    around = slow(then=f"pathlib.Path({str(target)!r}).write_text('theirs')")
    with pytest.raises(ToolError, match=r"^f was changed by another program in the meantime\. Read it again\.$"):
        await edit_tool(around=around).body(Edit("f", "a", "b"), having_read(ctx, "f"))
    assert target.read_text() == "theirs"
    around = slow(then=f"pathlib.Path({str(tmp_path / 'new')!r}).write_text('theirs')")
    with pytest.raises(ToolError, match=r"^new was created by another program"):
        await write_tool(around=around).body(Write("new", "ours"), ctx)
    assert (tmp_path / "new").read_text() == "theirs"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["f", "new"]


@pytest.mark.os
def test_writers_and_editors_never_lose_a_whole_change(ctx: ToolContext, tmp_path: Path) -> None:
    """Another program replaces the file again and again: each of its versions is edited, or left as it is."""
    target = tmp_path / "f"
    target.write_text("version 0\n")
    stop = threading.Event()

    def write_on() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            (tmp_path / "new").write_text(f"version {number}\n")
            (tmp_path / "new").replace(target)
            time.sleep(0.0005)

    async def edit_on() -> int:
        made = 0
        for _ in range(100):
            try:
                output = await output_of(EDIT, Edit("f", "version", "edited"), having_read(ctx, "f"))
            except ToolError:
                continue
            made += output.text.startswith("Edited")
        return made

    writer = threading.Thread(target=write_on)
    writer.start()
    try:
        trio.run(edit_on)
    finally:
        stop.set()
        writer.join()
    assert target.read_text().startswith(("version ", "edited "))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["f"]


@pytest.mark.os
@pytest.mark.parametrize("delay", [0.0, 0.0005, 0.001, 0.002, 0.004, 0.008, 0.016, 0.05])
async def test_cancel_at_any_instant_is_atomic(ctx: ToolContext, tmp_path: Path, delay: float) -> None:
    (tmp_path / "f").write_text("a\n" * 10_000 + "end\n")
    before, reader = (tmp_path / "f").read_text(), having_read(ctx, "f")
    output = None
    tool = edit_tool(around=slow(0.02) if delay >= 0.008 else EditChecks())
    with trio.move_on_after(delay):
        output = await output_of(tool, Edit("f", "end", "END"), reader)
    if output is None:
        assert (tmp_path / "f").read_text() == before, "it was done, so it must say so"
    else:
        assert (tmp_path / "f").read_text() == before.replace("end", "END")
    assert [path.name for path in tmp_path.iterdir()] == ["f"]
    with trio.fail_after(30):
        while len(ctx.locks):  # the thread that was abandoned may hold its frames for a moment
            gc.collect()
            await trio.sleep(0.01)


# -- formatters -----------------------------------------------------------------------------------

UPPER = "p.write_text(p.read_text().upper())"


async def test_formatter_runs_before_the_write(ctx: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("a\nb\n")
    tool = edit_tool(around=slow(then=UPPER))
    output = await output_of(tool, Edit("f", "b", "c"), having_read(ctx, "f"))
    name = Path(sys.executable).name
    assert output.text == (
        f"Edited f: 1 replacement at line 2.\n[{name} has formatted f]\n--- f\n+++ f\n@@ -1,2 +1,2 @@\n-a\n-b\n+A\n+C"
    )
    assert (tmp_path / "f").read_text() == "A\nC\n"
    assert output.modify is not None  # what it knows of the file is what the formatter has made
    await EDIT.body(Edit("f", "C", "D"), attrs.evolve(ctx, shared=output.modify(ctx.shared)))


async def test_whole_file_shows_only_formatting_changes(ctx: ToolContext, tmp_path: Path) -> None:
    output = await output_of(write_tool(around=slow(then=UPPER)), Write("sub/new", "a\nB\n"), ctx)
    assert output.text.endswith("has formatted new]\n--- sub/new\n+++ sub/new\n@@ -1,2 +1,2 @@\n-a\n+A\n B")
    assert (tmp_path / "sub/new").read_text() == "A\nB\n"
    assert [path.name for path in tmp_path.rglob("*")] == ["sub", "new"]


ALLOCATES = "import sys; memory = bytearray(300 << 20); sys.exit('it got the memory')"


@pytest.mark.skipif(sys.platform != "linux", reason="the system does not limit it")
@pytest.mark.parametrize(("memory", "why"), [(200, "MemoryError"), (2_000, "it got the memory")])
async def test_memory_of_formatters_and_checkers_is_limited(
    ctx: ToolContext, tmp_path: Path, memory: int, why: str
) -> None:
    (tmp_path / "f").write_text("a\n")
    # A child of its own process is limited as well.
    command = ("sh", "-c", f'"{sys.executable}" -Ec "{ALLOCATES}"; exit 1')
    program = FileProgram(command, ("f",), 30.0, memory)
    tool = edit_tool(around=EditChecks(formatters=(program,), checkers=(program,)))
    output = await output_of(tool, Edit("f", "a", "b"), having_read(ctx, "f"))
    assert output.text.count(why) == 2
    assert (tmp_path / "f").read_text() == "b\n"


@pytest.mark.parametrize(
    ("command", "timeout", "why"),
    [
        (("/nowhere/formatter",), 5.0, "it could not be started ("),
        (("sh", "-c", "echo bad line 3 in $0; echo x >$0; exit 3"), 5.0, "exit code 3: bad line 3 in f]"),
        (("sh", "-c", "kill -9 $$"), 5.0, "signal 9]"),
        (("sh", "-c", "echo x >$0; sleep 30"), 0.2, "it took longer than 0.2 s]"),
        (("rm",), 5.0, "what it made can't be read ("),
        (("sh", "-c", "printf '\\351' >$0"), 5.0, "what it made can't be read ('utf-8'"),
    ],
    ids=["missing", "fails", "killed", "hangs", "removes", "latin-1"],
)
async def test_a_formatter_that_fails_is_a_note(
    ctx: ToolContext, tmp_path: Path, command: tuple[str, ...], timeout: float, why: str
) -> None:
    (tmp_path / "f").write_text("a\n")
    tool = edit_tool(around=EditChecks(formatters=(FileProgram(command, ("f",), timeout),)))
    output = await output_of(tool, Edit("f", "a", "b"), having_read(ctx, "f"))
    assert f"[{Path(command[0]).name} has not formatted f: {why}" in output.text
    assert (tmp_path / "f").read_text() == "b\n"
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


async def test_where_no_copy_can_be_made(ctx: ToolContext, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    request.getfixturevalue("not_root")
    (tmp_path / "f").write_text("a\n")
    reader = having_read(ctx, "f")
    tmp_path.chmod(0o555)
    with pytest.raises(ToolError, match="its folder may not be written to"):  # neither the copy nor the edit
        await edit_tool(around=slow()).body(Edit("f", "a", "b"), reader)
    tmp_path.chmod(0o755)


async def test_which_formatter_is_for_which_file(ctx: ToolContext, tmp_path: Path) -> None:
    def adding(what: str, *patterns: str, place: str = "{path}") -> FileProgram:
        return FileProgram(("sh", "-c", f"printf {what} >>$0", place), patterns)

    around = EditChecks(
        formatters=(adding("1", "*.py", "*.pyi"), adding("2", "*.c"), adding("3", "a.*", place="./{path}"))
    )
    assert FileProgram(("fmt", "-w"), ("*",)).argv("/x/a b") == ["fmt", "-w", "/x/a b"]
    assert FileProgram(("fmt", "--in={path}", "-q"), ("*",)).argv("/x") == ["fmt", "--in=/x", "-q"]
    for name, after in (("a.py", "x1"), ("b.c", "x2"), ("c.txt", "x")):
        await write_tool(around=around).body(Write(name, "x"), ctx)
        assert (tmp_path / name).read_text() == after


async def test_a_formatter_finds_the_configuration_of_its_folder(ctx: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/style").write_text("loud")
    around = slow(then="p.write_text((p.parent.parent / 'style').read_text() + p.name)")
    await write_tool(around=around).body(Write("sub/a.py", "x"), ctx)
    assert (tmp_path / "sub/a.py").read_text() == "louda.py"


@pytest.mark.parametrize(
    "make",
    [
        lambda: FileProgram((), ("*",)),
        lambda: FileProgram("black", ("*",)),  # type: ignore[arg-type]
        lambda: FileProgram(("black",), "*.py"),  # type: ignore[arg-type]
        lambda: FileProgram(("black",), ("*",), 0),
        lambda: FileProgram(("black",), ("*",), float("inf")),
        lambda: EditChecks(diagnose_timeout=-1),
    ],
)
def test_formatters_that_can_not_work_are_refused(make: Callable[[], object]) -> None:
    with pytest.raises(ConfigError):
        make()


async def test_formatter_that_undoes_the_edit_is_reported(ctx: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("a\n")
    tool = edit_tool(around=slow(then="p.write_text('a\\n')"))
    output = await output_of(tool, Edit("f", "a", "b"), having_read(ctx, "f"))
    assert output.text.endswith(" has formatted f]\n[that has undone the change: f is as it was]")


# -- checkers -------------------------------------------------------------------------------------


def checking(script: str, *patterns: str, timeout: float = 10.0) -> FileProgram:
    return FileProgram(("sh", "-c", script), patterns or ("*",), timeout)


async def test_checker_output_follows_the_diff(ctx: ToolContext, tmp_path: Path, listener: Listener) -> None:
    (tmp_path / "f.py").write_text("a\n")
    around = EditChecks(
        checkers=(
            checking('echo "$(basename $0):1: $(cat $0) is not defined"; pwd >&2; exit 1', "*.py"),
            checking("echo all is well"),
            checking("echo never asked; exit 1", "*.c"),
        ),
        diagnostics=lambda path: one_word(f"a server on {Path(path).name}"),
    )
    output = await output_of(edit_tool(around=around), Edit("f.py", "a", "b"), having_read(ctx, "f.py"))
    told = f"\n[sh on f.py: exit code 1]\nf.py:1: b is not defined\n{tmp_path}\na server on f.py"
    assert output.text.endswith(f"\n+b{told}")
    # Should it be cancelled meanwhile, what it has done is told all the same.
    assert listener.shown == [output.text.removesuffix(told)]


async def one_word(word: str) -> str:
    await trio.lowlevel.checkpoint()
    return word


@pytest.mark.parametrize(
    ("checker", "told"),
    [
        (FileProgram(("/nowhere/checker",), ("*",)), "[checker has not checked f: it could not be started ("),
        (checking("echo some; sleep 30", timeout=0.2), "[sh has not checked f: it took longer than 0.2 s]"),
        (checking("kill -9 $$"), "[sh on f: signal 9]\n(no output)"),
        (checking("printf '\\351\\0'; exit 3"), "[sh on f: exit code 3]\n\ufffd\ufffd"),
        (checking("yes | head -c 10000000; exit 1"), "\n[more diagnostics are not shown]"),
        (checking("sleep 30 & echo x; exit 1"), "[sh on f: exit code 1]\nx"),
        (checking("rm $0; exit 0"), "\n+b"),
    ],
    ids=["missing", "hangs", "killed", "no text", "long", "leaves something behind", "removes"],
)
async def test_a_checker_never_loses_the_edit(
    ctx: ToolContext, tmp_path: Path, checker: FileProgram, told: str
) -> None:
    (tmp_path / "f").write_text("a\n")
    output = await output_of(
        edit_tool(around=EditChecks(checkers=(checker,))), Edit("f", "a", "b"), having_read(ctx, "f")
    )
    assert output.text.startswith("Edited f: 1 replacement at line 1.")
    assert told in output.text
    assert len(output.text) < 9_000


async def test_a_checker_has_its_time_for_all_files(ctx: ToolContext, tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / name).write_text("x\n")
    around = EditChecks(checkers=(checking("case $0 in */a) exit 1;; *) sleep 30;; esac", timeout=0.5),))
    patch = "".join(f"*** Update File: {name}\n@@\n-x\n+y\n" for name in "abc")
    output = await output_of(
        apply_patch_tool(around=around),
        ApplyPatch(f"*** Begin Patch\n{patch}*** End Patch"),
        having_read(having_read(having_read(ctx, "a"), "b"), "c"),
    )
    assert output.text.endswith(
        "[sh on a: exit code 1]\n(no output)\n[sh has not checked b: it took longer than 0.5 s]"
    )


async def test_a_cancel_ends_a_checker(ctx: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("a\n")
    tool = edit_tool(around=EditChecks(checkers=(checking("echo $$ >$0.pid; sleep 1000"),)))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(tool.body, Edit("f", "a", "b"), having_read(ctx, "f"))
        while not (tmp_path / "f.pid").exists() or not (tmp_path / "f.pid").read_text():
            await trio.sleep(0.01)
        nursery.cancel_scope.cancel(reason="test")
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "f.pid").read_text()), 0)
    assert (tmp_path / "f").read_text() == "b\n"


async def test_configured_and_host_checkers_run(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("a\n")
    config = read_config(
        b"""
        [formatters.loud]
        command = ["sh", "-c", "tr a-z A-Z <$0 >$0.x && mv $0.x $0"]
        patterns = ["f"]
        [checkers.strict]
        command = ["sh", "-c", "grep -n B $0 && exit 1"]
        patterns = ["*"]
        timeout = 5
        """,
        "config.toml",
    )
    script = model(READ_F, [*edit_call("a", "b", "c"), *done("calls")])
    async with engine.open_engine(
        model=script,
        config=config,
        tools=builtin_tools(),
        permissions=PermissionOptions(approver=AllowAll()),
        files=FileOptions(diagnostics=lambda _: one_word("ok?")),
    ) as eng:
        _, told = await results(await eng.create_session(cwd=str(tmp_path)))
    assert (tmp_path / "f").read_text() == "B\n"
    assert told.endswith(
        "\n[sh has formatted f]\n--- f\n+++ f\n@@ -1,1 +1,1 @@\n-a\n+B\n[sh on f: exit code 1]\n1:B\nok?"
    )


def test_diagnostics_that_can_not_work_are_refused() -> None:
    with pytest.raises(ConfigError, match="diagnostics must be an async function of a path"):
        engine.open_engine(model=model(), files=FileOptions(diagnostics="ruff"))  # type: ignore[arg-type]


# -- diagnostics ----------------------------------------------------------------------------------


async def test_diagnostics_follow_the_diff(ctx: ToolContext, tmp_path: Path, listener: Listener) -> None:
    (tmp_path / "f").write_text("a\n")
    asked: list[str] = []

    async def diagnose(path: str) -> str:
        await trio.lowlevel.checkpoint()
        asked.append(path)
        return "f:1: error: b is not defined\n"

    output = await output_of(
        edit_tool(around=EditChecks(diagnostics=diagnose)), Edit("f", "a", "b"), having_read(ctx, "f")
    )
    assert output.text.endswith("\n+b\nf:1: error: b is not defined")
    assert asked == [str(tmp_path / "f")]
    # Should it be cancelled meanwhile, what it has done is told all the same.
    assert listener.shown == [output.text.removesuffix("\nf:1: error: b is not defined")]


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("silent", ""),
        ("hangs", "\n[diagnostics took longer than 0.05 s]"),
        ("fails", "\n[diagnostics failed: RuntimeError: no server]"),
        ("long", "\n[more diagnostics are not shown]"),
    ],
)
async def test_diagnostics_never_lose_the_edit(ctx: ToolContext, tmp_path: Path, kind: str, told: str) -> None:
    (tmp_path / "f").write_text("a\n")

    async def diagnose(path: str) -> str:
        await trio.sleep(10 if kind == "hangs" else 0)
        if kind == "fails":
            raise RuntimeError("no server")
        return "x" * 100_000 if kind == "long" else ""

    tool = multi_edit_tool(around=EditChecks(diagnostics=diagnose, diagnose_timeout=0.05))
    output = await output_of(tool, MultiEdit("f", [Replacement("a", "b")]), having_read(ctx, "f"))
    assert output.text.endswith(told or "\n+b")
    assert len(output.text) < 10_000
    assert (tmp_path / "f").read_text() == "b\n"


async def test_cancelled_diagnostics_still_report_the_edit(
    ctx: ToolContext, tmp_path: Path, listener: Listener
) -> None:
    (tmp_path / "f").write_text("a\n")

    async def diagnose(path: str) -> str:
        scope.cancel()
        await trio.sleep(10)
        return ""

    with trio.CancelScope() as scope:
        await edit_tool(around=EditChecks(diagnostics=diagnose)).body(Edit("f", "a", "b"), having_read(ctx, "f"))
    assert scope.cancelled_caught
    assert (tmp_path / "f").read_text() == "b\n"
    assert [shown.partition("\n")[0] for shown in listener.shown] == ["Edited f: 1 replacement at line 1."]


async def test_metadata_is_json(ctx: ToolContext, tmp_path: Path) -> None:
    output = await output_of(WRITE, Write("f", "x"), ctx)
    assert json.loads(output.metadata)["diff"].startswith("--- /dev/null\n+++ f\n")
