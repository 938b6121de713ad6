"""Questions on the terminal: their text, the prompt for the answer, and the parsing of typed answers."""

from __future__ import annotations

from typing import Final

from engine.cli.problems.surroundings import Surroundings
from engine.cli.questions.call_arguments import requester_of
from engine.cli.terminal.terminal_text import Symbols, clock_time, escape_control_chars, escape_on_one_line, time_left
from engine.core.events import PermissionAsked, QuestionAnswered, QuestionAsked, RecoveryAnswered, RecoveryAsked
from engine.journal.state import OpenQuestion
from engine.session.answer_types import Recovery

# Instead of a symbol, where screen readers and plain terminals show the question.
_LABEL: Final = "Question:"
_RECOVERIES: Final[dict[str, Recovery]] = {"w": "wait", "wait": "wait", "s": "stop", "stop": "stop"}
_OUTCOMES: Final[dict[str, str]] = {
    "answered": "Answered",
    "declined": "Skipped",
    "withdrawn": "Withdrawn, as its call has ended",
    "expired": "Not answered in time",
    "wait": "Waiting, then retrying",
    "switch": "Continuing with another model",
    "stop": "Stopped",
}


def labelled(lines: list[str], symbols: Symbols) -> list[str]:
    """Return a question with a word instead of a sign before it."""
    return [lines[0].replace(symbols.running, _LABEL, 1), *lines[1:]]


def requester_lines(request: OpenQuestion, task_arguments: str) -> list[str]:
    """Return which sub-agent asks, as a line; none if the session itself asks."""
    requester = requester_of(request.path, task_arguments)
    return [f"  Asked by {escape_on_one_line(requester)}"] if requester else []


def recovery_question(request: RecoveryAsked, symbols: Symbols, surroundings: Surroundings | None = None) -> list[str]:
    """Return the question what to do about a model that failed."""
    # Imported here: hardly any turn needs it.
    from engine.cli.problems.problem import recovery_line

    lines = [f"{symbols.running} Model {escape_control_chars(request.model)} failed:"]
    lines.append(f"    {escape_control_chars(recovery_line(request, surroundings or Surroundings()))}")
    if request.reset_at is not None and request.failure is None:
        lines.append(f"    Limit resets at {clock_time(request.reset_at)} (in {time_left(request.reset_at)})")
    return lines


def tool_question(request: QuestionAsked, symbols: Symbols) -> list[str]:
    """Return a question of a tool, with the answers that it offers."""
    # The model writes this text: its lines are indented, so that none can pass for a question of the engine.
    question = escape_control_chars(request.question).replace("\n", "\n    ")
    lines = [f"{symbols.running} {question}"]
    for number, choice in enumerate(request.choices, 1):
        more = f": {escape_on_one_line(choice.description)}" if choice.description else ""
        lines.append(f"    {number}  {escape_on_one_line(choice.label)}{more}")
    return lines


def parse_choices(line: str, request: QuestionAsked) -> tuple[str, ...]:
    """Parse an answer: numbers select labels, any other text is the answer itself; an empty line declines."""
    words = line.strip()
    return numbered_choices(words, request) or ((words,) if words else ())


def numbered_choices(line: str, request: QuestionAsked) -> tuple[str, ...]:
    """Return the labels that a line of numbers selects; empty: it is no such line."""
    # "2" may be an answer of its own if there is no choice 2: only valid numbers select.
    numbers = line.replace(",", " ").split()
    are_numbers = all(n.isascii() and n.isdigit() and 0 < int(n) <= len(request.choices) for n in numbers)
    is_valid = are_numbers and (request.several or len(numbers) == 1)
    return tuple(request.choices[int(n) - 1].label for n in numbers) if is_valid else ()


def parse_recovery(line: str) -> tuple[Recovery, str | None] | None:
    """Return how to continue after a failed request, and with which model; None: an empty line."""
    words = line.strip()
    if not words:
        return None
    how = _RECOVERIES.get(words.lower())
    return ("switch", words) if how is None else (how, None)


def answer_prompt(request: OpenQuestion) -> str:
    """Return the prompt that the answer is typed after."""
    if isinstance(request, RecoveryAsked):
        return "  [w] Wait and retry  [s] Stop, or a model name: "
    if isinstance(request, PermissionAsked):
        return "  Answer: "
    if not request.choices:
        return "  Answer (Enter to skip): "
    return f"  {'Numbers' if request.several else 'A number'}, or another answer (Enter to skip): "


def settled_line(event: QuestionAnswered | RecoveryAnswered) -> str:
    """Return how a question was settled, and by whom, as a line."""
    outcome = event.outcome if isinstance(event, QuestionAnswered) else event.answer
    by = f" (by {escape_on_one_line(event.by)})" if event.by else ""
    return f"  {_OUTCOMES[outcome]}{by}.\n"
