"""Lines that the user types during a turn: answers to the open question, or else messages to the model."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import Final, Literal, assert_never, cast

import attrs
import trio

from engine.cli.keyboard import Keyboard
from engine.cli.render import main_argument
from engine.cli.terminal import Screen
from engine.cli.terminal_text import Symbols, clock_time, escape_control_chars, escape_on_one_line
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

OpenQuestion = PermissionAsked | RecoveryAsked | QuestionAsked

_ANSWERS: Final[dict[str, Answer]] = {
    **dict.fromkeys(("o", "once", "y", "yes"), Once()),
    **dict.fromkeys(("a", "always"), Always()),
    **dict.fromkeys(("p", "project"), Always(scope="project")),
    **dict.fromkeys(("r", "reject", "n", "no"), Reject()),
}
# What a call does that needs a permission; tools of the host may use other permissions.
_ACTIONS: Final[dict[str, str]] = {
    "bash": "run this command",
    "edit": "change this file",
    "read": "read this",
    "outside": "access this path outside of the project",
    "task": "start this sub-agent",
}
MAX_OFFERS: Final = 4
_MAX_TASK_CHARS: Final = 100
_RECOVERIES: Final[dict[str, Literal["wait", "stop"]]] = {
    **dict.fromkeys(("w", "wait"), "wait"),
    **dict.fromkeys(("s", "stop"), "stop"),
}
_KEYBOARD_CLOSED: Final = Reject(feedback="the user can't answer: standard input is closed")


def parse_answer(line: str, request: PermissionAsked) -> Answer | None:
    """Parse an answer; any other text rejects the call and is its reason. None: the line is empty or no valid choice."""
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
    what = "\n".join(f"    {line}" for line in escape_control_chars(detail or ", ".join(request.patterns)).splitlines())
    text = f"{symbols.running} {escape_on_one_line(_allow_question(request))}\n{what}\n"
    others = [f"{right.permission} {right.pattern}" for right in request.rights if right.permission != "opaque"]
    if others := [other for other in others if not other.startswith(f"{request.permission} ")]:
        text += f"    also: {escape_on_one_line(', '.join(others))}\n"
    if request.opaque:
        text += f"    Cannot analyse this command: {escape_on_one_line(request.opaque)}\n"
    return text


def _allow_question(request: PermissionAsked) -> str:
    action = _ACTIONS.get(request.permission, f"use the permission {request.permission}")
    return f"Allow {request.tool} to {action}?"


def requester_line(request: OpenQuestion, task_arguments: str) -> str:
    """Return which sub-agent asks, from the arguments of the call that started it; empty if the session itself asks."""
    if len(request.path) == 1:
        return ""
    try:
        parsed = cast("object", json.loads(task_arguments or "{}"))
    except (ValueError, RecursionError):
        parsed = {}
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
    # Every line of a model's question is indented: none can pass for a question of the engine.
    permission_question = escape_control_chars(request.question).replace("\n", "\n    ")
    lines = [f"{symbols.running} {permission_question}"]
    for number, choice in enumerate(request.choices, 1):
        more = f": {escape_on_one_line(choice.description)}" if choice.description else ""
        lines.append(f"    {number}  {escape_on_one_line(choice.label)}{more}")
    return "\n".join(lines) + "\n"


def parse_choices(line: str, request: QuestionAsked) -> tuple[str, ...]:
    """Parse an answer: the labels whose numbers it holds, or its own text; empty: no answer."""
    words = line.strip()
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
    """Return what "always" would allow, each offer with the letter that selects it."""
    text = ""
    for number, offer in enumerate(request.offers[:MAX_OFFERS], 1):
        what = escape_on_one_line(offer.text)
        letters = f"a{number}" if len(request.offers) > 1 else "a"
        text += f"always in this session: {what} ({letters}), " if number == 1 else f"or {what} ({letters}), "
    return text + (f"the same for the whole project ({'p1' if len(request.offers) > 1 else 'p'}), " if text else "")


@attrs.define(eq=False, kw_only=True)
class Dialogue:
    """Reads the keyboard for one turn.

    Questions are shown one at a time. What was typed before a question appeared
    does not answer it. Without a keyboard there are no questions: the settings
    deny such calls.
    """

    turn: Turn
    keyboard: Keyboard
    screen: Screen
    _open: list[tuple[OpenQuestion, str]] = attrs.field(factory=list[tuple[OpenQuestion, str]], init=False)
    _is_shown: bool = attrs.field(default=False, init=False)
    _is_closed: bool = attrs.field(default=False, init=False)
    _question_added: trio.Event = attrs.field(factory=trio.Event, init=False)

    def ask(self, request: OpenQuestion, detail: str = "", task_arguments: str = "") -> None:
        """Show a question as soon as no other one is open. Not a checkpoint.

        Args:
            request: the question.
            detail: for a permission, what the call would do.
            task_arguments: for a sub-agent's question, the arguments of the call that started it.
        """
        self._open.append((request, self._render(request, detail) + requester_line(request, task_arguments)))
        self._question_added.set()
        if len(self._open) == 1:
            self._show()

    def answered(self, event: PermissionAnswered | RecoveryAnswered | QuestionAnswered) -> None:
        """Close a question that was answered here, by a grant, or because its call has ended. Not a checkpoint."""
        if self._is_shown and self._open[0][0].request_id == event.request_id:
            self._is_shown = False
            how = event.outcome if isinstance(event, QuestionAnswered) else event.answer
            self.screen.add_lines(f"  (settled: {how})\n")
        self._open = [(request, text) for request, text in self._open if request.request_id != event.request_id]
        if self._open and not self._is_shown:
            self._show()

    async def run(self) -> None:
        """Handle typed lines until cancelled; after the last one, reject every question. Always a checkpoint."""
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
                await self._reject_open_question()
            self._question_added = trio.Event()
            await self._question_added.wait()

    def _show(self) -> None:
        if self._is_closed:
            return
        request, text = self._open[0]
        self.keyboard.forget()
        self._is_shown = True
        self.screen.prompt(text + answer_prompt(request))

    def _render(self, request: OpenQuestion, detail: str) -> str:
        match request:
            case PermissionAsked():
                return permission_question(request, detail, self.screen.symbols)
            case RecoveryAsked():
                return recovery_question(request, self.screen.symbols)
            case QuestionAsked():
                return tool_question(request, self.screen.symbols)
            case _:
                assert_never(request)

    async def _answer(self, line: str) -> None:
        request = self._open[0][0]
        if isinstance(request, RecoveryAsked):
            await self._recover(request, line.strip())
            return
        if isinstance(request, QuestionAsked):
            self._close(request)
            with suppress(RequestNotFound):
                await self.turn.answer(request.request_id, *parse_choices(line, request))
            return
        answer = parse_answer(line, request)
        if answer is None:
            self.screen.prompt(answer_prompt(request))
        else:
            await self._reply(request, answer)

    async def _reply(self, request: PermissionAsked, answer: Answer) -> None:
        self._close(request)
        try:
            await self.turn.reply(request.request_id, answer)
        except ConfigError as error:  # say, there is no project to allow it for: the question stays open
            self._open.insert(0, (request, ""))
            self._is_shown = True
            self.screen.prompt(f"  {escape_control_chars(str(error))}\n{answer_prompt(request)}")
        except RequestNotFound:  # it was answered elsewhere a moment ago
            pass

    async def _recover(self, request: RecoveryAsked, words: str) -> None:
        way = _RECOVERIES.get(words.lower())
        try:
            if way is not None:
                await self.turn.recover(request.request_id, way)
            elif words:
                await self.turn.recover(request.request_id, "switch", model=words)
            else:
                self.screen.prompt(answer_prompt(request))
        except ConfigError as error:  # no such model, or no key for it: the question stays open
            self.screen.prompt(f"  {escape_control_chars(str(error))}\n{answer_prompt(request)}")
        except RequestNotFound:  # it was answered elsewhere a moment ago
            pass

    async def _reject_open_question(self) -> None:
        request = self._open[0][0]
        if isinstance(request, PermissionAsked):
            await self._reply(request, _KEYBOARD_CLOSED)
            return
        self._close(request)
        with suppress(RequestNotFound):
            if isinstance(request, QuestionAsked):
                await self.turn.answer(request.request_id)
            else:
                await self.turn.recover(request.request_id, "stop")

    def _close(self, request: OpenQuestion) -> None:
        """Remove a question that is being answered; the next one is shown when the event of the answer arrives."""
        self._open = [(other, text) for other, text in self._open if other is not request]
        self._is_shown = False

    def _steer(self, line: str) -> None:
        try:
            self.turn.steer(line)
        except TurnOver:
            self.screen.add_lines("  (the turn has ended: it will not be read)\n")
        else:
            self.screen.add_lines("  (the model will read this before its next step)\n")


def permission_detail(request: PermissionAsked, arguments: str) -> str:
    """Return what to show of a call that needs permission: its tool's own description, or its main argument."""
    return request.detail or main_argument(arguments)
