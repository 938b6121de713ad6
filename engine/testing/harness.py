"""A scenario, and one run of it in a world of its own.

A world is an engine with a scripted model, fake tools and in-memory ports, on a mock
clock, with trio's scheduler seeded. Two runs of one scenario with one seed do the
same in the same order, so a run can be repeated with a cancel put in at one point.
"""

# pyright: reportPrivateUsage=false
# Trio offers no public way to seed its scheduler.

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

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
    TurnResult,
)
from engine.core.exception_groups import describe
from engine.core.hooks import Hooks
from engine.core.llm_types import ModelInfo
from engine.core.permission_types import Allowance, Approver, Judgement, PermissionQuery
from engine.core.protocols import ContextKeeper, Model, Snapshots
from engine.core.settings import Settings
from engine.journal.log import Cursor
from engine.permission.allow_all import AllowAll
from engine.permission.policy import Policy
from engine.prompt.layers import PromptLayers
from engine.session.answers import Answer, Once, Recovery
from engine.session.engine import open_engine
from engine.session.engine_options import ContextOptions, FileOptions, PermissionOptions, Ports
from engine.session.session import Session
from engine.session.turn import Turn
from engine.testing.cancel_points import Injection, Points
from engine.testing.fake_tools import FakeTools
from engine.testing.fakes import CountingIds, ScriptedKeeper, SlowStore, TrioClock
from engine.testing.invariants import Evidence, Seen, check, check_events, check_fold, check_transcript
from engine.testing.script import Answer as ScriptedItems
from engine.testing.script import done, text
from engine.testing.scripted_provider import ScriptedAnswer, ScriptedProvider
from engine.tools.call_values import GRACE
from engine.tools.tool import Tool

EPSILON = 1e-6
MAX_SECONDS = 100_000.0
NEXT_PROMPT = "and now?"
NEXT_ANSWER = "All is well."


@attrs.frozen(kw_only=True)
class Scenario:
    """What is to be played.

    Attributes:
        script: the model's answers; when they run out, the model says that it is done.
        tools: further tools, beside the fake ones.
        settings: of the turn.
        hooks: of the host.
        asks: questions are asked (and answered with `reply`), else everything is allowed.
        reply: how a question is answered.
        say: what the user says to a question of a tool, in words or by labels; empty: declined; None: nothing at all.
        recover: what is said when the model has failed for good; None: nothing.
        steers: messages sent to the turn when so many calls have started.
        keeper: makes the context keeper.
        snapshots: makes who notes files; None: nobody does.
        store_delay: how long a flush takes.
        grace: the largest grace that a call of it declares.
        unique_keys: no `key` of a fake tool's arguments may be done twice.
        batch: stream events of one network chunk.
        must_stop: a call that does not stop within its grace is a broken promise too.
        breaks_after: leave the block after so many events.
        model: limits and prices.
        prompt: makes what requests begin with; None: what the settings say.
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


@attrs.define(eq=False, kw_only=True)
class Run:
    """What a run left behind."""

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
    """Play *scenario* once, in a fresh trio run, and check every promise; see `Run.problems`."""
    points = Points(injection)
    tools = FakeTools()
    model = ScriptedProvider(script=_endless(scenario.script), info=scenario.model, batch=scenario.batch, trace=points)
    run = Run(points=points, tools=tools, model=model, store=SlowStore(delay=scenario.store_delay, trace=points))
    seed_scheduler(seed)
    try:
        trio.run(
            _play,
            scenario,
            run,
            clock=trio.testing.MockClock(autojump_threshold=0),
            instruments=[points],
            strict_exception_groups=True,
        )
    except BaseException as error:  # told as a problem, with the point at which it happened  # noqa: ASYNC103  # what must pass is split off and raised
        run.problems.append(f"the run raised {describe(error)}")
        if isinstance(error, (KeyboardInterrupt, SystemExit)):
            raise
    run.problems += _verify(scenario, run)
    return run


def seed_scheduler(seed: int) -> None:
    """Make trio's scheduler deterministic. Private names of trio: it offers no others."""
    from trio._core import _run

    setattr(_run, "_ALLOW_DETERMINISTIC_SCHEDULING", True)  # noqa: B010  # "final" for checkers, and made to be set
    _run._r.seed(seed)


