"""The final record of `engine run`: one JSON object that says what a turn did, for scripts."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal, cast

import attrs

from engine.cli.problems.surroundings import Surroundings
from engine.cli.terminal.exit_codes import ADVICE, INTERNAL
from engine.cli.turn.record_types import (
    AttachmentRecord,
    CallCounts,
    ChangedFile,
    CostRecord,
    DeniedCall,
    ErrorRecord,
    InitRecord,
    RunResult,
    StdinRecord,
    UsageRecord,
)
from engine.core import events as ev
from engine.core.errors import ErrorInfo
from engine.core.ids import CallId, MessageId, SessionId
from engine.core.messages import Settlement, Usage
from engine.journal.state import Resync

if TYPE_CHECKING:
    from engine.cli.problems.problem import ProblemText
    from engine.cli.task.task_input import TaskInput
    from engine.session.undo import FileDiff

_NO_FACTS: Final = ErrorInfo(code="provider_failed")


@attrs.define(eq=False, repr=False)
class RunRecord:
    """Collects from the events of a turn, and of its sub-agents, what its final record holds.

    Attributes:
        turn_id: the turn; empty before it has started.
    """

    _session_id: SessionId
    _surroundings: Surroundings = Surroundings()
    turn_id: str = attrs.field(default="", init=False)
    _tools: dict[CallId, str] = attrs.field(factory=dict[CallId, str], init=False)
    _calls: Counter[str] = attrs.field(factory=Counter[str], init=False)
    _denied: list[DeniedCall] = attrs.field(factory=list[DeniedCall], init=False)
    _models: dict[MessageId, str] = attrs.field(factory=dict[MessageId, str], init=False)
    _cost_by_model: dict[str, float] = attrs.field(factory=dict[str, float], init=False)
    _cost_of_sub_agents: float = attrs.field(default=0.0, init=False)
    _retries: int = attrs.field(default=0, init=False)
    # Why the session is not saved: the code of a notice.
    _unsaved: str = attrs.field(default="not_durable", init=False)

    @property
    def withheld(self) -> int:
        """How many calls were denied for lack of a user to ask."""
        return sum(call.why == "unattended" for call in self._denied)

    @property
    def denied(self) -> Sequence[DeniedCall]:
        """The calls that were denied."""
        return self._denied

    def feed(self, event: ev.Durable | ev.Live | Resync) -> None:
        """Record *event*. Not a checkpoint."""
        match event:
            case ev.TurnStarted() if event.session_id == self._session_id:
                self.turn_id = event.turn_id or ""
            case ev.CallAnnounced():
                self._tools[event.call_id] = event.tool
            case ev.CallSettled():
                self._settle(event.call_id, event.settlement)
            case ev.StepStarted():
                self._models[event.message_id] = event.model
            case ev.StepEnded():
                model = self._models.get(event.message_id, "")
                self._cost_by_model[model] = self._cost_by_model.get(model, 0.0) + event.cost
                if len(event.path) > 1:
                    self._cost_of_sub_agents += event.cost
            case ev.RetryScheduled():
                self._retries += 1
            case ev.Notice(code="disk_full"):
                self._unsaved = event.code
            case _:
                pass

    def problem(self, result: ev.TurnResult) -> ProblemText | None:
        """Return what the user reads about the end of the turn; None: it completed and is saved, or was cancelled."""
        if result.stop_reason == "aborted" or (result.stop_reason == "completed" and not self.is_unsaved(result)):
            return None
        # Imported here: the table of situations is for what went wrong.
        from engine.cli.problems.facts import FailureFacts
        from engine.cli.problems.problem import problem_of, problem_of_result

        if result.stop_reason == "completed":
            return problem_of(FailureFacts(code=self._unsaved, info=_NO_FACTS), self._surroundings)
        return problem_of_result(result, self._surroundings)

    def is_unsaved(self, result: ev.TurnResult) -> bool:
        """Tell whether the session should have been saved, and was not."""
        return self._surroundings.is_saved and not result.durable

    def result(
        self,
        result: ev.TurnResult,
        *,
        exit_code: int,
        seconds: float,
        max_cost: float | None = None,
        left_running: Iterable[int] = (),
        changed_files: tuple[ChangedFile, ...] | None = None,
        task_input: TaskInput | None = None,
    ) -> RunResult:
        """Return the final record."""
        return RunResult(
            session_id=self._session_id,
            turn_id=self.turn_id,
            stop_reason=result.stop_reason,
            exit_code=exit_code,
            detail=result.detail,
            text=result.text,
            output=None if result.output is None else json.loads(result.output),
            seconds=round(seconds, 3),
            steps=result.steps,
            models=tuple(dict.fromkeys(self._models.values())),
            retries=self._retries,
            durable=result.durable,
            usage=_usage(result.usage),
            cost=self._cost(result, max_cost),
            calls=CallCounts(**{field.name: self._calls[field.name] for field in attrs.fields(CallCounts)}),
            changed_files=changed_files,
            denied=tuple(self._denied),
            left_running=tuple(left_running),
            stdin=None if task_input is None else _stdin(task_input),
            attachments=None if task_input is None else tuple(_attachments(task_input)),
            reset_at=result.reset_at,
            error=self._error(result),
        )

    def _error(self, result: ev.TurnResult) -> ErrorRecord | None:
        problem, info = self.problem(result), result.failure
        if problem is None:
            return None
        reason = self._unsaved if result.stop_reason == "completed" else result.stop_reason
        return _problem(reason if info is None else info.code, problem, info)

    def _settle(self, call_id: CallId, settlement: Settlement) -> None:
        failed = settlement.status == "error" or (settlement.status == "completed" and settlement.failed)
        self._calls["failed" if failed else settlement.status] += 1
        if settlement.status == "denied":
            self._denied.append(_denial(call_id, self._tools.get(call_id, ""), settlement))

    def _cost(self, result: ev.TurnResult, max_cost: float | None) -> CostRecord:
        # Of a model without a price every request costs nothing, though it used tokens.
        known = bool(result.cost) or not result.usage.total
        return CostRecord(
            usd=result.cost if known else None,
            known=known,
            by_model={model: cost for model, cost in self._cost_by_model.items() if model},
            sub_agents=self._cost_of_sub_agents,
            overshoot_usd=None if max_cost is None or not known else max(0.0, result.cost - max_cost),
        )


def record_text(record: RunResult | InitRecord) -> str:
    """Return a record as a line of JSON."""
    return f"{json.dumps(attrs.asdict(record))}\n"


def failure_record(lines: Sequence[str], exit_code: int, known: tuple[str, ProblemText] | None = None) -> RunResult:
    """Return the record of a run that sent nothing: a wrong flag, say.

    Args:
        lines: what the user reads.
        exit_code: the exit code.
        known: its code and the words for it; None: it is wrong usage, or a fault of the engine.
    """
    first = next((number for number, line in enumerate(lines) if line.startswith(ADVICE)), len(lines))
    advice = tuple(line.removeprefix(ADVICE) for line in lines[first : first + 1])
    from engine.cli.problems.problem import ProblemText

    code, problem = known or (
        "internal" if exit_code == INTERNAL else "usage",
        ProblemText("\n".join(lines[:first]), advice),
    )
    return RunResult(exit_code=exit_code, detail=problem.what, error=_problem(code, problem, None))


def changed_file(diff: FileDiff) -> ChangedFile:
    """Return how a turn changed a file."""
    lines = diff.text.splitlines()
    return ChangedFile(
        path=diff.path,
        change="created" if diff.before is None else "deleted" if diff.after is None else "changed",
        added=sum(line.startswith("+") and not line.startswith("+++") for line in lines),
        removed=sum(line.startswith("-") and not line.startswith("---") for line in lines),
        undoable=True,
    )


def _stdin(task_input: TaskInput) -> StdinRecord:
    return StdinRecord(state=task_input.stdin.state, bytes=len(task_input.stdin.data))


def _attachments(task_input: TaskInput) -> Iterator[AttachmentRecord]:
    for part in task_input.parts:
        sent_as: Literal["media", "text"] = "media" if part.media else "text"
        yield AttachmentRecord(path=part.path, kind=part.kind, bytes=part.size, sent_as=sent_as)


def _usage(usage: Usage) -> UsageRecord:
    return UsageRecord(
        input=usage.input,
        output=usage.output,
        cache_read=usage.cache_read,
        cache_write=usage.cache_write,
        reasoning=usage.reasoning,
        total=usage.total,
    )


def _denial(call_id: CallId, tool: str, settlement: Settlement) -> DeniedCall:
    """Return why a call was denied, and the flags that would allow it."""
    facts = _facts(settlement)
    permission, patterns = facts.get("permission"), facts.get("patterns")
    rules = [f"--rule {shlex.quote(f'allow {name} {pattern}')}" for name, pattern in _pairs(facts.get("offer"))]
    return DeniedCall(
        call_id=call_id,
        tool=tool,
        permission=permission if isinstance(permission, str) else None,
        pattern=str(cast("list[object]", patterns)[0]) if isinstance(patterns, list) and patterns else None,
        why="unattended" if facts.get("denied") == "unattended" else settlement.text,
        allow_with=" ".join(rules) or None,
    )


def _pairs(offer: object) -> list[tuple[str, str]]:
    return cast("list[tuple[str, str]]", offer) if isinstance(offer, list) else []


def _facts(settlement: Settlement) -> Mapping[str, object]:
    try:
        facts: object = json.loads(settlement.metadata or "{}")
    except ValueError:
        return {}
    return cast("dict[str, object]", facts) if isinstance(facts, dict) else {}


def _problem(code: str, problem: ProblemText, info: ErrorInfo | None) -> ErrorRecord:
    return ErrorRecord(
        code=code,
        http_status=None if info is None else info.http_status,
        message=problem.what,
        next=problem.next[0] if problem.next else None,
        request_id=(info.request_id or None) if info is not None else None,
    )
