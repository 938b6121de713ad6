"""What the person at the keyboard says: answers to the open question, and otherwise words to the model."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

import attrs
import trio

from engine.cli.keyboard import Keyboard
from engine.cli.render import telling_argument
from engine.cli.screen import Screen
from engine.cli.text import Symbols, visible
from engine.errors import RequestNotFound, ToolError, TurnOver
from engine.events import PermissionAnswered, PermissionAsked
from engine.session import Always, Answer, Once, Reject, Turn
from engine.threads import to_thread
from engine.tools.arguments import parse
from engine.tools.builtin.changes import changes
from engine.tools.builtin.files import read_text, resolve
from engine.tools.builtin.write import Write

_WORDS: Final[dict[str, Answer]] = {
    **dict.fromkeys(("o", "once", "y", "yes"), Once()),
    **dict.fromkeys(("a", "always"), Always()),
    **dict.fromkeys(("r", "reject", "n", "no"), Reject()),
}
_NOBODY: Final = Reject(feedback="nobody can answer any more: the keyboard is closed")


def answer_of(line: str) -> Answer | None:
    """Return the answer that *line* gives; any other words are why not. None: nothing was said."""
    words = line.strip()
    return (_WORDS.get(words.lower()) or Reject(feedback=words)) if words else None


def question(asked: PermissionAsked, detail: str, symbols: Symbols) -> str:
    """Return a question as a person reads it: who wants what, shown in full."""
    what = "\n".join(f"    {line}" for line in visible(detail or ", ".join(asked.patterns)).splitlines())
    return f"{symbols.running} {visible(asked.tool)} asks for the permission: {visible(asked.permission)}\n{what}\n"


def choices(asked: PermissionAsked) -> str:
    """Return the line that waits for the answer."""
    scope = visible((asked.offers or asked.patterns or (f"every {asked.permission}",))[0].partition("\n")[0])
    return f"  once (o), always in this session: {scope} (a), reject and stop (r), or type what to do instead: "


@attrs.define(eq=False, kw_only=True)
class Dialogue:
    """Reads the keyboard for one turn.

    One question is asked at a time. What was typed before it was shown does not
    answer it. Without a keyboard nobody is asked: the settings deny such calls.
    """

    turn: Turn
    keyboard: Keyboard
    screen: Screen
    _open: list[tuple[PermissionAsked, str]] = attrs.field(factory=list[tuple[PermissionAsked, str]], init=False)
    _is_shown: bool = attrs.field(default=False, init=False)
    _is_closed: bool = attrs.field(default=False, init=False)
    _asked: trio.Event = attrs.field(factory=trio.Event, init=False)

    def ask(self, asked: PermissionAsked, detail: str) -> None:
        """Ask, as soon as no other question is open. Not a checkpoint."""
        self._open.append((asked, detail))
        self._asked.set()
        if len(self._open) == 1:
            self._show()

    def answered(self, event: PermissionAnswered) -> None:
        """A question is settled: by us, by a grant, or because its call is gone. Not a checkpoint."""
        if self._is_shown and self._open[0][0].request_id == event.request_id:
            self._is_shown = False
            self.screen.say(f"  (settled: {event.answer})\n")
        self._open = [(asked, detail) for asked, detail in self._open if asked.request_id != event.request_id]
        if self._open and not self._is_shown:
            self._show()

    async def run(self) -> None:
        """Take lines until cancelled; when there are no more, reject what is asked. Always a checkpoint."""
        while (line := await self.keyboard.read_line()) is not None:
            self.screen.line_was_typed()
            if self._is_shown:
                await self._answer(line)
            elif line.strip():
                self._steer(line)
        self._is_closed = True
        while True:
            while self._open:
                await self._reply(_NOBODY)
            self._asked = trio.Event()
            await self._asked.wait()

    def _show(self) -> None:
        if self._is_closed:
            return
        asked, detail = self._open[0]
        self.keyboard.forget()
        self._is_shown = True
        self.screen.prompt(question(asked, detail, self.screen.symbols) + choices(asked))

    async def _answer(self, line: str) -> None:
        answer = answer_of(line)
        if answer is None:
            self.screen.prompt(choices(self._open[0][0]))
        else:
            await self._reply(answer)

    async def _reply(self, answer: Answer) -> None:
        asked, _ = self._open.pop(0)
        self._is_shown = False  # the next one is shown when this one's event tells that it is settled
        with suppress(RequestNotFound):  # it was settled a moment ago
            await self.turn.reply(asked.request_id, answer)

    def _steer(self, line: str) -> None:
        try:
            self.turn.steer(line)
        except TurnOver:
            self.screen.say("  (too late: the turn is over)\n")
        else:
            self.screen.say("  (the model will read this before its next step)\n")


async def detail_of(asked: PermissionAsked, arguments: str, cwd: str) -> str:
    """Return what to show of a call that asks: for a whole file, what would change in it. A checkpoint."""
    if asked.tool != "write":
        return asked.detail or telling_argument(arguments)
    return await to_thread(_changes_of, arguments, cwd) or asked.detail


def _changes_of(arguments: str, cwd: str) -> str:
    try:
        wanted = parse(Write, arguments)
        path = resolve(cwd, wanted.path)
        return changes(wanted.path, read_text(wanted.path, path).text, wanted.content)
    except ToolError:  # a new file, or one that is no text
        return ""
