"""Background jobs: started by `bash`, shown by `bash_output`, ended by `bash_stop`. Real processes, in real time."""

# ruff: noqa: ASYNC240 -- the files are small, and what is waited for tells nobody

import json
import os
import re
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import attrs
import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from engine.core.arguments import parse
from engine.core.errors import InvalidArguments, ToolError
from engine.core.ids import CallId, SessionId
from engine.process.kill_tree import find_marked
from engine.tools.background_jobs import MAX_ENDED, Job, Jobs, Recent, TaskFunction
from engine.tools.builtin.bash import Bash, bash
from engine.tools.builtin.bash_output import BASH_OUTPUT, BashOutput, bash_output
from engine.tools.builtin.bash_stop import BASH_STOP, BashStop, bash_stop
from engine.tools.builtin.job_report import describe_job
from engine.tools.call_values import MAX_JOBS, RECENT_BYTES, Need, ToolOutput
from engine.tools.output.spill import SpillStore
from engine.tools.output.spill_writer import SpillWriter
from engine.tools.output.truncate import fits
from engine.tools.shell_environment import marker
from engine.tools.tool_context import ToolContext
from tests.support.needs import need_of
from tests.tools.conftest import Listener

pytestmark = pytest.mark.os

RUNNING = re.compile(r"\[web: running for \d+\.\d s\]\Z")


@attrs.define
class Session:
    """A session whose calls come one after the other, each with the context that the one before left."""

    ctx: ToolContext
    calls: int = 0

    async def _settled(self, output: ToolOutput) -> ToolOutput:
        assert fits(output.text)
        if output.modify is not None:
            self.ctx = attrs.evolve(self.ctx, shared=output.modify(self.ctx.shared))
        return output

    def next_call(self) -> ToolContext:
        self.calls += 1
        self.ctx = attrs.evolve(self.ctx, call_id=CallId(f"call_{self.calls}"))
        return self.ctx

    async def start(self, command: str, name: str | None = "web", *, shows: str = "") -> ToolOutput:
        """Start a job, which *shows* something at once: again, while the machine takes longer than the call waits for it."""
        attempts = 10
        while True:
            call = bash(Bash(command, background=True, name=name), self.next_call())
            with trio.fail_after(60):
                output = await self._settled(await call)
            attempts -= 1
            if re.search(shows, output.text) or not attempts:
                return output
            await self.stop(name or "")

    async def show(
        self,
        name: str | None = "web",
        *,
        wait: float = 0,
        since: int | None = None,
        limit: int = 300,
        end: bool = False,
    ) -> ToolOutput:
        arguments = BashOutput(name=name, wait=wait, since=since, limit=limit, until="end" if end else "output")
        with trio.fail_after(60):
            return await self._settled(await bash_output(arguments, self.next_call()))

    async def stop(self, name: str = "web") -> ToolOutput:
        with trio.fail_after(60):
            return await self._settled(await bash_stop(BashStop(name), self.next_call()))

    @property
    def left(self) -> int:
        return len(find_marked(lambda mark: mark.startswith(marker(self.ctx.session_id))))


@pytest.fixture
async def session(ctx: ToolContext, background: Jobs, tmp_path: Path) -> AsyncIterator[Session]:
    # The name of the folder, so that tests which run at the same time don't find each other's processes.
    yield Session(attrs.evolve(ctx, session_id=SessionId(f"ses_{os.getpid()}_{tmp_path.name}")))
    await background.aclose()


# ---- a job that goes well --------------------------------------------------------------------------------------------


async def test_job_continues_after_its_call(session: Session) -> None:
    started = await session.start("echo one; until [ -e go ]; do sleep 0.01; done; echo two; sleep 60", shows="one\n")
    assert started.text.startswith("The background job web was started.\none\n[web: running for ")
    assert started.text.endswith("\n[bash_output shows what it writes next, bash_stop ends it]")
    assert not started.failed
    nothing = await session.show()
    assert nothing.text.startswith("(no new output)\n")
    assert RUNNING.search(nothing.text)
    assert json.loads(nothing.metadata)["running"]
    Path(session.ctx.cwd, "go").touch()
    assert (await session.show(wait=50)).text.startswith("two\n[web: running for ")
    assert session.left > 0
    stopped = await session.stop()
    assert re.fullmatch(r"\(no new output\)\n\[web: stopped, \d+\.\d s\]", stopped.text)
    assert session.left == 0


