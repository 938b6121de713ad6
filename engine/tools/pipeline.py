"""The pipeline of one call, in the order of C5: one function to read from top to bottom.

lookup → abort check → validation → hooks before → validate and judge again what they
changed → rules, hooks on permissions, question → record → body → cut → hooks after → cut what they changed.

A hook's "allow" answers only a question that nobody but the default would ask; its
"deny" is final, its "ask" a floor. Whoever has a say is in the record, with its source.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Literal, Protocol, cast

import attrs
import trio
from trio.lowlevel import disable_ki_protection

from engine.core.errors import ConfigError, ToolError
from engine.core.events import AnswerKind, Offer, SharedContext, Verdict
from engine.core.exception_groups import ErrorBoundary, describe
from engine.core.hooks import Hooks, PermissionDecision, PermissionRequested, ToolDecision, ToolHook, ToolUse
from engine.core.messages import FilePart, ImagePart, Settlement
from engine.core.permission_types import Judgement, Opinion, PermissionQuery, RequiredRight
from engine.core.settings import Settings
from engine.tools.call_values import Need, ToolOutput
from engine.tools.context import ToolContext
from engine.tools.hook_runner import HookRunner, name_of
from engine.tools.output.spill import Spills
from engine.tools.output.truncate import Rest, cut, encoded, fits
from engine.tools.registry import Prepared
from engine.tools.tool import Body, Direction


@attrs.frozen(kw_only=True)
class Outcome:
    """What became of a call.

    Attributes:
        settlement: its terminal state.
        modify: what it does to the shared context.
        stop: the tool demands the end of the turn (C11).
        is_cut: the tool has cut its text itself.
        changed: the files that it has changed; None: it does not tell.
    """

    settlement: Settlement
    modify: Callable[[SharedContext], SharedContext] | None = None
    stop: str | None = None
    is_cut: bool = False
    changed: tuple[str, ...] | None = None


class PermissionCheck(Protocol):
    """What the rules and the user say of one call."""

    def query(self, need: Need, *, read_only: bool) -> PermissionQuery:
        """Return what *need* asks of the rules."""
        ...

    def judge(self, query: PermissionQuery) -> Judgement:
        """Return what the rules say."""
        ...

    @property
    def opinion(self) -> Opinion | None:
        """Who may answer in the user's place."""
        ...

    def record(self, verdict: Verdict, source: str) -> None:
        """Record a verdict and where it came from."""
        ...

    async def question(self, query: PermissionQuery, judgement: Judgement, *, by_rule: bool) -> tuple[AnswerKind, str]:
        """Ask the user for what *judgement* leaves open. A rejection without a word ends the turn.

        What only rules ask about (*by_rule*) is answered as soon as they allow it.
        """
        ...


class CallSite(Protocol):
    """The turn, as one call's pipeline sees it."""

    @property
    def settings(self) -> Settings:
        """The turn's settings."""
        ...

    @property
    def hooks(self) -> Hooks:
        """The host's hooks."""
        ...

    @property
    def hook_runner(self) -> HookRunner:
        """Where they are asked."""
        ...

    @property
    def prepared(self) -> Prepared | Settlement:
        """The call ready to run, or what is wrong with it: told when its arguments had come, among the request's tools."""
        ...

    @property
    def use(self) -> ToolUse:
        """The call, as hooks see it."""
        ...

    @property
    def context(self) -> ToolContext:
        """The call, as its tool sees it."""
        ...

    @property
    def spills(self) -> Spills | None:
        """Where an output is kept that is too long to be shown; None if the model could not read it there."""
        ...

    def stale(self, prepared: Prepared) -> Settlement | None:
        """Return what to say of a call whose tool has changed since its request; None if it has not."""
        ...

    def change(self, arguments: str, source: str) -> Prepared | Settlement:
        """Validate, and record, the arguments that the hook *source* put in place of others."""
        ...

    @property
    def permission(self) -> PermissionCheck:
        """What the rules and the user say of the call."""
        ...

    async def start(self, prepared: Prepared) -> Settlement | None:
        """Record that the body is entered now; a settlement if that could not be made durable."""
        ...

    def touched(self, need: Need) -> None:
        """The body works on what that right is for."""
        ...

    def reached(self, outcome: Outcome) -> None:
        """The body is over: this stands even if a hook after it is cancelled."""
        ...

    def partial_output(self) -> str:
        """Return what the tool has shown so far."""
        ...

    def replaced(self, text: str, source: str) -> None:
        """Record the result as it was before the hook *source* put another text in its place."""
        ...

    def tell_model(self, text: str, source: str) -> None:
        """Put what a hook says to the model behind the results of this step."""
        ...

    def demand_stop(self, reason: str) -> None:
        """End the turn once the calls of this step are settled (C11)."""
        ...


