"""`run_tree` owns the whole tree: real processes, in real time."""

import ctypes
import errno
import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import attrs
import pytest
import trio
import trio.testing

from engine.process import kill_tree as strays
from engine.process import procfs as proc
from engine.process.kill_tree import end_processes, find_marked, reap
from engine.process.procfs import ProcessId, identify, is_alive
from engine.process.run_tree import FinishedProcess, run_tree
from tests.conftest import CountRuns, Soak
from tests.os import crashed, trees
from tests.os.trees import STUBBORN, bash
from tests.support.processes import python_process, read_line

pytestmark = [pytest.mark.os, pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")]

# Twice the default: what is tested with it is that all are ended, also on a loaded machine.
GRACE = 0.5
# Of programs that end when they are asked to: they must have the time for it on a machine that stands still for seconds.
PATIENT = 60.0
# For what would last for ever, or for `PATIENT`, if the promise were broken.
SOON = 30.0


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    with trees.nothing_left():
        yield


@attrs.define(eq=False)
class Output:
    """What a command wrote so far."""

    data: bytearray = attrs.field(factory=bytearray)
    is_ready: trio.Event = attrs.field(factory=trio.Event)
    largest: int = 0

    def __call__(self, chunk: bytes) -> None:
        self.largest = max(self.largest, len(chunk))
        if len(self.data) < 1_000_000:
            self.data += chunk
        if b"ready" in self.data:
            self.is_ready.set()

    @property
    def text(self) -> str:
        return self.data.decode()


@attrs.define(eq=False)
class Stopwatch:
    """Measures from a cancel to its end."""

    started: float = 0.0

    def start(self) -> None:
        self.started = trio.current_time()

    def read(self) -> float:
        return trio.current_time() - self.started


async def run(
    script: str,
    output: Callable[[bytes], None] | None = None,
    *,
    limit: float | None = None,
    grace: float = GRACE,
    drain: float = 0.2,
    on_start: Callable[[ProcessId], None] | None = None,
    on_finish: Callable[[FinishedProcess], None] | None = None,
) -> FinishedProcess:
    return await run_tree(
        bash(script),
        cwd="/",
        marker=trees.marker(),
        on_output=output or Output(),
        timeout=limit,
        grace=grace,
        drain=drain,
        on_start=on_start,
        on_finish=on_finish,
    )


async def timed_out(script: str, *, grace: float = PATIENT) -> tuple[FinishedProcess, str]:
    """Run *script*, which says "ready", with a limit that comes later than that; return how it ended, and its output."""
    limit = 0.1
    while True:
        output = Output()
        finished = await run(script, output, limit=limit, grace=grace)
        if output.is_ready.is_set():
            return finished, output.text
        limit *= 4


async def cancelled_when(
    wait: Callable[[], Awaitable[None]], script: str, output: Output | None = None, *, grace: float = GRACE
) -> FinishedProcess:
    """Run *script*, cancel it when *wait* (async) has returned, return how it ended."""
    results: list[FinishedProcess] = []
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: run(script, output, grace=grace, on_finish=results.append))
            await wait()
            scope.cancel(reason="test")
    assert scope.cancelled_caught
    (finished,) = results
    return finished


@contextmanager
def _sleep() -> Generator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", trees.token()]) as process:
        try:
            yield process
        finally:
            process.kill()


# ---- an ordinary command ---------------------------------------------------------------------------------------------


async def test_exit_code_and_merged_output() -> None:
    output = Output()
    finished = await run("echo out; echo err >&2; exit 3", output)
    assert output.text == "out\nerr\n"
    assert (finished.cause, finished.exit_code, finished.signal, finished.timed_out) == ("exit", 3, None, False)
    assert (finished.left_behind, finished.ended, finished.survivors, finished.output_complete) == (0, True, (), True)


async def test_errors_apart_from_the_output() -> None:
    output, errors = Output(), Output()
    script = "echo out; echo err >&2; (sleep 0.05; echo late >&2) & echo more"
    finished = await run_tree(
        bash(script), cwd="/", marker=trees.marker(), on_output=output, on_errors=errors, grace=GRACE
    )
    assert (output.text, errors.text, finished.output_complete) == ("out\nmore\n", "err\nlate\n", True)


