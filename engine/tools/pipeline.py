"""The pipeline of one call, in the order of C5: one function to read from top to bottom.

validate → hooks before → validate again → rules and question → record → body → cut → hooks after.

A hook's "allow" answers only a question that no rule asks; its "deny" is final; what
it changes is checked like the first. Every refusal names its source.
"""

from __future__ import annotations

import typing
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar, cast

import attrs
import trio
from trio.lowlevel import disable_ki_protection

from engine.errors import ConfigError, ToolError
from engine.events import AnswerKind, SharedContext
from engine.exceptions import describe, split
from engine.hooks import Hooks, StopDecision, ToolDecision, ToolHook, ToolUse
from engine.ids import SessionId
from engine.messages import FilePart, ImagePart, Settlement
from engine.ports import Judgement, PermissionQuery
from engine.settings import Settings
from engine.tools.context import ToolContext
from engine.tools.registry import Prepared
from engine.tools.spec import Body, Direction, Need, ToolOutput
from engine.tools.spill import Spills
from engine.tools.truncate import Rest, cut, encoded, fits

T = TypeVar("T")


@attrs.frozen(kw_only=True)
class Outcome:
    """What became of a call.

    Attributes:
        settlement: its terminal state.
        modify: what it does to the shared context.
        stop: a hook, or the tool, demands the end of the turn (C11).
        is_cut: the tool has cut its text itself.
    """

    settlement: Settlement
    modify: Callable[[SharedContext], SharedContext] | None = None
    stop: str | None = None
    is_cut: bool = False


class CallSite(Protocol):
    """The turn, as one call's pipeline sees it."""

    @property
    def session_id(self) -> SessionId:
        """The session."""
        ...

    @property
    def settings(self) -> Settings:
        """The turn's settings."""
        ...

    @property
    def hooks(self) -> Hooks:
        """The host's hooks."""
        ...

    @property
    def prepared(self) -> Prepared | Settlement:
        """The call ready to run, or what is wrong with it."""
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

    def change(self, arguments: str) -> Prepared | Settlement:
        """Validate the arguments that a hook put in place of the model's."""
        ...

    def judge(self, query: PermissionQuery) -> Judgement:
        """Return what the rules say."""
        ...

    async def question(self, need: Need, query: PermissionQuery) -> tuple[AnswerKind, str]:
        """Ask the user. A rejection without a word ends the turn."""
        ...

    async def start(self, prepared: Prepared) -> Settlement | None:
        """Record that the body is entered now; a settlement if that could not be made durable."""
        ...

    def reached(self, outcome: Outcome) -> None:
        """The body is over: this stands even if a hook after it is cancelled."""
        ...

    def partial_output(self) -> str:
        """Return what the tool has shown so far."""
        ...

    def notice(self, code: str, text: str) -> None:
        """Tell whoever watches."""
        ...


async def run_call(site: CallSite) -> Outcome:
    """Take a call from its arguments to its outcome. A checkpoint wherever a hook, a question or the body is one.

    Raises nothing ordinary; if cancelled, the caller settles the call.
    """
    prepared = site.prepared
    if isinstance(prepared, Settlement):
        return Outcome(settlement=prepared)
    decision = await _ask_hooks_before(site)
    if decision.arguments is not None:
        prepared = site.change(decision.arguments)
        if isinstance(prepared, Settlement):
            return Outcome(settlement=prepared, stop=_demanded(decision))
    refused = await _permit(site, prepared, decision) or await site.start(prepared)
    if refused is not None:
        return Outcome(settlement=refused, stop=_demanded(decision))
    outcome = await _cut(site, prepared.tool.direction, await _run_body(site, prepared))
    _reach(site, outcome)
    return await _ask_hooks_after(site, outcome, decision)


async def _ask_hooks_before(site: CallSite) -> ToolDecision:
    """Return all decisions as one: the strictest verdict, the last arguments, any stop."""
    merged = ToolDecision()
    for hook in site.hooks.before_tool:
        use = site.use if merged.arguments is None else attrs.evolve(site.use, arguments=merged.arguments)
        decision = await _ask_hook(site, hook, use)
        if decision is None:
            # It failed, so nobody has said that the call is harmless.
            decision = ToolDecision(verdict="deny", reason="a hook that guards this call failed")
        merged = _merged(merged, decision)
        if merged.verdict == "deny":
            break
    return merged


_STRICTNESS = ("none", "allow", "ask", "deny")


