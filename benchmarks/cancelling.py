"""Figure `cancel`: from `turn.cancel()` to `TurnEnded`, on the real clock."""

from __future__ import annotations

import time

import attrs
import trio
import trio.testing

import engine
from benchmarks.bare import cancel_seconds, grace_seconds
from benchmarks.kit import Number, scripted
from benchmarks.report import Figure, Row, interleaved, seconds
from engine.testing.script import call, done

CALLS = 100
GRACE = 0.25
ROUNDS = 9
# So long at most does a call that never stops hold up the benchmark.
BOUND = 3.0


def cancel_once(*, stubborn: bool) -> float:
    """Return the seconds from the cancel of a turn with running calls to its `TurnEnded`."""
    release = trio.Event()

    @engine.tool(read_only=True, safe=True)
    async def wait(args: Number, ctx: engine.ToolContext) -> str:  # noqa: ARG001
        """Wait."""
        with trio.CancelScope(shield=stubborn, deadline=trio.current_time() + BOUND):
            await release.wait()
        return "stopped"

    calls = [event for n in range(CALLS) for event in call("wait", {"n": n}, id=f"c{n}")]
    settings = engine.Settings(parallel=CALLS)

    async def main() -> float:
        model = scripted([[*calls, *done("calls")]])
        async with engine.open_engine(model=model, tools=[wait], settings=settings) as eng:
            session = await eng.create_session()
            async with session.prompt("go") as turn:
                await _all_running(turn)
                began = time.perf_counter()
                turn.cancel()
                aborted, took = await _until_end(turn, began)
                release.set()
        assert turn.result.stop_reason == "aborted"
        assert aborted == [stubborn] * CALLS
        return took

    return trio.run(main)


async def _all_running(turn: engine.Turn) -> None:
    running = 0
    async for event in turn:
        running += isinstance(event, engine.CallStarted)
        if running == CALLS:
            break
    await trio.testing.wait_all_tasks_blocked()


async def _until_end(turn: engine.Turn, began: float) -> tuple[list[bool], float]:
    """Return, for each call that was aborted, whether its outcome is unknown; and how long it took."""
    aborted: list[bool] = []
    took = 0.0
    async for event in turn:
        if isinstance(event, engine.CallSettled):
            assert event.settlement.status == "aborted"
            aborted.append(event.settlement.outcome_unknown)
        elif isinstance(event, engine.TurnEnded):
            took = time.perf_counter() - began
    return aborted, took


@attrs.frozen(kw_only=True)
class _Case:
    name: str
    limit: float
    target: str


def _row(case: _Case, measured: list[float], baseline: list[float]) -> Row:
    # The best: the rest is how long others kept the cores (`docs/benchmarks.md`).
    took, base = min(measured), min(baseline)
    return Row(
        name=case.name,
        measured=seconds(took),
        baseline=seconds(base),
        ratio=took / base,
        target=case.target,
        ok=took <= case.limit,
    )


def measure() -> list[Row]:
    cancel_once(stubborn=False)
    well, well_base = interleaved(ROUNDS, lambda: cancel_once(stubborn=False), lambda: cancel_seconds(CALLS))
    hard, hard_base = interleaved(ROUNDS, lambda: cancel_once(stubborn=True), lambda: grace_seconds(CALLS, GRACE))
    return [
        _row(_Case(name=f"cancel: {CALLS} running calls", limit=0.02, target="≤ 20 ms"), well, well_base),
        _row(
            _Case(name=f"cancel: {CALLS} calls that never stop", limit=GRACE + 0.02, target="≤ 250 + 20 ms"),
            hard,
            hard_base,
        ),
    ]


FIGURE = Figure(
    name="cancel",
    about="from turn.cancel() to TurnEnded with 100 running calls",
    measure=measure,
    workload=lambda: [cancel_once(stubborn=False) for _ in range(20)],
)