# ---- what a command reads --------------------------------------------------------------------------------------------

MUCH = b"0123456789abcdef" * 65_536  # more than any pipe holds


async def fed(script: str, data: bytes | None, *, timeout: float | None = None) -> tuple[FinishedProcess, str]:
    output = Output()
    finished = await run_tree(
        bash(script), cwd="/", marker=trees.marker(), on_output=output, input=data, grace=GRACE, timeout=timeout
    )
    return finished, output.text


async def test_a_command_reads_its_input_to_the_end() -> None:
    for data in (b"", b"some\nwords\n", MUCH):
        _, text = await fed("wc -c", data)
        assert int(text) == len(data)


async def test_without_input_there_is_nothing_to_read() -> None:
    assert (await fed("cat; echo end", None))[1] == "end\n"


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("echo hi", "hi\n"),
        ("exec <&-; sleep 0.05; echo hi", "hi\n"),
        ("head -c 5; echo; sleep 0.05", "01234\n"),
        ("echo hi; exec >&- 2>&- <&-; sleep 0.05", "hi\n"),
    ],
    ids=["never reads", "closes it", "reads a little", "closes everything"],
)
async def test_a_command_need_not_read_its_input(script: str, told: str) -> None:
    finished, text = await fed(script, MUCH)
    assert (text, finished.cause, finished.exit_code) == (told, "exit", 0)


async def test_input_held_by_a_descendant_blocks_nothing() -> None:
    watch = Stopwatch()
    watch.start()
    finished, text = await fed(f"sleep {trees.token()} & echo hi", MUCH)
    assert (text, finished.cause, finished.left_behind, finished.ended) == ("hi\n", "exit", 1, True)
    assert watch.read() < SOON


async def test_command_that_never_reads_can_be_ended() -> None:
    finished, _ = await fed(f"sleep {trees.token()}", MUCH, timeout=0.1)
    assert (finished.cause, finished.ended) == ("timeout", True)
    with trio.move_on_after(0.1) as scope:
        await fed(f"sleep {trees.token()}", MUCH)
    assert scope.cancelled_caught


async def test_leaders_signal_differs_from_a_timeout() -> None:
    finished = await run("kill -TERM $$", limit=PATIENT)
    assert (finished.cause, finished.exit_code, finished.signal) == ("exit", None, signal.SIGTERM)


async def test_the_leader_has_a_session_of_its_own() -> None:
    output = Output()
    await run("read -a stat </proc/$$/stat; echo ${stat[0]} ${stat[4]} ${stat[5]}", output)
    pid, group, session = output.text.split()
    assert pid == group == session


async def test_stdin_is_empty_and_environment_is_set(tmp_path: Path) -> None:
    output = Output()
    finished = await run_tree(
        bash("cat; pwd; echo $COLOUR"),
        cwd=str(tmp_path),
        marker=trees.marker(),
        env={**os.environ, "COLOUR": "blue"},
        on_output=output,
    )
    assert finished.exit_code == 0
    assert output.text == f"{tmp_path}\nblue\n"


async def test_a_program_that_is_not_there() -> None:
    with pytest.raises(FileNotFoundError):
        await run_tree(["no-such-program"], cwd="/", marker=trees.marker(), on_output=Output())


@pytest.mark.parametrize(
    "wrong",
    [{"marker": ""}, {"marker": "a:b"}, {"marker": "a\0b"}, {"timeout": -1.0}, {"grace": -1.0}, {"drain": -1.0}],
    ids=str,
)
async def test_invalid_arguments_start_nothing(wrong: dict[str, object]) -> None:
    started: list[ProcessId] = []
    arguments: dict[str, object] = {"cwd": "/", "marker": trees.marker(), "on_output": Output(), **wrong}
    with pytest.raises(ValueError, match=r"marker|negative"):
        await run_tree(["true"], on_start=started.append, **arguments)  # type: ignore[arg-type]
    assert started == []


async def test_much_output_arrives_whole_and_in_pieces() -> None:
    count = 0
    largest = 0

    def output(chunk: bytes) -> None:
        nonlocal count, largest
        count += len(chunk)
        largest = max(largest, len(chunk))

    finished = await run("head -c 20000000 /dev/zero; head -c 1000000 /dev/zero >&2", output)
    assert count == 21_000_000
    assert largest <= 65_536
    assert finished.exit_code == 0


