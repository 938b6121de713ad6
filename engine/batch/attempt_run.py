"""One attempt at a task, in this process: folder, setup, turn, patch, check."""

from __future__ import annotations

import json
import socket
import time
from functools import partial
from pathlib import Path
from typing import Final

import attrs
import trio

from engine.batch.attempt_outcome import AttemptFailed, AttemptOutcome, outcome_of_error, outcome_of_turn
from engine.batch.attempt_row import MAX_OUTPUT_CHARS, AttemptError, AttemptRow
from engine.batch.attempt_runner import Attempt
from engine.batch.attempt_session import AttemptSession, create_session, find_session
from engine.batch.batch_events import Report, TaskPhase, TaskStep
from engine.batch.batch_status import BatchStatus, CheckResult, Phase
from engine.batch.task_command import run_task_command
from engine.batch.turn_meter import TurnMeter
from engine.batch.work_folder import WorkFolder, WorkFolders, file_name
from engine.batch.work_patch import FolderBaseline, read_baseline
from engine.core.errors import SnapshotError
from engine.core.events import StepEnded, TurnResult
from engine.core.settings import Settings
from engine.core.threads import to_thread
from engine.core.value_base import Value
from engine.process.secret_names import SecretVariables
from engine.session.engine import Engine
from engine.session.turn import Turn
from engine.snapshots.snapshot_dir import write_atomically

_CONTINUE: Final = "Continue the task where it stopped."


@attrs.frozen(kw_only=True, eq=False, repr=False)
class LocalWorld(Value):
    """What attempts in this process share.

    Attributes:
        eng: the engine.
        folders: makes work folders.
        settings: of all turns; a task's limits replace its limits.
        secrets: variables that commands don't get.
    """

    eng: Engine
    folders: WorkFolders
    settings: Settings
    secrets: SecretVariables


