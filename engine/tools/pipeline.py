"""The pipeline of one call, in the order of C5: one function to read from top to bottom.

lookup → abort check → validation → hooks before → validation of changed arguments → rules, hooks on permissions,
question → record → body → truncation → hooks after → truncation of changed results.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import attrs
import trio

from engine.core.errors import OutcomeUnknown, ToolError
from engine.core.exception_groups import ErrorBoundary, describe
from engine.core.foreign_calls import ForeignCall
from engine.core.hooks import Hooks, ToolDecision, ToolHook
from engine.core.messages import Settlement
from engine.tools.call_port import CallPort, Outcome
from engine.tools.call_values import ToolOutput, find_output_problem
from engine.tools.hook_runner import in_groups, name_of
from engine.tools.output.truncate import Rest, cut, encoded, fits
from engine.tools.permission_check import ask_hooks_before, pass_on, permit
from engine.tools.registry import Prepared
from engine.tools.tool import Direction
from engine.tools.tool_context import ToolContext


async def run_call(site: CallPort) -> Outcome:
    """Take a call from its arguments to its outcome. A checkpoint wherever a hook, a question or the body is one.

    Raises nothing ordinary; if cancelled, the caller settles the call.
    """
    prepared = _look_up(site)
    # A task that is started in a cancelled nursery runs to its first checkpoint: nothing has an effect before this.
    await trio.lowlevel.checkpoint_if_cancelled()
    if isinstance(prepared, Settlement):
        return Outcome(settlement=prepared)
    hooks = await ask_hooks_before(site)
    if hooks.arguments is not None:
        prepared = site.change(hooks.arguments, hooks.changed_by)
        if isinstance(prepared, Settlement):
            return Outcome(settlement=prepared)
    permitted = await permit(site, prepared, hooks)
    if isinstance(permitted, Settlement):
        return Outcome(settlement=permitted)
    prepared = permitted.prepared
    # Again, since a question may have taken hours, and the host may have replaced the tool.
    if (stale := site.stale(prepared)) is not None:
        return Outcome(settlement=stale)
    if (unrecorded := await site.start(prepared)) is not None:
        return Outcome(settlement=unrecorded, engine_failed=True)
    site.permission.note_use(permitted.query)
    site.touched(permitted.need)
    direction = prepared.tool.direction
    context = attrs.evolve(
        site.context,
        approved_paths=frozenset(permitted.need.paths),
        answered=permitted.answered,
        confinement=permitted.confinement,
    )
    # `_reach` before the hooks: a cancel in a hook must not turn a call that had effects into one that never ran.
    outcome = await _cut(site, direction, await _run_body(site, prepared, context), partial(_reach, site))
    _reach(site, outcome)
    return await _cut(site, direction, await _ask_hooks_after(site, outcome), site.reached)


def _look_up(site: CallPort) -> Prepared | Settlement:
    """Return the call with its tool and parsed arguments, or an error."""
    prepared = site.prepared
    return prepared if isinstance(prepared, Settlement) else site.stale(prepared) or prepared


async def _run_body(site: CallPort, prepared: Prepared, context: ToolContext) -> Outcome:
    tool = prepared.tool
    returned: object = None
    with trio.move_on_after(float("inf") if tool.timeout is None else tool.timeout):  # noqa: ASYNC912  # the caller's code in it is the cancel point
        with ErrorBoundary() as boundary:
            returned = await ForeignCall(f"the tool {tool.name}", partial(tool.body, prepared.arguments, context))
        if boundary.error is not None:
            # A ToolError is the tool's own report, so its changes are known. After any other exception they are not.
            is_certain = isinstance(boundary.error, ToolError) and not isinstance(boundary.error, OutcomeUnknown)
            changed = () if is_certain else None
            return Outcome(settlement=_error_of(boundary.error), changed=changed)
        return _outcome_of(returned)
    return _timed_out(site, tool.timeout or 0.0)


def _timed_out(site: CallPort, timeout: float) -> Outcome:
    kept = site.partial_output()
    shown = f" Its output so far:\n{kept}" if kept else ""
    text = f"Aborted: it did not finish within its timeout of {timeout:g} s.{shown}"
    return Outcome(settlement=Settlement(status="aborted", reason="timeout", text=text))


def _error_of(error: BaseException | None) -> Settlement:
    if isinstance(error, ToolError):
        return Settlement(status="error", text=str(error), outcome_unknown=isinstance(error, OutcomeUnknown))
    return Settlement(status="error", text="unknown error" if error is None else describe(error))


def _outcome_of(returned: object) -> Outcome:
    if isinstance(returned, str):
        return Outcome(settlement=Settlement(status="completed", text=returned))
    if not isinstance(returned, ToolOutput):
        text = f"The tool returned {type(returned).__name__} where it must return str or ToolOutput."
        return Outcome(settlement=Settlement(status="error", text=text))
    if (wrong := find_output_problem(returned)) is not None:
        text = f"The tool returned a ToolOutput whose {wrong}."
        return Outcome(settlement=Settlement(status="error", text=text))
    settlement = Settlement(
        status="completed",
        text=returned.text,
        images=returned.images,
        files=returned.files,
        failed=returned.failed,
        metadata=returned.metadata,
        tools=returned.tools,
    )
    return Outcome(
        settlement=settlement,
        modify=returned.modify,
        stop=returned.stop,
        is_cut=returned.is_cut,
        changed=returned.changed,
        produced=returned.produced,
    )


_HEADS: dict[Direction, float] = {"head": 1.0, "tail": 0.0, "both": 0.5}


async def _cut(site: CallPort, direction: Direction, outcome: Outcome, reach: Callable[[Outcome], None]) -> Outcome:
    """Truncate a text that is too long, and keep all of it in the spill. A checkpoint if it is too long.

    If cancelled, the truncated result stands (*reach* gets it), but the rest is lost.
    """
    if outcome.is_cut or fits(outcome.settlement.text):
        return outcome
    if outcome.produced is None:
        # The truncated text names a spill, which is another one each time.
        outcome = attrs.evolve(outcome, produced=outcome.settlement.text)
    data = encoded(outcome.settlement.text)
    # Before the await: a cancel while the spill is written must find the result.
    reach(_with_text(outcome, cut(data, _HEADS[direction], Rest(trouble="the turn ended"))))
    rest = Rest() if site.spills is None else await site.spills.keep(data)
    return _with_text(outcome, cut(data, _HEADS[direction], rest))


def _with_text(outcome: Outcome, text: str, *, is_cut: bool = True) -> Outcome:
    return attrs.evolve(outcome, settlement=attrs.evolve(outcome.settlement, text=text), is_cut=is_cut)


def _reach(site: CallPort, outcome: Outcome) -> None:
    """Record the outcome, which stands from now on, even if the call is cancelled."""
    site.reached(_withheld(outcome) if _hooks_after(site.hooks, outcome.settlement) else outcome)


def _hooks_after(hooks: Hooks, settlement: Settlement) -> tuple[ToolHook, ...]:
    """Return the hooks that run on this result."""
    has_failed = settlement.failed or settlement.status != "completed"
    return (*hooks.after_tool, *hooks.tool_failed) if has_failed else hooks.after_tool


def _withheld(outcome: Outcome) -> Outcome:
    """Return the outcome that stands until the hooks after it have run: they may have to hide the result."""
    text = "It ran to its end, but the turn ended before the hooks after it had seen its result, which is withheld."
    return attrs.evolve(
        outcome, settlement=attrs.evolve(outcome.settlement, text=text, images=(), files=(), metadata="")
    )


async def _ask_hooks_after(site: CallPort, outcome: Outcome) -> Outcome:
    for group in in_groups(_hooks_after(site.hooks, outcome.settlement)):
        use = attrs.evolve(site.use, settlement=outcome.settlement)
        for hook, decision in await site.hook_runner.run_group(group, use, ToolDecision()):
            # The call is done and can't be undone, so a failed hook changes nothing here, unlike before the call.
            if decision is None:
                continue
            source = f"the hook {name_of(hook)}"
            if decision.text is not None and decision.text != outcome.settlement.text:
                site.replaced(outcome.settlement.text, source)
                outcome = _with_text(outcome, decision.text, is_cut=False)
            pass_on(site, decision, source)
    return outcome