async def test_endless_output_leaves_room_for_other_tasks() -> None:
    output = Output()

    async def neighbour() -> None:
        while not output.data:
            await trio.sleep(0.001)
        for _ in range(20):
            await trio.sleep(0.001)

    finished = await cancelled_when(neighbour, "yes {t}", output)
    assert finished.cause == "cancel"


async def test_fast_writer_is_held_back() -> None:
    count = 0
    has_room = trio.Event()

    def output(chunk: bytes) -> None:
        nonlocal count
        count += len(chunk)

    async def room() -> None:
        await has_room.wait()

    async with trio.open_nursery() as nursery:

        async def look() -> None:
            while not count:
                await trio.sleep(0.001)
            await trio.sleep(0.2)
            assert count <= 65_536
            has_room.set()

        nursery.start_soon(look)
        finished = await run_tree(
            bash("head -c 20000000 /dev/zero"), cwd="/", marker=trees.marker(), on_output=output, room=room
        )
    assert count == 20_000_000
    assert finished.output_complete


async def test_cancel_under_backpressure_loses_no_output(tmp_path: Path) -> None:
    output, more = Output(), tmp_path / "more"
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(
                partial(
                    run_tree,
                    bash(
                        "trap 'echo bye; exit' TERM; echo ready; sleep 0.05; echo more; touch {more}; sleep {t} & wait",
                        more=str(more),
                    ),
                    cwd="/",
                    marker=trees.marker(),
                    on_output=output,
                    room=trio.sleep_forever,
                    grace=PATIENT,
                )
            )
            await output.is_ready.wait()
            while not more.exists():
                await trio.sleep(0.01)
            assert output.text == "ready\n"
            scope.cancel(reason="test")
    assert output.text == "ready\nmore\nbye\n"


async def test_final_output_is_passed_on() -> None:
    script = "trap 'echo last words; exit 7' TERM; echo ready; sleep {t} & wait"
    finished, text = await timed_out(script)
    assert (finished.cause, finished.exit_code) == ("timeout", 7)
    assert text == "ready\nlast words\n"
    output = Output()
    await cancelled_when(output.is_ready.wait, script, output, grace=PATIENT)
    assert output.text == "ready\nlast words\n"


# ---- what outlives the leader ----------------------------------------------------------------------------------------


async def test_rule_11_background_child_does_not_hold_call() -> None:
    output = Output()
    start = trio.current_time()
    finished = await run("sleep {t} & echo hi", output)
    assert trio.current_time() - start < SOON
    assert output.text == "hi\n"
    assert (finished.cause, finished.exit_code, finished.left_behind) == ("exit", 0, 1)
    assert not finished.timed_out


async def test_rule_11_late_output_is_drained() -> None:
    output = Output()
    finished = await run("(sleep 0.05; echo late) & echo early", output, drain=PATIENT)
    assert output.text == "early\nlate\n"
    assert (finished.left_behind, finished.output_complete) == (0, True)
    assert finished.duration < SOON


async def test_rule_11_finishing_process_is_not_ended(tmp_path: Path) -> None:
    """As `command > >(tee file)` leaves a tee which holds no pipe of ours, and has something to write."""
    finished = await run(f"(sleep 0.05; touch {tmp_path}/done) >/dev/null 2>&1 & echo hi", drain=PATIENT)
    assert finished.left_behind == 0
    assert (tmp_path / "done").exists()


async def test_rule_11_timeout_stops_counting_at_exit() -> None:
    finished = await run("sleep {t} & exit 5", limit=0.2, drain=0.4)
    if finished.cause == "timeout":  # the machine was too slow for it
        finished = await run("sleep {t} & exit 5", limit=10, drain=10.2)
    assert (finished.cause, finished.exit_code) == ("exit", 5)


async def test_rule_11_leftovers_are_counted_everywhere() -> None:
    finished = await run("sleep {t} & setsid sleep {t} & setsid -f sleep {t} >/dev/null 2>&1; exit 0")
    assert finished.left_behind == 3


