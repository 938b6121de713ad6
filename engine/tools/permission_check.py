"""May a call run? Hooks before it, the rules, hooks on permissions, a second opinion and the user decide, in this order.

A hook's "allow" answers only a question that the default asks, and no rule; its "deny" is final, its "ask" stands
even where a rule allows the call. Each verdict is in the record with its source.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Literal

import attrs

from engine.core.events import AnswerKind, Verdict
from engine.core.exception_groups import describe
from engine.core.hooks import PermissionDecision, PermissionRequested, ToolDecision
from engine.core.messages import Settlement
from engine.core.permission_types import Judgement, Opinion, PermissionQuery
from engine.tools.call_site import CallSite
from engine.tools.call_values import Need, check_need
from engine.tools.hook_runner import name_of
from engine.tools.registry import Prepared


@attrs.frozen(kw_only=True)
class CombinedDecision:
    """What all hooks together decide: the strictest verdict, the last arguments."""

    verdict: Literal["none", "allow", "ask", "deny"] = "none"
    source: str = ""
    reason: str = ""
    arguments: str | None = None
    changed_by: str = ""

    def and_then(self, decision: ToolDecision | PermissionDecision, source: str) -> CombinedDecision:
        """Return this with the decision of one more hook."""
        combined = self
        if _STRICTNESS.index(decision.verdict) > _STRICTNESS.index(self.verdict):
            combined = attrs.evolve(combined, verdict=decision.verdict, source=source, reason=decision.reason)
        if decision.arguments is not None:
            combined = attrs.evolve(combined, arguments=decision.arguments, changed_by=source)
        return combined


_STRICTNESS = ("none", "allow", "ask", "deny")


async def ask_hooks_before(site: CallSite) -> CombinedDecision:
    """Return what the hooks before a tool decide together. A checkpoint if there are any."""
    verdict = CombinedDecision()
    for hook in site.hooks.before_tool:
        use = site.use if verdict.arguments is None else attrs.evolve(site.use, arguments=verdict.arguments)
        source = f"the hook {name_of(hook)}"
        decision = await site.hook_runner.run(hook, use, ToolDecision())
        if decision is None:
            # A guard that failed has not found the call harmless.
            source, decision = f"{source}, which failed", _FAILED
        if decision.verdict != "none":
            site.permission.record(decision.verdict, source)
        verdict = verdict.and_then(decision, source)
        pass_on(site, decision, source)
        if verdict.verdict == "deny":
            break
    return verdict


_FAILED = ToolDecision(verdict="deny", reason="a hook that guards this call failed")


def pass_on(site: CallSite, decision: ToolDecision, source: str) -> None:
    """Give the model what a hook adds, and end the turn if the hook asks for that. Not a checkpoint."""
    if decision.context:
        site.tell_model(decision.context, source)
    _stop_if_demanded(site, decision)


def _stop_if_demanded(site: CallSite, decision: ToolDecision | PermissionDecision) -> None:
    if decision.stop:
        site.demand_stop(decision.stop_reason or decision.reason or "a hook stopped the turn")


@attrs.frozen(kw_only=True)
class JudgedCall:
    """A call that no rule denies: what it needs, and the rules' judgement of it."""

    prepared: Prepared
    need: Need
    query: PermissionQuery
    judgement: Judgement

    @property
    def answered(self) -> str:
        """The rule that asks about the call; empty if none does."""
        return self.judgement.source if self.judgement.verdict == "ask" else ""

    def needs_answer(self, hooks: CombinedDecision) -> bool:
        """Tell whether the user must answer: a hook asks, or a rule does and no hook answers it."""
        is_answered = self.need.is_own or (self.judgement.is_default and hooks.verdict == "allow")
        return hooks.verdict == "ask" or (self.judgement.verdict == "ask" and not is_answered)


async def permit(site: CallSite, prepared: Prepared, hooks: CombinedDecision) -> JudgedCall | Settlement:
    """Return the call as it may run, or the settlement that says who refused it.

    The last verdict in the record is the one that counts.
    """
    if hooks.verdict == "deny":
        return _denied_by_hook(hooks)
    call = await _judge(site, prepared)
    if isinstance(call, JudgedCall) and call.needs_answer(hooks):
        before, hooks = hooks, await _ask_hooks_on_permission(site, call, hooks)
        if hooks.verdict == "deny":
            return _denied_by_hook(hooks)
        if hooks.arguments is not None and hooks.arguments is not before.arguments:
            changed = site.change(hooks.arguments, hooks.changed_by)
            call = changed if isinstance(changed, Settlement) else await _judge(site, changed)
    if isinstance(call, Settlement):
        return call
    refusal = (
        await _ask_for_answer(site, call, hooks) if call.needs_answer(hooks) else _refuse_unasked(site, call, hooks)
    )
    return refusal or call


