"""Sessions, as a host holds them: each owns a journal, and has at most one turn at a time."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeVar, cast, final, get_args, overload

import attrs
import trio

from engine.core.compaction_types import CompactionWish
from engine.core.errors import (
    ConfigError,
    EngineClosed,
    SessionBusy,
    SessionError,
)
from engine.core.events import (
    BackgroundEnded,
    BackgroundKind,
    BackgroundStarted,
    ModelSwitched,
    Notice,
    SessionTitled,
    TurnResult,
)
from engine.core.exception_groups import describe
from engine.core.hooks import Hooks
from engine.core.ids import InputId, RequestId, SessionId, TurnId
from engine.core.messages import MediaPart
from engine.core.permission_types import PermissionScope, Rule
from engine.core.protocols import Deps, Model
from engine.core.settings import Headless, Settings
from engine.core.state import SessionState
from engine.journal.log import Cursor, Journal, Position
from engine.nursery.hook_points import greet, tell_end, tell_idle
from engine.nursery.inbox import admit, report
from engine.nursery.parking import check_not_parked, park, settle
from engine.nursery.questions import Asked, Questions
from engine.nursery.running_turn import Cause, TurnRun
from engine.session.answers import Answer, Recovery, given, worded
from engine.session.structured_output import StructuredResult, check_class, structured
from engine.session.turn import Turn
from engine.session.turn_start import begin_turn, hidden_from, resume_turn
from engine.session.validation import media_given, paths_given, registry_of, settings_given
from engine.tools.hook_runner import HookRunner
from engine.tools.registry import Registry
from engine.tools.tool import Tool

if TYPE_CHECKING:
    from engine.agents.background import AgentJob, AgentJobs
    from engine.core.agent_result import AgentResult
    from engine.core.context_report import ContextReport
    from engine.nursery.call_ledger import Entry
    from engine.nursery.context_window import Counted
    from engine.session.engine import Engine
    from engine.session.sub_agent_limiter import Gate
    from engine.session.sub_agents import Above, Children
    from engine.session.undo import FileDiff, History, Redone, Undone
    from engine.tools.background_jobs import Job, Jobs
    from engine.tools.context import AgentRequest

T = TypeVar("T", bound=attrs.AttrsInstance)


@final
@attrs.define(eq=False)
class Session:
    """One conversation. Made by `Engine.create_session`."""

    _engine: Engine = attrs.field(alias="engine")
    _journal: Journal = attrs.field(alias="journal")
    _deps: Deps = attrs.field(alias="deps")
    _registry: Registry = attrs.field(alias="registry")
    _hooks: Hooks = attrs.field(alias="hooks")
    _settings: Settings = attrs.field(alias="settings")
    _questions: Questions = attrs.field(alias="questions")
    _choices: tuple[str | Model, ...] = attrs.field(alias="choices")
    _rules: tuple[Rule, ...] = attrs.field(default=(), alias="rules")
    _bounds: tuple[Rule, ...] = attrs.field(default=(), alias="bounds")
    # Decided once for a set of tools: requests begin with them, and are cheap only as long as they begin alike.
    _hidden: tuple[Registry, frozenset[str]] | None = attrs.field(default=None, init=False)
    _active: TurnRun | None = attrs.field(default=None, init=False)
    _resting: trio.CancelScope | None = attrs.field(default=None, init=False)
    _jobs: Jobs | None = attrs.field(default=None, init=False)
    _titling: trio.Event | None = attrs.field(default=None, init=False)
    _counted: Counted | None = attrs.field(default=None, init=False)
    _touched: dict[str, None] = attrs.field(factory=dict[str, None], init=False)
    _is_reverting: bool = attrs.field(default=False, init=False)
    _is_pumped_late: bool = attrs.field(default=False, init=False)
    _offspring: Children | None = attrs.field(default=None, init=False)

    @property
    def id(self) -> SessionId:
        """Its identifier."""
        return self._journal.session_id

    @property
    def state(self) -> SessionState:
        """The session as it stands, the text of open parts included."""
        return self._journal.snapshot()

    @property
    def asked(self) -> tuple[Asked, ...]:
        """What it, and all of its sub-agents, wait for somebody to answer: the events that asked, the oldest first.

        For who comes to a session that is at work: `state` is that of this session alone.
        """
        own = self._journal.path
        return tuple(event for event in self._questions.asked if event.path[: len(own)] == own)

    def prompt(self, text: str, *, attachments: Sequence[MediaPart] = (), settings: Settings | None = None) -> Turn:
        """Return a turn that answers *text*; enter it to start it. Not a checkpoint.

        *attachments* are made by `engine.attach`. Raises `SessionBusy` on entering if a
        turn is running.
        """
        begin = partial(
            begin_turn,
            self,
            worded(text, "a prompt"),
            attachments=media_given(attachments),
            settings=settings_given(settings, self._settings),
        )
        return Turn(self, begin)

    @overload
    async def run(
        self, text: str, *, attachments: Sequence[MediaPart] = (), settings: Settings | None = None
    ) -> TurnResult: ...
    @overload
    async def run(
        self,
        text: str,
        *,
        output: type[T],
        attachments: Sequence[MediaPart] = (),
        settings: Settings | None = None,
    ) -> StructuredResult[T]: ...
    async def run(
        self,
        text: str,
        *,
        output: type[T] | None = None,
        attachments: Sequence[MediaPart] = (),
        settings: Settings | None = None,
    ) -> TurnResult | StructuredResult[T]:
        """Run a turn to its end and return its result. Always a checkpoint.

        Nobody watches, so nobody can answer a question: calls that would need one are
        denied, and the model is told. If cancelled, the turn is settled and saved first.
        With *output*, an attrs class, the answer must fit it.
        """
        worded(text, "a prompt")
        wanted = settings_given(settings, self._settings)
        headless: Headless = "deny" if wanted.headless == "wait" else wanted.headless
        chosen = attrs.evolve(wanted, headless=headless, on_exhausted="stop")
        if output is not None:
            check_class(output)
        begin = partial(begin_turn, self, text, attachments=media_given(attachments), settings=chosen, output=output)
        async with Turn(self, begin) as turn:
            await turn.wait()
        if output is None:
            return turn.result
        return structured(output, turn.result)

    def queue(self, text: str, *, input_id: str | None = None) -> InputId:
        """Keep *text* for after the turn: it becomes the prompt of the next one. Not a checkpoint.

        The next turn runs in the engine's own nursery; watch it with `subscribe`. After a
        turn that did not end by itself (it was aborted, say), queued input waits for the
        next `queue` or prompt. The same id with the same text is taken once.
        """
        self._check_open()
        taken = self.admit(worded(text, "input"), "queue", input_id)
        self._engine.pump(self)
        return taken

    def resume(self, *, settings: Settings | None = None) -> Turn:
        """Return the turn that waits since its engine was closed, or killed; enter it to go on with it. Not a checkpoint.

        What was asked is asked anew, under today's rules. Raises `NothingParked` on entering if no turn waits.
        """
        return Turn(self, partial(resume_turn, self, settings=settings_given(settings, self._settings)))

    async def settle(self, call_id: str, text: str, *, failed: bool = False, metadata: str = "") -> None:
        """Bring the result of a call that waits for it (`engine.tools.external`). Always a checkpoint.

        When it returns, the result is in the record and durable. If cancelled, it may be.

        Args:
            call_id: of the call's events.
            text: what the model reads.
            failed: the work was done, but reports failure.
            metadata: JSON text for clients.

        Raises:
            CallNotFound: no such call waits, for a result, or any more.
            TurnParked: its turn is parked: resume it first.
        """
        await settle(self._active, self._journal.state, call_id, text, failed=failed, metadata=metadata)

    def subscribe(self, after: int | Position | None = None) -> Cursor:
        """Return a cursor over this session's events: after that number, or from now on. Not a checkpoint."""
        given = cast("object", after)
        if given is not None and not isinstance(given, (int, Position)):
            raise ConfigError(f"subscribe after an event's seq, an int, or a cursor's Position, not {given!r}")
        return self._journal.follow(after)

    async def reply(self, request_id: str, answer: Answer) -> None:
        """Answer an open question. Always a checkpoint. Raises `RequestNotFound`; if cancelled, it may be answered."""
        if not isinstance(cast("object", request_id), str):
            raise ConfigError(f"a request id is the str of a PermissionAsked event, not {request_id!r}")
        check_not_parked(self._journal.state, request_id, is_running=self._active is not None)
        self._questions.reply(RequestId(request_id), given(answer))
        failed = await self._engine.save_grants()
        if failed is not None:
            self._notice("warning", "grant_not_saved", f"what was allowed ends with this engine: {failed}")
        await trio.lowlevel.checkpoint()

    async def answer(self, request_id: str, *answers: str) -> None:
        """Answer a question of a tool (`QuestionAsked`), in words or by labels; with none, decline. Always a checkpoint.

        Raises `RequestNotFound`. If cancelled, it may be answered.
        """
        said = tuple(worded(answer, "an answer") for answer in answers)
        check_not_parked(self._journal.state, request_id, is_running=self._active is not None)
        self._questions.say(RequestId(worded(request_id, "a request id")), ("answered" if said else "declined", said))
        await trio.lowlevel.checkpoint()

    async def recover(self, request_id: str, how: Recovery, *, model: str | Model | None = None) -> None:
        """Say how to go on after a failed request (`RecoveryAsked`). Always a checkpoint.

        Args:
            request_id: of the question.
            how: "wait" and try again, "switch" to *model* for the rest of the turn, or "stop".
            model: a name or a `Model`; `switch_model` keeps it for later turns.

        Raises `RequestNotFound`; `ConfigError` for a model that can't work, and the
        question stays open. If cancelled, it may be answered.
        """
        if not isinstance(cast("object", request_id), str):
            raise ConfigError(f"a request id is the str of a RecoveryAsked event, not {request_id!r}")
        if how not in get_args(Recovery) or (how == "switch") != (model is not None):
            raise ConfigError(f"recover takes 'wait', 'stop', or 'switch' with a model, not {how!r} with {model!r}")
        found = None if model is None else self._engine.models.models_of((model,))[0]
        if found is not None:
            await self._engine.models.learn((found,))
        self._questions.recover(RequestId(request_id), (how, found))
        await trio.lowlevel.checkpoint()

    async def switch_model(self, model: str | Model | Sequence[str | Model]) -> None:
        """Use another model from the next turn on: a name, a `Model`, or a chain of them. Always a checkpoint.

        What was said so far goes to the new one; thinking that only the old one can read
        goes as plain text. Raises `ConfigError` for a model that can't work.
        """
        self._check_open()
        choices = self._engine.models.choices_of(model)
        await self._engine.models.learn(self._engine.models.models_of(choices))
        self._check_open()
        self._deps = attrs.evolve(self._deps, models=self._engine.models.models_of(choices))
        self._choices = choices
        self._journal.append(ModelSwitched(model=self._deps.models[0].info.name))

    async def compact(self, instructions: str = "", *, settings: Settings | None = None) -> TurnResult:
        """Summarise what is old of the history now, and do nothing else. Always a checkpoint.

        It is a turn of its own, without words of the user, and nothing goes on after it.
        *instructions*: what the summary has to heed besides. The result says "completed", or
        why the history is as it was. Raises `SessionBusy`. If cancelled, it is as it was.
        """
        wish = CompactionWish(
            trigger="manual", instructions=worded(instructions, "instructions") if instructions else ""
        )
        async with Turn(
            self, partial(begin_turn, self, wish, settings=settings_given(settings, self._settings))
        ) as turn:
            await turn.wait()
        return turn.result

    async def undo_compaction(self) -> None:
        """Put back the history from before the last compaction, and what was said since behind it. A checkpoint.

        The next prompt may have to summarise it again. Raises `SessionBusy` while a turn
        runs, `SessionError` if there is nothing to take back. If cancelled, nothing has happened.
        """
        self._check_open()
        self._check_idle()
        # Imported here: most sessions take nothing back.
        from engine.session.session_compaction import take_back

        await take_back(self._journal, self._deps)

    def context_report(self) -> ContextReport:
        """Return what fills the model's window: of the request that would be sent next. Not a checkpoint."""
        # Imported here: most sessions are never asked.
        from engine.session.session_compaction import report_on

        run = self._active
        own = PermissionScope(session_id=self.id, turn_id=TurnId(""), rules=self._rules)
        return report_on(
            self._journal,
            self._deps,
            self._registry,
            settings=self._settings if run is None else run.settings,
            hidden=hidden_from(self, (own,), self._settings.agent_depth) if run is None else run.hidden,
            counted=self._counted if run is None else run.counted,
        )

    async def rename(self, title: str) -> None:
        """Call it by a title, which takes the place of any other. Always a checkpoint; if cancelled, it may be named.

        Raises `ConfigError` for a title without a word, `StoreError` if it could not be saved.
        """
        self._check_open()
        line = " ".join(worded(title, "a title").split())
        self._journal.append(SessionTitled(title=line, by="user"))
        await self._deps.store.flushed(self.id, self._journal.seq)

    async def titled(self) -> None:
        """Wait until a model that was asked for a title has answered, or is given up. Always a checkpoint."""
        if self._titling is not None:
            await self._titling.wait()
        await trio.lowlevel.checkpoint()

    async def undo(self, *, force: bool = False) -> Undone:
        """Take the newest turn back: its messages, and its changes of files. Always a checkpoint.

        Again and again, it takes back one turn after the other. What it overwrites is noted first, so that
        `redo` brings exactly that back. What the user had said is in the result. See docs/how-to/undo.md.

        Args:
            force: overwrite also what somebody else has changed since; and where no file can be put back (the engine
                was opened without snapshots, say), take the messages back alone.

        Raises `SessionBusy`; `NothingToUndo`; `UndoConflict` and `SnapshotError` where nothing was
        done; `UndoIncomplete`. If cancelled, the turn counts until all is done, and
        to undo it again does the rest.
        """
        with self._alone() as history:
            return await history.undo(force=force)

    async def redo(self, *, force: bool = False) -> Redone:
        """Let the turn that was undone last count again, with its changes of files. Always a checkpoint.

        It raises, and is cancelled, as `undo`. A new prompt ends it: there is nothing to redo then.
        """
        with self._alone() as history:
            return await history.redo(force=force)

    async def diff(self, turn_id: str | None = None) -> tuple[FileDiff, ...]:
        """Return what a turn did to files; by default the newest turn that changed some. Always a checkpoint.

        Raises `SessionBusy`, `NothingToUndo`, `SnapshotError`.
        """
        with self._alone() as history:
            return await history.diff(turn_id)

    async def restore(
        self, paths: Iterable[str | os.PathLike[str]], *, turn_id: str | None = None, force: bool = False
    ) -> tuple[str, ...]:
        """Put chosen files, or all in chosen folders, back as they were before a turn; return which. Always a checkpoint.

        The conversation stays as it is. It raises, and is cancelled, as `undo`.

        Args:
            paths: relative to the working directory.
            turn_id: by default the newest turn that changed files.
            force: overwrite also what somebody else has changed since.
        """
        chosen = paths_given(paths)
        with self._alone() as history:
            return await history.restore(chosen, turn_id, force=force)

    def use_tools(self, tools: Iterable[Tool]) -> None:
        """Use *tools* instead of the session's, from the next request on, also of a turn that runs. Not a checkpoint.

        A call that was asked for before, of a tool that is not the same any more, is not
        run: the model is told to look again. Sub-agents that run keep what they have.
        Raises `ConfigError`.
        """
        self._check_open()
        self._registry = registry_of(tools)
        if self._active is not None:
            self._active.registry = self._registry
            self._active.hidden = hidden_from(self, self._active.chain, self._active.settings.agent_depth)

    # -- for the engine -------------------------------------------------------------------

    @property
    def journal(self) -> Journal:
        """Its log."""
        return self._journal

    @property
    def registry(self) -> Registry:
        """Its tools."""
        return self._registry

    @property
    def choices(self) -> tuple[str | Model, ...]:
        """Its models, as they were chosen."""
        return self._choices

    @property
    def models(self) -> tuple[Model, ...]:
        """Its models."""
        return self._deps.models

    @property
    def questions(self) -> Questions:
        """The open questions of it and of its children."""
        return self._questions

    @property
    def jobs(self) -> Jobs:
        """Its background jobs."""
        if self._jobs is None:
            # Imported here: most sessions have none, and processes cost an import.
            from engine.tools.background_jobs import Jobs

            self._jobs = Jobs(self._engine.start_task, self._tell_of_job, self._note_job, self.note_ended)
        return self._jobs

    @property
    def agents(self) -> AgentJobs:
        """Its sub-agents that work in the background."""
        return self._children.jobs

    @property
    def _children(self) -> Children:
        if self._offspring is None:
            # Imported here: most sessions have none.
            from engine.session.sub_agents import Children

            self._offspring = Children(self, self._engine)
        return self._offspring

    def share_places(self, gate: Gate) -> None:
        """It is a sub-agent's: no more of its own work at once than *gate* lets. Not a checkpoint."""
        self._children.gate = gate

    def end_jobs(self) -> None:
        """End its background jobs and sub-agents, for good. Not a checkpoint; their tasks are over a moment later."""
        if self._jobs is not None:
            self._jobs.close()
        if self._offspring is not None:
            self._offspring.close()

    @property
    def desk(self) -> HookRunner:
        """Where its hooks are asked outside of turns."""
        return HookRunner(self._settings.hook_timeout, self._notice)

    async def greet(self, source: Literal["new", "resumed"]) -> None:
        """Tell the hooks that it starts. A checkpoint if a hook is one."""
        model = self.models[0].info.name
        await greet(self._hooks, self.desk, self._journal, self._deps.ids, source=source, model=model)

    async def take_leave(self, until: float) -> None:
        """Tell the hooks that it ends, which have time until then. A checkpoint if a hook is one."""
        await tell_end(self._hooks, attrs.evolve(self.desk, until=until), self._journal)

    def start(self, text: str, *, attachments: Sequence[MediaPart], settings: Settings | None) -> tuple[Turn, TurnRun]:
        """Begin a turn whose frame the caller runs. Not a checkpoint."""
        turn = self.prompt(text, attachments=attachments, settings=settings)
        return turn, self._start(turn)

    def start_again(self, settings: Settings | None) -> tuple[Turn, TurnRun]:
        """Go on with the parked turn, whose frame the caller runs. Not a checkpoint."""
        turn = self.resume(settings=settings)
        return turn, self._start(turn)

    def _start(self, turn: Turn) -> TurnRun:
        run = turn.start()
        run.parks = self._may_park(run)
        return run

    def _may_park(self, run: TurnRun) -> bool:
        return run.settings.park and self._engine.is_kept

    def begin_child(self, text: str, settings: Settings, above: Above) -> TurnRun:
        """Begin a sub-agent's turn, whose frame the caller runs. Not a checkpoint."""
        return begin_turn(self, text, settings=settings, parent=above)

    def start_queued(self) -> TurnRun | None:
        """Begin a turn with the next queued input, or with a report, if the session is idle. Not a checkpoint."""
        inbox = self._journal.state.inbox
        # A report that came when the last turn had looked for the last time.
        self._is_pumped_late = self._is_reverting
        late = (item for item in inbox if item.message.origin == "engine" and self._settings.wake_on_report)
        queued = next((item for item in inbox if item.mode == "queue"), None) or next(late, None)
        if self._active is not None or self._is_reverting or queued is None or self._journal.state.turn is not None:
            return None
        run = begin_turn(self, queued)
        run.parks = self._may_park(run)
        return run

    def admit(
        self, text: str, mode: Literal["steer", "queue"], input_id: str | None, turn_id: TurnId | None = None
    ) -> InputId:
        """Take a steer or queued input in. Not a checkpoint."""
        chosen = None if input_id is None else InputId(worded(input_id, "an input id"))
        return admit(self._journal, self._deps.ids, text, mode, input_id=chosen, turn_id=turn_id)

    def report(self, text: str, display: str, *, may_wake: bool) -> None:
        """Take in what happened in the background, for the model: now, in a turn of its own, or in the next one. Not a checkpoint."""
        ids, active = self._deps.ids, self._active
        if self._journal.is_closed:
            return
        if active is not None and active.cause is None:
            report(self._journal, ids, text, "steer", display=display, turn_id=active.journal.turn_id)
        elif active is not None or self._journal.state.turn is not None:
            # It is ending, or parked. If it ends by itself the report begins the next one, else it waits for the next prompt.
            report(self._journal, ids, text, "steer", display=display)
        elif may_wake and self._settings.wake_on_report and not self._engine.is_closed:
            report(self._journal, ids, text, "queue", display=display)
            self._pump_after()
        else:
            report(self._journal, ids, text, "steer", display=display)

    def end_turn(self, cause: Cause) -> TurnRun | None:
        """End the turn that is running, if any, or park it, and return it. Not a checkpoint."""
        if self._active is not None and not park(self._active):
            self._active.end(cause)
        return self._active

    # -- inside -----------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._engine.is_closed:
            raise EngineClosed("the engine was closed; open a new one")
        if self._journal.is_closed:
            raise SessionError(
                f"session {self.id} was let go of when its sub-agent had ended: open it anew, with open_session()"
            )

    def _check_idle(self) -> None:
        self._check_no_turn()
        check_not_parked(self._journal.state)

    def _check_no_turn(self) -> None:
        if self._is_reverting:
            raise SessionBusy(f"files are being put back in session {self.id}; wait until that is done")
        if self._active is not None:
            raise SessionBusy(
                f"a turn is running in session {self.id}; wait for its end, steer it, or use session.queue()"
            )

    def _parked(self, run: TurnRun) -> None:
        if self._active is run:
            self._active = None

    @contextmanager
    def _alone(self) -> Generator[History]:
        """Keep turns from beginning while the past is changed. Not a checkpoint. Raises `SessionBusy`, `EngineClosed`."""
        # Imported here: most sessions undo nothing.
        from engine.session.undo import History

        self._check_open()
        self._check_idle()
        self._is_reverting = True
        try:
            yield History(self._journal, self._deps)
        finally:
            self._is_reverting = False
            if self._is_pumped_late:
                # What was queued meanwhile, and reports that came.
                self._pump_after()

    def _ended(self, run: TurnRun, parent: Above | None, result: TurnResult) -> None:
        """The end of a turn is visible: the session is idle. Not a checkpoint."""
        if self._active is run:
            self._active = None
        self._counted = run.counted
        self._engine.remember(self._journal)
        finished = run.cause is not None and run.cause.kind == "finished"
        if parent is not None:
            parent.settle(run, result)
        elif finished:
            self._pump_after()
        if parent is None and self._active is None and self._hooks.idle:
            tell = partial(tell_idle, self._hooks, self.desk, self._journal, result)
            self._resting = self._engine.run_beside(tell, name=f"idle hooks of {self.id}")

    def note_begun(self, work_id: str, kind: BackgroundKind, name: str, detail: str = "") -> None:
        """Something begins to work in the background: whoever opens the session after a crash tells of it. Not a checkpoint."""
        self._journal.append(BackgroundStarted(work_id=work_id, kind=kind, name=name, detail=detail))

    def note_ended(self, work_id: str) -> None:
        """It works no more, and was told of. Not a checkpoint."""
        if not self._journal.is_closed:
            self._journal.append(BackgroundEnded(work_id=work_id))

    def _tell_of_job(self, text: str) -> None:
        if not self._journal.is_closed:
            self._notice("info", "job_ended", text)

    def _note_job(self, job: Job) -> None:
        self.note_begun(job.marker, "command", job.name, job.command)

    def _notice(self, level: Literal["info", "warning"], code: str, text: str) -> None:
        self._journal.append(Notice(level=level, code=code, text=text))

    def _pump_after(self) -> None:
        """Begin the next queued turn. That it can't begin is no fault of the one that is over. Not a checkpoint."""
        try:
            self._engine.pump(self)
        except Exception as error:  # noqa: BLE001  # raised here it would end the turn's host, or all turns of the engine
            text = f"the next queued input could not be begun: {describe(error)}"
            self._notice("warning", "internal_error", text)

    async def run_agent(self, run: TurnRun, entry: Entry, errand: AgentRequest) -> AgentResult:
        """Run a turn of a child session inside the calling task (see `ToolContext.run_agent`)."""
        return await self._children.run(run, entry, errand)

    async def start_agent(self, run: TurnRun, entry: Entry, errand: AgentRequest) -> AgentJob:
        """Start a turn of a child session in the background (see `ToolContext.start_agent`)."""
        return await self._children.start(run, entry, errand)