@pytest.mark.parametrize("drain", [0, 0.02])
async def test_rule_11_exec_hides_no_process(drain: float) -> None:
    """While execve loads a program its environment can't be read: 18 of 300 escaped two empty looks by that."""
    script = "setsid bash -c 'exec setsid env A=1 nice sleep {t}' >/dev/null 2>&1 & echo hi"
    for _ in range(40):
        finished = await run(script, drain=drain)
        assert trees.alive() == []
        assert finished.ended


# ---- cancel and timeout ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", STUBBORN)
async def test_rule_11_cancel_ends_the_whole_tree(kind: str) -> None:
    output = Output()
    finished = await cancelled_when(output.is_ready.wait, STUBBORN[kind], output)
    assert trees.alive() == []
    assert finished.cause == "cancel"
    assert finished.ended
    assert finished.duration < SOON


@pytest.mark.parametrize("kind", STUBBORN)
async def test_rule_11_timeout_ends_the_whole_tree(kind: str) -> None:
    start = trio.current_time()
    finished = await run(STUBBORN[kind], limit=0.1)
    assert trio.current_time() - start < SOON
    assert trees.alive() == []
    assert (finished.cause, finished.timed_out, finished.ended) == ("timeout", True, True)


@pytest.mark.parametrize("kind", [kind for kind in STUBBORN if kind not in {"hopper", "leader stopped"}])
async def test_rule_11_leaders_exit_ends_the_rest(kind: str) -> None:
    finished = await run(f"({STUBBORN[kind]}) & sleep 0.1; exit 4", drain=0)
    assert trees.alive() == []
    assert (finished.cause, finished.exit_code, finished.ended) == ("exit", 4, True)
    assert finished.left_behind >= 1


async def test_rule_11_deaf_command_is_killed() -> None:
    took, finished = await _cancel_together("trap '' TERM; echo ready; sleep {t}; sleep {t}", calls=1, grace=0.25)
    assert 0.125 <= took < SOON
    assert finished.signal == signal.SIGKILL


@pytest.mark.parametrize(
    ("script", "how"),
    [
        ("echo ready; exec sleep {t}", (None, signal.SIGTERM)),
        ("trap 'sleep 0.05; exit 0' TERM; echo ready; sleep {t} & wait", (0, None)),
    ],
    ids=["polite: at once", "tidies up: as long as that takes"],
)
async def test_rule_11_cancel_waits_for_the_command(script: str, how: tuple[int | None, signal.Signals | None]) -> None:
    took, finished = await _cancel_together(script, calls=1, grace=PATIENT)
    assert took < SOON
    assert (finished.exit_code, finished.signal) == how


async def test_rule_11_stalled_loop_ends_the_tree() -> None:
    """The whole grace has passed when SIGKILL is sent, and what is killed is not gone at once."""

    def block(chunk: bytes) -> None:
        if b"asked" in chunk:
            time.sleep(1.5 * GRACE)

    script = "trap 'echo asked' TERM; setsid sleep {t} & while :; do sleep 0.02; done # {t}"
    for _ in range(3):
        finished = await run(script, block, limit=0.15)
        assert trees.alive() == []
        assert (finished.ended, finished.survivors) == (True, ())


async def _cancel_together(script: str, *, calls: int, grace: float) -> tuple[float, FinishedProcess]:
    """Return the seconds from the cancel of so many calls to their end, and how one of them ended."""
    outputs, clock = [Output() for _ in range(calls)], Stopwatch()
    finished: list[FinishedProcess] = []
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            for output in outputs:
                nursery.start_soon(partial(run, script, output, grace=grace, on_finish=finished.append))
            for output in outputs:
                await output.is_ready.wait()
            clock.start()
            scope.cancel(reason="test")
    return clock.read(), finished[0]


async def test_rule_11_one_sigterm_for_each() -> None:
    """Many a program takes a second one for impatience."""
    output = Output()
    script = "trap 'echo term' TERM; (trap 'echo term' TERM; echo ready; {wait}) & {wait}"
    script = script.replace("{wait}", "for i in {1..40}; do sleep 0.02; done")
    await cancelled_when(output.is_ready.wait, script, output, grace=PATIENT)
    assert output.text.count("term") == 2


