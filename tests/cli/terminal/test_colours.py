"""Colours: whether a stream gets any, and what is painted."""

import pytest

from engine.cli.terminal.colours import ColourChoice, Palette, has_colour
from engine.cli.terminal.terminal_text import ASCII, UNICODE, Symbols
from engine.cli.turn.render import Renderer
from engine.core.events import CallAnnounced, CallSettled
from engine.core.ids import CallId, MessageId, PartId
from engine.core.messages import Settlement

TERM = {"TERM": "xterm"}


@pytest.mark.parametrize(
    ("choice", "env", "is_terminal", "expected"),
    [
        ("auto", TERM, True, True),
        ("auto", TERM, False, False),
        ("auto", {}, True, False),
        ("auto", {"TERM": "dumb"}, True, False),
        ("auto", {"TERM": "dumb", "FORCE_COLOR": "1"}, True, False),
        ("auto", TERM | {"NO_COLOR": "1"}, True, False),
        ("auto", TERM | {"NO_COLOR": ""}, True, True),
        ("auto", TERM | {"NO_COLOR": "1", "FORCE_COLOR": "1"}, True, False),
        ("auto", {"FORCE_COLOR": "1"}, False, True),
        ("auto", {"CLICOLOR_FORCE": "1"}, False, True),
        ("auto", {"FORCE_COLOR": "0"}, False, False),
        ("auto", TERM | {"CI": "true"}, False, False),
        ("always", {"NO_COLOR": "1"}, False, True),
        ("never", TERM | {"FORCE_COLOR": "1"}, True, False),
    ],
)
def test_colours_follow_flag_and_environment(
    choice: ColourChoice, env: dict[str, str], is_terminal: bool, expected: bool
) -> None:
    assert has_colour(choice, env, is_terminal=is_terminal) is expected


@pytest.mark.parametrize("symbols", [UNICODE, ASCII])
@pytest.mark.parametrize(
    ("settlement", "code"),
    [
        (Settlement(status="completed", text=""), 32),
        (Settlement(status="error", text="no"), 31),
        (Settlement(status="aborted", reason="cancelled", text=""), 33),
    ],
)
def test_symbol_alone_is_painted(symbols: Symbols, settlement: Settlement, code: int) -> None:
    lines = ["", ""]
    for index, palette in enumerate((Palette(), Palette(is_on=True))):
        renderer = Renderer(symbols=symbols, palette=palette)
        renderer.feed(CallAnnounced(message_id=MessageId("m"), part_id=PartId("p"), call_id=CallId("c"), tool="bash"))
        lines[index] = renderer.feed(CallSettled(call_id=CallId("c"), settlement=settlement))
    plain, painted = lines
    symbol = plain.split()[0]
    assert painted == plain.replace(symbol, f"\x1b[{code}m{symbol}\x1b[0m", 1)