def _endless(script: Sequence[ScriptedAnswer]) -> list[ScriptedAnswer]:
    last: ScriptedItems = [*text("That is all."), *done()]
    return [*script, *([last] * 50)]


async def _play(scenario: Scenario, run: Run) -> None:
    with trio.fail_after(MAX_SECONDS):
        async with open_engine(
            model=run.model,
            tools=(*run.tools.tools(), *scenario.tools),
            settings=scenario.settings,
            hooks=scenario.hooks,
            permissions=PermissionOptions(approver=_approver(scenario)),
            store=run.store,
            files=FileOptions(
                spill=os.devnull, snapshots=None if scenario.snapshots is None else scenario.snapshots()
            ),  # a run leaves nothing behind, and has no threads
            context=ContextOptions(keeper=scenario.keeper(), prompt=scenario.prompt()),
            ports=Ports(clock=TrioClock(), ids=CountingIds(), trace=run.points, jitter=lambda: 0.5),
        ) as engine:
            session = await engine.create_session(cwd="/nowhere")
            run.points.session = session
            watcher = session.subscribe()
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


def _approver(scenario: Scenario) -> Approver:
    return _Asking() if scenario.asks else AllowAll()


async def _first_turn(scenario: Scenario, run: Run, session: Session) -> None:
    points = run.points
    turn = session.prompt("go")
    points.turn = turn
    with trio.CancelScope() as host:
        points.host = host
        points.armed = True
        try:
            async with turn:
                points.in_body = True
                with points.leaving:
                    await _watch(scenario, run, turn)
            run.exited_quietly = True
        finally:
            points.armed = False
        # A host that was cancelled must notice here at the latest.
        await trio.lowlevel.checkpoint()
    run.host_cancelled = host.cancelled_caught
    run.result = turn.result


async def _watch(scenario: Scenario, run: Run, turn: Turn) -> None:
    steers = list(scenario.steers)
    started = seen = 0
    async for event in turn:
        seen += 1
        if isinstance(event, PermissionAsked):
            answer = scenario.reply(event)
            if answer is not None:
                await _reply(turn, event, answer)
        if isinstance(event, QuestionAsked):
            labels = scenario.say(event)
            if labels is not None:
                await _answer_question(turn, event, labels)
        if isinstance(event, RecoveryAsked):
            await _recover(turn, event, scenario.recover(event), run.model)
        started += isinstance(event, CallStarted)
        while steers and started >= steers[0][0]:
            _steer(turn, steers.pop(0)[1])
        if isinstance(event, TurnEnded) and event.session_id == event.path[0]:
            run.points.in_body = False
            run.ended_at = trio.current_time()
            if event.seq is None or run.store.durable.get(event.session_id, 0) < event.seq:
                run.problems.append("the turn's end was announced before it was durable")
        if scenario.breaks_after is not None and seen >= scenario.breaks_after:
            break


async def _reply(turn: Turn, event: PermissionAsked, answer: Answer) -> None:
    try:
        await turn.reply(event.request_id, answer)
    except EngineError:
        # It was withdrawn while this watcher was on its way.
        await trio.lowlevel.checkpoint()


async def _answer_question(turn: Turn, event: QuestionAsked, labels: Sequence[str]) -> None:
    try:
        await turn.answer(event.request_id, *labels)
    except EngineError:
        # It was withdrawn while this watcher was on its way.
        await trio.lowlevel.checkpoint()


async def _recover(turn: Turn, event: RecoveryAsked, how: Recovery | None, model: Model) -> None:
    if how is None:
        return
    try:
        await turn.recover(event.request_id, how, model=model if how == "switch" else None)
    except EngineError:
        # It was withdrawn while this watcher was on its way.
        await trio.lowlevel.checkpoint()


def _steer(turn: Turn, message: str) -> None:
    try:
        turn.steer(message)
    except EngineError:
        # The turn is ending: the one answer that a late steer may get.
        return


