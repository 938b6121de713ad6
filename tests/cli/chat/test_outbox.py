"""Every text that was submitted is in exactly one place: delivered, waiting, or in the composer (cli C11)."""

import re

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from engine.cli.chat.machine import effects as do
from engine.cli.chat.machine.effects import EffectFailure
from engine.core import events as ev
from engine.core.ids import InputId, TurnId
from tests.cli.chat.chat_machine import Chat, FakeSession, message

WORD = re.compile(r"text\d+")


class MessagesModel(RuleBasedStateMachine):
    """A user, a session, and a connection on which effects and events take their time."""

    def __init__(self) -> None:
        super().__init__()
        self.chat, self.session = Chat(), FakeSession()
        self.effects: list[do.Effect] = []
        self.count = 0

    # -- the user

    @rule(key=st.sampled_from(["enter", "alt+enter"]))
    def submit(self, key: str) -> None:
        self.count += 1
        self.chat.type(f" text{self.count}")
        self.press(key)

    @rule(key=st.sampled_from(["enter", "alt+enter", "escape", "tab"]))
    def press(self, key: str) -> None:
        self.chat.press(key)
        self.effects += self.chat.take()

    @rule()
    @precondition(lambda self: not self.chat.machine.composer.buffer.text)
    def interrupt(self) -> None:
        """With a draft, Ctrl-C moves it to the history."""
        self.press("ctrl+c")

    @rule()
    @precondition(lambda self: self.chat.machine.outbox.last_waiting() is not None)
    @precondition(lambda self: not self.chat.machine.composer.buffer.text)
    def take_back(self) -> None:
        """Otherwise Up brings a copy out of the history."""
        self.press("up")

    # -- the connection

    @rule()
    @precondition(lambda self: self.effects)
    def perform(self) -> None:
        self.session.perform(self.effects.pop(0))

    @rule()
    @precondition(lambda self: self.effects)
    def lose(self) -> None:
        effect = self.effects.pop(0)
        self.chat.fail(EffectFailure(effect, "the connection is lost"))

    @rule()
    @precondition(lambda self: self.session.events)
    def deliver(self) -> None:
        item = self.session.events.pop(0)
        if isinstance(item, EffectFailure):
            self.chat.fail(item)
        else:
            self.chat.event(item)
        self.effects += self.chat.take()

    # -- the session

    @rule()
    def step(self) -> None:
        self.session.step()

    @rule()
    def end(self) -> None:
        self.session.end()

    # -- what holds

    def places(self) -> list[str]:
        machine = self.chat.machine
        shown = [*self.chat.printed, machine.composer.text, *(each.text for each in machine.outbox.messages)]
        return WORD.findall("\n".join(shown))

    @invariant()
    def each_text_is_in_one_place(self) -> None:
        assert sorted(self.places()) == sorted(f"text{number}" for number in range(1, self.count + 1))

    @invariant()
    def a_crash_loses_no_text(self) -> None:
        """What the session does not have is in the draft, which is saved."""
        stored = [*self.session.read, *(text for _, text in self.session.inbox.values())]
        refused = [each.effect for each in self.session.events if isinstance(each, EffectFailure)]
        sending = {each.input_id for each in [*self.effects, *refused] if isinstance(each, do.Send)}
        texts = set(WORD.findall("\n".join([*stored, self.chat.machine.draft(sending)])))
        assert texts == {f"text{number}" for number in range(1, self.count + 1)}

    def teardown(self) -> None:
        """When nothing is on its way, the chat shows what the session has."""
        while self.effects or self.session.events:
            if self.effects:
                self.perform()
            else:
                self.deliver()
        shown = [each.text for each in self.chat.machine.outbox.messages if each.state == "waiting"]
        assert sorted(shown) == sorted(text for _, text in self.session.inbox.values())
        assert not [each for each in self.chat.machine.outbox.messages if each.state == "sending"]
        assert self.chat.machine.turn_id == self.session.turn
        self.each_text_is_in_one_place()


MessagesModel.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestMessages = MessagesModel.TestCase


def test_lost_prompt_leaves_what_waits() -> None:
    """A cancelled turn leaves a queued message; the prompt that takes it along does not reach the session."""
    chat, session = Chat(), FakeSession()

    def settle() -> None:
        for effect in chat.take():
            session.perform(effect)
        for event in session.events:
            assert not isinstance(event, EffectFailure)
            chat.event(event)
        session.events.clear()

    chat.type("text1")
    chat.press("enter")
    settle()
    chat.type("text2")
    chat.press("alt+enter")
    chat.press("escape")
    settle()
    session.end()
    settle()
    assert [message.text for message in chat.machine.outbox.messages] == ["text2"]
    chat.type("text3")
    chat.press("enter")
    (effect,) = chat.take()
    chat.fail(EffectFailure(effect, "the connection is lost"))
    assert [message.text for message in chat.machine.outbox.messages] == ["text2"]
    assert chat.machine.composer.text == "text3"
    chat.press("enter")
    settle()
    assert "> text2" in chat.printed
    assert "  text3" in chat.printed
    assert not chat.machine.outbox.messages


def test_message_on_its_way_back_is_in_the_draft() -> None:
    """A crash between the session's removal and its event does not lose it; nor does leaving put it into two places."""
    chat, session = Chat(), FakeSession()
    chat.event(ev.TurnStarted(turn_id=TurnId("turn_1")))
    chat.type("text1")
    chat.press("alt+enter")
    (effect,) = chat.take()
    session.perform(effect)
    chat.event(ev.InputAdmitted(input_id=InputId("input_1"), mode="queue", message=message("text1")))
    assert chat.machine.draft() == ""
    chat.press("up")
    assert chat.machine.draft() == "text1"
    chat.machine.end([], {InputId("input_1")})
    assert chat.machine.draft() == ""
