"""`CallPermission`: what the rules and the user say of one call, and the record of it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import attrs
import trio

from engine.core.events import AnswerKind, CallJudged, PermissionAsked, Right, Verdict
from engine.core.ids import RequestId
from engine.core.messages import Settlement
from engine.core.permission_types import Judgement, Opinion, PermissionQuery
from engine.nursery.hook_points import while_notifying
from engine.nursery.permission_scope import active_scopes
from engine.nursery.questions import PermissionAnswer
from engine.nursery.running_turn import TurnCause
from engine.tools.call_values import Need

if TYPE_CHECKING:
    from engine.nursery.call_ledger import CallEntry
    from engine.nursery.step import Step

_SOURCES: dict[AnswerKind, str] = {
    "once": "the user, once",
    "always": "the user, for always",
    "reject": "the user",
    "expired": "no one answered in time",
}


@attrs.define(eq=False)
class CallPermission:
    """What the rules and the user say of one call.

    Attributes:
        _on_reject: called with the settlement of a call that the user refused without a word.
    """

    _step: Step
    _entry: CallEntry
    _on_reject: Callable[[Settlement], None]

    def query(self, need: Need, *, read_only: bool) -> PermissionQuery:
        """Return what *need* asks of the rules."""
        self._entry.only_reads = not need.opaque and all(needed.reads_only for needed in need.needed)
        return PermissionQuery(
            chain=active_scopes(self._step.run.inputs.chain, self._entry.shared),
            call_id=self._entry.call_id,
            cwd=self._entry.shared.cwd,
            tool=self._entry.tool_name,
            read_only=read_only,
            permission=need.permission,
            rights=need.needed,
            offers=need.offered,
            opaque=need.opaque,
            sandboxed=need.sandboxed,
            detail=need.detail,
            metadata=need.metadata,
        )

    def judge(self, query: PermissionQuery) -> Judgement:
        """Return what the rules say."""
        return self._step.run.deps.approver.judge(query)

    @property
    def opinion(self) -> Opinion | None:
        """Who may answer in the user's place."""
        return self._step.run.deps.opinion

    def record(self, verdict: Verdict, source: str) -> None:
        """Record a verdict, unless the call is settled: a hook that shields itself may outlive its call."""
        if not self._entry.is_settled:
            self._step.run.journal.append(CallJudged(call_id=self._entry.call_id, verdict=verdict, source=source))

    async def question(self, query: PermissionQuery, judgement: Judgement, *, by_rule: bool) -> tuple[AnswerKind, str]:
        """Ask the user for what *judgement* leaves open. A rejection without a word ends the turn. Always a checkpoint.

        What only rules ask about (*by_rule*) is answered as soon as they allow it.
        """
        run = self._step.run
        # Judged again only after hooks or a second opinion: without them there was no checkpoint since the first time.
        if by_rule and (run.inputs.hooks.permission_request or self.opinion is not None):
            now = self.judge(query)
            if now.verdict == "allow":
                await trio.lowlevel.checkpoint()
                self.record("allow", now.source)
                return "once", ""
        answer = await self.ask(query, judgement, run.ending.catch, by_rule=by_rule)
        if answer.kind != "withdrawn":
            self.record(
                "allow" if answer.kind in {"once", "always"} else "deny", answer.source or _SOURCES[answer.kind]
            )
        if answer.kind == "reject" and not answer.feedback:
            self._on_reject(Settlement(status="denied", text="Rejected by the user."))
            detail = f"{self._entry.tool_name} was rejected"
            run.end(TurnCause(kind="rejected", reason="permission_rejected", detail=detail))
        return answer.kind, answer.feedback

    async def ask(
        self, query: PermissionQuery, judgement: Judgement, on_cancel: Callable[[], None], *, by_rule: bool
    ) -> PermissionAnswer:
        """Ask the user, and record nothing but the question and its answer. Always a checkpoint."""
        run = self._step.run
        timeout = run.inputs.settings.question_timeout
        question = PermissionAsked(
            request_id=RequestId(run.deps.ids.new("ask")),
            call_id=query.call_id,
            tool=query.tool,
            permission=query.permission,
            patterns=query.patterns,
            rights=judgement.missing_rights
            or tuple(Right(permission=w.permission, pattern=w.pattern) for w in query.rights),
            offers=query.offers if judgement.offers is None else judgement.offers,
            detail=query.detail,
            metadata=query.metadata,
            opaque=query.opaque,
            rule=judgement.source,
            until=None if timeout is None else run.deps.clock.now() + timeout,
        )
        self._step.note_wait()
        ask = partial(
            run.inputs.services.questions.ask,
            question,
            query,
            run.journal,
            timeout=timeout,
            by_rule=by_rule,
            on_cancel=on_cancel,
        )
        text = f"{question.tool} needs the permission {question.permission!r}: {question.detail or ', '.join(question.patterns)}"
        return await while_notifying(run, "permission", text, question.request_id, ask)