async def test_job_runs_as_commands_do(session: Session) -> None:
    text = (await session.start("pwd -P; echo $PAGER; cat; echo err >&2", shows="exit code")).text
    folder = Path(session.ctx.cwd).resolve()
    assert text.startswith(f"The background job web was started.\n{folder}\ncat\nerr\n[web: exit code 0, ")


async def test_immediate_failure_is_reported_at_once(session: Session, listener: Listener) -> None:
    output = await session.start("no-such-command-at-all; exit 7", shows="exit code")
    assert output.failed
    assert re.search(r"command not found\n\[web: exit code 7, \d+\.\d s\]\Z", output.text)
    assert re.fullmatch(r"the background job web has ended: exit code 7, \d+\.\d s", listener.notices[0])
    assert not (await session.start("true")).failed


async def test_end_of_a_job_is_reported(session: Session, listener: Listener) -> None:
    await session.start("until [ -e go ]; do sleep 0.01; done; echo done; exit 3")
    Path(session.ctx.cwd, "go").touch()
    shown = await session.show(end=True, wait=50)
    assert re.fullmatch(r"done\n\[web: exit code 3, \d+\.\d s\]", shown.text)
    assert not shown.failed
    assert re.fullmatch(r"the background job web has ended: exit code 3, \d+\.\d s", listener.notices[0])
    assert (await session.show(wait=50)).text.startswith("(no new output)\n[web: exit code 3")
    assert (await session.stop()).text.startswith("web had ended before.\n(no new output)\n[web: exit code 3")


async def test_wait_ends_with_output_end_or_timeout(session: Session) -> None:
    await session.start("until [ -e go ]; do sleep 0.01; done; echo a; sleep 0.03; echo b; sleep 60")
    start = trio.current_time()
    assert (await session.show(wait=0.2)).text.startswith("(no new output)\n")
    assert trio.current_time() - start >= 0.2
    async with trio.open_nursery() as nursery:

        async def go() -> None:
            await trio.sleep(0.1)
            Path(session.ctx.cwd, "go").touch()

        nursery.start_soon(go)
        assert (await session.show(wait=50)).text.startswith("a\n")
    start = trio.current_time()
    assert "[web: running" in (await session.show(wait=0.2, end=True)).text
    assert trio.current_time() - start >= 0.2


async def test_what_comes_together_is_shown_together(session: Session) -> None:
    shown = ""
    for number in range(10):  # unless the machine stands still in between
        name = f"n{number}"
        await session.start(f"until [ -e {name} ]; do sleep 0.01; done; echo a; sleep 0.03; echo b; sleep 60", name)
        Path(session.ctx.cwd, name).touch()
        shown = (await session.show(name, wait=50)).text
        await session.stop(name)
        if shown.startswith("a\nb\n"):
            break
    assert shown.startswith("a\nb\n[n")


async def test_waiting_for_one_that_writes_without_a_pause(session: Session) -> None:
    await session.start("while :; do echo x; sleep 0.01; done")
    start = trio.current_time()
    # It returns although there is no pause.
    assert "x\n" in (await session.show(wait=1.5)).text
    assert trio.current_time() - start >= 1.4


async def test_a_list_of_jobs(session: Session) -> None:
    assert (await session.show(name=None)).text.startswith("There are no background jobs.")
    await session.start("echo hi; sleep 60", shows="hi")
    await session.start("printf  1234;\n exit 1", name=None)
    await session.show("job1", wait=50, end=True)
    await session.start("sleep 60 #" + "x" * 200, name=None)
    lines = (await session.show(name=None)).text.splitlines()
    assert re.fullmatch(r"web: running for \d+\.\d s, 0 bytes not shown yet: echo hi; sleep 60", lines[0])
    assert re.fullmatch(r"job1: exit code 1, \d+\.\d s, 0 bytes not shown yet: printf 1234; exit 1", lines[1])
    assert re.fullmatch(r"job2: running for \d+\.\d s, 0 bytes not shown yet: sleep 60 #x{90}…", lines[2])


# ---- much output -----------------------------------------------------------------------------------------------------


