"""Decide whether a call may run. In this order: hooks, the rules, hooks on permissions, a second opinion, the user.

A hook's "allow" answers only what the defaults ask, never a rule's question. Its "deny" is final, and its "ask" stands
even if a rule allows the call. Each verdict is in the record with its source.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Sequence
from typing import Literal, TypeVar

import attrs

from engine.core.events import AnswerKind, Verdict
from engine.core.exception_groups import describe
from engine.core.foreign_calls import call_foreign
from engine.core.hooks import PermissionDecision, PermissionRequested, ToolDecision
from engine.core.messages import Settlement
from engine.core.permission_types import Confinement, Judgement, Opinion, PermissionQuery
from engine.core.value_base import Value
from engine.files.globs import escaped
from engine.tools.call_port import CallPort
from engine.tools.call_values import Need, check_need
from engine.tools.hook_runner import Hook, in_groups, name_of
from engine.tools.registry import Prepared

S = TypeVar("S")
D = TypeVar("D", ToolDecision, PermissionDecision)


@attrs.frozen(kw_only=True, eq=False, repr=False)
class CombinedDecision(Value):
    """The combined decision of all hooks: the strictest verdict, and the latest arguments."""

    verdict: Literal["none", "allow", "ask", "deny"] = "none"
    source: str = ""
    reason: str = ""
    arguments: str | None = None
    changed_by: str = ""

    def and_then(self, decision: ToolDecision | PermissionDecision, source: str) -> CombinedDecision:
        """Return this decision combined with that of one more hook."""
        combined = self
        if _STRICTNESS.index(decision.verdict) > _STRICTNESS.index(self.verdict):
            combined = attrs.evolve(combined, verdict=decision.verdict, source=source, reason=decision.reason)
        if decision.arguments is not None:
            combined = attrs.evolve(combined, arguments=decision.arguments, changed_by=source)
        return combined


_STRICTNESS = ("none", "allow", "ask", "deny")


async def ask_hooks_before(site: CallPort) -> CombinedDecision:
    """Return the combined decision of the hooks before a tool. A checkpoint if there are any."""
    verdict = CombinedDecision()
    for group in in_groups(site.hooks.before_tool):
        # Each hook sees the arguments as those before have changed them, also of a call that was denied: it may keep a log.
        use = site.use if verdict.arguments is None else attrs.evolve(site.use, arguments=verdict.arguments)
        for decision, source in await _run_guards(site, group, use, ToolDecision(), _FAILED):
            verdict = verdict.and_then(decision, source)
            pass_on(site, decision, source)
    return verdict


_FAILED = ToolDecision(verdict="deny", reason="a hook that guards this call failed")


async def _run_guards(
    site: CallPort, group: Sequence[Hook[S, D]], subject: S, default: D, failed: D
) -> list[tuple[D, str]]:
    """Return the decisions of a group of hooks, each with its source, and record the verdicts. A checkpoint if one is."""
    decided: list[tuple[D, str]] = []
    for hook, answer in await site.hook_runner.run_group(group, subject, default):
        source, decision = f"the hook {name_of(hook)}", answer
        if decision is None:
            # A guard that failed has not found the call harmless, so it counts as a denial.
            source, decision = f"{source}, which failed", failed
        if decision.verdict != "none":
            site.permission.record(decision.verdict, source)
        decided.append((decision, source))
    return decided


def pass_on(site: CallPort, decision: ToolDecision, source: str) -> None:
    """Pass a hook's context to the model, and end the turn if the hook demands it. Not a checkpoint."""
    if decision.context:
        site.tell_model(decision.context, source)
    _stop_if_demanded(site, decision)


def _stop_if_demanded(site: CallPort, decision: ToolDecision | PermissionDecision) -> None:
    if decision.stop:
        site.demand_stop(decision.stop_reason or decision.reason or "a hook stopped the turn")


@attrs.frozen(kw_only=True, eq=False, repr=False)
class JudgedCall(Value):
    """A call that no rule denies: the rights that it needs, and the rules' verdict."""

    prepared: Prepared
    need: Need
    query: PermissionQuery
    judgement: Judgement

    @property
    def answered(self) -> str:
        """The rule that asks about the call; empty if none does."""
        return self.judgement.source if self.judgement.verdict == "ask" else ""

    @property
    def confinement(self) -> Confinement:
        """What it is confined for; empty: the user or a hook has approved it, or the rules want no box."""
        return self.judgement.confinement if self.judgement.verdict == "allow" else ""

    def needs_answer(self, hooks: CombinedDecision) -> bool:
        """Return whether the user must answer: a hook asks, or a rule does and no hook has answered it."""
        is_answered = self.need.is_own or (self.judgement.is_default and hooks.verdict == "allow")
        return hooks.verdict == "ask" or (self.judgement.verdict == "ask" and not is_answered)