@attrs.define(eq=False, repr=False)
class AttemptRun:
    """An attempt at work. What it has learned stays when it is cancelled, for its row."""

    _world: LocalWorld
    _attempt: Attempt
    _report: Report
    meter: TurnMeter = attrs.field(factory=TurnMeter, init=False)
    _current: AttemptSession | None = attrs.field(default=None, init=False)
    _continued: bool = attrs.field(default=False, init=False)
    _folder: WorkFolder | None = attrs.field(default=None, init=False)
    _result: TurnResult | None = attrs.field(default=None, init=False)
    _outcome: AttemptOutcome | None = attrs.field(default=None, init=False)
    _check: CheckResult = attrs.field(default="", init=False)
    _patch: str = attrs.field(default="", init=False)
    _output_file: str = attrs.field(default="", init=False)
    _remark: str = attrs.field(default="", init=False)

    async def play(self) -> None:
        """Do everything. Always a checkpoint. If cancelled, the turn is settled and saved first.

        Raises ordinary errors, of which `fail` makes the outcome.
        """
        task, world = self._attempt.task, self._world
        self._tell_phase()
        settings = self._settings()
        current = await find_session(world.eng, self._attempt, settings)
        if current is not None and not await world.folders.has(task):
            # On another machine, say: the session speaks of files that are not here.
            await world.eng.close_session(current.session.id)
            current, self._attempt = None, attrs.evolve(self._attempt, fresh=True)
        self._current, self._continued = current, current is not None
        self._folder = folder = await world.folders.make(task, keeps=current is not None)
        if current is None:
            await self._setup(folder)
        baseline = await self._baseline(folder, is_new=current is None)
        if current is None:
            current = self._current = await create_session(world.eng, self._attempt, settings, folder.path)
        await self._label(current)
        await self._turn(current, settings)
        if self._outcome is not None and self._outcome.status in {"finished", "stopped", "timeout"}:
            await self._keep_patch(baseline)
            await self._keep_output()
            await self._run_check(folder)

    def fail(self, error: BaseException) -> None:
        """Take note of an ordinary error that ended it. Not a checkpoint."""
        self._outcome = outcome_of_error(error)

    def stop(self) -> None:
        """Take note that it was cancelled. Not a checkpoint."""
        self._outcome = AttemptOutcome(
            status="cancelled", error=AttemptError(kind="cancelled", message="the batch was stopped")
        )

    async def close(self) -> None:
        """Close the session. Always a checkpoint. Raises what `Engine.close_session` does."""
        if self._current is None:
            await trio.lowlevel.checkpoint()
        else:
            await self._world.eng.close_session(self._current.session.id)

    def row(self) -> AttemptRow:
        """Return the row. Not a checkpoint."""
        self.meter.stop()
        attempt, task, outcome, result = self._attempt, self._attempt.task, self._outcome, self._result
        assert outcome is not None
        row = AttemptRow(
            id=task.id,
            attempt=attempt.number,
            status=self._status(outcome),
            stop_reason=None if result is None else result.stop_reason,
            check=self._check,
            continued=self._continued,
            base_commit="" if self._folder is None else self._folder.base_commit,
            patch=self._patch,
            output=self._output() if outcome.status not in {"infra", "cancelled"} and not self._output_file else None,
            output_file=self._output_file,
            times=dict(self.meter.times),
            error=outcome.error,
            notes=self._notes(),
            retries=attempt.retries,
            denied=self.meter.denied,
            model=self.meter.model,
            config_hash=attempt.config_hash,
            task_hash=task.hash,
            prompt_hash=task.prompt_hash,
            host=socket.gethostname(),
            shard=attempt.shard,
            ended=time.time(),
        )
        current = self._current
        if current is None:
            return row
        usage, cost, steps = current.spent(attempt)
        return attrs.evolve(
            row,
            session=current.session.id,
            usage=usage,
            cost=cost,
            # Of a model without a price every request costs nothing, though it used tokens.
            cost_known=bool(cost) or not usage.total,
            steps=steps,
            denied=row.denied + current.denied,
            model=row.model or current.session.state.model,
        )

    # ---- the parts, in their order -----------------------------------------------------------------------------------

    async def _setup(self, folder: WorkFolder) -> None:
        command = self._attempt.task.setup
        if command is None:
            return
        end = await run_task_command(
            command,
            folder=folder.path,
            env=self._attempt.task.env,
            log=self._file("logs", "setup.log"),
            secrets=self._world.secrets,
        )
        if not end.is_good:
            raise AttemptFailed("setup", end.text)

    async def _baseline(self, folder: WorkFolder, *, is_new: bool) -> FolderBaseline | None:
        """Return what the folder holds before the turn; None: there will be no patch. Always a checkpoint."""
        private = self._world.folders.private_of(self._attempt.task)
        if private is None or not folder.base_commit:
            await trio.lowlevel.checkpoint()
            return None
        try:
            return await read_baseline(folder.path, private, is_new=is_new)
        except SnapshotError as error:
            self._remark = str(error)
            return None

    async def _label(self, current: AttemptSession) -> None:
        if current.session.state.title != self._attempt.label:
            await current.session.rename(self._attempt.label)
        profile = self._attempt.task.profile
        if profile and current.session.state.profile != profile:
            await self._world.eng.use_profile(current.session, profile, by="batch")

    async def _turn(self, current: AttemptSession, settings: Settings) -> None:
        """Run the turn, or what is left of it. Always a checkpoint."""
        session, task = current.session, self._attempt.task
        if current.progress == "ended":
            self._result = session.state.last_result
            assert self._result is not None
            self._outcome = outcome_of_turn(self._result)
            return
        output = None
        if task.output_schema:
            # Imported here: few tasks have one.
            from engine.session.structured_output import answer_schema

            output = answer_schema(task.output_schema)
        if session.state.turn is not None:
            turn = session.resume(settings=settings)
        else:
            text = task.prompt if current.progress == "empty" else _CONTINUE
            turn = session.prompt(text, settings=settings, output=output, by="batch")
        with trio.move_on_after(task.timeout or float("inf")) as limit:
            async with turn:
                await self._follow(turn)
        self._enter("model")
        self._result = turn.result
        # It may have ended at the same instant.
        if limit.cancelled_caught and turn.result.stop_reason == "aborted":
            self._outcome = AttemptOutcome(status="timeout")
        elif self.meter.missing_server:
            raise AttemptFailed("mcp_required", self.meter.missing_server)
        else:
            self._outcome = outcome_of_turn(turn.result)

    async def _follow(self, turn: Turn) -> None:
        async for event in turn:
            if self.meter.feed(event):
                self._tell_phase()
            if isinstance(event, StepEnded):
                self._tell_step()
            elif self.meter.missing_server:
                turn.cancel()

    async def _keep_patch(self, baseline: FolderBaseline | None) -> None:
        """Write what has changed to a file. Always a checkpoint. Raises `OSError`."""
        if baseline is None:
            await trio.lowlevel.checkpoint()
            return
        try:
            patch = await baseline.patch()
        except SnapshotError as error:
            self._remark = str(error)
            return
        self._patch = await self._write("patches", ".patch", patch)

    async def _keep_output(self) -> None:
        """Write an answer that is too long for the row to a file. Always a checkpoint. Raises `OSError`."""
        text = self._output()
        if text is None or len(text) <= MAX_OUTPUT_CHARS:
            await trio.lowlevel.checkpoint()
            return
        self._output_file = await self._write("outputs", ".json", text.encode())

    async def _run_check(self, folder: WorkFolder) -> None:
        command = self._attempt.task.check
        if command is None:
            return
        self._enter("check")
        end = await run_task_command(
            command,
            folder=folder.path,
            env=self._attempt.task.env,
            log=self._file("logs", "check.log"),
            secrets=self._world.secrets,
        )
        self._check = "passed" if end.is_good else "timeout" if end.finished.timed_out else "failed"

    # ---- helpers -----------------------------------------------------------------------------------------------------

    def _settings(self) -> Settings:
        limits, own = self._world.settings.limits, self._attempt.task.limits
        merged = {field.name: getattr(own, field.name) for field in attrs.fields(type(own))}
        return attrs.evolve(
            self._world.settings,
            limits=attrs.evolve(limits, **{name: value for name, value in merged.items() if value is not None}),
        )

    def _status(self, outcome: AttemptOutcome) -> BatchStatus:
        # A check that passes after a timeout makes no result of it.
        if outcome.status != "finished" or not self._check:
            return outcome.status
        return "passed" if self._check == "passed" else "failed"

    def _notes(self) -> tuple[str, ...]:
        return (self._remark,) if self._remark else ()

    def _output(self) -> str | None:
        """Return the answer as JSON text; None: there is none."""
        result = self._result
        if result is None:
            return None
        if self._attempt.task.output_schema:
            return result.output
        return json.dumps(result.text) if result.text else None

    def _file(self, kind: str, end: str) -> Path:
        """Return the path of a file of this attempt."""
        name = f"{file_name(self._attempt.task.id)}.{self._attempt.number}"
        return Path(self._attempt.results) / kind / f"{name}{end if end.startswith('.') else f'.{end}'}"

    async def _write(self, kind: str, end: str, data: bytes) -> str:
        """Write a file, and return its path relative to the ledger's folder. Always a checkpoint. Raises `OSError`."""
        path = self._file(kind, end)
        await to_thread(partial(path.parent.mkdir, parents=True, exist_ok=True))
        await to_thread(write_atomically, path, data)
        return f"{kind}/{path.name}"

    def _enter(self, phase: Phase) -> None:
        if self.meter.enter(phase):
            self._tell_phase()

    def _tell_phase(self) -> None:
        session = "" if self._current is None else str(self._current.session.id)
        self._report(
            TaskPhase(id=self._attempt.task.id, attempt=self._attempt.number, phase=self.meter.phase, session=session)
        )

    def _tell_step(self) -> None:
        meter = self.meter
        self._report(
            TaskStep(
                id=self._attempt.task.id,
                attempt=self._attempt.number,
                steps=meter.steps,
                tokens=meter.tokens,
                cost=meter.cost,
                model=meter.model,
            )
        )
