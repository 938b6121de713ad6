"""A scenario, and one isolated, repeatable run of it.

A run has its own engine with a scripted model, fake tools and in-memory ports, on a
mock clock, and trio's scheduler is seeded. Two runs of a scenario with the same seed
take the same steps in the same order, so a run can be repeated with a cancel injected
at one point.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence

import attrs
import trio
import trio.testing

from engine.core.errors import EngineError
from engine.core.events import (
    CallSettled,
    CallStarted,
    PermissionAsked,
    QuestionAsked,
    RecoveryAsked,
    TurnEnded,
    TurnEnding,
    TurnResult,
)
from engine.core.exception_groups import describe
from engine.core.hooks import Hooks
from engine.core.llm_types import ModelInfo
from engine.core.permission_types import Allowance, Judgement, PermissionQuery
from engine.core.protocols import ContextKeeper, Model, Snapshots
from engine.core.settings import Settings
from engine.journal.cursors import Cursor
from engine.journal.span_port import Telemetry
from engine.permission.allow_all import AllowAll
from engine.permission.policy import Policy
from engine.process.crash_cleanup import look_once
from engine.prompt.layers import PromptLayers
from engine.session.answer_types import Answer, Once, Recovery
from engine.session.engine import open_engine
from engine.session.engine_options import ContextOptions, FileOptions, PermissionOptions, Ports
from engine.session.session import Session
from engine.session.turn import Turn
from engine.testing.cancellation.injections import Injection
from engine.testing.cancellation.trio_internals import seed_scheduler
from engine.testing.fake_tools import FakeTools
from engine.testing.fakes import CountingIds, ScriptedKeeper, SlowStore, TrioClock
from engine.testing.invariants import Evidence, Seen, check, check_events, check_fold, check_transcript
from engine.testing.script import Answer as ScriptedItems
from engine.testing.script import done, text
from engine.testing.scripted_provider import ScriptedAnswer, ScriptedProvider
from engine.testing.turn_points import TWO_PARTS, WAYS, Points
from engine.tools.call_values import GRACE
from engine.tools.tool import Tool
from engine.tools.tool_source import ToolSource

EPSILON = 1e-6
MAX_SECONDS = 100_000.0
NEXT_PROMPT = "and now?"
NEXT_ANSWER = "All is well."


@attrs.frozen(kw_only=True)
class Scenario:
    """The model's script, the user's answers and the host's options of a run.

    Attributes:
        script: the model's answers; after the last one, the model answers that it is done.
        tools: tools in addition to the fake ones.
        settings: the turn's settings.
        hooks: the host's hooks.
        asks: calls need permission, which `reply` gives; otherwise everything is allowed.
        reply: answers a permission question; None: leaves it open.
        say: answers a tool's question, in words or by labels; empty: declines it; None: leaves it open.
        recover: answers the question what to do about a model that failed for good; None: leaves it open.
        steers: messages to send to the turn, each with the number of started calls at which it is sent.
        keeper: makes the context keeper.
        snapshots: makes the recorder of file snapshots; None: no snapshots are taken.
        store_delay: how long a flush takes.
        grace: the longest grace period that one of its calls declares.
        unique_keys: the side effect of a `key` in a fake tool's arguments may happen only once.
        batch: stream events per network chunk.
        must_stop: a call that does not stop within its grace period counts as a problem.
        breaks_after: leave the block after this many events.
        model: limits and prices.
        prompt: makes the layers of the prompt; None: the settings decide.
        sources: makes the sources of tools of the session.
        telemetry: makes what follows the sessions; None: nothing does.
    """

    script: Sequence[ScriptedAnswer]
    tools: tuple[Tool, ...] = ()
    settings: Settings = attrs.field(factory=Settings)
    hooks: Hooks = attrs.field(factory=Hooks)
    asks: bool = False
    reply: Callable[[PermissionAsked], Answer | None] = lambda _: Once()
    say: Callable[[QuestionAsked], Sequence[str] | None] = lambda asked: [c.label for c in asked.choices[:1]] or ["yes"]
    recover: Callable[[RecoveryAsked], Recovery | None] = lambda _: "stop"
    steers: tuple[tuple[int, str], ...] = ()
    keeper: Callable[[], ContextKeeper] = ScriptedKeeper
    snapshots: Callable[[], Snapshots] | None = None
    store_delay: float = 0.0
    grace: float = GRACE
    unique_keys: bool = True
    batch: int = 1
    must_stop: bool = False
    breaks_after: int | None = None
    model: ModelInfo = ModelInfo(name="scripted/model")
    prompt: Callable[[], PromptLayers | None] = lambda: None
    sources: Callable[[], Sequence[ToolSource]] = tuple
    telemetry: Callable[[], Telemetry] | None = None

    @property
    def cancel_ways(self) -> Mapping[str, bool]:
        """How `cancel_everywhere` cancels it: by the turn's user, by the host, by leaving the block."""
        return {way: way in TWO_PARTS for way in WAYS}

    def play_once(self, injection: Injection | None, seed: int) -> Run:
        """Play it once, as `play` does."""
        return play(self, injection=injection, seed=seed)


