"""`bash`: what the model reads of a command, and that nothing outlives it. Real processes, in real time."""

# ruff: noqa: ASYNC240 -- the files are small, and what is waited for tells nobody

import json
import os
import re
import shutil
import sys
import time
from pathlib import Path

import attrs
import pytest
import trio

from engine.core.arguments import parse
from engine.core.errors import InvalidArguments, ToolError
from engine.permission.programs.program_registry import DEFAULT_REGISTRY, ProgramRegistry
from engine.permission.programs.tables.program_spec import Program
from engine.process.kill_tree import find_marked
from engine.process.procfs import ProcessId
from engine.process.run_tree import FinishedProcess
from engine.tools.builtin.bash import BASH, Bash, bash, bash_tool
from engine.tools.builtin.bash_run import report
from engine.tools.call_values import ToolOutput
from engine.tools.output.spill import SpillStore
from engine.tools.output.spill_writer import CapturedOutput
from engine.tools.output.truncate import SHOWN_OF_COMMAND, fits
from engine.tools.shell_environment import marker
from engine.tools.tool_context import ToolContext
from tests.tools.conftest import Listener

pytestmark = pytest.mark.os


async def run(ctx: ToolContext, command: str, seconds: float = 50) -> ToolOutput:
    with trio.fail_after(60):
        return await bash(Bash(command, seconds), ctx)


def assert_nothing_left(ctx: ToolContext) -> None:
    assert find_marked(marker(ctx.session_id, ctx.call_id).__eq__) == []


def body(output: ToolOutput) -> str:
    """The text without the line of times."""
    return output.text.rpartition("[")[0]


async def test_output_and_exit_code(ctx: ToolContext) -> None:
    output = await run(ctx, "echo out; echo err >&2")
    assert body(output) == "out\nerr\n"
    assert re.match(r"\[exit code 0, \d+\.\d", output.text.splitlines()[-1])
    assert not output.failed
    facts = json.loads(output.metadata)
    assert facts["summary"] == "exit code 0"
    assert facts["exit_code"] == 0
    assert not facts["timed_out"]


@pytest.mark.parametrize(
    ("command", "ending"),
    [
        ("exit 3", "exit code 3"),
        ("no-such-command-at-all", "exit code 127"),
        ("--version", "exit code 127"),
        ("if", "exit code 2"),
        ("kill -9 $$", "killed by SIGKILL"),
        ("kill -TERM $$", "killed by SIGTERM"),
        ("kill -40 $$", "killed by signal 40"),
    ],
)
async def test_failures_are_reported(ctx: ToolContext, command: str, ending: str) -> None:
    output = await run(ctx, command)
    assert output.failed
    assert f"[{ending}, " in output.text


async def test_no_output(ctx: ToolContext) -> None:
    assert (await run(ctx, "true")).text.startswith("(no output)\n[exit code 0")


async def test_output_without_a_last_newline(ctx: ToolContext) -> None:
    assert body(await run(ctx, "printf x")) == "x\n"


async def test_command_runs_in_the_working_directory(ctx: ToolContext, tmp_path: Path) -> None:
    assert body(await run(ctx, "pwd -P")) == f"{tmp_path.resolve()}\n"


async def test_standard_input_is_empty(ctx: ToolContext) -> None:
    assert body(await run(ctx, "cat; read -r line || echo none")) == "none\n"


async def test_bytes_that_are_no_text(ctx: ToolContext) -> None:
    assert body(await run(ctx, r"printf '\351\n'")) == "�\n"


async def test_timeout_differs_from_an_exit(ctx: ToolContext) -> None:
    command, seconds = "echo begun; sleep 60 & sleep 60", 0.3
    output = await run(ctx, command, seconds=seconds)
    if body(output) != "begun\n":  # the machine was too slow for it
        seconds = 10
        output = await run(ctx, command, seconds=seconds)
    assert output.failed
    assert body(output) == "begun\n"
    assert f"[ended at its timeout of {seconds:g} s, " in output.text
    assert json.loads(output.metadata)["timed_out"]
    assert_nothing_left(ctx)


async def test_leftover_processes_are_ended(ctx: ToolContext) -> None:
    start = time.monotonic()
    output = await run(ctx, "sleep 60 & sleep 60 & echo hi")
    assert time.monotonic() - start < 30
    assert body(output).startswith("hi\n")
    assert "[2 processes that it left running had to be ended. What shall go on needs background=true]" in output.text
    assert not output.failed
    assert_nothing_left(ctx)