async def test_long_output_shows_its_end(session: Session) -> None:
    started = await session.start("seq 10000; sleep 60", shows="\n10000\n")
    assert started.text.startswith(
        "The background job web was started.\n[47,393 bytes before this are not shown; since=0 shows them]\n9701\n"
    )
    assert "\n10000\n[web: running" in started.text
    first = (await session.show(since=0, limit=3)).text.splitlines()
    assert first[:4] == ["1", "2", "3", "[48,888 bytes more; since=6 shows them]"]
    second = (await session.show(since=6, limit=1)).text.splitlines()
    assert second[:2] == ["4", "[48,886 bytes more; since=8 shows them]"]
    # What was shown again does not count twice, and nothing is new.
    assert (await session.show()).text.startswith("(no new output)\n")
    assert (await session.show(since=48_894)).text.startswith("(no new output)\n")
    assert (await session.show(since=10**12)).text.startswith("(no new output)\n")


async def test_old_output_is_readable_at_the_end(session: Session) -> None:
    command = "seq 300000; until [ -e go ]; do sleep 0.01; done; echo end"
    await session.start(command, name="big", shows="\n300000\n")
    total = sum(len(f"{n}\n") for n in range(1, 300_001))
    job = session.ctx.jobs.get("big")
    assert (job.output.total, job.output.first > 0) == (total, True)
    shown = (await session.show("big", since=0, limit=2)).text.splitlines()
    assert shown[0] == f"[{job.output.first:,} bytes before this are not shown]"
    assert re.fullmatch(r"\[.* bytes more; since=\d+ shows them\]", shown[3])
    Path(session.ctx.cwd, "go").touch()
    text = (await session.show("big", wait=50, end=True)).text
    found = re.fullmatch(r'end\n\[big: exit code 0, .* s\]\n\[all of its output: read with path="spill:(\w+)"\]', text)
    assert found is not None
    assert session.ctx.spills is not None
    with session.ctx.spills.open(found[1]) as file:
        assert len(file.read()) == total + 4


async def test_skipped_output_that_is_gone_in_part(session: Session, background: Jobs) -> None:
    await session.start("seq 300000; sleep 60", shows="\n300000\n")
    job = background.get("web")
    session.ctx = attrs.evolve(session.ctx, shared=session.ctx.shared.without("job:web"))
    text = (await session.show(limit=1)).text
    total = job.output.total
    assert text.startswith(
        f"[{total - 7:,} bytes before this are not shown; since={job.output.first} shows the newest of them]\n300000\n"
    )


async def test_giant_line_and_binary_output(session: Session) -> None:
    text = (await session.start("head -c 200000 /dev/zero; sleep 60", shows="(?s).{40000}")).text
    assert 40_000 < len(text) < 52_000
    assert (await session.start(r"printf '\351\n'", name="latin", shows="�")).text.split("\n")[1] == "�"


async def test_half_a_character_waits_for_its_other_half(session: Session) -> None:
    started = await session.start(
        r"printf 'a\303'; until [ -e go ]; do sleep 0.01; done; printf '\251b\303'; sleep 0.2",
        shows=r"started\.\na",
    )
    assert started.text.split("\n")[1] == "a"
    Path(session.ctx.cwd, "go").touch()
    assert (await session.show(wait=50, end=True)).text.startswith("éb�\n[web: exit code 0")


@given(st.lists(st.binary(max_size=40)), st.integers(1, 20), st.integers(0, 100))
def test_the_newest_bytes(chunks: list[bytes], size: int, number: int) -> None:
    recent, whole = Recent(size), b"".join(chunks)
    for chunk in chunks:
        recent.feed(chunk)
    assert recent.total == len(whole)
    assert len(whole) - recent.first >= min(size, len(whole))
    assert len(whole) - recent.first <= 2 * size + 40
    assert recent.since(number) == whole[max(number, recent.first) :]


async def test_a_flood_takes_bounded_memory(session: Session, background: Jobs) -> None:
    await session.start("head -c 100000000 /dev/zero")
    job = background.get("web")
    with trio.fail_after(60):
        await job.over.wait()
    assert len(job.output.since(0)) <= 2 * RECENT_BYTES + 65_536
    # Whoever writes faster than the disk is held up, so nothing is missing.
    assert job.captured is not None
    assert session.ctx.spills is not None
    with session.ctx.spills.open(job.captured.spill_id) as file:
        assert file.seek(0, os.SEEK_END) == job.output.total == 100_000_000


# ---- names and numbers -----------------------------------------------------------------------------------------------