def _refuse_unasked(site: CallSite, call: JudgedCall, hooks: CombinedDecision) -> Settlement | None:
    """Return why a call that needs no answer is refused all the same; None if it may run."""
    if call.judgement.verdict == "ask":
        site.permission.record(
            "allow", hooks.source if hooks.verdict == "allow" else "what it touches is the session's own"
        )
    elif call.judgement.is_default and site.settings.headless == "rules" and hooks.verdict != "allow":
        site.permission.record("deny", "no rule allows it, and no one is available to ask")
        return _denied(f"Denied: no rule allows {call.need.permission!r} here, and no one is available to ask.")
    return None


async def _judge(site: CallSite, prepared: Prepared) -> JudgedCall | Settlement:
    """Return the call with the rules' judgement of it, or the settlement that says that they deny it."""
    try:
        need = prepared.tool.need(prepared.arguments, site.context)
        need = check_need(await need if isinstance(need, Awaitable) else need)
    except Exception as error:  # noqa: BLE001  # the tool author's code; unknown rights are no rights
        site.permission.record("deny", "the tool, which failed to say what it needs")
        return _denied(f"Denied: the permissions it needs could not be determined ({describe(error)})")
    query = site.permission.query(need, read_only=prepared.tool.read_only)
    judgement = site.permission.judge(query)
    site.permission.record(judgement.verdict, judgement.source)
    if judgement.verdict == "deny":
        return _denied(f"Denied by {judgement.source}. Don't try to get around it.")
    return JudgedCall(prepared=prepared, need=need, query=query, judgement=judgement)


async def _ask_hooks_on_permission(site: CallSite, call: JudgedCall, verdict: CombinedDecision) -> CombinedDecision:
    """Return *verdict* with what the hooks on permissions add. A checkpoint if there are any."""
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
        is_ruled=call.needs_answer(attrs.evolve(verdict, verdict=max(verdict.verdict, "allow", key=_STRICTNESS.index))),
    )
    for hook in site.hooks.permission_request:
        source = f"the hook {name_of(hook)}"
        decision = await site.hook_runner.run(hook, request, PermissionDecision())
        if decision is None:
            source, decision = f"{source}, which failed", _FAILED_ON_PERMISSION
        if decision.verdict != "none":
            site.permission.record(decision.verdict, source)
        verdict = verdict.and_then(decision, source)
        request = attrs.evolve(request, arguments=decision.arguments or request.arguments)
        _stop_if_demanded(site, decision)
        if verdict.verdict == "deny":
            break
    return verdict


_FAILED_ON_PERMISSION = PermissionDecision(verdict="deny", reason="a hook that guards this permission failed")


async def _ask_for_answer(site: CallSite, call: JudgedCall, hooks: CombinedDecision) -> Settlement | None:
    """Ask the second opinion, then the user; return None if the call may run. A checkpoint if either is asked."""
    if call.judgement.verdict == "allow":
        site.permission.record("ask", hooks.source)
    if hooks.verdict == "ask" and hooks.reason:
        site.hook_runner.notice("info", "hook_message", f"{hooks.source} asks for confirmation: {hooks.reason}")
    if call.need.futile:
        # It fails anyhow, and a person's answer would be for nothing.
        return Settlement(status="error", text=call.need.futile)
    judgement = call.judgement
    if hooks.verdict == "ask":
        # A hook wants a person: neither a second opinion nor a rule answers for one.
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
        return _denied(f"Denied: it needs the permission {call.need.permission!r}, and no one is available to give it.")
    answer, feedback = await site.permission.question(call.query, judgement, by_rule=hooks.verdict != "ask")
    return _refusal(answer, feedback)


async def _ask_opinion(site: CallSite, opinion: Opinion, name: str, call: JudgedCall) -> Verdict:
    """Return the second opinion, and record it; one that failed, or has none, leaves it to the user. A checkpoint."""

    async def ask(query: PermissionQuery) -> PermissionDecision:
        verdict = await opinion(query, call.judgement)
        return PermissionDecision(verdict="none" if verdict == "ask" else verdict)

    # Run as hooks are: with a deadline, and an error is only reported.
    decision = await site.hook_runner.run(ask, call.query, PermissionDecision(), name=name)
    verdict = "ask" if decision is None or decision.verdict == "none" else decision.verdict
    site.permission.record(verdict, name)
    return verdict


def _denied(text: str) -> Settlement:
    return Settlement(status="denied", text=text)


def _denied_by_hook(hooks: CombinedDecision) -> Settlement:
    return _denied(f"Denied by a hook: {hooks.reason or 'no reason given'}")


def _refusal(answer: AnswerKind, feedback: str) -> Settlement | None:
    match answer:
        case "once" | "always":
            return None
        case "reject":
            return _denied(f"Rejected by the user{f': {feedback}' if feedback else '.'}")
        case "expired":
            return _denied("Denied: no one answered the question in time.")
        case "withdrawn":
            return Settlement(status="aborted", reason="not_executed", text="Not executed: the question was withdrawn.")
