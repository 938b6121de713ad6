"""`CallPermission`: judges one call by the rules, asks the user, and records the verdict."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import attrs
import trio

from engine.core.events import AnswerKind, CallJudged, PermissionAsked, Right, Verdict
from engine.core.foreign_calls import call_foreign_now
from engine.core.ids import RequestId
from engine.core.messages import Settlement
from engine.core.permission_types import Judgement, Opinion, PermissionQuery, WatchingApprover
from engine.nursery.hook_points import while_notifying
from engine.nursery.loop_state import TurnCause
from engine.nursery.questions import PermissionAnswer
from engine.nursery.running_turn import TurnRun
from engine.permission.permission_scope import active_scopes
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


@attrs.define(eq=False, repr=False)
class CallPermission:
    """The permission of one call (`engine.tools.call_port.PermissionCheck`).

    Attributes:
        _on_reject: called with the settlement of a call that the user rejected without feedback.
    """

    _run: TurnRun
    _step: Step
    _entry: CallEntry
    _on_reject: Callable[[Settlement], None]

    def query(self, need: Need, *, read_only: bool) -> PermissionQuery:
        """Return the question that *need* puts to the rules."""
        # Kept for the summary of changed files: a command that only reads has changed none.
        only_reads = not need.opaque and all(needed.reads_only for needed in need.needed)
        # A body that runs may ask for more, but what it needed to begin with stays true of it.
        self._entry.only_reads = only_reads and (self._entry.only_reads or not self._entry.body.entered)
        return PermissionQuery(
            chain=active_scopes(self._run.inputs.chain, self._entry.shared),
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
        """Return the verdict of the rules."""
        return call_foreign_now("the approver", self._run.deps.approver.judge, query)

    def note_use(self, query: PermissionQuery) -> None:
        """Let the approver know that the call runs, if it judges later ones by that."""
        if isinstance(approver := self._run.deps.approver, WatchingApprover):
            call_foreign_now("the approver", approver.note_use, query)

    @property
    def opinion(self) -> Opinion | None:
        """Who may answer in the user's place."""
        return self._run.deps.opinion

    def record(self, verdict: Verdict, source: str) -> None:
        """Record a verdict, unless the call is settled: a hook that shields itself may outlive its call."""
        if not self._entry.is_settled:
            self._run.journal.append(CallJudged(call_id=self._entry.call_id, verdict=verdict, source=source))

    async def question(self, query: PermissionQuery, judgement: Judgement, *, by_rule: bool) -> tuple[AnswerKind, str]:
        """Ask the user for what *judgement* leaves open. Always a checkpoint.

        A rejection without feedback ends the turn. If only a rule asks (*by_rule*), the question is answered as soon as
        the rules allow the call. If cancelled, the question is withdrawn, and no verdict is recorded.
        """
        run = self._run
        # Judged again only after hooks or a second opinion: without them there was no checkpoint since the first
        # judgement, so no other question can have changed the grants.
        if by_rule and (run.inputs.hooks.permission_request or self.opinion is not None):
            now = self.judge(query)
            if now.verdict == "allow":
                # A checkpoint on this path as well, as the docstring promises.
                await trio.lowlevel.checkpoint()
                self.record("allow", now.source)
                return "once", ""
        answer = await self.ask(query, judgement, run.ending.note_doing, by_rule=by_rule)
        # A withdrawn question is no verdict: the turn ends, and the call is settled as aborted.
        if answer.kind != "withdrawn":
            self.record(
                "allow" if answer.kind in {"once", "always"} else "deny", answer.source or _SOURCES[answer.kind]
            )
        if answer.kind == "reject" and not answer.feedback:
            # Settled before the turn ends: the end would settle it as not executed, and the model would read that
            # the turn was cancelled instead of what the user decided.
            self._on_reject(Settlement(status="denied", text="Rejected by the user."))
            detail = f"{self._entry.tool_name} was rejected"
            run.end(TurnCause(kind="rejected", reason="permission_rejected", detail=detail))
        return answer.kind, answer.feedback

    async def ask(
        self, query: PermissionQuery, judgement: Judgement, on_cancel: Callable[[], None], *, by_rule: bool
    ) -> PermissionAnswer:
        """Ask the user, and record nothing but the question and its answer. Always a checkpoint.

        If cancelled, *on_cancel* is called, then the question is withdrawn.
        """
        run = self._run
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
            # For clients that show a countdown; the wait itself is on trio's clock.
            until=None if timeout is None else run.deps.clock.now() + timeout,
        )
        # Imported here: most turns ask nothing.
        from engine.permission.dangerous_rights import find_danger

        question = attrs.evolve(question, danger=find_danger(question))
        # Before the question is in the record: a parked turn must have its whole answer there, or it can't be resumed.
        self._step.note_wait(is_ending=self._run.ending.cause is not None)
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
