"""`cancel_everywhere` with functions of Trio: what it runs, what it says, what it refuses."""

import gc
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from functools import partial
from math import inf
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import trio
import trio.testing

from engine.testing import CancelFailure, NotRepeatable, PromiseBroken, Report, cancel_everywhere
from engine.testing.cancellation.function_run import AsyncFunction, RunOptions, new_run, partial_body, perform
from engine.testing.cancellation.injections import FUNCTION_WAYS, Injection, parse_injection
from engine.testing.cancellation.virtual_clock import LOOK
from tests.support.cancel_faults import swallows_and_goes_on

seen: list[int] = []


async def two_tasks() -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.sleep, 1)
        await trio.sleep(0.5)


async def waits(seconds: float) -> None:
    await trio.sleep(seconds)


async def draws(seconds: float = 0.1) -> None:
    await trio.sleep(seconds)
    await trio.to_thread.run_sync(time.sleep, 0.001)


async def works_in_a_thread() -> None:
    with trio.fail_after(5):
        await trio.to_thread.run_sync(time.sleep, 0.001)


async def does_nothing() -> None:
    pass


async def stops_at_random() -> None:
    seen.append(1)
    for _ in range(len(seen) % 3):
        await trio.lowlevel.checkpoint()


def failure_of(error: PromiseBroken) -> CancelFailure:
    assert error.failure is not None
    return error.failure


def test_each_point_in_each_way() -> None:
    report = cancel_everywhere(two_tasks)
    assert report.runs == 5 * report.points > 0
    assert cancel_everywhere(two_tasks, by="scope", every=3).runs == -(-report.points // 3)
    assert cancel_everywhere(two_tasks, by=("scope_twice",), seconds=(1, 2)).runs == 2 * report.points
    assert cancel_everywhere(two_tasks, by=("scope",), schedules=3).runs >= 3 * (report.points - 2)


def test_what_the_host_has_frozen_stays_frozen() -> None:
    gc.freeze()
    cancel_everywhere(two_tasks, by="scope", every=3)
    assert gc.get_freeze_count() > 0


@pytest.mark.parametrize("way", FUNCTION_WAYS)
def test_each_way_strikes(way: str) -> None:
    arrived: list[str] = []

    async def notes() -> None:
        try:
            await trio.sleep(1)
        except BaseException as error:
            arrived.append(type(error).__name__)
            raise

    cancel_everywhere(notes, only=f"{way}@0")
    assert arrived == ["KeyboardInterrupt" if way.startswith("interrupt") else "Cancelled"]


@pytest.mark.parametrize(("way", "is_cancelled"), [("scope@0", True), ("scope@1", False), ("interrupt@0", False)])
def test_first_point_precedes_the_first_step(way: str, is_cancelled: bool) -> None:
    deadlines: list[float] = []

    async def notes() -> None:
        deadlines.append(trio.current_effective_deadline())
        await trio.sleep(1)

    cancel_everywhere(notes, only=way)
    assert (deadlines[-1] == -inf) is is_cancelled


def test_interrupt_before_the_only_step() -> None:
    assert cancel_everywhere(does_nothing).points == 1


def test_arguments_by_partial() -> None:
    assert cancel_everywhere(partial(waits, 2.0), by=("scope",)).runs == 3


def test_factory_makes_a_fresh_function() -> None:
    made: list[int] = []

    def factory() -> AsyncFunction:
        made.append(1)
        return partial(waits, 1.0)

    report = cancel_everywhere(factory, by=("scope",))
    assert len(made) == report.runs + 2


def test_check_after_the_yield_is_named() -> None:
    @contextmanager
    def case() -> Generator[AsyncFunction]:
        yield partial(waits, 1.0)
        raise AssertionError("one is missing")

    with pytest.raises(PromiseBroken, match="the check raised AssertionError: one is missing"):
        cancel_everywhere(case)


def test_allowed_error_is_no_fault() -> None:
    async def renames() -> None:
        try:
            await trio.sleep(1)
        except trio.Cancelled:
            raise OSError("closed") from None  # noqa: ASYNC104

    with pytest.raises(PromiseBroken, match="OSError: closed"):
        cancel_everywhere(renames, by=("scope",))
    cancel_everywhere(renames, by=("scope",), raises=OSError)


def test_virtual_time_waits_for_threads() -> None:
    assert cancel_everywhere(works_in_a_thread).points


async def settles() -> None:
    before = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.sleep, 1)
        for cushion in (0, 0.001):
            await trio.testing.wait_all_tasks_blocked(cushion)
        assert trio.current_time() == before


async def settles_near_a_thread() -> None:
    release = threading.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.to_thread.run_sync, lambda: release.wait())  # noqa: PLW0108  # types: it has a default
        try:
            await trio.testing.wait_all_tasks_blocked(2 * LOOK)
        finally:
            release.set()


@pytest.mark.parametrize("function", [settles, settles_near_a_thread])
def test_wait_all_tasks_blocked_returns(function: AsyncFunction) -> None:
    assert cancel_everywhere(function, by=("scope", "interrupt")).points > 4