async def test_name_is_unique_while_its_job_runs(session: Session, background: Jobs) -> None:
    await session.start("echo old; sleep 60")
    with pytest.raises(ToolError, match=r"'web' is running\. Stop it with bash_stop first, or take another name"):
        await session.start("touch x")
    await session.stop()
    # Its name is free, and of the new job nothing was shown.
    assert (await session.start("echo new", shows="new\n")).text.startswith(
        "The background job web was started.\nnew\n"
    )
    assert not Path(session.ctx.cwd, "x").exists()
    # So it is, too, if nobody could note that the new one was shown.
    session.ctx = attrs.evolve(session.ctx, shared=session.ctx.shared.with_value("job:web", '["ses/other", 3]'))
    assert (await session.show()).text.startswith("new\n")


async def test_so_many_run_at_most(session: Session) -> None:
    for number in range(MAX_JOBS):
        assert f"job job{number + 1} was started" in (await session.start("sleep 60", name=None)).text
    with pytest.raises(ToolError, match=rf"{MAX_JOBS} background jobs are running.*: job1, .*, job{MAX_JOBS}\."):
        await session.start("touch x", name=None)
    await session.stop("job3")
    assert "job web was started" in (await session.start("sleep 60")).text


async def test_newest_ended_jobs_are_kept(session: Session, background: Jobs) -> None:
    for number in range(MAX_ENDED + 3):
        await session.start("true", name=f"n{number}")
    assert [job.name for job in background.all()] == [f"n{number}" for number in range(3, MAX_ENDED + 3)]
    with pytest.raises(ToolError, match="n0 ended long ago, or with the engine that ran it; its output is gone"):
        await session.show("n0")


async def test_a_job_that_is_none(session: Session) -> None:
    await session.start("sleep 60")
    for call in (session.show("wob"), session.stop("wob")):
        with pytest.raises(
            ToolError, match=r"There is no background job 'wob'. Jobs of this session: web \(running for"
        ):
            await call


async def test_another_sessions_jobs_are_not_seen(session: Session) -> None:
    await session.start("sleep 60")
    host = Listener()
    other = Session(attrs.evolve(session.ctx, host=host, session_id=SessionId("ses_2")))
    with pytest.raises(ToolError, match="Jobs of this session: none"):
        await other.show()


@pytest.mark.parametrize(
    "arguments",
    [
        {"wait": -1},
        {"wait": 601},
        {"until": "later"},
        {"since": -1},
        {"limit": 0},
        {"limit": 2_000},
        {"nme": "x"},
        {"name": 5},
    ],
    ids=str,
)
def test_arguments_that_do_not_fit(arguments: dict[str, object]) -> None:
    with pytest.raises(InvalidArguments):
        parse(BashOutput, json.dumps(arguments))


def test_the_rights_they_need() -> None:
    """A rule may deny it, but nobody is asked: the session started the job itself, with a right to its command."""
    assert need_of(BASH_OUTPUT, BashOutput("a")) == Need(permission="bash_output", patterns=("a",), is_own=True)
    assert need_of(BASH_OUTPUT, BashOutput()) == Need(permission="bash_output", is_own=True)
    assert need_of(BASH_STOP, BashStop("a")) == Need(
        permission="bash_stop", patterns=("a",), detail="stop the background job a", is_own=True
    )
    assert (BASH_OUTPUT.read_only, BASH_STOP.read_only) == (True, False)
    assert (BASH_OUTPUT.safe(BashOutput()), BASH_STOP.safe(BashStop("a"))) == (True, False)


# ---- what goes wrong -------------------------------------------------------------------------------------------------


async def test_unstartable_command_leaves_no_job(session: Session, background: Jobs) -> None:
    await session.start("echo kept")
    for command in ("echo \0", "echo \ud800", ":" * 200_000):
        with pytest.raises(ToolError, match="could not be started"):
            await session.start(command)
    assert [(job.name, job.command) for job in background.all()] == [("web", "echo kept")]
    Path(session.ctx.cwd).rmdir()
    with pytest.raises(ToolError, match=r"could not be started: .*No such file or directory"):
        await session.start("true")


async def test_unstartable_job_frees_only_its_name(ctx: ToolContext) -> None:
    refused, others = trio.Event(), iter([True, False])

    async def start_task(task: TaskFunction, *, name: str) -> None:
        await trio.lowlevel.checkpoint()
        if next(others):
            await refused.wait()
            raise OSError("no memory")

    jobs = Jobs(start_task, print)

    async def start(command: str) -> None:
        with suppress(OSError):
            await jobs.start("web", command, cwd=ctx.cwd, marker=command, spills=None)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(start, "first")
        await trio.testing.wait_all_tasks_blocked()
        jobs.get("web").over.set()
        await start("second")
        refused.set()
    assert [job.command for job in jobs.all()] == ["second"]