async def permit(site: CallPort, prepared: Prepared, hooks: CombinedDecision) -> JudgedCall | Settlement:
    """Return the call as it may run, or its refusal.

    The last verdict in the record counts.
    """
    if hooks.verdict == "deny":
        return _denied_by_hook(hooks)
    call = await _judge(site, prepared)
    if isinstance(call, JudgedCall) and call.needs_answer(hooks):
        before, hooks = hooks, await _ask_hooks_on_permission(site, call, hooks)
        if hooks.verdict == "deny":
            return _denied_by_hook(hooks)
        # New arguments may be another command altogether, so they are judged like a new call.
        if hooks.arguments is not None and hooks.arguments is not before.arguments:
            changed = site.change(hooks.arguments, hooks.changed_by)
            call = changed if isinstance(changed, Settlement) else await _judge(site, changed)
    if isinstance(call, Settlement):
        return call
    if not call.needs_answer(hooks):
        return _refuse_unasked(site, call, hooks) or call
    # What the user approves runs as approved.
    approved = attrs.evolve(call, judgement=attrs.evolve(call.judgement, confinement=""))
    return await _ask_for_answer(site, call, hooks) or approved


def _refuse_unasked(site: CallPort, call: JudgedCall, hooks: CombinedDecision) -> Settlement | None:
    """Return why a call that needs no answer is still refused; None if it may run."""
    # A hook has answered, or the call is about the session's own things.
    if call.judgement.verdict == "ask":
        site.permission.record(
            "allow", hooks.source if hooks.verdict == "allow" else "what it touches is the session's own"
        )
    elif call.judgement.is_default and site.settings.headless == "rules" and hooks.verdict != "allow":
        site.permission.record("deny", "no rule allows it, and no one is available to ask")
        return _denied_unattended(
            call, f"Denied: no rule allows {call.need.permission!r} here, and no one is available to ask."
        )
    return None


async def _judge(site: CallPort, prepared: Prepared) -> JudgedCall | Settlement:
    """Return the call with the rules' verdict; the refusal if they deny it."""
    try:
        need = await call_foreign(f"`need` of the tool {prepared.tool.name}", _ask_need, site, prepared)
    except Exception as error:  # noqa: BLE001  # the tool author's code; unknown rights are no rights
        site.permission.record("deny", "the tool, which failed to say what it needs")
        return _denied(f"Denied: the permissions it needs could not be determined ({describe(error)})")
    query = site.permission.query(need, read_only=prepared.tool.read_only)
    judgement = site.permission.judge(query)
    site.permission.record(judgement.verdict, judgement.source)
    if judgement.verdict == "deny":
        return _denied(f"Denied by {judgement.source}. Don't try to get around it.")
    return JudgedCall(prepared=prepared, need=need, query=query, judgement=judgement)


async def _ask_need(site: CallPort, prepared: Prepared) -> Need:
    need = prepared.tool.need(prepared.arguments, site.context)
    return check_need(await need if isinstance(need, Awaitable) else need)


async def _ask_hooks_on_permission(site: CallPort, call: JudgedCall, verdict: CombinedDecision) -> CombinedDecision:
    """Return *verdict* combined with the decisions of the hooks on permissions. A checkpoint if there are any."""
    use = site.use
    request = PermissionRequested(
        session_id=use.session_id,
        cwd=use.cwd,
        call_id=use.call_id,
        tool=use.tool,
        arguments=use.arguments,
        permission=call.need.permission,
        patterns=call.need.patterns,
        offers=tuple(offer.text for offer in call.query.offers),
        detail=call.need.detail,
        # Whether the question remains even if this hook allows the call.
        is_ruled=call.needs_answer(attrs.evolve(verdict, verdict=max(verdict.verdict, "allow", key=_STRICTNESS.index))),
    )
    for group in in_groups(site.hooks.permission_request):
        for decision, source in await _run_guards(site, group, request, PermissionDecision(), _FAILED_ON_PERMISSION):
            verdict = verdict.and_then(decision, source)
            request = attrs.evolve(request, arguments=decision.arguments or request.arguments)
            _stop_if_demanded(site, decision)
    return verdict