# ---- the report ------------------------------------------------------------------------------------------------------


def test_report_names_task_and_line() -> None:
    with pytest.raises(PromiseBroken) as raised:
        cancel_everywhere(swallows_and_goes_on)
    failure = failure_of(raised.value)
    assert failure.struck is not None
    assert (failure.struck[0], failure.struck[1].source) == ("swallows_and_goes_on", "await trio.sleep(0.1)")
    text = str(raised.value)
    assert "cancel_faults.py:" in text
    assert ">>" in text
    assert failure.again in text


async def holds(free: list[int]) -> None:
    free.pop()
    await trio.sleep(1)
    free.append(1)


@contextmanager
def holding_case() -> Generator[AsyncFunction]:
    free = [1]

    async def waits_and_holds() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(holds, free)
            await trio.sleep(2)

    yield waits_and_holds
    assert free == [1], "it is lost"


def test_report_lists_each_arrival() -> None:
    with pytest.raises(PromiseBroken, match="it is lost") as raised:
        cancel_everywhere(holding_case, by="scope", only="scope@3")
    failure = failure_of(raised.value)
    assert {task for task, _ in failure.arrivals} == {"waits_and_holds", "holds"}
    for task, place in failure.arrivals:
        assert f"in the task {task}, at {place}" in " ".join(str(failure).split())
    # The row of the cancel has the number of its point.
    [row] = [line for line in str(failure).splitlines() if "cancelled by a scope" in line and ">>" in line]
    assert row.split()[1:3] == ["0.000", "3"]
    assert "at point 3 of" in str(failure)


def test_repeat_line_repeats_the_run() -> None:
    with pytest.raises(PromiseBroken) as raised:
        cancel_everywhere(swallows_and_goes_on, every=3)
    failure = failure_of(raised.value)
    with pytest.raises(PromiseBroken) as again:
        eval(failure.again, {"cancel_everywhere": cancel_everywhere, "swallows_and_goes_on": swallows_and_goes_on})
    assert failure_of(again.value).problems == failure.problems


def test_smallest_cancel_is_reported() -> None:
    with pytest.raises(PromiseBroken) as raised:
        cancel_everywhere(swallows_and_goes_on, by=("scope_twice",), every=4)
    injection = failure_of(raised.value).injection
    assert injection == Injection(way="scope", point=0)


