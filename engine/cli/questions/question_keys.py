"""`QuestionKeys`: single keys at a question for permission, while a message is being written. Pure.

The question never takes the keys: each one that may not answer is returned as text, and belongs to the message.
"""

from __future__ import annotations

from typing import Final

import attrs

from engine.cli.questions.answer_guard import AnswerGuard
from engine.cli.questions.permission_answers import PermissionOutcome, ShowDetails, outcome_of
from engine.cli.questions.permission_view import PermissionView

TAB: Final = "\t"
# Enter belongs to the message: it never allows anything.
_ENTER: Final = frozenset({"\r", "\n"})


@attrs.frozen
class Typed:
    """It answers nothing: *text* is a part of the message, Enter included."""

    text: str


@attrs.frozen
class Focused:
    """The Tab key: keys answer from now on, or again belong to the message."""

    is_focused: bool


@attrs.frozen
class Pending:
    """The beginning of a choice that has several keys: `a` of `a2`, `y` of `yes`."""

    keys: str


KeyOutcome = PermissionOutcome | Typed | Focused | Pending


@attrs.define(eq=False)
class QuestionKeys:
    """The keys at one question after the other."""

    guard: AnswerGuard = attrs.field(factory=AnswerGuard)
    _view: PermissionView | None = attrs.field(default=None, init=False)
    _same: int = attrs.field(default=1, init=False)
    _pending: str = attrs.field(default="", init=False)

    def paint(self, view: PermissionView, now: float, *, same: int = 1, has_draft: bool = False) -> str:
        """Note which question is on the screen; return keys that are text after all: they were for the one before."""
        rest, self._pending = self._pending, ""
        if rest:
            self.guard.note_typed(now)
        self._view, self._same = view, same
        self.guard.paint(now, has_draft=has_draft or bool(rest))
        return rest

    def close(self) -> str:
        """Note that no question is on the screen; return keys that are text after all."""
        rest, self._pending = self._pending, ""
        self._view = None
        return rest

    def press(self, key: str, now: float, *, has_draft: bool) -> KeyOutcome:
        """Return what a key does: a character, `TAB`, or Enter."""
        if self._view is None or key in _ENTER:
            return self._text(key, now)
        if key == TAB:
            return self._tab()
        if not self._pending and not self.guard.allows(now, has_draft=has_draft):
            return self._text(key, now)
        return self._choose(self._pending + key, self._view, now) or self._text(key, now)

    def paste(self, text: str, now: float) -> Typed:
        """Return what pasted text does: it never answers."""
        return self._text(text, now)

    def _choose(self, keys: str, view: PermissionView, now: float) -> KeyOutcome | None:
        """Return what the choice does that *keys* select, or begin; None if there is none."""
        choices = {choice.key: choice for choice in view.choices(same=self._same)}
        # "A" and "a" are two choices where both are shown; everywhere else case makes no difference.
        choice = choices.get(keys) or choices.get(keys.lower())
        if choice is not None:
            self._pending = ""
            outcome = outcome_of(choice)
            # A user who reads the details answers next.
            if not isinstance(outcome, ShowDetails):
                self.guard.note_answer(now)
            return outcome
        if any(key.startswith(keys.lower()) for key in choices):
            self._pending = keys
            return Pending(keys)
        return None

    def _tab(self) -> Focused:
        if self.guard.has_focus:
            self.guard.blur()
        else:
            self.guard.focus()
        return Focused(self.guard.has_focus)

    def _text(self, text: str, now: float) -> Typed:
        rest, self._pending = self._pending, ""
        self.guard.note_typed(now)
        return Typed(rest + text)