def _merged(one: ToolDecision, other: ToolDecision) -> ToolDecision:
    stricter = other if _STRICTNESS.index(other.verdict) > _STRICTNESS.index(one.verdict) else one
    return ToolDecision(
        verdict=stricter.verdict,
        reason=stricter.reason or one.reason or other.reason,
        arguments=one.arguments if other.arguments is None else other.arguments,
        stop=one.stop or other.stop,
    )


async def _permit(site: CallSite, prepared: Prepared, decision: ToolDecision) -> Settlement | None:
    """Return None if the call may run, else the settlement that says who refused."""
    if decision.verdict == "deny":
        return Settlement(status="denied", text=f"Denied by a hook: {decision.reason or 'no reason given'}")
    try:
        told = prepared.tool.need(prepared.arguments, site.context)
        need = check_need(await told if isinstance(told, Awaitable) else told)
    except Exception as error:  # noqa: BLE001  # the tool author's code; unknown rights are no rights
        return Settlement(status="denied", text=f"Denied: its permissions can't be told ({describe(error)})")
    query = PermissionQuery(
        session_id=site.session_id,
        tool=prepared.tool.name,
        permission=need.permission,
        read_only=prepared.tool.read_only,
        patterns=need.patterns,
        offers=need.offers,
        detail=need.detail,
    )
    judgement = site.judge(query)
    if judgement.verdict == "deny":
        return Settlement(status="denied", text=f"Denied by {judgement.source}. Don't try to get around it.")
    if (judgement.verdict == "allow" or need.is_own) and decision.verdict != "ask":
        return None
    if site.settings.headless == "deny":
        return Settlement(
            status="denied",
            text=f"Denied: it needs the permission {need.permission!r}, and nobody is there to give it.",
        )
    answer, feedback = await site.question(need, query)
    return _refusal(answer, feedback)


def check_need(need: object) -> Need:
    """Return *need*. Raises `ConfigError` if it is none: a question made of it would make no sense to anybody."""
    if not isinstance(need, Need):
        raise ConfigError(f"a right that is needed is told as a Need, not as {type(need).__name__}")
    texts: tuple[object, ...] = (need.permission, need.detail, need.metadata)
    several: tuple[object, ...] = (need.patterns, need.offers)
    if not all(_is_a(str, text) for text in texts) or not all(_is_texts(value) for value in several):
        raise ConfigError(f"a Need holds str, and tuples of str: not {need!r}")
    if not _is_a(bool, need.is_own):
        raise ConfigError(f"is_own of a Need is a bool: not {need!r}")
    return need


def _is_texts(value: object) -> bool:
    return isinstance(value, tuple) and all(_is_a(str, text) for text in cast("tuple[object, ...]", value))


def _refusal(answer: AnswerKind, feedback: str) -> Settlement | None:
    match answer:
        case "once" | "always":
            return None
        case "reject":
            return Settlement(status="denied", text=f"Rejected by the user{f': {feedback}' if feedback else '.'}")
        case "expired":
            return Settlement(status="denied", text="Denied: nobody answered the question in time.")
        case "withdrawn":
            return Settlement(status="aborted", reason="not_executed", text="Not executed: the question was withdrawn.")


async def _run_body(site: CallSite, prepared: Prepared) -> Outcome:
    tool = prepared.tool
    returned: object = None
    with trio.move_on_after(float("inf") if tool.timeout is None else tool.timeout):  # noqa: ASYNC912  # the caller's code in it is the cancel point
        try:
            returned = await _unprotected(tool.body, prepared.arguments, site.context)
        except BaseException as error:  # noqa: ASYNC103  # what must pass is split off and raised
            passing, ordinary = split(error)
            if passing is error:
                raise
            if passing is not None:
                raise passing from None  # noqa: ASYNC104  # what must pass is raised
            return Outcome(settlement=_error_of(ordinary))  # noqa: ASYNC104  # what must pass is raised
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
    return Outcome(settlement=settlement, modify=returned.modify, stop=returned.stop, is_cut=returned.is_cut)


_HEADS: dict[Direction, float] = {"head": 1.0, "tail": 0.0, "both": 0.5}


async def _cut(site: CallSite, direction: Direction, outcome: Outcome) -> Outcome:
    """Cut a text that is too long, and keep all of it in the spill. A checkpoint if it is.

    If cancelled, the result stands, but what is not shown of it is lost.
    """
    if outcome.is_cut or fits(outcome.settlement.text):
        return outcome
    data = encoded(outcome.settlement.text)
    _reach(site, _with_text(outcome, cut(data, _HEADS[direction], Rest(trouble="the turn ended"))))
    rest = Rest() if site.spills is None else await site.spills.keep(data)
    return _with_text(outcome, cut(data, _HEADS[direction], rest))


