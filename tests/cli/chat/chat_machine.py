"""A chat machine to press keys at, and a session that it talks to, as lists of effects and events."""

from itertools import count

from engine.cli.chat.display.styles import Painter
from engine.cli.chat.display.transcript_view import TranscriptView
from engine.cli.chat.editor.key_decoder import Key, KeyInput, PastedText, TypedText
from engine.cli.chat.machine import effects as do
from engine.cli.chat.machine.chat_events import ChatEvent
from engine.cli.chat.machine.chat_machine import ChatMachine
from engine.cli.chat.machine.effects import EffectFailure
from engine.cli.chat.machine.outbox import join_parts
from engine.cli.chat.machine.question_queue import QuestionQueue
from engine.cli.chat.machine.status_facts import StatusFacts
from engine.cli.terminal.terminal_text import ASCII, WORDS
from engine.config.chat_keys import KeyBindings, bind_keys
from engine.core import events as ev
from engine.core.ids import InputId, MessageId, PartId, SessionId, TurnId
from engine.core.messages import TextPart, UserMessage
from engine.journal.state import Resync, SessionState

SESSION = SessionId("ses_1")


def new_machine(keys: KeyBindings, *, is_accessible: bool = False) -> ChatMachine:
    numbers = count(1)
    symbols = WORDS if is_accessible else ASCII
    return ChatMachine(
        TranscriptView(Painter(is_styled=False), symbols, 80, is_accessible),
        StatusFacts(),
        QuestionQueue(symbols, is_accessible),
        lambda: f"input_{next(numbers)}",
        is_accessible=is_accessible,
        keys=keys,
    )


class Chat:
    """A machine with a clock. `printed` is what it has printed, `effects` what it wants done."""

    def __init__(self, keys: KeyBindings | None = None) -> None:
        self.machine = new_machine(keys or bind_keys({}))
        self.now = 100.0
        self.printed: list[str] = []
        self.effects: list[do.Effect] = []
        self.event(Resync(session_id=SESSION, epoch="", seq=0, state=SessionState(session_id=SESSION)))

    def press(self, *names: str) -> None:
        for name in names:
            self.key(Key(name))

    def type(self, text: str) -> None:
        self.key(TypedText(text))

    def paste(self, text: str) -> None:
        self.key(PastedText(text))

    def key(self, event: KeyInput) -> None:
        self.now += 0.01
        self._take(self.machine.handle_key(event, self.now))

    def event(self, event: ChatEvent) -> None:
        self._take(self.machine.handle_event(event, self.now))

    def fail(self, failure: EffectFailure) -> None:
        self._take(self.machine.handle_failure(failure))

    def take(self) -> list[do.Effect]:
        """The effects since the last time."""
        effects, self.effects = self.effects, []
        return effects

    def _take(self, effects: list[do.Effect]) -> None:
        for effect in effects:
            if isinstance(effect, do.Print):
                self.printed += effect.lines
            else:
                self.effects.append(effect)


def message(text: str) -> UserMessage:
    return UserMessage(id=MessageId(f"msg_{text}"), parts=(TextPart(id=PartId("part"), text=text),))


class FakeSession:
    """Does what an engine's session does with input, one effect after another. `events` are on their way to the chat."""

    def __init__(self) -> None:
        self.events: list[ev.Durable | EffectFailure] = []
        self.inbox: dict[str, tuple[str, str]] = {}
        self.read: list[str] = []
        self.turn: TurnId | None = None
        self.is_ending = False
        self.turns = 0

    def perform(self, effect: do.Effect) -> None:
        match effect:
            case do.SendPrompt():
                parts = [part for part in effect.parts if part.waiting is None or self._remove(part.waiting.input_id)]
                if parts and self.turn is None:
                    self._start(effect.input_id, join_parts(parts), "prompt")
                elif parts:
                    self._admit(effect.input_id, join_parts(parts), "queue")
            case do.SendSteer():
                if effect.turn_id != self.turn or self.is_ending:
                    self.events.append(EffectFailure(effect, "the turn has ended", is_turn_over=True))
                else:
                    self._admit(effect.input_id, effect.text, "steer")
            case do.SendQueued():
                self._admit(effect.input_id, effect.text, "queue")
                self._start_next()
            case do.TakeBack():
                self._remove(effect.input_id)
            case do.CancelTurn():
                self.is_ending = self.is_ending or effect.turn_id == self.turn
            case _:
                pass

    def step(self) -> None:
        """The next request goes out, with the steers."""
        if self.turn is not None and not self.is_ending:
            self._promote("steer")

    def end(self) -> None:
        """The turn ends; by itself, the next one begins."""
        if self.turn is None:
            return
        was_cancelled, self.is_ending = self.is_ending, False
        turn, self.turn = self.turn, None
        reason: ev.StopReason = "aborted" if was_cancelled else "completed"
        self._add(ev.TurnEnded(turn_id=turn, result=ev.TurnResult(stop_reason=reason)))
        if not was_cancelled:
            self._start_next()

    def _start_next(self) -> None:
        queued = next((key for key, (mode, _) in self.inbox.items() if mode == "queue"), None)
        if self.turn is None and queued is not None:
            self._begin()
            self._promote("steer")
            self._promote_one(queued)

    def _start(self, input_id: InputId, text: str, mode: ev.InputMode) -> None:
        self._begin()
        self._admit(input_id, text, mode)
        self._promote("steer")
        self._promote_one(input_id)

    def _begin(self) -> None:
        self.turns += 1
        self.turn = TurnId(f"turn_{self.turns}")
        self._add(ev.TurnStarted(turn_id=self.turn))

    def _admit(self, input_id: InputId, text: str, mode: ev.InputMode) -> None:
        self.inbox[input_id] = (mode, text)
        self._add(ev.InputAdmitted(input_id=input_id, mode=mode, message=message(text)))

    def _promote(self, mode: str) -> None:
        for key in [key for key, (each, _) in self.inbox.items() if each == mode]:
            self._promote_one(key)

    def _promote_one(self, key: str) -> None:
        self.read.append(self.inbox.pop(key)[1])
        self._add(ev.InputPromoted(input_id=InputId(key)))

    def _remove(self, key: str) -> bool:
        if self.inbox.pop(key, None) is None:
            return False
        self._add(ev.InputRemoved(input_id=InputId(key), message_id=MessageId("msg")))
        return True

    def _add(self, event: ev.Durable) -> None:
        self.events.append(event)
