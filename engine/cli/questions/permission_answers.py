"""Parse what a user types at a question for permission. Pure: text in, what to do out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, assert_never

import attrs

from engine.cli.questions.permission_view import AnswerChoice, ChoiceKind, PermissionView
from engine.session.answer_types import Always, Answer, Once, Reject

# An unknown word of up to so many characters is a typing error; anything longer is an instruction.
MAX_WORD_CHARS: Final = 12
_WORDS: Final[Mapping[str, ChoiceKind]] = {
    **dict.fromkeys(("y", "yes", "ok", "okay", "allow", "sure", "1", "once"), "once"),
    **dict.fromkeys(("a", "always"), "session"),
    **dict.fromkeys(("p", "project"), "project"),
    **dict.fromkeys(("n", "no", "nope", "reject", "deny", "stop", "r"), "stop"),
    **dict.fromkeys(("e", "instead"), "feedback"),
    **dict.fromkeys(("d", "details"), "details"),
    "all": "same",
}
_ALLOWING: Final[frozenset[ChoiceKind]] = frozenset({"once", "same", "session", "project"})


@attrs.frozen
class Reply:
    """Answer the question; *to_same*: and all open ones of the same pattern."""

    answer: Answer
    to_same: bool = False


@attrs.frozen
class AskFeedback:
    """Ask what to do instead: the next line is the feedback."""


@attrs.frozen
class ShowDetails:
    """Show the details, and ask again."""


@attrs.frozen
class AskAgain:
    """Ask again: it was no answer. *hint* says why; it may be empty."""

    hint: str = ""


PermissionOutcome = Reply | AskFeedback | ShowDetails | AskAgain


def parse_answer(line: str, view: PermissionView, *, same: int = 1, is_numbered: bool = False) -> PermissionOutcome:
    """Parse a typed line: a word that selects a choice, or else several words, which are feedback.

    Args:
        line: the line.
        view: the question.
        same: how many open questions are of its pattern.
        is_numbered: the choices were shown with numbers.
    """
    text = " ".join(line.split())
    choices = view.choices(same=same)
    if is_numbered and text.isascii() and text.isdigit():
        return _numbered(text, view, choices)
    choice = _find_choice(text, choices)
    if choice is not None:
        return outcome_of(choice)
    kind = _WORDS.get(text.lower())
    return _unknown(text) if kind is None else _of_kind(kind, view, choices)


def _numbered(text: str, view: PermissionView, choices: tuple[AnswerChoice, ...]) -> PermissionOutcome:
    if not 1 <= int(text) <= len(choices):
        return AskAgain(f"Answer with a number from 1 to {len(choices)}.")
    choice = choices[int(text) - 1]
    # The number of a dangerous call is typed as easily as any other.
    return _only_in_full(view) if choice.key == "yes" else outcome_of(choice)


def _of_kind(kind: ChoiceKind, view: PermissionView, choices: tuple[AnswerChoice, ...]) -> PermissionOutcome:
    if view.danger and kind in _ALLOWING:
        return _only_in_full(view)
    # The first one of its kind is the narrowest offer.
    choice = next((each for each in choices if each.kind == kind), None)
    if choice is not None:
        return outcome_of(choice)
    return AskAgain("No other question asks for the same." if kind == "same" else "This can be allowed only once.")


def is_feedback(outcome: PermissionOutcome) -> bool:
    """Return whether it refuses with words for the model."""
    return isinstance(outcome, Reply) and isinstance(outcome.answer, Reject) and bool(outcome.answer.feedback)


def outcome_of(choice: AnswerChoice) -> PermissionOutcome:
    """Return what a choice does."""
    match choice.kind:
        case "once":
            return Reply(Once())
        case "same":
            return Reply(Once(), to_same=True)
        case "session" | "project":
            return Reply(Always(offer=choice.offer, scope=choice.kind))
        case "stop":
            return Reply(Reject())
        case "feedback":
            return AskFeedback()
        case "details":
            return ShowDetails()
        case _:
            assert_never(choice.kind)


def parse_feedback(line: str) -> PermissionOutcome:
    """Parse the line that follows `e`: what to do instead; an empty one goes back to the choices."""
    text = line.strip()
    return Reply(Reject(feedback=text)) if text else AskAgain()


def _find_choice(text: str, choices: tuple[AnswerChoice, ...]) -> AnswerChoice | None:
    # "A" and "a" are two choices where both are shown; everywhere else case makes no difference.
    exact = next((choice for choice in choices if choice.key == text), None)
    return exact or next(
        (choice for choice in choices if choice.key.lower() == text.lower() and choice.key != "A"), None
    )


def _only_in_full(view: PermissionView) -> PermissionOutcome:
    return AskAgain(f"To allow this once, type yes: {view.danger}.")


def _unknown(text: str) -> PermissionOutcome:
    if not text:
        return AskAgain()
    if re.fullmatch(r"[ap]\d+", text.lower()):
        return AskAgain(f"There is no choice {text}.")
    if " " not in text and len(text) <= MAX_WORD_CHARS:
        return AskAgain("That is not one of the choices.")
    return Reply(Reject(feedback=text))