async def test_rule_11_cancelled_before_it_begins() -> None:
    started: list[ProcessId] = []
    with trio.CancelScope() as scope:
        scope.cancel(reason="test")
        await run("sleep {t}", on_start=started.append)
    assert scope.cancelled_caught
    assert started == []


async def test_rule_11_cancelled_while_spawning() -> None:
    """`open_process` can't be stopped then, and returns a process that nobody may forget."""
    ended: list[FinishedProcess] = []
    for _ in range(20):
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(lambda: run("sleep {t}", on_finish=ended.append))
                while not trio.testing.active_thread_count():
                    await trio.lowlevel.checkpoint()
                scope.cancel(reason="test")
        assert trees.alive() == []
    assert [finished.cause for finished in ended] == ["cancel"] * 20


class _CancelAtStep(trio.abc.Instrument):
    def __init__(self, scope: trio.CancelScope, step: int) -> None:
        self.scope = scope
        self.left = step

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.left -= 1
        if self.left == 0:
            self.scope.cancel(reason="test")


async def test_rule_11_cancelled_at_every_step(count_runs: CountRuns) -> None:
    """Until the steps run out: the command ends by itself before the cancel."""
    step = 0
    while True:
        step += 1
        finished: list[FinishedProcess] = []
        scope = trio.CancelScope()
        instrument = _CancelAtStep(scope, step)
        trio.lowlevel.add_instrument(instrument)
        with scope:
            await run("setsid sleep {t} & echo hi; sleep 0.02", drain=0.01, on_finish=finished.append)
        trio.lowlevel.remove_instrument(instrument)
        assert trees.alive() == []
        assert all(how.ended for how in finished)
        if instrument.left > 0:
            break
    assert step > 20
    count_runs(step)


@pytest.mark.soak
async def test_rule_11_cancelled_at_any_instant(soak: Soak, count_runs: CountRuns) -> None:
    """Several at a time, each stubborn in its way, each cancelled at an instant of its own."""
    took: list[float] = []

    async def one(seed: int) -> None:
        dice = random.Random(seed)
        kind = dice.choice(list(STUBBORN))
        clock = Stopwatch()
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(run, STUBBORN[kind])
                await trio.sleep(dice.choice([0, 0.01, 0.1]) * dice.random())
                clock.start()
                scope.cancel(reason="test")
        took.append(clock.read())
        count_runs(1)

    batch: list[int] = []
    for seed in soak.seeds(at_least=60):
        batch.append(seed)
        if len(batch) == 4:
            async with trio.open_nursery() as nursery:
                for each in batch:
                    nursery.start_soon(one, each)
            assert trees.alive() == [], f"seeds {batch}"
            batch.clear()
    assert max(took) < SOON


async def test_rule_11_among_many_processes() -> None:
    """None of them is touched, and calls that are cancelled together end together."""
    script = "setsid sleep {t} & trap '' TERM; echo ready; sleep {t}; sleep {t}"
    with ExitStack() as stack:
        crowd = [stack.enter_context(_sleep()) for _ in range(300)]
        took, finished = await _cancel_together(script, calls=8, grace=0.25)
        assert set(trees.alive()) == {process.pid for process in crowd}
    assert took < SOON
    assert finished.ended


async def test_rule_11_timeout_differs_from_exit() -> None:
    told = [
        await run("exit 124", limit=PATIENT),
        (await timed_out("trap 'exit 0' TERM; echo ready; sleep {t} & wait"))[0],
        await run("sleep {t}", limit=0.05, grace=PATIENT),
        (await timed_out("trap '' TERM; echo ready; sleep {t}; sleep {t}", grace=GRACE))[0],
        await run("sleep 0.05; kill -KILL $$", limit=PATIENT),
        await run("sleep {t}", limit=0, grace=PATIENT),
    ]
    assert [(how.timed_out, how.exit_code, how.signal) for how in told] == [
        (False, 124, None),
        (True, 0, None),
        (True, None, signal.SIGTERM),
        (True, None, signal.SIGKILL),
        (False, None, signal.SIGKILL),
        (True, None, signal.SIGTERM),
    ]


