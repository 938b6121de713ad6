"""Ctrl-C while foreign code runs: it interrupts that code, and not the engine's frames around it.

`tests/os/test_blocking_code.py` does the same to processes whose code blocks.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Sequence
from functools import partial
from typing import Any

import attrs
import pytest
import trio
import trio.testing

import engine
from engine.core.events import Notice
from engine.core.llm_types import ModelInfo, ModelRequest, Ping, StreamEvent
from engine.journal.fold import fold
from engine.session.engine_options import ContextOptions
from engine.testing import ScriptedProvider, SlowStore, check_transcript, done, text
from tests.support.borders import BORDERS, BadStore, Border, Misbehaviour, opened

# Of an interrupt in their midst, a batch of the stream or the context of several calls would be half applied: the
# engine catches it there, and gives it back at the next checkpoint.
PLAIN = {"tool safe", "tool modifier"}

# Called before there is a session, or that of another one.
SILENT = {"hook session_start", "store load", "store claim", "store open", "approver prepare"}


def interrupt() -> None:
    signal.raise_signal(signal.SIGINT)


def check_record(store: SlowStore) -> None:
    assert store._events
    for events in store._events.values():
        state = fold(events)
        assert state.turn is None, "the turn is still open in the record"
        assert check_transcript(state.transcript) == []


@pytest.mark.parametrize("name", BORDERS)
def test_interrupt_strikes_in_foreign_code(name: str) -> None:
    assert threading.current_thread() is threading.main_thread()
    bad, border = Misbehaviour(interrupt), BORDERS[name]
    store: Any = border.options(bad).get("store") or SlowStore()
    border = Border(options=lambda bad: {**BORDERS[name].options(bad), "store": store}, visit=border.visit)

    async def main() -> None:
        async with opened(border, bad) as eng:
            session = await eng.create_session(cwd="/")
            await border.visit(eng, session, bad)

    with pytest.raises(KeyboardInterrupt):
        trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    assert bad.reached
    assert not bad.passed, "it was held up until the code had ended"
    check_record(store)


@pytest.mark.parametrize("name", BORDERS)
def test_blocking_code_is_named(name: str) -> None:
    clock = trio.testing.MockClock(autojump_threshold=0)
    bad, border = Misbehaviour(partial(clock.jump, 2.0)), BORDERS[name]
    texts: list[str] = []

    async def main() -> None:
        async with opened(border, bad) as eng:
            session = await eng.create_session(cwd="/")
            await border.visit(eng, session, bad)
            bad.armed = name == "hook session_end"
        texts.extend(e.text for e in session.events() if isinstance(e, Notice) and e.code == "loop_blocked")

    trio.run(main, clock=clock)
    assert bad.passed
    if name not in SILENT:
        # The last flush of a turn comes after the end of its record.
        assert len(texts) == bad.passed - (name == "store flush"), "each is reported once"
    words = name.split()
    for said in texts:
        assert "2.0 s" in said
        assert words[0] in said or words[-1] in said


@attrs.define(eq=False)
class Endless:
    """A stream whose `receive` is no checkpoint; it ends only where nothing else could end it."""

    received: int = 0

    async def receive(self) -> Sequence[StreamEvent]:
        self.received += 1
        return [Ping()] if self.received < 1_000 else []

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()


@attrs.define(eq=False)
class EndlessModel:
    """Opens such a stream."""

    info: ModelInfo = ModelInfo(name="test/endless")
    opened: trio.Event = attrs.field(factory=trio.Event)
    stream: Endless = attrs.field(factory=Endless)

    async def open(self, request: ModelRequest) -> Endless:
        self.opened.set()
        return self.stream


@pytest.mark.parametrize("asked_for", ["answer", "title"])
async def test_receive_that_never_waits_holds_nothing_up(asked_for: str) -> None:
    endless, quick = EndlessModel(), ScriptedProvider([[*text("Fine."), *done()]])
    model, titles = (endless, None) if asked_for == "answer" else (quick, endless)
    async with engine.open_engine(model=model, context=ContextOptions(titles=titles)) as eng:
        session = await eng.create_session(cwd="/")
        async with session.prompt("go") as turn:
            await endless.opened.wait()
            turn.cancel()
        assert turn.result.stop_reason == ("aborted" if asked_for == "answer" else "completed")
    assert 0 < endless.stream.received < 100


@attrs.define(eq=False)
class ClosingModel(EndlessModel):
    """A model that is closed with the engine."""

    closed: bool = False

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()
        self.closed = True


def test_interrupted_close_of_the_store_closes_the_models() -> None:
    bad, model = Misbehaviour(interrupt), ClosingModel()

    async def main() -> None:
        eng = engine.open_engine(model=model, store=BadStore(bad=bad, method="aclose"))
        async with eng:
            # As one that was resolved by its name: the engine closes only those.
            eng._runtime.services.models._models["test/endless", None] = model
            bad.armed = True

    with pytest.raises(KeyboardInterrupt):
        trio.run(main)
    assert bad.reached
    assert model.closed