@attrs.define(eq=False, kw_only=True)
class Run:
    """A run's ports, its recorded events and the problems that were found."""

    points: Points
    tools: FakeTools
    model: ScriptedProvider
    store: SlowStore
    seen: list[Seen] = attrs.field(factory=list[Seen])
    result: TurnResult | None = None
    ended_at: float | None = None
    host_cancelled: bool = False
    exited_quietly: bool = False
    leaked_tasks: list[str] = attrs.field(factory=list[str])
    open_streams: int = 0
    problems: list[str] = attrs.field(factory=list[str])


def play(scenario: Scenario, *, injection: Injection | None = None, seed: int = 0) -> Run:
    """Play *scenario* once, in a new trio run, and check every promise; see `Run.problems`."""
    points = Points(injection)
    tools = FakeTools()
    model = ScriptedProvider(script=_endless(scenario.script), info=scenario.model, batch=scenario.batch, trace=points)
    run = Run(points=points, tools=tools, model=model, store=SlowStore(delay=scenario.store_delay, trace=points))
    seed_scheduler(seed)
    # The first engine of a process would end what a crashed one has left on this machine, in a task that the other runs do
    # not have. It is looked for here and left alone: that is no business of a scenario.
    look_once()
    try:
        trio.run(
            _play,
            scenario,
            run,
            clock=trio.testing.MockClock(autojump_threshold=0),
            instruments=[points],
            strict_exception_groups=True,
        )
    except BaseException as error:  # reported as a problem, with the point at which it happened  # noqa: ASYNC103  # what must pass is split off and raised
        run.problems.append(f"the run raised {describe(error)}")
        # A developer's Ctrl-C must still end the whole test.
        if isinstance(error, (KeyboardInterrupt, SystemExit)):
            raise
    run.problems += _verify(scenario, run)
    return run


def _endless(script: Sequence[ScriptedAnswer]) -> list[ScriptedAnswer]:
    # An injected cancel may cost retries: the script must not run out before the turn ends.
    last: ScriptedItems = [*text("That is all."), *done()]
    return [*script, *([last] * 50)]


async def _play(scenario: Scenario, run: Run) -> None:
    spans = scenario.telemetry and scenario.telemetry()
    with trio.fail_after(MAX_SECONDS):
        async with open_engine(
            model=run.model,
            tools=(*run.tools.tools(), *scenario.tools),
            settings=scenario.settings,
            hooks=scenario.hooks,
            permissions=PermissionOptions(approver=_Asking() if scenario.asks else AllowAll()),
            store=run.store,
            files=FileOptions(spill=os.devnull, snapshots=scenario.snapshots and scenario.snapshots()),
            context=ContextOptions(keeper=scenario.keeper(), prompt=scenario.prompt()),
            # Fixed jitter and counted ids: nothing random is left but the seeded scheduler.
            ports=Ports(clock=TrioClock(), ids=CountingIds(), trace=run.points, jitter=lambda: 0.5, telemetry=spans),
        ) as engine:
            session = await engine.create_session(cwd="/opt", sources=scenario.sources())
            run.points.session = session
            watcher = session.subscribe()
            # Tasks that already run belong to the engine; only new ones can be leaks of the turn.
            before = _tasks()
            await _first_turn(scenario, run, session)
            run.leaked_tasks = sorted(_tasks() - before)
            run.open_streams = run.model.open_streams
            _drain(watcher, run)
            run.problems += check(
                Evidence(
                    events=run.seen,
                    transcript=session.state.transcript,
                    stored=await run.store.load(session.id),
                    state=session.state,
                    trails=run.tools.trails,
                    unique_keys=scenario.unique_keys,
                )
            )
            await _next_turn(scenario, run, session)
            _drain(watcher, run)
            await _check_store(run, session)


async def _first_turn(scenario: Scenario, run: Run, session: Session) -> None:
    points = run.points
    turn = session.prompt("go", input_id="first")
    points.turn = turn
    # `host` stands for the scope around the turn in a host's program; "host" injections cancel it.
    with trio.CancelScope() as host:
        points.host = host
        points.armed = True
        try:
            async with turn:
                points.in_body = True
                # Its cancel ends the body early: the way "leave".
                with points.leaving:
                    await _watch(scenario, run, turn)
            run.exited_quietly = True
        finally:
            points.armed = False  # the next turn is never cancelled
        # A cancel that struck after the block is delivered here.
        await trio.lowlevel.checkpoint()
    run.host_cancelled = host.cancelled_caught
    run.result = turn.result
    await _send_again(run, session, turn)