async def _next_turn(scenario: Scenario, run: Run, session: Session) -> None:
    """The session goes on: the next prompt works, whatever happened to the one before."""
    run.model.script = [[*text(NEXT_ANSWER), *done()]]
    run.model.repeat = True
    run.model.requests.clear()
    async with session.prompt(NEXT_PROMPT, settings=Settings()) as turn:
        await turn.wait()
    # A stop hook that always blocks does so here as well, until the same answer counts as a circle.
    good = {"completed", "stop_hook_limit", "doom_loop"} if scenario.hooks.stop else {"completed"}
    if turn.result.stop_reason not in good or turn.result.text != NEXT_ANSWER:
        run.problems.append(f"the next prompt ended with {turn.result}")
    for request in run.model.requests:
        run.problems += [f"in the next request: {problem}" for problem in check_transcript(request.transcript)]


async def _check_store(run: Run, session: Session) -> None:
    run.problems += check_fold(await run.store.load(session.id), session.state)
    # What idle hooks have to say comes behind the end.
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
    while waiting:
        task = waiting.pop()
        # What runs while a session is idle is the engine's, and no turn's.
        if not task.name.startswith("idle hooks of "):
            tasks.add(f"{task.name} #{id(task)}")
        waiting += [child for nursery in task.child_nurseries for child in nursery.child_tasks]
    return tasks


def _verify(scenario: Scenario, run: Run) -> list[str]:
    # The next turn's events are there by now as well.
    problems = check_events(run.seen)
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


def _verify_cancel(scenario: Scenario, run: Run) -> list[str]:
    injection, points = run.points.injection, run.points
    if injection is None or run.result is None:
        return [] if run.result is not None else ["the turn has no result"]
    if not points.fired:
        return [f"the injector did not fire: the run has only {len(points.names)} points"]
    problems: list[str] = []
    if injection.way in {"host", "host_deadline"} and not run.host_cancelled:
        problems.append("the host's cancel did not come out of the block")
    if injection.way == "host" and points.fired_in_body and run.exited_quietly and scenario.breaks_after is None:
        problems.append("the host's cancel struck inside the block, and the block was left as if nothing was")
    if injection.way in {"user", "user_twice", "leave"} and run.host_cancelled:
        problems.append("a cancel of the turn came out of the block as the host's")
    assert points.fired_at is not None
    if injection.way not in {"leave", "host_deadline"}:
        # (A deadline takes effect when trio looks at deadlines next.)
        problems += _verify_starts(run)
    ended = [event.time for event in run.seen if isinstance(event, TurnEnded) and event.session_id == event.path[0]]
    shown = run.ended_at if injection.way in {"user", "user_twice"} and run.ended_at is not None else None
    late = (shown if shown is not None else ended[0] if ended else points.fired_at) - points.fired_at
    allowed = _needed(scenario, run, points.fired_at) + 2 * scenario.store_delay + EPSILON
    if late > allowed:
        problems.append(f"the turn ended {late:.4f} s after the cancel; {allowed:.4f} s were allowed")
    return problems


def _needed(scenario: Scenario, run: Run, fired_at: float) -> float:
    """Return how long the clean-up may take: as long as the slowest call really cleaned up, up to the grace."""
    if scenario.tools:
        return scenario.grace
    return max([0.0, *(min(trail.ended_at - fired_at, scenario.grace) for trail in run.tools.trails)])


def _verify_starts(run: Run) -> list[str]:
    """Check that nothing was started after the cancel."""
    points = run.points
    assert points.injection is not None
    # Inside `append` the event that is being appended was decided on before.
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
    """The usual rules, without what they do in threads: a run has the same steps each time."""

    _policy: Policy = attrs.field(factory=Policy)

    def judge(self, query: PermissionQuery) -> Judgement:
        """Return what the rules say."""
        return self._policy.judge(query)

    def grant(self, query: PermissionQuery, allowance: Allowance) -> None:
        """Remember the allowance."""
        self._policy.grant(query, allowance)
