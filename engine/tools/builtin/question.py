"""`question`: ask the user, with answers to choose from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Final

import attrs

from engine.core.events import Choice, QuestionOutcome
from engine.core.schema import doc
from engine.core.value_base import Value
from engine.tools.call_values import Need, ToolOutput
from engine.tools.tool import tool
from engine.tools.tool_context import ToolContext
from engine.tools.tool_text import counted, description, metadata

# More questions at once would be a form to fill in.
MAX_QUESTIONS: Final = 4
MAX_CHOICES: Final = 8
MAX_CHARS: Final = 2_000
MAX_LABEL_CHARS: Final = 100

_UNANSWERED: Final[dict[QuestionOutcome, str]] = {
    "declined": "no answer: the user declined, or no one is available to answer",
    "expired": "no answer: no one answered in time",
    "withdrawn": "no answer: the question was withdrawn",
}


def _says_something(limit: int) -> Callable[[object, attrs.Attribute[str], str], None]:
    def check(_: object, field: attrs.Attribute[str], value: str) -> None:
        if not value.strip() or len(value) > limit:
            raise ValueError(f"{field.name!r} must say something, in at most {limit:,} characters")

    return check


def _check_choices(_: object, field: attrs.Attribute[list[Option]], value: list[Option]) -> None:
    if len(value) > MAX_CHOICES:
        raise ValueError(f"{field.name!r} may hold at most {MAX_CHOICES}, not {len(value):,}")
    if len({choice.label.strip().casefold() for choice in value}) < len(value):
        raise ValueError(f"{field.name!r} must have labels that differ")


@attrs.frozen(eq=False, repr=False)
class Option(Value):
    """An offered answer."""

    label: Annotated[str, doc("the answer, in a few words")] = attrs.field(validator=_says_something(MAX_LABEL_CHARS))
    description: Annotated[str, doc("what it means, or its consequences")] = attrs.field(
        default="", validator=attrs.validators.max_len(MAX_CHARS)
    )


@attrs.frozen(eq=False, repr=False)
class OneQuestion(Value):
    """A question."""

    question: Annotated[str, doc("what to ask, in full")] = attrs.field(validator=_says_something(MAX_CHARS))
    choices: Annotated[list[Option], doc("answers to choose from; none: the user answers in words")] = attrs.field(
        factory=list[Option], validator=_check_choices
    )
    several: Annotated[bool, doc("whether more than one of them may be chosen")] = False


@attrs.frozen(eq=False, repr=False)
class Question(Value):
    """Arguments of `question`."""

    questions: Annotated[list[OneQuestion], doc("they are asked one after the other")] = attrs.field(
        validator=[attrs.validators.min_len(1), attrs.validators.max_len(MAX_QUESTIONS)]
    )


async def question(args: Question, ctx: ToolContext) -> ToolOutput:
    """Ask the user. A checkpoint; if cancelled, the open question is withdrawn."""
    lines: list[str] = []
    answered = 0
    for number, item in enumerate(args.questions):
        choices = [Choice(label=choice.label, description=choice.description) for choice in item.choices]
        outcome, answers = await ctx.ask_user(item.question, choices, several=item.several)
        answered += outcome == "answered"
        answer = "; ".join(answers) if outcome == "answered" else f"({_UNANSWERED[outcome]})"
        lines.append(f"Question: {item.question}\nAnswer: {answer}")
        left = len(args.questions) - number - 1
        if outcome in {"expired", "withdrawn"} and left:
            # If the user did not answer this question, the others are not asked.
            lines.append(f"({counted(left, 'further question was', 'further questions were')} not asked.)")
            break
    if not answered:
        lines.append(
            "Go on by your own judgement and say what you assumed; or, if that would be rash, stop and say what you need to know."
        )
    return ToolOutput(
        text="\n\n".join(lines),
        metadata=metadata(f"{answered} of {counted(len(args.questions), 'question')} answered", answered=answered),
    )


# It asks the user itself, so it needs no permission.
QUESTION = tool(
    name="question",
    description=description("question", max_questions=MAX_QUESTIONS, max_choices=MAX_CHOICES),
    read_only=True,
    safe=False,
    need=lambda _: Need(permission="question"),
    permission="question",
    protected=True,
    resumable=True,
)(question)
