"""What the person at the keyboard says: answers to the open question, and otherwise words to the model."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import Final, Literal, assert_never, cast

import attrs
import trio

from engine.cli.keyboard import Keyboard
from engine.cli.render import telling_argument
from engine.cli.terminal import Screen
from engine.cli.terminal_text import Symbols, clock_time, on_a_line, visible
from engine.core.errors import ConfigError, RequestNotFound, TurnOver
from engine.core.events import (
    PermissionAnswered,
    PermissionAsked,
    QuestionAnswered,
    QuestionAsked,
    RecoveryAnswered,
    RecoveryAsked,
)
from engine.session.answers import Always, Answer, Once, Reject
from engine.session.turn import Turn

Asked = PermissionAsked | RecoveryAsked | QuestionAsked

_WORDS: Final[dict[str, Answer]] = {
    **dict.fromkeys(("o", "once", "y", "yes"), Once()),
    **dict.fromkeys(("a", "always"), Always()),
    **dict.fromkeys(("p", "project"), Always(scope="project")),
    **dict.fromkeys(("r", "reject", "n", "no"), Reject()),
}
MAX_OFFERS: Final = 4
_MAX_WORK: Final = 100
_WAYS: Final[dict[str, Literal["wait", "stop"]]] = {
    **dict.fromkeys(("w", "wait"), "wait"),
    **dict.fromkeys(("s", "stop"), "stop"),
}
_NOBODY: Final = Reject(feedback="nobody can answer any more: the keyboard is closed")


def answer_of(line: str, asked: PermissionAsked) -> Answer | None:
    """Return the answer that *line* gives; any other words are why not. None: nothing was said that can be meant."""
    words = line.strip()
    if not words:
        return None
    known = _WORDS.get(words.lower())
    if known is None and (numbered := re.fullmatch(r"([ap])([1-9])", words.lower())) is not None:
        known = Always(offer=int(numbered[2]) - 1, scope="session" if numbered[1] == "a" else "project")
    if isinstance(known, Always) and known.offer >= len(asked.offers[:MAX_OFFERS]):
        return None
    return known or Reject(feedback=words)


def question(asked: PermissionAsked, detail: str, symbols: Symbols) -> str:
    """Return a question as a person reads it: who wants what, shown in full."""
    what = "\n".join(f"    {line}" for line in visible(detail or ", ".join(asked.patterns)).splitlines())
    told = f"{symbols.running} {visible(asked.tool)} asks for the permission: {visible(asked.permission)}\n{what}\n"
    others = [f"{right.permission} {right.pattern}" for right in asked.rights if right.permission != "opaque"]
    if others := [other for other in others if not other.startswith(f"{asked.permission} ")]:
        told += f"    and for: {on_a_line(', '.join(others))}\n"
    if asked.opaque:
        told += f"    Nobody can tell what this does before it runs: {on_a_line(asked.opaque)}\n"
    return told


def asker(asked: Asked, errand: str) -> str:
    """Return who asks, if that is a sub-agent, by the arguments of the call that sent it; nothing: it is the session itself."""
    if len(asked.path) == 1:
        return ""
    try:
        told = cast("object", json.loads(errand or "{}"))
    except (ValueError, RecursionError):
        told = {}
    name = cast("dict[str, object]", told).get("agent", "") if isinstance(told, dict) else ""
    who = f"the sub-agent {name}" if isinstance(name, str) and name else "a sub-agent"
    work = on_a_line(" ".join(telling_argument(errand).split()))
    shown = work if len(work) <= _MAX_WORK else f"{work[:_MAX_WORK]}…"
    return f"    asked by {on_a_line(who)}{f', at work on: {shown}' if work else ''}\n"


def trouble(asked: RecoveryAsked, symbols: Symbols) -> str:
    """Return what went wrong with a model, as a person reads it."""
    until = f"\n    the limit is lifted at {clock_time(asked.reset_at)}" if asked.reset_at is not None else ""
    return f"{symbols.running} {visible(asked.model)} can't be reached:\n    {visible(asked.message)}{until}\n"


def words_wanted(asked: QuestionAsked, symbols: Symbols) -> str:
    """Return a question of a tool as a person reads it, with the answers that it offers."""
    # What a model asks stands in from the edge, all of it: no line of it can pass for a question of ours.
    question = visible(asked.question).replace("\n", "\n    ")
    lines = [f"{symbols.running} {question}"]
    for number, choice in enumerate(asked.choices, 1):
        more = f": {on_a_line(choice.description)}" if choice.description else ""
        lines.append(f"    {number}  {on_a_line(choice.label)}{more}")
    return "\n".join(lines) + "\n"


def words_of(line: str, asked: QuestionAsked) -> tuple[str, ...]:
    """Return what a line says: the labels whose numbers it holds, or its own words; nothing: no answer."""
    words = line.strip()
    numbers = words.replace(",", " ").split()
    are_numbers = numbers and all(n.isascii() and n.isdigit() and 0 < int(n) <= len(asked.choices) for n in numbers)
    if are_numbers and (asked.several or len(numbers) == 1):
        return tuple(asked.choices[int(n) - 1].label for n in numbers)
    return (words,) if words else ()


def choices(asked: Asked) -> str:
    """Return the line that waits for the answer."""
    if isinstance(asked, QuestionAsked):
        if not asked.choices:
            return "  your answer, or an empty line for none: "
        return f"  a number{' or several' if asked.several else ''}, your own words, or an empty line for none: "
    if isinstance(asked, RecoveryAsked):
        return "  wait and try again (w), stop (s), or type the name of a model to go on with: "
    return f"  once (o), {_offers(asked)}reject and stop (r), or type what to do instead: "


def _offers(asked: PermissionAsked) -> str:
    """Return what "always" would allow, each offer with the letter that takes it."""
    told = ""
    for number, offer in enumerate(asked.offers[:MAX_OFFERS], 1):
        what = on_a_line(offer.text)
        letters = f"a{number}" if len(asked.offers) > 1 else "a"
        told += f"always in this session: {what} ({letters}), " if number == 1 else f"or {what} ({letters}), "
    return told + (f"the same for the whole project ({'p1' if len(asked.offers) > 1 else 'p'}), " if told else "")


@attrs.define(eq=False, kw_only=True)
class Dialogue:
    """Reads the keyboard for one turn.

    One question is asked at a time. What was typed before it was shown does not
    answer it. Without a keyboard nobody is asked: the settings deny such calls.
    """

    turn: Turn
    keyboard: Keyboard
    screen: Screen
    _open: list[tuple[Asked, str]] = attrs.field(factory=list[tuple[Asked, str]], init=False)
    _is_shown: bool = attrs.field(default=False, init=False)
    _is_closed: bool = attrs.field(default=False, init=False)
    _asked: trio.Event = attrs.field(factory=trio.Event, init=False)

    def ask(self, asked: Asked, detail: str = "", errand: str = "") -> None:
        """Ask, as soon as no other question is open. Not a checkpoint.

        Args:
            asked: what is asked.
            detail: of a permission, what the call would do.
            errand: of a sub-agent's question, the arguments of the call that sent it.
        """
        self._open.append((asked, self._told(asked, detail) + asker(asked, errand)))
        self._asked.set()
        if len(self._open) == 1:
            self._show()

    def answered(self, event: PermissionAnswered | RecoveryAnswered | QuestionAnswered) -> None:
        """A question is settled: by us, by a grant, or because its call is gone. Not a checkpoint."""
        if self._is_shown and self._open[0][0].request_id == event.request_id:
            self._is_shown = False
            how = event.outcome if isinstance(event, QuestionAnswered) else event.answer
            self.screen.say(f"  (settled: {how})\n")
        self._open = [(asked, told) for asked, told in self._open if asked.request_id != event.request_id]
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
            else:
                self.turn.skip_wait()
        self._is_closed = True
        while True:
            while self._open:
                await self._reply_for_nobody()
            self._asked = trio.Event()
            await self._asked.wait()

    def _show(self) -> None:
        if self._is_closed:
            return
        asked, told = self._open[0]
        self.keyboard.forget()
        self._is_shown = True
        self.screen.prompt(told + choices(asked))

    def _told(self, asked: Asked, detail: str) -> str:
        match asked:
            case PermissionAsked():
                return question(asked, detail, self.screen.symbols)
            case RecoveryAsked():
                return trouble(asked, self.screen.symbols)
            case QuestionAsked():
                return words_wanted(asked, self.screen.symbols)
            case _:
                assert_never(asked)

    async def _answer(self, line: str) -> None:
        asked = self._open[0][0]
        if isinstance(asked, RecoveryAsked):
            await self._recover(asked, line.strip())
            return
        if isinstance(asked, QuestionAsked):
            self._close(asked)
            with suppress(RequestNotFound):
                await self.turn.answer(asked.request_id, *words_of(line, asked))
            return
        answer = answer_of(line, asked)
        if answer is None:
            self.screen.prompt(choices(asked))
        else:
            await self._reply(asked, answer)

    async def _reply(self, asked: PermissionAsked, answer: Answer) -> None:
        self._close(asked)
        try:
            await self.turn.reply(asked.request_id, answer)
        except ConfigError as error:  # there is no project to allow it for: the question stays open
            self._open.insert(0, (asked, ""))
            self._is_shown = True
            self.screen.prompt(f"  {visible(str(error))}\n{choices(asked)}")
        except RequestNotFound:  # it was settled a moment ago
            pass

    async def _recover(self, asked: RecoveryAsked, words: str) -> None:
        way = _WAYS.get(words.lower())
        try:
            if way is not None:
                await self.turn.recover(asked.request_id, way)
            elif words:
                await self.turn.recover(asked.request_id, "switch", model=words)
            else:
                self.screen.prompt(choices(asked))
        except ConfigError as error:  # no such model, or no key for it: the question stays open
            self.screen.prompt(f"  {visible(str(error))}\n{choices(asked)}")
        except RequestNotFound:  # it was settled a moment ago
            pass

    async def _reply_for_nobody(self) -> None:
        asked = self._open[0][0]
        if isinstance(asked, PermissionAsked):
            await self._reply(asked, _NOBODY)
            return
        self._close(asked)
        with suppress(RequestNotFound):
            if isinstance(asked, QuestionAsked):
                await self.turn.answer(asked.request_id)
            else:
                await self.turn.recover(asked.request_id, "stop")

    def _close(self, asked: Asked) -> None:
        """Forget a question that is being answered: the next one is shown when its event tells that it is settled."""
        self._open = [(other, told) for other, told in self._open if other is not asked]
        self._is_shown = False

    def _steer(self, line: str) -> None:
        try:
            self.turn.steer(line)
        except TurnOver:
            self.screen.say("  (too late: the turn is over)\n")
        else:
            self.screen.say("  (the model will read this before its next step)\n")


def detail_of(asked: PermissionAsked, arguments: str) -> str:
    """Return what to show of a call that asks: what its tool tells, or the argument that tells most."""
    return asked.detail or telling_argument(arguments)