async def run_call(site: CallSite) -> Outcome:
    """Take a call from its arguments to its outcome. A checkpoint wherever a hook, a question or the body is one.

    Raises nothing ordinary; if cancelled, the caller settles the call.
    """
    prepared = _look_up(site)
    await trio.lowlevel.checkpoint_if_cancelled()
    if isinstance(prepared, Settlement):
        return Outcome(settlement=prepared)
    hooks = await _ask_hooks_before(site)
    if hooks.arguments is not None:
        prepared = site.change(hooks.arguments, hooks.changed_by)
        if isinstance(prepared, Settlement):
            return Outcome(settlement=prepared)
    permitted = await _permit(site, prepared, hooks)
    if isinstance(permitted, Settlement):
        return Outcome(settlement=permitted)
    prepared = permitted.prepared
    refused = site.stale(prepared) or await site.start(prepared)
    if refused is not None:
        return Outcome(settlement=refused)
    site.touched(permitted.need)
    direction = prepared.tool.direction
    context = attrs.evolve(site.context, approved_paths=frozenset(permitted.need.paths), answered=permitted.answered)
    outcome = await _cut(site, direction, await _run_body(site, prepared, context), partial(_reach, site))
    _reach(site, outcome)
    return await _cut(site, direction, await _ask_hooks_after(site, outcome), site.reached)


def _look_up(site: CallSite) -> Prepared | Settlement:
    """Return the call with its tool, by name or else by alias, and its arguments, or what is wrong with it."""
    prepared = site.prepared
    return prepared if isinstance(prepared, Settlement) else site.stale(prepared) or prepared


# -- hooks before ----------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class _HookVerdict:
    """What all hooks together decide: the strictest verdict, the last arguments."""

    verdict: Literal["none", "allow", "ask", "deny"] = "none"
    source: str = ""
    reason: str = ""
    arguments: str | None = None
    changed_by: str = ""

    def and_then(self, decision: ToolDecision | PermissionDecision, source: str) -> _HookVerdict:
        """Return this with the decision of one more hook."""
        combined = self
        if _STRICTNESS.index(decision.verdict) > _STRICTNESS.index(self.verdict):
            combined = attrs.evolve(combined, verdict=decision.verdict, source=source, reason=decision.reason)
        if decision.arguments is not None:
            combined = attrs.evolve(combined, arguments=decision.arguments, changed_by=source)
        return combined


_STRICTNESS = ("none", "allow", "ask", "deny")


async def _ask_hooks_before(site: CallSite) -> _HookVerdict:
    verdict = _HookVerdict()
    for hook in site.hooks.before_tool:
        use = site.use if verdict.arguments is None else attrs.evolve(site.use, arguments=verdict.arguments)
        source = f"the hook {name_of(hook)}"
        decision = await site.hook_runner.run(hook, use, ToolDecision())
        if decision is None:
            # It failed, so nobody has said that the call is harmless.
            source, decision = f"{source}, which failed", _FAILED
        if decision.verdict != "none":
            site.permission.record(decision.verdict, source)
        verdict = verdict.and_then(decision, source)
        _pass_on(site, decision, source)
        if verdict.verdict == "deny":
            break
    return verdict


_FAILED = ToolDecision(verdict="deny", reason="a hook that guards this call failed")


def _pass_on(site: CallSite, decision: ToolDecision, source: str) -> None:
    if decision.context:
        site.tell_model(decision.context, source)
    _stop_if_demanded(site, decision)


def _stop_if_demanded(site: CallSite, decision: ToolDecision | PermissionDecision) -> None:
    if decision.stop:
        site.demand_stop(decision.stop_reason or decision.reason or "a hook stopped the turn")


# -- permission ------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class _JudgedCall:
    """A call that no rule denies: what it needs, and the rules' judgement of it."""

    prepared: Prepared
    need: Need
    query: PermissionQuery
    judgement: Judgement

    @property
    def answered(self) -> str:
        """The rule that asks about the call; empty if none does."""
        return self.judgement.source if self.judgement.verdict == "ask" else ""

    def needs_answer(self, hooks: _HookVerdict) -> bool:
        """Tell whether somebody must answer: a hook asks, or a rule does and no hook answers it."""
        is_answered = self.need.is_own or (self.judgement.is_default and hooks.verdict == "allow")
        return hooks.verdict == "ask" or (self.judgement.verdict == "ask" and not is_answered)


