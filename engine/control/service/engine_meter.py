"""Measures an engine: its turns, questions and requests, from their events, as a client that sees them all would."""

from __future__ import annotations

import logging
import platform
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, final

import attrs
import trio

from engine.control.service.metrics import Metrics, Sample
from engine.control.service.process_stats import process_stats
from engine.core import events as ev
from engine.core.exception_groups import describe
from engine.core.ids import MessageId, RequestId, SessionId, TurnId
from engine.core.threads import to_thread
from engine.core.version import __version__
from engine.journal.cursors import follow
from engine.process.crash_cleanup import owned
from engine.process.kill_tree import find_marked
from engine.session.engine import engine_runtime
from engine.store.store_protocols import ReportsHealth

if TYPE_CHECKING:
    from engine.journal.log import Journal, JournalEntry
    from engine.journal.state import Resync
    from engine.nursery.running_turn import TurnRun
    from engine.session.engine import Engine

_ASKED: Final[dict[type, str]] = {
    ev.PermissionAsked: "permission",
    ev.QuestionAsked: "question",
    ev.RecoveryAsked: "recovery",
}
_log = logging.getLogger("engine.control")


@final
class EngineMeter:
    """Counts what happens in an engine while it runs."""

    def __init__(self, engine: Engine, metrics: Metrics) -> None:
        """Measure an open engine."""
        self._engine = engine
        self._runtime = engine_runtime(engine)
        self._metrics = metrics
        self._followed: dict[SessionId, Journal] = {}
        self._overstaying: list[TurnRun] = []

    async def run(self) -> None:
        """Count until the engine is closed. A checkpoint."""
        changes = self._engine.watch_sessions()
        async with trio.open_nursery() as nursery:
            self._follow_new(nursery)
            async for _ in changes:
                self._follow_new(nursery)

    def _follow_new(self, nursery: trio.Nursery) -> None:
        for session_id, live in self._runtime.sessions.by_id.items():
            # What happens in sub-agents is in the journal of their root, too.
            if not live.journal.is_attached and self._followed.get(session_id) is not live.journal:
                self._followed[session_id] = live.journal
                nursery.start_soon(self._follow, live.journal)

    async def _follow(self, journal: Journal) -> None:
        times = _SessionTimes(self._metrics)
        if journal.state.turn is not None:
            times.note_running(journal, journal.state.turn.turn_id)
        try:
            async for entry in follow(journal):
                times.note(entry)
                self._note_overstaying(times, entry)
        except Exception as error:  # noqa: BLE001  # a session that can't be read is counted no further
            _log.warning("session %s is not measured any more: %s", journal.session_id, describe(error))
        if self._followed.get(journal.session_id) is journal:
            del self._followed[journal.session_id]

    def _note_overstaying(self, times: _SessionTimes, entry: JournalEntry | Resync) -> None:
        """Keep an ending turn for as long as one of its tasks runs."""
        if isinstance(entry, ev.TurnEnding) and entry.turn_id is not None:
            live = self._runtime.sessions.by_id.get(entry.session_id)
            if live is not None and live.active is not None:
                times.ending[entry.turn_id] = live.active
        elif isinstance(entry, ev.TurnEnded) and entry.turn_id is not None:
            run = times.ending.pop(entry.turn_id, None)
            if run is not None and not run.ending.loop_gone.is_set():
                self._overstaying.append(run)

    async def samples(self) -> list[Sample]:
        """Return what is looked up when it is asked for. A checkpoint."""
        # `/proc` is read for each process of the machine, which takes some milliseconds.
        running = await to_thread(_count_processes)
        store = self._runtime.services.store.store
        if isinstance(store, ReportsHealth):
            health = store.health()
            self._metrics.set_summary("engine_store_flush_seconds", health.commits, health.seconds)
        return [
            *self._engine_samples(),
            ("engine_processes", (), running),
            *((name, (), value) for name, value in process_stats()),
        ]

    def _engine_samples(self) -> Iterator[Sample]:
        yield "engine_build_info", (__version__, platform.python_version()), 1.0
        self._overstaying = [run for run in self._overstaying if not run.ending.loop_gone.is_set()]
        yield "engine_tasks_overstaying", (), len(self._overstaying)
        roots = [live for live in self._runtime.sessions.by_id.values() if not live.journal.is_attached]
        kinds = Counter(_ASKED[type(event)] for live in roots for event in live.questions.events)
        for kind in _ASKED.values():
            yield "engine_questions_open", (kind,), kinds[kind]


@attrs.define(eq=False)
class _SessionTimes:
    """When what is under way in a session and its sub-agents began."""

    metrics: Metrics
    ending: dict[TurnId, TurnRun] = attrs.field(factory=dict[TurnId, "TurnRun"])
    _turns: dict[TurnId, float] = attrs.field(factory=dict[TurnId, float])
    _cancels: dict[TurnId, float] = attrs.field(factory=dict[TurnId, float])
    _asked: dict[RequestId, float] = attrs.field(factory=dict[RequestId, float])
    _models: dict[MessageId, str] = attrs.field(factory=dict[MessageId, str])

    def note_running(self, journal: Journal, turn_id: TurnId) -> None:
        """Look up when a turn began that runs already."""
        for event in reversed(journal.events()):
            if isinstance(event, ev.TurnStarted) and event.turn_id == turn_id:
                self._turns[turn_id] = event.time
                return

    def note(self, entry: JournalEntry | Resync) -> None:
        """Count *entry*."""
        match entry:
            case ev.TurnStarted(turn_id=str() as turn_id):
                self._turns[turn_id] = entry.time
            case ev.TurnEnding(turn_id=str() as turn_id):
                if entry.cause in {"user", "host"}:
                    self._cancels[turn_id] = entry.time
            case ev.TurnEnded(turn_id=str() as turn_id):
                self._note_end(entry, turn_id)
            case ev.RetryScheduled():
                self.metrics.add("engine_provider_retries_total")
            case ev.StepStarted():
                self._models[entry.message_id] = entry.model
            case ev.StepEnded():
                self._note_step(entry)
            case ev.PermissionAsked() | ev.QuestionAsked() | ev.RecoveryAsked():
                self._asked[entry.request_id] = entry.time
            case ev.PermissionAnswered() | ev.QuestionAnswered() | ev.RecoveryAnswered():
                began = self._asked.pop(entry.request_id, None)
                if began is not None:
                    self.metrics.observe("engine_question_seconds", entry.time - began)
            case _:
                pass

    def _note_end(self, event: ev.TurnEnded, turn_id: TurnId) -> None:
        self.metrics.add("engine_turns_total", event.result.stop_reason)
        for name, times in (("engine_turn_seconds", self._turns), ("engine_cancel_seconds", self._cancels)):
            began = times.pop(turn_id, None)
            if began is not None:
                self.metrics.observe(name, event.time - began)

    def _note_step(self, event: ev.StepEnded) -> None:
        model = self._models.pop(event.message_id, "unknown")
        usage = event.usage
        for kind in ("input", "output", "cache_read", "cache_write"):
            count: int = getattr(usage, kind)
            if count:
                self.metrics.add("engine_tokens_total", kind, model, value=count)
        if event.cost:
            self.metrics.add("engine_cost_total", model, value=event.cost)


def _count_processes() -> int:
    """Return how many processes of this engine's commands run. It blocks for some milliseconds."""
    # Markers of calls end with the engine that owns them.
    suffix = owned("")
    return len(find_marked(lambda mark: mark.endswith(suffix)))