def _with_text(outcome: Outcome, text: str) -> Outcome:
    return attrs.evolve(outcome, settlement=attrs.evolve(outcome.settlement, text=text))


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
    )
    return next((told for is_right, told in fields if not is_right), None)


def _is_a(kind: type, value: object) -> bool:
    return isinstance(value, kind)


def _reach(site: CallSite, outcome: Outcome) -> None:
    """Let the outcome stand from now on, whatever cancels the call."""
    site.reached(_withheld(outcome) if site.hooks.after_tool else outcome)


def _withheld(outcome: Outcome) -> Outcome:
    """Return what stands if the hooks after the body never get to see its result: they may be there to hide it."""
    text = "It ran to its end, but the turn ended before the hooks after it had seen its result, which is withheld."
    return attrs.evolve(
        outcome, settlement=attrs.evolve(outcome.settlement, text=text, images=(), files=(), metadata="")
    )


async def _ask_hooks_after(site: CallSite, outcome: Outcome, before: ToolDecision) -> Outcome:
    stop = outcome.stop or _demanded(before)
    settlement = outcome.settlement
    for hook in site.hooks.after_tool:
        decision = await _ask_hook(site, hook, attrs.evolve(site.use, settlement=settlement))
        if decision is None:
            continue
        if decision.text is not None:
            settlement = attrs.evolve(settlement, text=decision.text)
        stop = stop or _demanded(decision)
    return attrs.evolve(outcome, settlement=settlement, stop=stop)


def _demanded(decision: ToolDecision) -> str | None:
    """Return the reason for which a hook demands the end of the turn, if it does (C11)."""
    return (decision.reason or "a hook stopped the turn") if decision.stop else None


async def _ask_hook(site: CallSite, hook: ToolHook, use: ToolUse) -> ToolDecision | None:
    """Return what a hook decided; None if it failed, which is told in a notice."""
    return await guard_hook(hook, use, ToolDecision(), site.settings.hook_timeout, site.notice)


D = TypeVar("D", ToolDecision, StopDecision)
U = TypeVar("U")


async def guard_hook(
    hook: Callable[[U], Awaitable[D | None]],
    subject: U,
    default: D,
    timeout: float,
    notice: Callable[[str, str], None],
) -> D | None:
    """Run a hook with a deadline: its decision, *default* for None, or None if it hung or raised. A checkpoint."""
    with trio.move_on_after(timeout):  # noqa: ASYNC912  # the caller's code in it is the cancel point
        try:
            decided = await hook(subject)
        except BaseException as error:  # noqa: ASYNC103  # what must pass is split off and raised
            passing, ordinary = split(error)
            if passing is error:
                raise
            if passing is not None:
                raise passing from None  # noqa: ASYNC104  # what must pass is raised
            assert ordinary is not None
            notice("hook_failed", f"a hook failed: {describe(ordinary)}")
            return None  # noqa: ASYNC104  # what must pass is raised
        if decided is None:
            return default
        if type(decided) is not type(default):
            notice("hook_failed", f"a hook returned {type(decided).__name__}, not {type(default).__name__}")
            return None
        if (wrong := _wrong_decision(decided)) is not None:
            notice("hook_failed", f"a hook returned a {type(default).__name__} whose {wrong}")
            return None
        return decided
    notice("hook_failed", f"a hook did not answer within {timeout:g} s")
    return None


def _wrong_decision(decided: ToolDecision | StopDecision) -> str | None:
    """Say which field makes no sense: one verdict must never pass for another, nor a text be no text."""
    known: tuple[str, ...] = ("pass", "block", "prevent")
    texts: list[object] = [decided.reason]
    stop = typing.cast("object", None)
    if isinstance(decided, ToolDecision):
        known, stop = _STRICTNESS, typing.cast("object", decided.stop)
        texts += [text for text in (decided.arguments, decided.text) if text is not None]
    if decided.verdict not in known:
        return f"verdict must be one of {', '.join(known)}, not {decided.verdict!r}"
    if not all(isinstance(text, str) for text in texts):
        return "texts must be str"
    return None if stop is None or isinstance(stop, bool) else "stop must be a bool"