async def _permit(site: CallSite, prepared: Prepared, hooks: _HookVerdict) -> _JudgedCall | Settlement:
    """Return the call as it may run, or the settlement that says who refused it.

    The last verdict in the record is the one that counts.
    """
    if hooks.verdict == "deny":
        return _denied_by_hook(hooks)
    call = await _judge(site, prepared)
    if isinstance(call, _JudgedCall) and call.needs_answer(hooks):
        before, hooks = hooks, await _ask_hooks_on_permission(site, call, hooks)
        if hooks.verdict == "deny":
            return _denied_by_hook(hooks)
        if hooks.arguments is not None and hooks.arguments is not before.arguments:
            changed = site.change(hooks.arguments, hooks.changed_by)
            call = changed if isinstance(changed, Settlement) else await _judge(site, changed)
    if isinstance(call, Settlement):
        return call
    refusal = await _ask_somebody(site, call, hooks) if call.needs_answer(hooks) else _refuse_unasked(site, call, hooks)
    return refusal or call


def _refuse_unasked(site: CallSite, call: _JudgedCall, hooks: _HookVerdict) -> Settlement | None:
    """Return why a call about which nobody need be asked is refused all the same; None if it may run."""
    if call.judgement.verdict == "ask":
        site.permission.record(
            "allow", hooks.source if hooks.verdict == "allow" else "what it touches is the session's own"
        )
    elif call.judgement.is_default and site.settings.headless == "rules" and hooks.verdict != "allow":
        site.permission.record("deny", "no rule allows it, and nobody is there to ask")
        return _denied(f"Denied: no rule allows {call.need.permission!r} here, and nobody is there to ask.")
    return None


async def _judge(site: CallSite, prepared: Prepared) -> _JudgedCall | Settlement:
    """Return the call with the rules' judgement of it, or the settlement that says that they deny it."""
    try:
        need = prepared.tool.need(prepared.arguments, site.context)
        need = check_need(await need if isinstance(need, Awaitable) else need)
    except Exception as error:  # noqa: BLE001  # the tool author's code; unknown rights are no rights
        site.permission.record("deny", "the tool, which can't tell what it needs")
        return _denied(f"Denied: its permissions can't be told ({describe(error)})")
    query = site.permission.query(need, read_only=prepared.tool.read_only)
    judgement = site.permission.judge(query)
    site.permission.record(judgement.verdict, judgement.source)
    if judgement.verdict == "deny":
        return _denied(f"Denied by {judgement.source}. Don't try to get around it.")
    return _JudgedCall(prepared=prepared, need=need, query=query, judgement=judgement)


async def _ask_hooks_on_permission(site: CallSite, call: _JudgedCall, verdict: _HookVerdict) -> _HookVerdict:
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


async def _ask_somebody(site: CallSite, call: _JudgedCall, hooks: _HookVerdict) -> Settlement | None:
    """Ask the second opinion, then the user; return None if the call may run. A checkpoint if somebody is asked."""
    if call.judgement.verdict == "allow":
        site.permission.record("ask", hooks.source)
    if hooks.verdict == "ask" and hooks.reason:
        site.hook_runner.notice("info", "hook_message", f"{hooks.source} wants it asked: {hooks.reason}")
    if call.need.futile:
        # It fails anyhow, and a person's answer would be for nothing.
        return Settlement(status="error", text=call.need.futile)
    judgement = call.judgement
    if hooks.verdict == "ask":
        # A hook wants a person: neither a second opinion nor a rule answers for one.
        judgement = attrs.evolve(judgement, verdict="ask", source=hooks.source)
    elif site.permission.opinion is not None:
        opinion = _AskOpinion(site.permission.opinion, judgement)
        verdict = await _ask_opinion(site, opinion, call.query)
        if verdict == "allow":
            return None
        if verdict == "deny":
            return _denied(f"Denied by {opinion.name}. Don't try to get around it.")
    if site.settings.headless != "wait":
        site.permission.record("deny", "nobody is there to ask")
        return _denied(f"Denied: it needs the permission {call.need.permission!r}, and nobody is there to give it.")
    answer, feedback = await site.permission.question(call.query, judgement, by_rule=hooks.verdict != "ask")
    return _refusal(answer, feedback)