async def _send_again(run: Run, session: Session, turn: Turn) -> None:
    """Check that the same prompt is the same turn."""
    async with session.prompt("go", input_id="first") as again:
        await again.wait()
    if (again.id, again.result) != (turn.id, turn.result):
        run.problems.append("the same prompt, sent again, was not the turn that exists")


async def _watch(scenario: Scenario, run: Run, turn: Turn) -> None:
    """Follow the turn as a host does: answer its questions, steer it, and note its end."""
    steers = list(scenario.steers)
    started = seen = 0
    async for event in turn:
        seen += 1
        await _answer(scenario, turn, event, run.model)
        started += isinstance(event, CallStarted)
        while steers and started >= steers[0][0]:
            _steer(turn, steers.pop(0)[1])
        if isinstance(event, TurnEnded) and event.session_id == event.path[0]:
            _note_end(run, event)
        if scenario.breaks_after is not None and seen >= scenario.breaks_after:
            break


def _note_end(run: Run, event: TurnEnded) -> None:
    """Record when the turn's end was announced, and check that the store had it by then."""
    run.points.in_body = False
    run.ended_at = trio.current_time()
    if event.seq is None or run.store.durable.get(event.session_id, 0) < event.seq:
        run.problems.append("the turn's end was announced before it was durable")


async def _answer(scenario: Scenario, turn: Turn, event: object, model: Model) -> None:
    """Answer *event* as the scenario says, if it is a question. A checkpoint if it answers."""
    try:
        match event:
            case PermissionAsked():
                if (answer := scenario.reply(event)) is not None:
                    await turn.reply(event.request_id, answer)
            case QuestionAsked():
                if (labels := scenario.say(event)) is not None:
                    await turn.answer(event.request_id, *labels)
            case RecoveryAsked():
                if (how := scenario.recover(event)) is not None:
                    await turn.recover(event.request_id, how, model=model if how == "switch" else None)
            case _:
                pass
    except EngineError:
        # The question was withdrawn after this event: a host must expect that.
        await trio.lowlevel.checkpoint()


def _steer(turn: Turn, message: str) -> None:
    try:
        turn.steer(message)
    except EngineError:
        # The turn is ending: a steer that comes too late is refused.
        return


async def _next_turn(scenario: Scenario, run: Run, session: Session) -> None:
    """Check that the session takes the next prompt after any end of the first turn."""
    # The rest of the script belonged to the first turn.
    run.model.script = [[*text(NEXT_ANSWER), *done()]]
    run.model.repeat = True
    run.model.requests.clear()
    # Without a user: what a cancelled turn has asked is asked again.
    async with session.prompt(NEXT_PROMPT, settings=Settings(headless="deny")) as turn:
        await turn.wait()
    # A stop hook that always blocks does so here as well, until the repeated answer counts as a doom loop.
    good = {"completed", "stop_hook_limit", "doom_loop"} if scenario.hooks.stop else {"completed"}
    if turn.result.stop_reason not in good or turn.result.text != NEXT_ANSWER:
        run.problems.append(f"the next prompt ended with {turn.result}")
    for request in run.model.requests:
        run.problems += [f"in the next request: {problem}" for problem in check_transcript(request.transcript)]


async def _check_store(run: Run, session: Session) -> None:
    run.problems += check_fold(await run.store.load(session.id), session.state)
    # Idle hooks may append events after the turn's end; those need not be durable yet.
    ends = [event.seq or 0 for event in session.events() if isinstance(event, TurnEnded)]
    if run.store.durable.get(session.id, 0) < max(ends, default=0):
        run.problems.append("the turn's end was announced before all of it was durable")


def _drain(watcher: Cursor, run: Run) -> None:
    while (event := watcher.try_next()) is not None:
        run.seen.append(event)


def _tasks() -> set[str]:
    tasks: set[str] = set()
    root = trio.lowlevel.current_root_task()
    waiting = [] if root is None else [root]
    # All tasks of the program: a leaked one may be in any nursery.
    while waiting:
        task = waiting.pop()
        # Idle hooks belong to the engine: they outlive the turn on purpose.
        if not task.name.startswith("idle hooks of "):
            tasks.add(f"{task.name} #{id(task)}")
        waiting += [child for nursery in task.child_nurseries for child in nursery.child_tasks]
    return tasks


