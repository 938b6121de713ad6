"""Questions on the terminal: their text, the prompt for the answer, and the parsing of typed answers."""

from __future__ import annotations

import json
import re
from typing import Final, cast

from engine.cli.questions.call_arguments import main_argument
from engine.cli.terminal.terminal_text import (
    Symbols,
    clock_time,
    escape_control_chars,
    escape_on_one_line,
    escape_unseen,
)
from engine.core.events import PermissionAsked, QuestionAsked, RecoveryAsked
from engine.permission.question_text import allow_question, further_rights, opaque_warning
from engine.session.answer_types import Always, Answer, Once, Reject

OpenQuestion = PermissionAsked | RecoveryAsked | QuestionAsked

# The answers that are words of their own; any other text is an instruction to the model.
_ANSWERS: Final[dict[str, Answer]] = {
    **dict.fromkeys(("o", "once", "y", "yes"), Once()),
    **dict.fromkeys(("a", "always"), Always()),
    **dict.fromkeys(("p", "project"), Always(scope="project")),
    **dict.fromkeys(("r", "reject", "n", "no"), Reject()),
}
# The narrowest offers come first; more than these would make the prompt hard to read.
MAX_OFFERS: Final = 4
_MAX_TASK_CHARS: Final = 100


def parse_answer(line: str, request: PermissionAsked) -> Answer | None:
    """Parse an answer: one of the known words, or else the reason of a rejection.

    None: the line is empty, or names an offer that does not exist.
    """
    words = line.strip()
    if not words:
        return None
    answer = _ANSWERS.get(words.lower())
    if answer is None and (numbered := re.fullmatch(r"([ap])([1-9])", words.lower())) is not None:
        answer = Always(offer=int(numbered[2]) - 1, scope="session" if numbered[1] == "a" else "project")
    if isinstance(answer, Always) and answer.offer >= len(request.offers[:MAX_OFFERS]):
        return None
    return answer or Reject(feedback=words)


def permission_question(request: PermissionAsked, detail: str, symbols: Symbols) -> str:
    """Return the question whether a call is allowed, with the whole command or path."""
    lines = [f"{symbols.running} {_on_one_line(allow_question(request))}"]
    # Every line of the command is shown: a truncated one could hide what it does.
    what = escape_unseen(detail or ", ".join(request.patterns))
    lines += [f"    {line}" for line in what.removesuffix("\n").split("\n")]
    lines += [f"    {_on_one_line(other)}" for other in further_rights(request)]
    if warning := opaque_warning(request):
        lines.append(f"    {_on_one_line(warning)}")
    return "\n".join(lines) + "\n"


def _on_one_line(text: str) -> str:
    return escape_on_one_line(escape_unseen(text))


def requester_line(request: OpenQuestion, task_arguments: str) -> str:
    """Return which sub-agent asks, from the arguments of the call that started it; empty if the session itself asks."""
    # The path of an event has one session for each level of sub-agents.
    if len(request.path) == 1:
        return ""
    try:
        parsed = cast("object", json.loads(task_arguments or "{}"))
    except (ValueError, RecursionError):
        parsed = {}
    # The arguments are the model's: anything may be missing or of another type.
    name = cast("dict[str, object]", parsed).get("agent", "") if isinstance(parsed, dict) else ""
    who = f"the sub-agent {name}" if isinstance(name, str) and name else "a sub-agent"
    work = escape_on_one_line(" ".join(main_argument(task_arguments).split()))
    shown = work if len(work) <= _MAX_TASK_CHARS else f"{work[:_MAX_TASK_CHARS]}…"
    return f"    for {escape_on_one_line(who)}{f', which works on: {shown}' if work else ''}\n"


def recovery_question(request: RecoveryAsked, symbols: Symbols) -> str:
    """Return the question what to do about a model that failed."""
    until = f"\n    the limit resets at {clock_time(request.reset_at)}" if request.reset_at is not None else ""
    return f"{symbols.running} Model {escape_control_chars(request.model)} failed:\n    {escape_control_chars(request.message)}{until}\n"


def tool_question(request: QuestionAsked, symbols: Symbols) -> str:
    """Return a question of a tool, with the answers that it offers."""
    # The model writes this text: its lines are indented, so that none can pass for a question of the engine.
    question = escape_control_chars(request.question).replace("\n", "\n    ")
    lines = [f"{symbols.running} {question}"]
    for number, choice in enumerate(request.choices, 1):
        more = f": {escape_on_one_line(choice.description)}" if choice.description else ""
        lines.append(f"    {number}  {escape_on_one_line(choice.label)}{more}")
    return "\n".join(lines) + "\n"


def parse_choices(line: str, request: QuestionAsked) -> tuple[str, ...]:
    """Parse an answer: numbers select labels, any other text is the answer itself; an empty line declines."""
    words = line.strip()
    # "2" may be an answer of its own if there is no choice 2: only valid numbers select.
    numbers = words.replace(",", " ").split()
    are_numbers = numbers and all(n.isascii() and n.isdigit() and 0 < int(n) <= len(request.choices) for n in numbers)
    if are_numbers and (request.several or len(numbers) == 1):
        return tuple(request.choices[int(n) - 1].label for n in numbers)
    return (words,) if words else ()


def answer_prompt(request: OpenQuestion) -> str:
    """Return the prompt that the answer is typed after."""
    if isinstance(request, QuestionAsked):
        if not request.choices:
            return "  your answer (Enter to skip): "
        return f"  {'numbers' if request.several else 'a number'}, or your own answer (Enter to skip): "
    if isinstance(request, RecoveryAsked):
        return "  wait and retry (w), stop (s), or type the name of a model to continue with: "
    return f"  once (o), {_offers(request)}reject and stop (r), or type what to do instead: "


def _offers(request: PermissionAsked) -> str:
    """Return what "always" would allow: each offer with the letter that selects it."""
    text = ""
    for number, offer in enumerate(request.offers[:MAX_OFFERS], 1):
        what = _on_one_line(offer.text)
        letters = f"a{number}" if len(request.offers) > 1 else "a"
        text += f"always in this session: {what} ({letters}), " if number == 1 else f"or {what} ({letters}), "
    return text + (f"the same for the whole project ({'p1' if len(request.offers) > 1 else 'p'}), " if text else "")


def permission_detail(request: PermissionAsked, arguments: str) -> str:
    """Return what to show of a call that needs permission: its tool's own description, or its main argument."""
    return request.detail or main_argument(arguments)