# ---- how it is done --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "script", ["echo hi", "sleep {t} & echo hi", "sleep {t}", "trap '' TERM; sleep {t}; sleep {t}"]
)
async def test_rule_11_group_is_signalled_before_reaping(script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once it is reaped, the number of the group may come to name somebody else's processes."""
    signals: list[int] = []
    kill_group = os.killpg

    def watched(group: int, number: int) -> None:
        assert Path(f"/proc/{group}").exists(), "reaped already"
        signals.append(number)
        kill_group(group, number)

    monkeypatch.setattr(os, "killpg", watched)
    await run(script, limit=0.1)
    assert signals[0] == signal.SIGTERM
    assert signals[-1] == signal.SIGKILL


async def test_rule_11_a_recycled_pid_is_not_hit() -> None:
    with _sleep() as bystander:
        stray = identify(bystander.pid)
        namesake = attrs.evolve(stray, start_time=stray.start_time - 1)
        assert is_alive(stray)
        assert not is_alive(namesake)
        assert await end_processes(lambda: [namesake], grace=0.05) == ()
        assert bystander.poll() is None
        assert await end_processes(lambda: [stray] if is_alive(stray) else [], grace=PATIENT) == ()
        assert bystander.wait(SOON) == -signal.SIGTERM


async def test_rule_11_the_one_hole() -> None:
    """Out of the session, the parents gone, the environment wiped: documented, and it takes a namespace to close it."""
    output = Output()
    finished = await run("env -i setsid -f sleep {t} >/dev/null 2>&1; sleep 0.1; echo hi", output)
    assert output.text == "hi\n"
    assert finished.left_behind == 0
    (escaped,) = trees.alive()
    os.kill(escaped, signal.SIGKILL)
    assert trees.wait_for(lambda: trees.alive() == [])


async def test_an_engine_inside_a_call_of_another_engine() -> None:
    """The inner call is found by the marker of the outer one, too."""
    outer, inner = trees.marker(), trees.marker()
    found: list[set[str]] = []

    def output(_: bytes) -> None:
        found.append({mark for mark in (outer, inner, "other") if find_marked(mark.__eq__)})
        scope.cancel(reason="test")

    with trio.CancelScope() as scope:
        await run_tree(
            bash("echo ready; sleep {t}"), cwd="/", marker=inner, env=strays.marked(os.environ, outer), on_output=output
        )
    assert found == [{outer, inner}]


async def test_a_callback_that_raises_ends_the_tree() -> None:
    def broken(_: object) -> None:
        raise LookupError("broken") from KeyError("cause")

    for output, on_start in ((broken, None), (Output(), broken)):
        finished: list[FinishedProcess] = []
        with pytest.raises(LookupError, match="broken") as caught:
            await run("echo ready; sleep {t}", output, on_start=on_start, on_finish=finished.append)
        assert isinstance(caught.value.__cause__, KeyError)
        assert finished[0].cause == "cancel"


async def test_without_a_grace_all_are_killed(caplog: pytest.LogCaptureFixture) -> None:
    """SIGKILL is sent, but there may be no time to see it work."""
    others = trees.children()  # other tests may keep a server
    output, clock = Output(), Stopwatch()
    results: list[FinishedProcess] = []
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            script = "trap '' TERM; echo ready; sleep {t}; sleep {t}"
            nursery.start_soon(lambda: run(script, output, grace=0, on_finish=results.append))
            await output.is_ready.wait()
            clock.start()
            scope.cancel(reason="test")
    assert clock.read() < SOON
    (finished,) = results
    assert finished.ended or "could be ended" in caplog.text
    # It goes a moment later, and no zombie is left of it: `nothing_left` would see one.
    while trees.alive() or trees.children() - others:
        await trio.sleep(0.001)


async def test_unfindable_process_is_not_called_ended() -> None:
    """The group was signalled all the same; but a look through /proc needs a descriptor."""
    output = Output()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)

    def no_more_files(_: ProcessId) -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))

    try:
        finished = await run("echo ready; sleep {t}", output, limit=0.05, on_start=no_more_files)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert finished.cause == "timeout"
    # SIGTERM, if it is there in time; half the grace later the group is killed.
    assert finished.signal in {signal.SIGTERM, signal.SIGKILL}
    assert not finished.ended


