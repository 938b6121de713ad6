"""What a caller learns of a turn: its result, and what was denied with the rules that would allow it. Pure."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Sequence
from typing import cast

import attrs

from engine.acp.stop_reasons import PROMPT_ENDS, explanation
from engine.core import events as ev
from engine.core.ids import CallId, RequestId, SessionId, TurnId
from engine.core.schema import Json
from engine.files.globs import escaped
from engine.permission.question_text import allow_question
from engine.session.undo import FileDiff


@attrs.frozen(kw_only=True)
class DeniedRequest:
    """A permission that was not given.

    Attributes:
        tool: the tool that needed it.
        what: what for.
        why: why it was not given.
        rules: the rules that would allow it; none: no rule can.
    """

    tool: str
    what: str
    why: str
    rules: tuple[str, ...]

    def line(self) -> str:
        """Return it in words."""
        advice = "".join(f" --rule {shlex.quote(rule)}" for rule in self.rules)
        how = f" To allow it, start the server with{advice}" if advice else ""
        return f"Denied: {self.tool} ({self.what}): {self.why}.{how}"


@attrs.define(eq=False)
class TurnReport:
    """Follows the events of one turn, those of its sub-agents included.

    Attributes:
        session_id: the session.
        turn_id: the turn.
        result: how it ended; None: it runs.
        denied: what was denied.
        steps: how many steps have begun.
        doing: the tool that was called last.
    """

    session_id: SessionId
    turn_id: TurnId
    result: ev.TurnResult | None = None
    denied: list[DeniedRequest] = attrs.field(factory=list[DeniedRequest], init=False)
    steps: int = attrs.field(default=0, init=False)
    doing: str = attrs.field(default="", init=False)
    _questions: dict[RequestId, ev.PermissionAsked] = attrs.field(
        factory=dict[RequestId, ev.PermissionAsked], init=False
    )
    _tools: dict[CallId, str] = attrs.field(factory=dict[CallId, str], init=False)

    def feed(self, event: object) -> None:
        """Take the next event."""
        match event:
            case ev.StepStarted():
                self.steps += 1
                self.doing = ""
            case ev.CallAnnounced():
                self._tools[event.call_id] = self.doing = event.tool
            case ev.PermissionAsked():
                self._questions[event.request_id] = event
            case ev.PermissionAnswered() if event.answer in {"reject", "expired"}:
                self._note_answer(event)
            case ev.CallSettled() if event.settlement.status == "denied":
                self._note_unattended(event)
            case ev.TurnEnded() if event.session_id == self.session_id and event.turn_id == self.turn_id:
                self.result = event.result
            case _:
                pass

    @property
    def activity(self) -> str:
        """What goes on, in a line."""
        return f"step {self.steps}{f': {self.doing}' if self.doing else ''}" if self.steps else "starting"

    def structured(self, changed: Sequence[FileDiff] | None) -> dict[str, Json]:
        """Return the structured content of the result. *changed*: None: unknown."""
        result = self.result
        facts: dict[str, Json] = {
            "session": self.session_id,
            "stop_reason": None,
            "usage": None,
            "cost": None,
            "changed_files": None if changed is None else [_changed_file(diff) for diff in changed],
            "denied": [cast("Json", {**attrs.asdict(one), "rules": list(one.rules)}) for one in self.denied],
        }
        if result is None:
            return facts
        usage = result.usage
        ending: dict[str, Json] = {
            "stop_reason": result.stop_reason,
            "detail": result.detail,
            "usage": {"input": usage.input, "output": usage.output, "total": usage.total},
            # Of a model without a price every request costs nothing, though it used tokens.
            "cost": result.cost if result.cost or not usage.total else None,
        }
        return facts | ending

    def text(self) -> str:
        """Return the answer, and what else the caller has to know."""
        lines = [one.line() for one in self.denied]
        if self.result is None:
            lines.insert(0, f"Still running ({self.activity}). Call wait with the session {self.session_id}.")
        else:
            ending = explanation(self.result)
            if self.is_failed:
                ending = f"Failed: {self.result.detail or self.result.stop_reason.replace('_', ' ')}"
            elif self.result.stop_reason == "aborted":
                ending = "Cancelled."
            lines = [*filter(None, (self.result.text, ending)), *lines]
        return "\n\n".join(lines) or "The model gave no answer in text."

    @property
    def is_failed(self) -> bool:
        """Whether it ended with an error."""
        return self.result is not None and not PROMPT_ENDS[self.result.stop_reason].reason

    def _note_answer(self, event: ev.PermissionAnswered) -> None:
        question = self._questions.get(event.request_id)
        if question is None:
            return
        # What "always" offers does not say that a call leaves the project: a rule has to allow both.
        outside = [
            (right.permission, escaped(right.pattern)) for right in question.rights if right.permission == "outside"
        ]
        offer = [(right.permission, right.pattern) for right in question.offers[0].rights] if question.offers else []
        why = "no answer in time" if event.answer == "expired" else "the user refused it"
        self._deny(question.tool, question.detail or allow_question(question), why, [*offer, *outside] if offer else [])

    def _note_unattended(self, event: ev.CallSettled) -> None:
        try:
            facts: object = json.loads(event.settlement.metadata or "null")
        except ValueError:
            return
        if not isinstance(facts, dict):
            return
        if cast("dict[str, object]", facts).get("denied") != "unattended":
            return
        details = cast("dict[str, list[object]]", facts)
        offer = cast("list[tuple[str, str]]", details.get("offer", []))
        what = ", ".join(map(str, details.get("patterns", [])))
        self._deny(self._tools.get(event.call_id, ""), what, "no one is available to ask", offer)

    def _deny(self, tool: str, what: str, why: str, offer: Iterable[tuple[str, str]]) -> None:
        rules = tuple(dict.fromkeys(f"allow {permission} {pattern}" for permission, pattern in offer))
        self.denied.append(DeniedRequest(tool=tool, what=what[:500], why=why, rules=rules))


def _changed_file(diff: FileDiff) -> Json:
    change = "created" if diff.before is None else "deleted" if diff.after is None else "changed"
    return {"path": diff.path, "change": change}