_FAILED_ON_PERMISSION = PermissionDecision(verdict="deny", reason="a hook that guards this permission failed")


async def _ask_for_answer(site: CallPort, call: JudgedCall, hooks: CombinedDecision) -> Settlement | None:
    """Get the second opinion, then ask the user; return None if the call may run. A checkpoint if either is asked."""
    # The rules' "allow" is in the record already; the hook's "ask" overrules it.
    if call.judgement.verdict == "allow":
        site.permission.record("ask", hooks.source)
    if hooks.verdict == "ask" and hooks.reason:
        site.hook_runner.notice("info", "hook_message", f"{hooks.source} asks for confirmation: {hooks.reason}")
    if call.need.futile and _may_read(site, call):
        # It would fail anyway: don't bother the user with a question.
        return Settlement(status="error", text=call.need.futile)
    judgement = call.judgement
    if hooks.verdict == "ask":
        # The hook asks for a person's answer: neither a second opinion nor a later rule may give it.
        judgement = attrs.evolve(judgement, verdict="ask", source=hooks.source)
    elif site.permission.opinion is not None:
        name = f"the second opinion {name_of(site.permission.opinion)}"
        verdict = await _ask_opinion(site, site.permission.opinion, name, call)
        if verdict == "allow":
            return None
        if verdict == "deny":
            return _denied(f"Denied by {name}. Don't try to get around it.")
    if site.settings.headless != "wait":
        site.permission.record("deny", "no one is available to ask")
        return _denied_unattended(
            call, f"Denied: it needs the permission {call.need.permission!r}, and no one is available to give it."
        )
    answer, feedback = await site.permission.question(call.query, judgement, by_rule=hooks.verdict != "ask")
    return _refusal(answer, feedback)


def _may_read(site: CallPort, call: JudgedCall) -> bool:
    """Return whether the model may read, without a question, the files that the call is about.

    If not, why the call would fail tells it something that it may not know: whether a file exists, for example.
    """
    rights = tuple(attrs.evolve(right, permission="read", reads_only=True) for right in call.query.rights)
    reading = attrs.evolve(call.query, permission="read", rights=rights, read_only=True, offers=())
    return not call.need.rights or site.permission.judge(reading).verdict == "allow"


async def _ask_opinion(site: CallPort, opinion: Opinion, name: str, call: JudgedCall) -> Verdict:
    """Return the second opinion, and record it; if it fails or abstains, the user decides. A checkpoint."""

    async def ask(query: PermissionQuery) -> PermissionDecision:
        verdict = await opinion(query, call.judgement)
        return PermissionDecision(verdict="none" if verdict == "ask" else verdict)

    # As a hook: with a deadline, and with errors contained.
    decision = await site.hook_runner.run(ask, call.query, PermissionDecision(), name=name)
    verdict = "ask" if decision is None or decision.verdict == "none" else decision.verdict
    site.permission.record(verdict, name)
    return verdict


def _denied(text: str) -> Settlement:
    return Settlement(status="denied", text=text)


def _denied_unattended(call: JudgedCall, text: str) -> Settlement:
    """Return a denial for want of a user, with what a rule would have to allow."""
    offer = call.query.offers[0].rights if call.query.offers else ()
    # "Always" offers what a call does, but not that it leaves the project: a rule has to allow both.
    outside = [right for right in call.judgement.missing_rights if right.permission == "outside"] if offer else []
    facts = {
        "denied": "unattended",
        "permission": call.need.permission,
        "patterns": call.need.patterns,
        "offer": [
            *((right.permission, right.pattern) for right in offer),
            *((right.permission, escaped(right.pattern)) for right in outside),
        ],
    }
    return Settlement(status="denied", text=text, metadata=json.dumps(facts))


def _denied_by_hook(hooks: CombinedDecision) -> Settlement:
    return _denied(f"Denied by a hook: {hooks.reason or 'no reason given'}")


def _refusal(answer: AnswerKind, feedback: str) -> Settlement | None:
    match answer:
        case "once" | "always":
            return None
        # With feedback the model may go on; without, the turn ends, and this text is not read.
        case "reject":
            return _denied(f"Rejected by the user{f': {feedback}' if feedback else '.'}")
        case "expired":
            return _denied("Denied: no one answered the question in time.")
        case "withdrawn":
            return Settlement(status="aborted", reason="not_executed", text="Not executed: the question was withdrawn.")
