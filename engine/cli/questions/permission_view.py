"""`PermissionView`: a question for permission as lines and choices. Pure: it knows no terminal."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from functools import cached_property
from typing import Final, Literal

import attrs

from engine.cli.questions.call_arguments import requester_of
from engine.cli.terminal.terminal_text import UNICODE, Symbols, escape_on_one_line, escape_unseen
from engine.core.events import Offer, PermissionAsked
from engine.permission.dangerous_rights import find_danger
from engine.permission.question_text import allow_question, further_rights, opaque_warning
from engine.tools.tool_text import main_argument

# The narrowest offers come first; more than these would make the question hard to read.
MAX_OFFERS: Final = 4
# A longer command or diff is shown by its beginning and its end.
MAX_LINES: Final = 40
_HEAD_LINES: Final = 20
_TAIL_LINES: Final = MAX_LINES - _HEAD_LINES - 1
# A longer choice may be cut off in a row.
_MAX_ROW_CHARS: Final = 60
# A longer command is not printed a second time.
_MAX_EXPLAINED_CHARS: Final = 200

ChoiceKind = Literal["once", "session", "project", "same", "stop", "feedback", "details"]


@attrs.frozen(kw_only=True)
class AnswerChoice:
    """One way to answer.

    Attributes:
        key: what is typed: a letter, a letter with a number, or `yes` in full.
        kind: what it does.
        label: what it does, for the user; not escaped for a terminal yet.
        offer: for "session" and "project": the index of the offer.
    """

    key: str
    kind: ChoiceKind
    label: str
    offer: int = 0


@attrs.frozen(kw_only=True, eq=False, slots=False)
class PermissionView:
    """A question for permission, as a user reads it.

    Attributes:
        request: the question.
        detail: what the call would do: the whole command or diff.
        requester: the sub-agent that asks, and its task; empty: the session itself.
    """

    request: PermissionAsked
    detail: str = ""
    requester: str = ""

    @classmethod
    def of(cls, request: PermissionAsked, *, arguments: str = "", task_arguments: str = "") -> PermissionView:
        """Return the view of *request*.

        Args:
            request: the question.
            arguments: the arguments of its call, as JSON text; shown if the tool does not describe the call.
            task_arguments: for a sub-agent's question, the arguments of the call that started it.
        """
        detail = request.detail or main_argument(arguments) or ", ".join(request.patterns)
        return cls(request=request, detail=detail, requester=requester_of(request.path, task_arguments))

    @cached_property
    def danger(self) -> str:
        """Why `y` is not enough to allow it; empty if it is."""
        return find_danger(self.request)

    def lines(
        self, symbols: Symbols = UNICODE, *, position: tuple[int, int] = (1, 1), is_whole: bool = False
    ) -> list[str]:
        """Return the question without its choices, safe for a terminal.

        Args:
            symbols: what the terminal can show.
            position: which question of how many open ones it is.
            is_whole: show all of a long command or diff.
        """
        number, count = position
        counter = f" ({number} of {count})" if count > 1 else ""
        lines = [f"{symbols.running} {_on_one_line(allow_question(self.request))}{counter}"]
        # Deeper than the engine's own lines, so that no line of a command can pass for one of them.
        lines += [f"    {line}" for line in self._detail_lines(symbols, is_whole=is_whole)]
        further = (*further_rights(self.request), opaque_warning(self.request))
        lines += [f"  {_on_one_line(line)}" for line in further if line]
        if self.requester:
            lines.append(f"  Asked by {_on_one_line(self.requester)}")
        return lines

    def detail_lines(self, symbols: Symbols = UNICODE) -> list[str]:
        """Return what `d` shows: everything that the call would do, the rule that asked, and how to have it explained."""
        lines = [f"    {line}" for line in self._detail_lines(symbols, is_whole=True)]
        # Where choices are drawn, each in a row, a long one is cut off.
        long = (choice for choice in self.choices() if len(choice.label) > _MAX_ROW_CHARS)
        lines += choice_lines(tuple(long))
        lines.append(f"  Asked by: {_on_one_line(self.request.rule or 'the tool itself')}")
        if command := self._explain_command():
            lines += ["  To see why each rule applies or not:", f"    {command}"]
        return lines

    def choices(self, *, same: int = 1) -> tuple[AnswerChoice, ...]:
        """Return the ways to answer, in the order in which they are shown.

        Args:
            same: how many of the open questions are about the same pattern, this one included.
        """
        return tuple(self._choices(same))

    def is_same(self, other: PermissionView) -> bool:
        """Return whether one answer may settle *other*, too: the same rights are asked for, and none is dangerous."""
        return not (self.danger or other.danger) and _pattern_of(self.request) == _pattern_of(other.request)

    def _choices(self, same: int) -> Iterator[AnswerChoice]:
        if self.danger:
            yield AnswerChoice(key="yes", kind="once", label=f"Yes, once. Type the whole word: {self.danger}")
        else:
            yield AnswerChoice(key="y", kind="once", label="Yes, once")
            if same > 1:
                label = f"Yes, once, for all {same} that ask for this: {_pattern_of(self.request)}"
                yield AnswerChoice(key="A", kind="same", label=label)
            yield from self._always("a", "session")
            yield from self._always("p", "project")
        yield AnswerChoice(key="n", kind="stop", label="No, and stop")
        yield AnswerChoice(key="e", kind="feedback", label="No, and say what to do instead")
        yield AnswerChoice(key="d", kind="details", label="Details")

    def _always(self, letter: str, scope: Literal["session", "project"]) -> Iterator[AnswerChoice]:
        offers = self.request.offers[:MAX_OFFERS]
        for index, offer in enumerate(offers):
            key = f"{letter}{index + 1}" if len(offers) > 1 else letter
            label = f"Yes, always in this {scope}: {offer.text}"
            yield AnswerChoice(key=key, kind=scope, label=label, offer=index)

    def _detail_lines(self, symbols: Symbols, *, is_whole: bool) -> list[str]:
        lines = escape_unseen(self.detail).removesuffix("\n").split("\n")
        if is_whole or len(lines) <= MAX_LINES:
            return lines
        hidden = len(lines) - _HEAD_LINES - _TAIL_LINES
        note = f"{symbols.cut} {hidden} more lines: d shows all {len(lines)} {symbols.cut}"
        return [*lines[:_HEAD_LINES], note, *lines[-_TAIL_LINES:]]

    def _explain_command(self) -> str:
        request = self.request
        subject = self.detail if request.permission == "bash" else next(iter(request.patterns), "")
        if not subject or len(subject) > _MAX_EXPLAINED_CHARS or escape_unseen(subject) != subject or "\n" in subject:
            return ""
        return f"engine permissions explain {shlex.quote(request.permission)} {shlex.quote(subject)}"


def choice_lines(choices: tuple[AnswerChoice, ...], *, is_numbered: bool = False) -> list[str]:
    """Return the choices, one on each line, safe for a terminal; numbered for screen readers and plain terminals."""
    if is_numbered:
        return [f"  {number}. {_on_one_line(choice.label)}" for number, choice in enumerate(choices, 1)]
    return [f"  [{choice.key}] {_on_one_line(choice.label)}" for choice in choices]


def _pattern_of(request: PermissionAsked) -> str:
    """Return what questions of the same pattern have in common: the widest offer, or else exactly what is asked for."""
    widest: Offer | None = request.offers[-1] if request.offers else None
    what = ", ".join(request.patterns) if widest is None else widest.text
    return f"{request.permission} {what}"


def _on_one_line(text: str) -> str:
    return escape_on_one_line(escape_unseen(text))