async def test_long_output_keeps_its_ends(ctx: ToolContext) -> None:
    output = await run(ctx, "echo first; yes | head -c 1000000; echo last; exit 1")
    before, marker, after = re.split(r"\n(\[.* are not shown\. .*\])\n", output.text)
    assert before.startswith("first\n")
    assert "\nlast\n[exit code 1" in after
    assert 3 < len(after) / len(before) < 5
    assert output.is_cut
    assert fits(output.text)
    found = re.search(r'path="spill:(\w+)"', marker)
    assert found is not None
    assert ctx.spills is not None
    with ctx.spills.open(found[1]) as file:
        assert file.read() == b"first\n" + b"y\n" * 500_000 + b"last\n"


async def test_a_giant_line_is_shown_in_part(ctx: ToolContext) -> None:
    output = await run(ctx, "printf 'é%.0s' {1..100000}")
    assert len(output.text.encode()) > 40_000
    assert fits(output.text)
    assert "�" not in output.text


async def test_fitting_output_has_its_notes(ctx: ToolContext) -> None:
    output = await run(ctx, f"head -c {SHOWN_OF_COMMAND.size} /dev/zero | tr '\\0' x; sleep 60 &")
    assert output.text.startswith("x" * SHOWN_OF_COMMAND.size + "\n[exit code 0")
    assert not output.is_cut
    assert fits(output.text)


async def test_without_a_read_tool_nothing_is_kept(ctx: ToolContext, listener: Listener) -> None:
    listener.spills = None
    output = await run(ctx, "seq 100000")
    assert "are not shown, and were not kept]" in output.text
    assert output.text.startswith("1\n2\n")