@pytest.mark.parametrize("delay", [0, 0.001, 0.005, 0.02, 0.1, 0.25])
async def test_call_cancelled_during_start_leaves_no_job(session: Session, background: Jobs, delay: float) -> None:
    start = 0.0
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(session.start, "trap '' TERM; setsid sleep 60 & sleep 60; sleep 60")
            await trio.sleep(delay)
            start = trio.current_time()
            scope.cancel(reason="test")
    assert trio.current_time() - start < 30
    assert session.left == 0
    assert background.all() == ()


async def test_cancelled_wait_leaves_it_running(session: Session, background: Jobs) -> None:
    await session.start("until [ -e go ]; do sleep 0.01; done; echo hi; sleep 60")
    before = session.ctx.shared
    for end in (False, True):
        with trio.move_on_after(0.05) as scope:
            await session.show(wait=50, end=end)
        assert scope.cancelled_caught
    assert background.get("web").is_running
    Path(session.ctx.cwd, "go").touch()
    while b"hi\n" not in background.get("web").output.since(0):
        await trio.sleep(0.01)
    with trio.move_on_after(0.2):
        await session.show(wait=50, end=True)
    # Nothing was shown, so it is shown now.
    assert session.ctx.shared == before
    assert (await session.show()).text.startswith("hi\n[web: running")


async def test_a_cancelled_stop_stops_all_the_same(session: Session, background: Jobs) -> None:
    await session.start("trap '' TERM; sleep 60; sleep 60")
    with trio.CancelScope() as scope:
        scope.cancel(reason="test")
        await session.stop()
    assert scope.cancelled_caught
    with trio.fail_after(30):
        await background.get("web").over.wait()
    assert session.left == 0


async def test_processes_left_by_a_job(session: Session) -> None:
    text = (await session.start("sleep 60 & setsid sleep 60 & echo hi", shows="exit code")).text
    assert text.startswith("The background job web was started.\nhi\n[web: exit code 0, ")
    assert text.endswith("\n[2 processes that it left running had to be ended]")
    assert session.left == 0


async def test_closing_ends_all_jobs(session: Session, background: Jobs) -> None:
    for _ in range(3):
        await session.start("trap '' TERM; setsid sleep 60 & sleep 60; sleep 60", name=None)
    with trio.fail_after(30):
        await background.aclose()
    assert session.left == 0
    assert {job.state.partition(",")[0] for job in background.all()} == {"stopped"}
    with pytest.raises(ToolError, match="being closed"):
        await session.start("touch x")
    assert not Path(session.ctx.cwd, "x").exists()


async def test_a_cancel_of_the_whole_nursery(session: Session, listener: Listener) -> None:
    async with trio.open_nursery() as nursery:

        async def start_task(task: TaskFunction, *, name: str) -> None:
            await nursery.start(task, name=name)

        listener.jobs = Jobs(start_task, listener.notices.append)
        await session.start("trap '' TERM; setsid sleep 60 & sleep 60; sleep 60")
        nursery.cancel_scope.cancel(reason="test")
    job = listener.jobs.get("web")
    assert job.state.startswith("stopped, ")
    assert session.left == 0


async def test_a_job_that_never_got_a_process() -> None:
    """The machine took its time to say that it can't."""
    job = Job(name="web", command="x", cwd="/", marker="m", writer=SpillWriter(None), tell=print)
    job.trouble = "no memory"
    job.over.set()
    assert (
        describe_job(job, 0).text
        == "(no new output)\n[web: ended by the engine]\n[something went wrong in the engine: no memory]"
    )


class _BrokenStore(SpillStore):
    """Something is wrong with the engine itself."""

    def count(self, size: int) -> None:
        raise LookupError("broken")


async def test_internal_error_ends_no_other_task(session: Session, listener: Listener, tmp_path: Path) -> None:
    listener.spills = _BrokenStore(tmp_path / "spill").of("ses_1")
    await session.start("until [ -e go ]; do sleep 0.01; done; seq 100000")
    Path(session.ctx.cwd, "go").touch()
    assert (await session.show(wait=50, end=True)).text.endswith(
        " s]\n[something went wrong in the engine: LookupError: broken]"
    )
    with pytest.raises(LookupError, match="broken"):
        for number in range(20):  # until the machine is fast enough for it
            await session.start("seq 100000", name=f"other{number}")
    assert session.left == 0