def test_drawing_has_a_lane_per_task(tmp_path: Path) -> None:
    with pytest.raises(PromiseBroken):
        cancel_everywhere(swallows_and_goes_on, svg=tmp_path / "a.svg")
    root = ET.parse(tmp_path / "a.svg").getroot()
    texts = [element.text or "" for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "swallows_and_goes_on" in texts
    assert any("cancelled by a scope" in text for text in texts)


# ---- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("odd_run", [2, 8])
def test_runs_that_differ_are_refused(odd_run: int) -> None:
    runs: list[int] = []

    async def differs_once() -> None:
        runs.append(1)
        async with trio.open_nursery() as nursery:
            if len(runs) == odd_run:
                nursery.start_soon(trio.lowlevel.checkpoint)
        for _ in range(3):
            await trio.lowlevel.checkpoint()

    # From the third run on there is a cancel.
    with pytest.raises(NotRepeatable, match="its runs differ") as raised:
        cancel_everywhere(differs_once, by="scope")
    assert "module globals and caches" in str(raised.value)


async def loses_at_random(free: list[int]) -> None:
    await stops_at_random()
    one = free.pop()
    await trio.sleep(1)
    free.append(one)


@contextmanager
def losing_case() -> Generator[AsyncFunction]:
    free = [1]
    yield partial(loses_at_random, free)
    assert free == [1], "it is lost"


def test_runs_that_differ_are_cancelled_at_places() -> None:
    report = cancel_everywhere(stops_at_random, by=("scope", "scope_twice"), repeatable=False)
    assert report.runs >= report.points > 0
    with pytest.raises(PromiseBroken, match="it is lost") as raised:
        cancel_everywhere(losing_case, repeatable=False)
    failure = failure_of(raised.value)
    assert failure.injection is not None
    assert "test_cancel_functions.py:" in failure.injection.place
    with pytest.raises(PromiseBroken, match="it is lost"):
        eval(failure.again, {"cancel_everywhere": cancel_everywhere, "losing_case": losing_case})


def test_place_that_no_run_comes_to() -> None:
    with pytest.raises(NotRepeatable, match="was not cancelled at all"):
        cancel_everywhere(two_tasks, only="scope@after nothing at nowhere.py:3 #1")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"by": ("scop",)}, "'scop' is no way to cancel"),
        ({"every": 0}, "at least 1"),
        ({"schedules": 0}, "at least 1"),
        ({"seconds": (0,)}, "at least 1"),
        ({"limit": 0}, "more than 0 seconds"),
        ({"only": "scope@99"}, "two_tasks has no point 99: its points are 0 to"),
        ({"only": "scope"}, "is no cancel"),
        ({"only": "scope@0", "repeatable": False}, "name a place"),
        ({"most_points": 2}, "more than 2 points"),
    ],
)
def test_nonsense_is_refused(options: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        cancel_everywhere(two_tasks, **options)  # type: ignore[call-overload]  # nonsense on purpose


def test_function_that_never_ends() -> None:
    with pytest.raises(PromiseBroken, match="does not end: after 100,000 virtual seconds it waits"):
        cancel_everywhere(trio.sleep_forever)


async def waits_behind_a_shield() -> None:
    with trio.CancelScope(shield=True):
        await trio.sleep(1)


async def waits_again_and_again() -> None:
    for _ in range(2):
        with suppress(trio.Cancelled), trio.CancelScope(shield=True):
            await trio.sleep(1)


@pytest.mark.parametrize("function", [partial(waits, 1.0), waits_behind_a_shield, waits_again_and_again])
def test_clock_that_stands_still(function: AsyncFunction) -> None:
    options = RunOptions(most_quiet_seconds=0.02)
    run = new_run(None, options)
    perform(run, partial_body(run, options, function), seed=0, clock=trio.testing.MockClock())
    assert "a clock of its own, which stands still" in run.points.problems[0]
    assert "await trio.sleep(" in run.points.problems[0]


def test_thread_can_use_every_way_but_the_interrupt() -> None:
    reports: list[Report | ValueError] = []

    def work() -> None:
        reports.append(cancel_everywhere(two_tasks))
        try:
            cancel_everywhere(two_tasks, by="interrupt")
        except ValueError as error:
            reports.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    report, error = reports
    assert isinstance(report, Report)
    assert report.runs == 4 * report.points > 0
    assert report.left_out == ("interrupt: Python delivers signals to the main thread only",)
    assert "can't be used here: Python delivers signals to the main thread only" in str(error)


def test_what_is_no_async_function() -> None:
    with pytest.raises(TypeError, match="neither an async function"):
        cancel_everywhere(lambda: 3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: cancel_everywhere(waits(1)), r"not a coroutine: .* cancel_everywhere\(partial\(waits, \.\.\.\)\)"),  # type: ignore[call-overload]
        (lambda: cancel_everywhere(waits), "waits: missing a required argument: 'seconds'. .*partial"),  # type: ignore[arg-type]
        (lambda: cancel_everywhere(two_tasks, ways=("user",)), "for an async function write by="),  # type: ignore[call-overload]
    ],
)
def test_wrong_call_says_what_to_write(call: Callable[[], Report], words: str) -> None:
    with pytest.raises(TypeError, match=words):
        call()


def test_task_that_is_a_checkpoint_has_a_place() -> None:
    async def never_ends() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.lowlevel.checkpoint)
            await trio.sleep_forever()

    with pytest.raises(PromiseBroken) as raised:
        cancel_everywhere(never_ends)
    text = str(raised.value)
    assert "in checkpoint: await" in text
    assert "?:0" not in text
    # The columns stay columns, whatever the time.
    [head] = [line for line in text.splitlines() if "seconds  point" in line]
    [row] = [line for line in text.splitlines() if "shields are taken away" in line]
    assert head.index("seconds") + len("seconds") == row.index("100000.000") + len("100000.000")


async def test_inside_trio_is_refused() -> None:
    with pytest.raises(RuntimeError, match="call it from an ordinary function"):
        cancel_everywhere(two_tasks)


@pytest.mark.parametrize(
    "text", ["scope@17", "interrupt_twice@3+4", "scope@after serve at a.py:3 #2", "scope_twice@before serve #1+7"]
)
def test_text_of_a_cancel_reads_back(text: str) -> None:
    assert str(parse_injection(text)) == text


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("run._r = types.SimpleNamespace(random=random.random, shuffle=random.shuffle)", "another source of chance"),
        ("threads.THREAD_CACHE = object()", "idle threads are not known"),
        ("del threads.WorkerThread", "cannot import name 'WorkerThread'"),
    ],
)
def test_unknown_trio_is_refused(change: str, problem: str) -> None:
    code = textwrap.dedent(f"""
        import random, types, trio
        import trio._core._run as run, trio._core._thread_cache as threads
        {change}
        from engine.testing import cancel_everywhere
        cancel_everywhere(trio.lowlevel.checkpoint)
    """)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert f"does not know this Trio, {trio.__version__}" in done.stderr
    assert problem in done.stderr


def test_nothing_of_sessions_is_imported() -> None:
    code = textwrap.dedent("""
        import sys
        from engine.testing import cancel_everywhere
        import engine.testing.cancellation.pytest_test, engine.testing.cancellation.stateful
        print(sorted(m for m in sys.modules if m.startswith("engine.") and not m.startswith("engine.testing")))
    """)
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert found.strip() == "['engine.core', 'engine.core.lazy']"
