"""`plan_exit`: show the user a plan, and ask for approval."""

from __future__ import annotations

import json
from typing import Annotated, Final, Literal

import attrs

from engine.core.events import APPROVAL, Choice, QuestionOutcome
from engine.core.schema import doc
from engine.core.value_base import Value
from engine.tools.call_values import Need, ToolOutput
from engine.tools.tool import tool
from engine.tools.tool_context import ToolContext
from engine.tools.tool_text import description, metadata

# The name of the approval in the shared context: JSON text, the mode of the session.
VALUE: Final = APPROVAL
Mode = Literal["plan", "build"]
# The user has to read it.
MAX_CHARS: Final = 20_000

APPROVE: Final = Choice(label="Approve", description="carry out this plan")
KEEP_PLANNING: Final = Choice(label="Keep planning", description="nothing is changed yet")
# Accepted as approval when the user types an answer; any other text is feedback.
_YES: Final = frozenset({APPROVE.label.casefold(), "yes", "y", "ok"})
_UNANSWERED: Final[dict[QuestionOutcome, str]] = {
    "declined": "The user gave no answer, or no one is available to give one",
    "expired": "No one answered in time",
    "withdrawn": "The question was withdrawn",
}


def _is_a_plan(_: object, field: attrs.Attribute[str], value: str) -> None:
    if not value.strip() or len(value) > MAX_CHARS:
        raise ValueError(f"{field.name!r} must say what you will do, in at most {MAX_CHARS:,} characters")


@attrs.frozen(eq=False, repr=False)
class PlanExit(Value):
    """Arguments of `plan_exit`."""

    plan: Annotated[str, doc("the plan, as markdown: what will be changed, where, and how it will be checked")] = (
        attrs.field(validator=_is_a_plan)
    )


async def plan_exit(args: PlanExit, ctx: ToolContext) -> ToolOutput:
    """Ask for a plan's approval. A checkpoint; if cancelled, the question is withdrawn and the mode stays as it is."""
    outcome, answers = await ctx.ask_user(f"Carry out this plan?\n\n{args.plan}", [APPROVE, KEEP_PLANNING])
    if outcome != "answered":
        text = f"{_UNANSWERED[outcome]}: the plan is not approved. Change nothing; end with the plan as your answer."
        return _output("plan", text, "no answer")
    if len(answers) == 1 and answers[0].strip().casefold() in _YES:
        return _output("build", "The user approved the plan. Carry it out.", "approved")
    wishes = "; ".join(answer for answer in answers if answer not in {APPROVE.label, KEEP_PLANNING.label})
    hint = f"The user said: {wishes}" if wishes else "Improve it, or ask what is missing."
    return _output("plan", f"The user did not approve the plan yet. Change nothing. {hint}", "not approved")


# It asks the user itself, so it needs no permission.
PLAN_EXIT = tool(
    name="plan_exit",
    description=description("plan_exit"),
    read_only=True,
    safe=False,
    need=lambda _: Need(permission="question"),
    permission="question",
    resumable=True,
)(plan_exit)


def _output(mode: Mode, text: str, summary: str) -> ToolOutput:
    return ToolOutput(
        text=text,
        modify=lambda shared: shared.with_value(VALUE, json.dumps(mode)),
        metadata=metadata(summary, mode=mode),
    )
