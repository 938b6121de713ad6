"""`AnswerGuard`: whether what is typed may answer a question, or belongs to the message that the user is writing.

A question appears while the user may be typing a message. A key answers only if it can't have been
meant for that message:

- the draft of the message is empty;
- no key of a message came in the 0.7 seconds before the question was painted, nor since;
- the answer to the question before is 0.7 seconds old: a key that bounces answers once;
- and so is the Enter that has sent a message. What was typed until then is finished: it delays an answer, and closes nothing.

After anything else, the question waits until the user moves to it on purpose (`focus`, the Tab key), or until
it is painted again. Where only whole lines are seen, silence reopens it (`note_silence`). Pure: time is an argument,
in seconds of any clock that never goes back.
"""

from __future__ import annotations

from math import inf
from typing import Final

import attrs

QUIET_SECONDS: Final = 0.7
# A key that comes sooner after the painting can't be a response to it.
REACTION_SECONDS: Final = 0.25


@attrs.define(eq=False)
class AnswerGuard:
    """Decides whether a key may answer the question on the screen.

    Attributes:
        quiet: how long no message must have been typed.
        reaction: how long a user needs at least to read a question that was just painted.
    """

    quiet: float = QUIET_SECONDS
    reaction: float = REACTION_SECONDS
    _last_typed: float = attrs.field(default=-inf, init=False)
    # When an answer was given or a message was sent: what was typed until then has done its work.
    _last_finished: float = attrs.field(default=-inf, init=False)
    _not_before: float = attrs.field(default=inf, init=False)
    _is_open: bool = attrs.field(default=False, init=False)
    _has_focus: bool = attrs.field(default=False, init=False)

    @property
    def is_open(self) -> bool:
        """Whether keys may answer without a move to the question, if the draft is empty."""
        return self._is_open

    @property
    def has_focus(self) -> bool:
        """Whether the user has moved to the question on purpose."""
        return self._has_focus

    def paint(self, now: float, *, has_draft: bool = False) -> None:
        """Note that a question is on the screen from now on. *has_draft*: a message is being written."""
        self._has_focus = False
        self._is_open = not has_draft and now - self._last_typed >= self.quiet
        self._not_before = max(now + self.reaction, self._last_finished + self.quiet)

    def note_typed(self, now: float) -> None:
        """Note that something was typed, or pasted, which is no answer."""
        self._last_typed = now
        self._is_open = False
        self._has_focus = False

    def note_sent(self, now: float) -> None:
        """Note that the message was sent, after `note_typed` for its last key: the next question is not typed over."""
        self._last_typed = -inf
        self._last_finished = now

    def note_silence(self) -> None:
        """Note that nothing was typed for as long as it takes, and that nothing is being written."""
        self._is_open = True

    def note_answer(self, now: float) -> None:
        """Note that a key has answered the question: the next one needs a key of its own."""
        self._last_finished = now
        self._has_focus = False
        self._is_open = False

    def focus(self) -> None:
        """Move to the question on purpose."""
        self._has_focus = True

    def blur(self) -> None:
        """Move back to the message."""
        self._has_focus = False

    def allows(self, now: float, *, has_draft: bool) -> bool:
        """Return whether a key that comes now may answer. *has_draft*: a message is being written."""
        if self._has_focus:
            return True
        return self._is_open and not has_draft and now >= self._not_before
