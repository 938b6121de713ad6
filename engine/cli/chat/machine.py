"""The chat as a pure machine: keys and events go in, lines to print and things to do come out.

It knows no terminal, no session and no clock. `layout` draws what it holds; a driver carries out its effects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import attrs

from engine.cli.chat import effects as do
from engine.cli.chat.chat_events import ChatEvent, ChatRemark
from engine.cli.chat.display.transcript_view import TranscriptView
from engine.cli.chat.editor.composer import Composer
from engine.cli.chat.editor.key_decoder import Key, KeyInput, PastedText, TypedText
from engine.cli.chat.outbox import Outbox, OutgoingMessage
from engine.cli.chat.picker import Chosen, Closed, Picker, PickerItem, PickerRequest
from engine.cli.chat.question_queue import Details, Hint, QuestionOutcome, QuestionQueue
from engine.cli.chat.slash_commands import COMMANDS, SlashCommand, find_command, is_command_line, matching_commands
from engine.cli.chat.status_facts import StatusFacts
from engine.cli.questions.question_keys import Typed
from engine.cli.terminal.terminal_text import escape_on_one_line
from engine.core import events as ev
from engine.core.ids import InputId, TurnId
from engine.journal.state import Resync

# Ctrl-C at an empty prompt: a second one within this time leaves.
LEAVE_SECONDS: Final = 2.0
_TURNS_SHOWN: Final = 2
# The picker of the history puts its choice into the composer.
HISTORY: Final = "history"
# What Shift+Tab goes through; never the one that allows everything.
_PROFILES: Final = ("ask", "auto-edit", "read-only")


@attrs.define(eq=False)
class ChatMachine:
    """The state of the chat.

    Attributes:
        view: what is shown of the session.
        facts: what the status line tells of it.
        composer: the draft.
        questions: the open questions.
        outbox: the messages that the model has not read.
        notice: a short remark in the status line.
        is_accessible: nothing is redrawn: what changes is printed as lines.
        commands: those that can be typed.
        picker: a list that is open.
        turn_id: the turn that runs.
        is_cancelling: it has a cause to end.
    """

    view: TranscriptView
    facts: StatusFacts
    questions: QuestionQueue
    _new_input_id: Callable[[], str]
    composer: Composer = attrs.field(factory=Composer)
    outbox: Outbox = attrs.field(factory=Outbox, init=False)
    notice: str = attrs.field(default="", init=False)
    is_accessible: bool = False
    commands: tuple[SlashCommand, ...] = COMMANDS
    picker: Picker | None = attrs.field(default=None, init=False)
    turn_id: TurnId | None = attrs.field(default=None, init=False)
    is_cancelling: bool = attrs.field(default=False, init=False)
    _is_attached: bool = attrs.field(default=False, init=False)
    _leave_before: float = attrs.field(default=float("-inf"), init=False)
    _handlers: dict[str, Callable[[float], Iterator[do.Effect]]] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._handlers = {
            "enter": self._enter,
            "alt+enter": self._queue,
            "escape": self._escape,
            "ctrl+c": self._interrupt,
            "tab": self._tab,
            "ctrl+z": self._suspend,
            "ctrl+l": self._redraw,
            "ctrl+g": self._edit,
            "ctrl+r": self._search,
            "shift+tab": self._next_profile,
        }

    @property
    def draft(self) -> str:
        """What the user has written and the session does not have."""
        unsent = [message.text for message in self.outbox.messages if message.state == "unsent"]
        return "\n\n".join([*unsent, *([] if self.composer.is_empty else [self.composer.text])])

    # -- what comes in -----------------------------------------------------------------------------

    def handle_key(self, event: KeyInput, now: float) -> list[do.Effect]:
        """Handle a key, typed text or a paste; *now* is a monotonic time."""
        # The last remark has been read.
        self.notice = ""
        return list(self._input(event, now))

    def handle_line(self, line: str, now: float) -> list[do.Effect]:
        """Handle a whole line, where keys are not seen."""
        self.notice = ""
        if self.picker is not None:
            return list(self._picked(self.picker.choose_line(line)))
        outcome = None if is_command_line(line) else self.questions.choose_line(line, now)
        if outcome is not None:
            return list(self._question_outcome(outcome))
        if line.strip():
            draft = "" if self.composer.is_empty else f"{self.composer.text}\n"
            self.composer.replace(draft + line)
        return list(self._enter(now))

    def handle_event(self, event: ChatEvent, now: float) -> list[do.Effect]:
        """Handle an event of the session."""
        if isinstance(event, ChatRemark):
            return [self._note(event.text)]
        lines = self._resync(event) if isinstance(event, Resync) else self._event(event)
        shown, typed = self.questions.show_next(now, has_draft=bool(self.composer.buffer.text))
        self.composer.type(typed)
        return [do.Print((*lines, *shown))] if lines or shown else []

    def handle_failure(self, failure: do.EffectFailure) -> list[do.Effect]:
        """Handle that something could not be done."""
        effect = failure.effect
        if isinstance(effect, (do.AnswerTool, do.Recover)):
            self.questions.reopen(effect.request_id)
        elif isinstance(effect, do.ReplyPermission):
            for request_id in effect.request_ids:
                self.questions.reopen(request_id)
        elif isinstance(effect, (do.SendPrompt, do.SendSteer, do.SendQueued)):
            return self._unsent(effect, failure)
        return [self._note(failure.message)]

    def tick_after(self, now: float) -> float | None:
        """Return after how many seconds the screen changes by itself; None: it does not."""
        if self.turn_id is not None:
            return 1.0
        if self.notice and now < self._leave_before:
            return self._leave_before - now
        return None

    def handle_tick(self, now: float) -> None:
        """Let go of what has an end."""
        if now >= self._leave_before > float("-inf"):
            self._leave_before = float("-inf")
            self.notice = ""

    # -- keys --------------------------------------------------------------------------------------

    def _input(self, event: KeyInput, now: float) -> Iterator[do.Effect]:
        if self.picker is not None:
            yield from self._pick(self.picker, event)
        elif self.questions.is_typing:
            yield from self._answer_input(event)
        elif isinstance(event, TypedText):
            outcome = self.questions.press(event.text, now, has_draft=bool(self.composer.buffer.text))
            yield from self._question_outcome(outcome)
        else:
            if not (isinstance(event, Key) and event.name == "tab"):
                self.composer.type(self.questions.note_typed(now))
            if isinstance(event, PastedText):
                self.composer.paste(event.text)
            else:
                yield from self._pressed(event, now)

    def _question_outcome(self, outcome: QuestionOutcome) -> Iterator[do.Effect]:
        match outcome:
            case Typed():
                self.composer.type(outcome.text)
            case Hint():
                self.notice = outcome.text
            case Details():
                yield do.Print(outcome.lines)
            case _:
                yield outcome

    def _pressed(self, key: Key, now: float) -> Iterator[do.Effect]:
        handler = self._handlers.get(key.name)
        if handler is not None:
            yield from handler(now)
        elif (
            key.name in {"up", "ctrl+p"} and self.composer.buffer.text == "" and self.outbox.last_waiting() is not None
        ):
            yield from self._take_back()
        elif not (key.name == "ctrl+d" and not self.composer.buffer.text):
            self.composer.press(key)
        else:
            yield do.Leave()

    def _enter(self, now: float) -> Iterator[do.Effect]:
        del now
        buffer = self.composer.buffer
        if buffer.text[: buffer.cursor].endswith("\\"):
            buffer.delete_back()
            buffer.insert("\n")
        elif is_command_line(self.composer.text):
            yield from self._command(self.composer.text)
        elif not self.composer.is_empty:
            yield self._send(self.composer.take())
        elif self.turn_id is not None:
            yield do.SkipWait(self.turn_id)
        elif self.outbox.can_merge:
            yield self._send("")

    def _queue(self, now: float) -> Iterator[do.Effect]:
        if self.turn_id is None or self.composer.is_empty or is_command_line(self.composer.text):
            yield from self._enter(now)
            return
        message = OutgoingMessage(InputId(self._new_input_id()), self.composer.take(), "queue", "sending")
        self.outbox.add(message)
        yield do.SendQueued(message.input_id, message.text)

    def _escape(self, now: float) -> Iterator[do.Effect]:
        del now
        if self.questions.has_focus:
            self.questions.leave()
        elif self.turn_id is not None:
            yield from self._cancel()

    def _interrupt(self, now: float) -> Iterator[do.Effect]:
        """Handle Ctrl-C."""
        if self.turn_id is not None:
            if self.is_cancelling:
                yield do.Leave(at_once=True)
            else:
                yield from self._cancel()
        elif self.composer.buffer.text:
            self.composer.take()
            self.notice = "Up brings the draft back"
        elif now < self._leave_before:
            yield do.Leave()
        else:
            self._leave_before = now + LEAVE_SECONDS
            self.notice = "Ctrl+C again to quit"

    def _tab(self, now: float) -> Iterator[do.Effect]:
        commands = matching_commands(self.composer.text, self.commands)
        if len(commands) == 1:
            self.composer.replace(f"/{commands[0].name} ")
        elif not commands and not self.questions.toggle_focus(now):
            yield from ()

    def _search(self, now: float) -> Iterator[do.Effect]:
        """Search the history."""
        del now
        entries = list(dict.fromkeys(reversed(self.composer.history.everywhere)))
        if entries:
            items = tuple(PickerItem(entry, entry) for entry in entries)
            yield from self.open_picker(PickerRequest(HISTORY, "History", items))
        else:
            self.notice = "The history is empty"

    def _next_profile(self, now: float) -> Iterator[do.Effect]:
        del now
        current = self.facts.profile
        index = _PROFILES.index(current) + 1 if current in _PROFILES else 0
        yield do.RunCommand("profile", _PROFILES[index % len(_PROFILES)])

    def _suspend(self, now: float) -> Iterator[do.Effect]:
        del now
        yield do.Suspend()

    def _redraw(self, now: float) -> Iterator[do.Effect]:
        del now
        yield do.Redraw()

    def _edit(self, now: float) -> Iterator[do.Effect]:
        del now
        yield do.EditExternally()

    def _cancel(self) -> Iterator[do.Effect]:
        assert self.turn_id is not None
        if not self.is_cancelling:
            self.is_cancelling = True
            yield do.CancelTurn(self.turn_id)

    # -- lists ---------------------------------------------------------------------------------------

    def open_picker(self, request: PickerRequest) -> list[do.Effect]:
        """Show a list to choose from."""
        self.picker = Picker(request)
        return [do.Print(tuple(self.picker.numbered_lines()))] if self.is_accessible else []

    def _pick(self, picker: Picker, event: KeyInput) -> Iterator[do.Effect]:
        yield from self._picked(picker.press(event))

    def _picked(self, outcome: Chosen | Closed | list[str] | None) -> Iterator[do.Effect]:
        picker = self.picker
        assert picker is not None
        match outcome:
            case Chosen(value=value):
                self.picker = None
                if picker.request.command == HISTORY:
                    self.composer.replace(value)
                else:
                    yield do.RunCommand(picker.request.command, value)
            case Closed():
                self.picker = None
            case list():
                yield do.Print(tuple(outcome))
            case None:
                pass

    # -- messages ------------------------------------------------------------------------------------

    def send_text(self, text: str) -> list[do.Effect]:
        """Send a text that was not typed: that of a command of the user's own."""
        return [self._send(text)]

    def _send(self, text: str) -> do.Effect:
        """Send *text*: to the running turn, or as a prompt together with all that waits."""
        input_id = InputId(self._new_input_id())
        if self.turn_id is not None and not self.is_cancelling:
            self.outbox.add(OutgoingMessage(input_id, text, "steer", "sending"))
            return do.SendSteer(input_id, self.turn_id, text)
        if self.turn_id is not None:
            # The turn is ending: what is sent now waits for the next one.
            self.outbox.add(OutgoingMessage(input_id, text, "queue", "sending"))
            return do.SendQueued(input_id, text)
        return do.SendPrompt(input_id, self.outbox.merge(input_id, text).parts)

    def _unsent(self, effect: do.Send, failure: do.EffectFailure) -> list[do.Effect]:
        message = self.outbox.fail(effect.input_id, failure.removed)
        if message is None:
            return []
        if self.composer.is_empty:
            # Where it came from: Enter sends it again.
            self.outbox.discard(effect.input_id)
            self.composer.replace(message.text)
        if failure.is_turn_over:
            return [self._note("The turn has ended. Enter sends this as a new message.")]
        return [self._note(f"Not sent: {failure.message}")]

    def _take_back(self) -> Iterator[do.Effect]:
        message = self.outbox.last_waiting()
        assert message is not None
        if message.state == "unsent":
            self.outbox.discard(message.input_id)
            self.composer.replace(message.text)
        elif not message.is_returning:
            self.outbox.begin_return(message.input_id)
            yield do.TakeBack(message.input_id)

    def _command(self, line: str) -> Iterator[do.Effect]:
        name, _, argument = line.strip()[1:].partition(" ")
        found = find_command(name, self.commands)
        if isinstance(found, str):
            # It stays in the composer, and is never sent to the model.
            self.notice = found
            return
        if found.needs_idle and self.turn_id is not None:
            self.notice = f"/{found.name} works after this turn"
            return
        self.composer.take()
        match found.name:
            case "editor":
                yield do.EditExternally()
            case "cancel" if self.turn_id is not None:
                yield from self._cancel()
            case "later":
                self.composer.replace(argument)
                yield from self._queue(0.0)
            case "answer":
                yield from self._question_outcome(self.questions.answer_in_words(argument))
            case _:
                yield do.RunCommand(found.name, argument.strip())

    # -- answers -------------------------------------------------------------------------------------

    def _answer_input(self, event: KeyInput) -> Iterator[do.Effect]:
        """Handle a key while an answer is being written in words."""
        line = self.questions.answer_line
        if isinstance(event, (PastedText, TypedText)):
            line.insert(event.text.replace("\n", " "))
        elif event.name in {"tab", "escape", "ctrl+c"}:
            self.questions.leave()
        elif event.name == "enter":
            yield from self._question_outcome(self.questions.enter_answer())
        else:
            self.composer.edit(line, event)

    # -- events --------------------------------------------------------------------------------------

    def _event(self, event: ev.Durable | ev.Live) -> list[str]:
        self.facts.feed(event)
        settled = self.questions.feed(event)
        lines = self.view.feed(event)
        if settled:
            lines.append(self._noted(settled))
        if len(event.path) <= 1:
            lines += self._own_event(event)
        return lines

    def _own_event(self, event: ev.Durable | ev.Live) -> list[str]:
        match event:
            case ev.TurnStarted() | ev.TurnResumed():
                self.turn_id, self.is_cancelling = event.turn_id, False
            case ev.TurnEnding():
                self.is_cancelling = True
            case ev.TurnEnded():
                self.turn_id, self.is_cancelling = None, False
            case ev.InputPromoted():
                delivered = self.outbox.feed(event)
                return [] if delivered is None else self.view.prompt_lines(delivered.text)
            case ev.InputAdmitted() | ev.InputEdited() | ev.InputRemoved():
                self._take(self.outbox.feed(event))
                return self._queued_lines(event)
            case _:
                pass
        return []

    def _queued_lines(self, event: ev.InputAdmitted | ev.InputEdited | ev.InputRemoved) -> list[str]:
        """Return what says that a message waits, where the list of them is not shown."""
        if not self.is_accessible or not isinstance(event, ev.InputAdmitted) or event.message.origin == "engine":
            return []
        places = {"prompt": "", "steer": "Queued for the next step.", "queue": "Queued for after this turn."}
        return [self._noted(places[event.mode])] if places[event.mode] else []

    def _take(self, message: OutgoingMessage | None) -> None:
        """Put a message that was taken back into the composer."""
        if message is None:
            return
        if self.composer.is_empty:
            self.composer.replace(message.text)
        else:
            self.composer.replace(f"{message.text}\n{self.composer.buffer.text}")

    def _resync(self, resync: Resync) -> list[str]:
        state = resync.state
        self.facts.replace(state)
        self.turn_id = None if state.turn is None else state.turn.turn_id
        self.is_cancelling = state.turn is not None and state.turn.ending is not None
        self.outbox.replace(state.inbox)
        self.questions.replace(resync.open_questions)
        lines: list[str] = []
        if not self._is_attached:
            self._is_attached = True
            lines += self.view.history(state, _TURNS_SHOWN)
        else:
            lines.append(self._noted("the output above may be incomplete"))
        return lines + self.view.show_state(resync)

    # -- notes ---------------------------------------------------------------------------------------

    def _note(self, text: str) -> do.Effect:
        return do.Print((self._noted(text),))

    def _noted(self, text: str) -> str:
        return f"{self.view.symbols.note} {escape_on_one_line(text)}"