def _verify(scenario: Scenario, run: Run) -> list[str]:
    """Check what only a whole run shows: leaks, calls that did not stop, and how a cancel was handled."""
    # The events include those of the next turn by now.
    problems = check_events(run.seen) + _verify_announced(run)
    if run.leaked_tasks:
        problems.append(f"tasks are left after the block: {run.leaked_tasks}")
    if run.open_streams:
        problems.append(f"{run.open_streams} streams are left open after the block")
    for trail in run.tools.trails:
        if trail.running:
            problems.append(f"call {trail.call_id} still runs after the block")
    if scenario.must_stop:
        problems += [
            f"call {event.call_id} did not stop within its grace"
            for event in run.seen
            if isinstance(event, CallSettled) and event.settlement.outcome_unknown
        ]
    return problems + _verify_cancel(scenario, run)


def _verify_announced(run: Run) -> list[str]:
    announced = {event.turn_id for event in run.seen if isinstance(event, TurnEnding)}
    return [
        f"turn {event.turn_id} was aborted, but its end was not announced"
        for event in run.seen
        if isinstance(event, TurnEnded) and event.result.stop_reason == "aborted" and event.turn_id not in announced
    ]


def _verify_cancel(scenario: Scenario, run: Run) -> list[str]:
    injection, points = run.points.injection, run.points
    if injection is None or run.result is None:
        return [] if run.result is not None else ["the turn has no result"]
    if not points.fired:
        return [f"the injector did not fire: the run has only {len(points.names)} points"]
    problems = _verify_scope(scenario, run, injection)
    if injection.way not in {"leave", "host_deadline"}:
        # A deadline takes effect only when trio next looks at deadlines, and leaving the block takes some steps:
        # a call may start in between.
        problems += _verify_starts(run)
    return problems + _verify_promptness(scenario, run, injection)


def _verify_scope(scenario: Scenario, run: Run, injection: Injection) -> list[str]:
    """Check that `Cancelled` left the block if, and only if, the host was cancelled."""
    problems: list[str] = []
    if injection.way in {"host", "host_deadline"} and not run.host_cancelled:
        problems.append("the host's cancel did not leave the block")
    if injection.way == "host" and run.points.fired_in_body and run.exited_quietly and scenario.breaks_after is None:
        problems.append("the host was cancelled inside the block, but the block ended normally")
    if injection.way in {"user", "user_twice", "leave"} and run.host_cancelled:
        problems.append("a cancel of the turn left the block as a cancel of the host")
    return problems


def _verify_promptness(scenario: Scenario, run: Run, injection: Injection) -> list[str]:
    """Check that the turn ended no later after the cancel than the clean-up of its calls needed."""
    fired_at = run.points.fired_at
    assert fired_at is not None
    ended = [event.time for event in run.seen if isinstance(event, TurnEnded) and event.session_id == event.path[0]]
    ended_at = ended[0] if ended else fired_at
    # When only the turn was cancelled, the host must also have seen its end in time.
    if injection.way in {"user", "user_twice"} and run.ended_at is not None:
        ended_at = run.ended_at
    late = ended_at - fired_at
    # A flush at the end of the step and one at the end of the turn.
    allowed = _needed(scenario, run, fired_at) + 2 * scenario.store_delay + EPSILON
    return [f"the turn ended {late:.4f} s after the cancel; {allowed:.4f} s were allowed"] if late > allowed else []


def _needed(scenario: Scenario, run: Run, fired_at: float) -> float:
    """Return how long the clean-up may take: the time that the slowest call took to stop, at most the grace period."""
    # Tools of the host leave no trails: allow their declared grace period.
    if scenario.tools:
        return scenario.grace
    return max([0.0, *(min(trail.ended_at - fired_at, scenario.grace) for trail in run.tools.trails)])


def _verify_starts(run: Run) -> list[str]:
    """Check that nothing was started after the cancel."""
    points = run.points
    assert points.injection is not None
    # At a point inside `append`, the event that is being appended was decided on before the cancel.
    inside = points.names[points.injection.point] == "journal.append"
    return [
        f"call {event.call_id} was started after the cancel"
        for event in run.seen
        if isinstance(event, CallStarted)
        and event.session_id == event.path[0]
        and event.seq is not None
        and event.seq > points.fired_seq + inside
    ]


@attrs.frozen(eq=False)
class _Asking:
    """The usual policy without its work in threads, so that every run takes the same steps."""

    _policy: Policy = attrs.field(factory=Policy)

    def judge(self, query: PermissionQuery) -> Judgement:
        """Judge by the rules."""
        return self._policy.judge(query)

    def grant(self, query: PermissionQuery, allowance: Allowance) -> None:
        """Remember the allowance."""
        self._policy.grant(query, allowance)