# The child stays root's; the leader becomes another user's, if its second argument says so.
_SUDO = """
import os, sys, time
child = os.fork()
if child:
    if sys.argv[2] == "leave":
        os.setresuid(4711, 4711, 4711)
    print(child, "ready", flush=True)
time.sleep(float(sys.argv[1]))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="has to become another user")
@pytest.mark.parametrize("leader", ["leave", "stay"])
async def test_other_users_process_is_named(leader: str) -> None:
    """As with sudo: not ours to signal. The call ends within its grace and says so."""
    others = trees.children()  # other tests may keep a server
    output = Output()

    async def become_another() -> None:
        await output.is_ready.wait()
        os.setresuid(4711, 4711, 0)

    try:
        finished = await cancelled_when(become_another, f"exec {sys.executable} -c '{_SUDO}' {{t}} {leader}", output)
    finally:
        os.setresuid(0, 0, 0)
        left = trees.alive()
        for pid in left:
            os.kill(pid, signal.SIGKILL)
    assert int(output.text.split()[0]) in left
    assert {stray.pid for stray in finished.survivors} == set(left)
    assert (finished.ended, finished.exit_code) == (False, None)
    assert (finished.signal is None, len(left)) == ((False, 1) if leader == "leave" else (True, 2))
    assert GRACE <= finished.duration < SOON
    while trees.alive() or trees.children() - others:
        await trio.sleep(0.001)


async def test_adopted_processes_are_reaped() -> None:
    """As the first process of a container, or a subreaper, we become the parent of who lost theirs."""
    others = trees.children()  # other tests may keep a server
    set_child_subreaper = 36
    libc = ctypes.CDLL(None)
    assert libc.prctl(set_child_subreaper, 1) == 0
    try:
        for _ in range(20):
            finished = await run("setsid -f sleep {t} >/dev/null 2>&1; sleep {t} & exit 0", drain=0)
            assert finished.left_behind == 2
            assert trees.children() == others
    finally:
        libc.prctl(set_child_subreaper, 0)


# ---- poorer platforms ------------------------------------------------------------------------------------------------


def _no_pidfd(pid: int, flags: int = 0) -> int:
    raise OSError(errno.ENOSYS, "not here")


@pytest.mark.parametrize("missing", ["pidfd in the kernel", "pidfd in Python", "waitid"])
@pytest.mark.parametrize("kind", ["setsid, ignores TERM", "daemon, parent gone", "plain"])
async def test_without_pidfd(missing: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An old kernel, an old sandbox, a Python that was built for them."""
    if missing == "pidfd in the kernel":
        monkeypatch.setattr(os, "pidfd_open", _no_pidfd)
    else:
        monkeypatch.delattr(os, "pidfd_open")
    if missing == "waitid":
        monkeypatch.delattr(os, "waitid")
    output = Output()
    finished = await cancelled_when(output.is_ready.wait, STUBBORN[kind], output)
    assert (finished.cause, finished.ended) == ("cancel", True)
    finished = await run("sleep {t} & exit 3")
    assert (finished.cause, finished.exit_code, finished.left_behind) == ("exit", 3, 1)
    finished = await run("sleep {t}", limit=0.05, grace=PATIENT)
    assert (finished.cause, finished.signal) == ("timeout", signal.SIGTERM)


@pytest.mark.parametrize("missing", ["proc", "proc and pidfd"])
async def test_without_proc_the_group_is_ended(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proc, "_PROC", "/no-such-folder")
    if missing == "proc and pidfd":
        monkeypatch.delattr(os, "pidfd_open")
    finished, text = await timed_out("trap 'sleep 0.05; echo bye; exit 6' TERM; echo ready; sleep {t} & wait")
    assert (finished.cause, finished.exit_code, finished.ended) == ("timeout", 6, True)
    assert text == "ready\nbye\n"
    finished, _ = await timed_out("trap '' TERM; echo ready; sleep {t}; sleep {t}", grace=GRACE)
    assert (finished.cause, finished.signal) == ("timeout", signal.SIGKILL)
    finished = await run("sleep {t} & echo hi")
    assert (finished.cause, finished.left_behind) == ("exit", 0)
    for _ in range(3):
        output = Output()
        await cancelled_when(output.is_ready.wait, STUBBORN["children who ignore TERM"], output)
    # The end of the group is not waited for where it can't be seen.
    assert trees.wait_for(lambda: trees.alive() == [])