async def _ask_opinion(site: CallSite, opinion: _AskOpinion, query: PermissionQuery) -> Verdict:
    """Return the second opinion, and record it; one that failed, or has none, leaves it to the user. A checkpoint."""
    decision = await site.hook_runner.run(opinion, query, PermissionDecision())
    verdict = "ask" if decision is None or decision.verdict == "none" else decision.verdict
    site.permission.record(verdict, opinion.name)
    return verdict


@attrs.frozen
class _AskOpinion:
    """A second opinion, in the form of a hook: with its deadline, and fenced off."""

    opinion: Opinion
    judgement: Judgement

    @property
    def name(self) -> str:
        """Who it is."""
        return f"the second opinion {name_of(self.opinion)}"

    async def __call__(self, query: PermissionQuery) -> PermissionDecision:
        """Return what it says. A checkpoint."""
        verdict = await self.opinion(query, self.judgement)
        return PermissionDecision(verdict="none" if verdict == "ask" else verdict)


def _denied(text: str) -> Settlement:
    return Settlement(status="denied", text=text)


def _denied_by_hook(hooks: _HookVerdict) -> Settlement:
    return _denied(f"Denied by a hook: {hooks.reason or 'no reason given'}")


def check_need(need: object) -> Need:
    """Return *need*. Raises `ConfigError` if it is none: a question made of it would make no sense to anybody."""
    if not isinstance(need, Need):
        raise ConfigError(f"a right that is needed is told as a Need, not as {type(need).__name__}")
    texts: tuple[object, ...] = (need.permission, need.detail, need.metadata, need.opaque, need.futile)
    if not all(_is_a(str, text) for text in texts) or not all(map(_is_texts, (need.patterns, need.paths))):
        raise ConfigError(f"a Need holds str, and tuples of str: not {need!r}")
    if need.offers is not None and not _are(need.offers, str, Offer):
        raise ConfigError(f"the offers of a Need are a tuple of str and Offer, or None: not {need!r}")
    if not _are(need.rights, RequiredRight):
        raise ConfigError(f"the rights of a Need are a tuple of RequiredRight: not {need!r}")
    if not _is_a(bool, need.is_own) or not _is_a(bool, need.sandboxed):
        raise ConfigError(f"is_own and sandboxed of a Need are bools: not {need!r}")
    return need


def _is_texts(value: object) -> bool:
    return _are(value, str)


def _are(value: object, *kinds: type) -> bool:
    return isinstance(value, tuple) and all(isinstance(one, kinds) for one in cast("tuple[object, ...]", value))


def _refusal(answer: AnswerKind, feedback: str) -> Settlement | None:
    match answer:
        case "once" | "always":
            return None
        case "reject":
            return _denied(f"Rejected by the user{f': {feedback}' if feedback else '.'}")
        case "expired":
            return _denied("Denied: nobody answered the question in time.")
        case "withdrawn":
            return Settlement(status="aborted", reason="not_executed", text="Not executed: the question was withdrawn.")


async def _run_body(site: CallSite, prepared: Prepared, context: ToolContext) -> Outcome:
    tool = prepared.tool
    returned: object = None
    with trio.move_on_after(float("inf") if tool.timeout is None else tool.timeout):  # noqa: ASYNC912  # the caller's code in it is the cancel point
        with ErrorBoundary() as boundary:
            returned = await _unprotected(tool.body, prepared.arguments, context)
        if boundary.error is not None:
            # A ToolError is the tool's own report: it has changed nothing that it does not name.
            changed = () if isinstance(boundary.error, ToolError) else None
            return Outcome(settlement=_error_of(boundary.error), changed=changed)
        return _outcome_of(returned)
    return _timed_out(site, tool.timeout or 0.0)


@disable_ki_protection
async def _unprotected(body: Body, arguments: object, context: ToolContext) -> object:
    """Enter the tool's body, which an interrupt may hit; our frames it may not."""
    return await body(arguments, context)


def _timed_out(site: CallSite, timeout: float) -> Outcome:
    kept = site.partial_output()
    shown = f" Its output so far:\n{kept}" if kept else ""
    text = f"Aborted: it did not finish within its timeout of {timeout:g} s.{shown}"
    return Outcome(settlement=Settlement(status="aborted", reason="timeout", text=text))


def _error_of(error: BaseException | None) -> Settlement:
    if isinstance(error, ToolError):
        return Settlement(status="error", text=str(error))
    return Settlement(status="error", text="unknown error" if error is None else describe(error))