async def test_full_disk_costs_only_the_kept_output(ctx: ToolContext, listener: Listener, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    listener.spills = SpillStore(tmp_path / "file").of("ses_1")
    output = await run(ctx, "seq 100000")
    assert re.search(r"were not kept: .*(File exists|Not a directory)", output.text)
    assert "\n100000\n[exit code 0" in output.text


async def test_a_cd_holds_for_its_call_only(ctx: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    output = await run(ctx, "cd sub; pwd -P; X=1")
    assert body(output) == f"{tmp_path.resolve()}/sub\n"
    assert output.modify is None
    assert body(await run(ctx, "pwd -P; echo $X")) == f"{tmp_path.resolve()}\n\n"


async def test_no_command_waits_for_a_user(ctx: ToolContext, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PAGER", "EDITOR", "VISUAL", "GIT_EDITOR", "GIT_PAGER"):
        monkeypatch.setenv(name, "sleep 60")
    monkeypatch.setenv("TERM", "xterm")
    start = time.monotonic()
    output = await run(ctx, 'echo "$TERM $PAGER"; $EDITOR x; $VISUAL x; $GIT_PAGER </dev/null; (: </dev/tty) 2>&1')
    assert time.monotonic() - start < 30
    assert output.text.startswith("dumb cat\n")
    assert "/dev/tty" in output.text  # there is no terminal to ask on


@pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")
async def test_git_does_not_wait_for_an_editor(ctx: ToolContext) -> None:
    output = await run(ctx, "git init -q; git -c user.name=a -c user.email=b commit --allow-empty")
    assert output.failed
    assert "empty commit message" in output.text


async def test_output_is_shown_at_once(ctx: ToolContext, listener: Listener) -> None:
    """A program of Python that writes to a pipe would keep it to itself for 8 KiB."""
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run, ctx, f"{sys.executable} -c 'import time; print(1); time.sleep(60)'")
            while "".join(listener.shown) != "1\n":
                await trio.sleep(0.01)
            nursery.cancel_scope.cancel()
    assert "".join(listener.shown) == "1\n"


async def test_output_is_shown_while_it_runs(ctx: ToolContext, listener: Listener) -> None:
    async with trio.open_nursery() as nursery:

        async def look() -> None:
            with trio.fail_after(30):
                while "one\n" not in "".join(listener.shown):
                    await trio.sleep(0.01)
            (Path(ctx.cwd) / "seen").touch()

        nursery.start_soon(look)
        output = await run(ctx, "echo one; until [ -e seen ]; do sleep 0.02; done; echo two")
    assert body(output) == "one\ntwo\n"
    assert "".join(listener.shown) == "one\ntwo\n"


@pytest.mark.parametrize(
    "command",
    [
        "echo ready; sleep 60",
        "trap '' TERM; echo ready; sleep 60; sleep 60",
        "sleep 60 & sleep 60 & echo ready; wait",
        "setsid sleep 60 & echo ready; wait",
        "nohup sleep 60 >/dev/null 2>&1 & echo ready; wait",
        "echo ready; sleep 0.2; yes",
    ],
    ids=["plain", "ignores TERM", "children", "setsid", "nohup", "flood"],
)
async def test_a_cancel_ends_it_all_within_the_grace(ctx: ToolContext, listener: Listener, command: str) -> None:
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:

            async def cancel() -> None:
                while "ready" not in "".join(listener.shown):
                    await trio.sleep(0.005)
                await trio.sleep(0.3)
                scope.cancel(reason="the test says so")

            nursery.start_soon(cancel)
            await run(ctx, command)
    assert scope.cancelled_caught
    assert_nothing_left(ctx)


async def test_cancelled_command_is_not_waited_for(ctx: ToolContext) -> None:
    start = trio.current_time()
    with trio.CancelScope(deadline=start + 0.3):
        await run(ctx, "trap '' TERM; sleep 60; sleep 60")
    assert trio.current_time() - start < 30
    assert_nothing_left(ctx)


async def test_output_before_a_cancel_is_kept(ctx: ToolContext, listener: Listener) -> None:
    for _ in range(10):  # unless the machine stands still for as long as it has to say goodbye
        listener.shown.clear()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run, ctx, "trap 'echo goodbye; exit' TERM; echo hello; sleep 60 & wait")
            while "hello\n" not in "".join(listener.shown):
                await trio.sleep(0.01)
            nursery.cancel_scope.cancel(reason="test")
        if "goodbye" in "".join(listener.shown):
            break
    assert "".join(listener.shown) == "hello\ngoodbye\n"


async def test_a_command_that_can_not_be_started(
    ctx: ToolContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ToolError, match=r"could not be started: .*zero|null byte"):
        await run(ctx, "echo \0")
    with pytest.raises(ToolError, match=r"could not be started: .*surrogates not allowed"):
        await run(ctx, "echo \ud800")
    with pytest.raises(ToolError, match=r"could not be started: .*Argument list too long"):
        await run(ctx, ":" * 200_000)
    tmp_path.rmdir()
    with pytest.raises(ToolError, match=r"could not be started: .*No such file or directory"):
        await run(ctx, "true")
    tmp_path.mkdir()
    monkeypatch.setenv("PATH", os.devnull)
    with pytest.raises(ToolError, match=r"could not be started: .*'bash'"):
        await run(ctx, "true")


ENDED = FinishedProcess(
    cause="exit",
    exit_code=0,
    signal=None,
    duration=1.25,
    left_behind=0,
    ended=True,
    survivors=(),
    output_complete=True,
)


@pytest.mark.parametrize(
    ("finished", "notes", "failed"),
    [
        (ENDED, "[exit code 0, 1.2 s]", False),
        (
            attrs.evolve(ENDED, ended=False, survivors=(ProcessId(7, 1), ProcessId(8, 1)), output_complete=False),
            "[exit code 0, 1.2 s]\n[some of its processes could not be ended and may still run; pids: 7, 8]",
            False,
        ),
        (
            attrs.evolve(ENDED, ended=False, survivors=tuple(ProcessId(pid, 1) for pid in range(101, 5_000))),
            "[exit code 0, 1.2 s]\n[some of its processes could not be ended and may still run; pids: "
            f"{', '.join(map(str, range(101, 121)))} and 4,879 more]",
            False,
        ),
        (
            attrs.evolve(ENDED, cause="timeout", exit_code=None, signal=9, ended=False),
            "[ended at its timeout of 5 s, 1.2 s]\n"
            "[some of its processes could not be ended and may still run; pids: unknown]",
            True,
        ),
        (
            attrs.evolve(ENDED, output_complete=False),
            "[exit code 0, 1.2 s]\n[the end of the output may be missing]",
            False,
        ),
    ],
)
def test_descriptions_of_an_end(finished: FinishedProcess, notes: str, failed: bool) -> None:
    output = report(finished, CapturedOutput(text="hi"), 5)
    assert (output.text, output.failed) == (f"hi\n{notes}", failed)


def test_durations_make_no_other_result() -> None:
    """A loop of the same failing command is found although each run takes another time and is kept under another id."""
    slower = attrs.evolve(ENDED, duration=9.5)
    one, other = (CapturedOutput(text=f"red\n[all of it: spill:{name}]", spill_id=name) for name in ("a1", "b2"))
    assert report(ENDED, one, 5).produced == report(slower, other, 5).produced
    assert report(ENDED, one, 5).produced != report(attrs.evolve(ENDED, exit_code=1), one, 5).produced


@pytest.mark.usefixtures("not_root")
async def test_a_folder_that_may_not_be_entered(ctx: ToolContext, tmp_path: Path) -> None:
    tmp_path.chmod(0)
    try:
        with pytest.raises(ToolError, match=r"could not be started: .*Permission denied"):
            await run(ctx, "true")
    finally:
        tmp_path.chmod(0o700)


@pytest.mark.parametrize(
    ("arguments", "is_safe"),
    [
        (Bash("ls -la | wc -l"), True),
        (Bash("ls > x"), False),
        (Bash("make"), False),
        (Bash("ls", background=True), False),
    ],
)
async def test_concurrency_safety(arguments: Bash, is_safe: bool, tmp_path: Path) -> None:
    assert BASH.assess is not None
    assert await BASH.assess(arguments, str(tmp_path)) is is_safe


async def test_vanishing_folder_makes_no_command_safe(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    assert BASH.assess is not None
    assert await BASH.assess(Bash("cd sub && ls"), str(tmp_path))
    assert not await BASH.assess(Bash("cd sub || rm -r ."), str(tmp_path))


class CountedPrograms(dict[str, Program]):
    """The programs that everybody has, counting how often `ls` is looked up."""

    count = 0

    def __getitem__(self, name: str) -> Program:
        self.count += name == "ls"
        return super().__getitem__(name)


async def test_one_scan_serves_safety_and_permission(ctx: ToolContext, tmp_path: Path) -> None:
    programs = CountedPrograms(DEFAULT_REGISTRY.programs)
    made = bash_tool(ProgramRegistry(programs, DEFAULT_REGISTRY.arity))
    assert made.assess is not None

    async def lookups(args: Bash, *, cwd: Path = tmp_path, assess: bool = True) -> int:
        before = programs.count
        if assess:
            assert made.assess is not None
            assert await made.assess(args, str(cwd))
        need = await made.need(args, ctx)  # type: ignore[misc]  # it is async
        assert need.patterns[-1] == "ls"
        return programs.count - before

    by_need = await lookups(Bash("ls"), assess=False)
    by_both = await lookups(Bash("ls"))
    elsewhere = await lookups(Bash("ls"), cwd=Path("/"))
    assert by_both == by_need < elsewhere  # another working directory: scanned again

    (tmp_path / "sub").mkdir()
    args = Bash("cd sub; ls")
    await made.assess(args, str(tmp_path))
    (tmp_path / "sub").rmdir()
    gone = await made.need(args, ctx)  # type: ignore[misc]  # it is async
    fresh = await made.need(Bash("cd sub; ls"), ctx)  # type: ignore[misc]  # it is async
    assert gone == fresh  # the folder went away: scanned again


async def test_a_name_is_for_jobs(ctx: ToolContext) -> None:
    with pytest.raises(ToolError, match="Only a background job has a name"):
        await bash(Bash("touch x", name="a"), ctx)
    assert not (Path(ctx.cwd) / "x").exists()


@pytest.mark.parametrize("name", ["", "-a", "a b", "a/b", "x" * 33, "a:b", "é"])
def test_names_that_are_none(name: str) -> None:
    with pytest.raises(InvalidArguments):
        parse(Bash, json.dumps({"command": "x", "name": name}))


@pytest.mark.parametrize(
    "arguments",
    ["{}", '{"command": ""}', '{"command": "x", "timeout": 0}', '{"command": "x", "timeout": 601}', '{"command": 5}'],
)
def test_arguments_that_do_not_fit(arguments: str) -> None:
    with pytest.raises(InvalidArguments):
        parse(Bash, arguments)


def test_the_default_timeout() -> None:
    assert parse(Bash, '{"command": "x"}') == Bash("x", 120.0)
    assert parse(Bash, '{"command": "x", "timeout": 600}').timeout == 600.0