async def test_a_host_that_ignores_the_end_of_children() -> None:
    """Their exit codes are lost to us then, but nothing hangs, and nothing is left."""
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        finished = await run("sleep {t} & exit 3", limit=PATIENT)
        assert (finished.cause, finished.left_behind) == ("exit", 1)
        output = Output()
        await cancelled_when(output.is_ready.wait, STUBBORN["setsid"], output)
    finally:
        signal.signal(signal.SIGCHLD, before)


# ---- interrupts and crashes ------------------------------------------------------------------------------------------


def test_rule_10_interrupt_waits_for_clean_up() -> None:
    """It strikes inside our own frames, in the main task, and again while the tree is being ended."""
    results: list[FinishedProcess] = []

    def interrupt(_: object) -> None:
        assert trio.lowlevel.currently_ki_protected()
        signal.raise_signal(signal.SIGINT)

    def finish(how: FinishedProcess) -> None:
        interrupt(how)
        results.append(how)

    async def main(script: str) -> None:
        await run(script, interrupt, on_start=interrupt, on_finish=finish)

    for script in (STUBBORN["setsid, ignores TERM"], STUBBORN["plain"]):
        with pytest.raises(KeyboardInterrupt):
            trio.run(main, script)
        assert trees.alive() == []
    assert [how.cause for how in results] == ["cancel", "cancel"]


@pytest.mark.soak
def test_rule_10_keyboard_interrupt_at_any_instant(soak: Soak, count_runs: CountRuns) -> None:
    """Two at a time, each in a process of its own, because an interrupt could strike the test itself."""
    seeds = list(soak.seeds(at_least=2))
    for pair in zip(seeds[::2], seeds[1::2], strict=False):
        with ExitStack() as stack:
            helpers = [
                stack.enter_context(python_process("-m", "tests.os.interrupted", str(seed), "25")) for seed in pair
            ]
            outputs = [helper.communicate()[0] for helper in helpers]
        assert outputs == ["25 interrupted, 0 left\n"] * 2, f"seeds {pair}"
        count_runs(50)


@pytest.mark.parametrize("kind", crashed.SCRIPTS)
async def test_leftovers_of_a_crash_are_ended(kind: str) -> None:
    name = trees.marker()
    with python_process("-m", "tests.os.crashed", name, trees.token(), kind) as helper:
        assert read_line(helper) == "ready"
        leader = ProcessId(*map(int, read_line(helper).split()))
    assert len(trees.alive()) == 3
    assert is_alive(leader)
    left = find_marked(lambda mark: mark.startswith(name))
    if kind == "wiped":
        assert left == []
    else:
        assert leader in left
        assert len(left) == 3
        assert all(map(is_alive, left))
    # The number alone is not enough: somebody else may have it by now.
    assert await reap(lambda _: False, [attrs.evolve(leader, start_time=leader.start_time - 1)]) == ()
    assert len(trees.alive()) == 3
    assert await reap(lambda mark: mark.startswith(name), [leader]) == ()
    assert trees.alive() == []
    assert not any(map(is_alive, left))


async def test_strays_are_never_ourselves_nor_our_parents() -> None:
    """An engine that runs inside a call of another one carries that one's marker itself."""
    name = trees.marker()
    script = f"from engine.process.kill_tree import find_marked; print(len(find_marked({name!r}.__eq__)))"
    output = Output()
    await run_tree(
        ["bash", "-c", f'{sys.executable} -c "$0"; true', script],
        cwd=str(Path(__file__).parents[2]),
        marker=name,
        on_output=output,
    )
    assert output.text == "0\n"


async def test_commands_start_though_the_host_uses_all_its_threads() -> None:
    limiter = trio.to_thread.current_default_thread_limiter()
    holders = [object() for _ in range(int(limiter.available_tokens))]
    for holder in holders:
        await limiter.acquire_on_behalf_of(holder)
    try:
        with trio.fail_after(30):
            assert (await run("true")).exit_code == 0
    finally:
        for holder in holders:
            limiter.release_on_behalf_of(holder)
