"""The final record of `engine run`: one JSON object that says what a turn did, for scripts."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal, cast

import attrs

from engine.cli.problems.problem import ProblemText, problem_of_result
from engine.cli.problems.surroundings import Surroundings
from engine.core import events as ev
from engine.core.ids import CallId, MessageId, SessionId
from engine.core.messages import Settlement, Usage
from engine.journal.state import Resync

if TYPE_CHECKING:
    from engine.cli.task.task_input import TaskInput
    from engine.session.undo import FileDiff

# Fields are only added while this number stays.
SCHEMA: Final = 1
OutputMode = Literal["text", "json", "stream-json"]


@attrs.define(eq=False)
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
    _denied: list[dict[str, object]] = attrs.field(factory=list[dict[str, object]], init=False)
    _models: dict[MessageId, str] = attrs.field(factory=dict[MessageId, str], init=False)
    _cost_by_model: dict[str, float] = attrs.field(factory=dict[str, float], init=False)
    _cost_of_sub_agents: float = attrs.field(default=0.0, init=False)
    _retries: int = attrs.field(default=0, init=False)

    @property
    def withheld(self) -> int:
        """How many calls were denied for lack of a user to ask."""
        return sum(entry["why"] == "unattended" for entry in self._denied)

    @property
    def denied(self) -> Sequence[Mapping[str, object]]:
        """The calls that were denied: each with its tool, the permission, and the rule that would allow it."""
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
            case _:
                pass

    def result(
        self, result: ev.TurnResult, *, exit_code: int, seconds: float, left_running: Iterable[int] = ()
    ) -> dict[str, object]:
        """Return the record, without the changed files."""
        return {
            "type": "result",
            "schema": SCHEMA,
            "session_id": self._session_id,
            "turn_id": self.turn_id,
            "stop_reason": result.stop_reason,
            "exit_code": exit_code,
            "detail": result.detail,
            "text": result.text,
            "output": None if result.output is None else json.loads(result.output),
            "seconds": round(seconds, 3),
            "steps": result.steps,
            "models": list(dict.fromkeys(self._models.values())),
            "retries": self._retries,
            "durable": result.durable,
            "usage": usage_fields(result.usage),
            "cost": self._cost(result),
            "calls": {name: self._calls[name] for name in ("completed", "failed", "denied", "aborted")},
            "denied": self._denied,
            "left_running": list(left_running),
            "reset_at": result.reset_at,
            "error": _error(result, self._surroundings),
        }

    def _settle(self, call_id: CallId, settlement: Settlement) -> None:
        failed = settlement.status == "error" or (settlement.status == "completed" and settlement.failed)
        self._calls["failed" if failed else settlement.status] += 1
        if settlement.status == "denied":
            self._denied.append(
                {
                    "call_id": call_id,
                    "tool": self._tools.get(call_id, ""),
                    **_denial(settlement),
                }
            )

    def _cost(self, result: ev.TurnResult) -> dict[str, object]:
        # Of a model without a price every request costs nothing, though it used tokens.
        known = bool(result.cost) or not result.usage.total
        return {
            "usd": result.cost if known else None,
            "known": known,
            "by_model": {model: cost for model, cost in self._cost_by_model.items() if model},
            "sub_agents": self._cost_of_sub_agents,
        }


def failure_record(message: str, exit_code: int, known: tuple[str, ProblemText] | None) -> dict[str, object]:
    """Return the record of a run that sent nothing: a wrong flag, say.

    Args:
        message: the error.
        exit_code: the exit code.
        known: its code and what the user reads; None: it is wrong usage.
    """
    code, problem = known or ("usage", ProblemText(message))
    return {
        "type": "result",
        "schema": SCHEMA,
        "session_id": None,
        "turn_id": None,
        "stop_reason": None,
        "exit_code": exit_code,
        "detail": message,
        "text": "",
        "output": None,
        "error": {
            "code": code,
            "http_status": None,
            "message": problem.what,
            "next": problem.next[0] if problem.next else None,
            "request_id": None,
        },
    }


def init_record(session_id: str, *, cwd: str, model: str, agent: str, version: str) -> dict[str, object]:
    """Return the first line of `--output stream-json`."""
    return {
        "type": "init",
        "schema": SCHEMA,
        "session_id": session_id,
        "cwd": cwd,
        "model": model,
        "agent": agent,
        "version": version,
    }


def changed_file(diff: FileDiff) -> dict[str, object]:
    """Return how a turn changed a file."""
    lines = diff.text.splitlines()
    change = "created" if diff.before is None else "deleted" if diff.after is None else "changed"
    return {
        "path": diff.path,
        "change": change,
        "added": sum(line.startswith("+") and not line.startswith("+++") for line in lines),
        "removed": sum(line.startswith("-") and not line.startswith("---") for line in lines),
        "undoable": True,
    }


def input_fields(task_input: TaskInput) -> dict[str, object]:
    """Return what the prompt was made of."""
    return {
        "stdin": {"state": task_input.stdin.state, "bytes": len(task_input.stdin.data)},
        "attachments": [
            {"path": part.path, "kind": part.kind, "bytes": part.size, "sent_as": "media" if part.media else "text"}
            for part in task_input.parts
        ],
    }


def usage_fields(usage: Usage) -> dict[str, int]:
    """Return the tokens by kind, and in all."""
    return {
        "input": usage.input,
        "output": usage.output,
        "cache_read": usage.cache_read,
        "cache_write": usage.cache_write,
        "reasoning": usage.reasoning,
        "total": usage.total,
    }


def _denial(settlement: Settlement) -> dict[str, object]:
    """Return why a call was denied, and the flags that would allow it."""
    facts = _facts(settlement)
    patterns, offer = facts.get("patterns"), facts.get("offer")
    rules = [f"--rule {shlex.quote(f'allow {permission} {pattern}')}" for permission, pattern in _pairs(offer)]
    return {
        "permission": facts.get("permission"),
        "pattern": patterns[0] if isinstance(patterns, list) and patterns else None,
        "why": "unattended" if facts.get("denied") == "unattended" else settlement.text,
        "allow_with": " ".join(rules) or None,
    }


def _pairs(offer: object) -> list[tuple[str, str]]:
    return cast("list[tuple[str, str]]", offer) if isinstance(offer, list) else []


def _facts(settlement: Settlement) -> Mapping[str, object]:
    try:
        facts: object = json.loads(settlement.metadata or "{}")
    except ValueError:
        return {}
    return cast("dict[str, object]", facts) if isinstance(facts, dict) else {}


def _error(result: ev.TurnResult, surroundings: Surroundings) -> dict[str, object] | None:
    problem = problem_of_result(result, surroundings)
    if problem is None:
        return None
    info = result.failure
    return {
        "code": result.stop_reason if info is None else info.code,
        "http_status": None if info is None else info.http_status,
        "message": problem.what,
        "next": problem.next[0] if problem.next else None,
        "request_id": (info.request_id or None) if info is not None else None,
    }