def _outcome_of(returned: object) -> Outcome:
    if isinstance(returned, str):
        return Outcome(settlement=Settlement(status="completed", text=returned))
    if not isinstance(returned, ToolOutput):
        text = f"The tool returned {type(returned).__name__} where it must return str or ToolOutput."
        return Outcome(settlement=Settlement(status="error", text=text))
    if (wrong := _wrong_field(returned)) is not None:
        text = f"The tool returned a ToolOutput whose {wrong}."
        return Outcome(settlement=Settlement(status="error", text=text))
    settlement = Settlement(
        status="completed",
        text=returned.text,
        images=returned.images,
        files=returned.files,
        failed=returned.failed,
        metadata=returned.metadata,
    )
    return Outcome(
        settlement=settlement,
        modify=returned.modify,
        stop=returned.stop,
        is_cut=returned.is_cut,
        changed=returned.changed,
    )


_HEADS: dict[Direction, float] = {"head": 1.0, "tail": 0.0, "both": 0.5}


async def _cut(site: CallSite, direction: Direction, outcome: Outcome, reach: Callable[[Outcome], None]) -> Outcome:
    """Cut a text that is too long, and keep all of it in the spill. A checkpoint if it is.

    If cancelled, the result stands (*reach* is given it), but what is not shown of it is lost.
    """
    if outcome.is_cut or fits(outcome.settlement.text):
        return outcome
    data = encoded(outcome.settlement.text)
    reach(_with_text(outcome, cut(data, _HEADS[direction], Rest(trouble="the turn ended"))))
    rest = Rest() if site.spills is None else await site.spills.keep(data)
    return _with_text(outcome, cut(data, _HEADS[direction], rest))


def _with_text(outcome: Outcome, text: str, *, is_cut: bool = True) -> Outcome:
    return attrs.evolve(outcome, settlement=attrs.evolve(outcome.settlement, text=text), is_cut=is_cut)


def _wrong_field(output: ToolOutput) -> str | None:
    """Say which field has a wrong type: what gets into the transcript goes into every later request."""
    fields: tuple[tuple[bool, str], ...] = (
        (_is_a(str, output.text), "text must be a str"),
        (_is_a(str, output.metadata), "metadata must be a str"),
        (
            _is_a(tuple, output.images) and all(_is_a(ImagePart, i) for i in output.images),
            "images must be a tuple of ImagePart",
        ),
        (
            _is_a(tuple, output.files) and all(_is_a(FilePart, f) for f in output.files),
            "files must be a tuple of FilePart",
        ),
        (output.stop is None or _is_a(str, output.stop), "stop must be a str or None"),
        (_is_a(bool, output.is_cut), "is_cut must be a bool"),
        (output.changed is None or _are(output.changed, str), "changed must be a tuple of str, or None"),
    )
    return next((problem for is_right, problem in fields if not is_right), None)


def _is_a(kind: type, value: object) -> bool:
    return isinstance(value, kind)


def _reach(site: CallSite, outcome: Outcome) -> None:
    """Let the outcome stand from now on, whatever cancels the call."""
    site.reached(_withheld(outcome) if _hooks_after(site.hooks, outcome.settlement) else outcome)


def _hooks_after(hooks: Hooks, settlement: Settlement) -> tuple[ToolHook, ...]:
    """Return the hooks that are to see this result."""
    has_failed = settlement.failed or settlement.status != "completed"
    return (*hooks.after_tool, *hooks.tool_failed) if has_failed else hooks.after_tool


def _withheld(outcome: Outcome) -> Outcome:
    """Return what stands if the hooks after the body never get to see its result: they may be there to hide it."""
    text = "It ran to its end, but the turn ended before the hooks after it had seen its result, which is withheld."
    return attrs.evolve(
        outcome, settlement=attrs.evolve(outcome.settlement, text=text, images=(), files=(), metadata="")
    )


async def _ask_hooks_after(site: CallSite, outcome: Outcome) -> Outcome:
    for hook in _hooks_after(site.hooks, outcome.settlement):
        source = f"the hook {name_of(hook)}"
        decision = await site.hook_runner.run(
            hook, attrs.evolve(site.use, settlement=outcome.settlement), ToolDecision()
        )
        if decision is None:
            continue
        if decision.text is not None and decision.text != outcome.settlement.text:
            site.replaced(outcome.settlement.text, source)
            outcome = _with_text(outcome, decision.text, is_cut=False)
        _pass_on(site, decision, source)
    return outcome
