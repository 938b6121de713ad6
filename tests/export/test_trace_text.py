"""The lanes as lines: what ran when, in characters."""

from collections.abc import Awaitable, Callable

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from engine.core.events import Durable, TurnStarted
from engine.export.trace_text import ASCII_LANES, LaneSymbols, trace_lines
from tests.export.histories import journals
from tests.support.lane_sessions import Recorded, play_cancel, play_nested, play_parallel, play_retries

CANCELLED = """
Turn 1  aborted, 6.0 s, 1 request  run the load test
                             0                    3.0 s                 6.0 s
model                        ····████████████████████████████┃
fetch http://localhost:9090…     ████████████████████████████┃████            cancelled
fetch http://localhost:9090…     █████████
fetch http://localhost:9090…     ████████████████████████████┃                cancelled
task watch the log               ████████████████████████████┃██              cancelled
bash ./load-test --workers 8     ····························┃                not executed
read report.json                 ····························┃                not executed
agent sub-agent                  ··██████████████████████████┃██              aborted
                             cancelled by the user at 4.0 s; over 2.0 s later (grace 2.0 s)

· waiting   █ working   ? question   ┃ cancelled here"""
PARALLEL = """
Turn 1  completed, 17.9 s, 3 requests  make the tests pass
                             0                    9.0 s                17.9 s
model                        ·███                               ····       ██
read tests/test_parser.py      █████
read src/parser.py             ███████
read src/missing.py             ███                                           error
fetch https://docs.example.…    ????????????????????????█████████
read src/lexer.py               ███
bash make test                                                     ███████
bash git diff --stat                                               ······██
read CHANGES.md                                                    ·······██

· waiting   █ working   ? question   ┃ cancelled here"""
NESTED = """
Turn 1  completed, 4.5 s, 2 requests  review the change
                             0                    2.2 s                 4.5 s
model                        ·····                                     ██████
task review the parser           ███████████████████████████████████████
task review the docs             █████████████████████████
agent sub-agent                  ···████████████████████████████████████
agent sub-agent                  ·····████████████████████
agent sub-agent                     ······██████████████████████████

· waiting   █ working   ? question   ┃ cancelled here"""
RETRIES = """
Turn 1  completed, 15.7 s, 4 requests  say hello
                             0                    7.8 s                15.7 s
model                        ···············································█

· waiting   █ working   ? question   ┃ cancelled here"""


@pytest.mark.parametrize(
    ("play", "expected"),
    [(play_cancel, CANCELLED), (play_parallel, PARALLEL), (play_nested, NESTED), (play_retries, RETRIES)],
)
def test_lanes(play: Callable[[], Awaitable[Recorded]], expected: str) -> None:
    recorded = trio.run(play, clock=MockClock(autojump_threshold=0))
    assert "".join(f"\n{line}" for line in trace_lines(recorded.journals, 100)) == expected


@given(journals(), st.integers(72, 200), st.sampled_from([None, ASCII_LANES]))
def test_lines_fit_and_each_turn_is_there(journal: list[Durable], width: int, symbols: LaneSymbols | None) -> None:
    lines = list(trace_lines([journal], width, symbols))
    assert all(len(line) <= width for line in lines)
    turns = sum(isinstance(event, TurnStarted) for event in journal)
    assert [line.split("  ")[0] for line in lines if line.startswith("Turn ")] == [
        f"Turn {n + 1}" for n in range(turns)
    ]


@given(journals())
def test_beginning_of_a_session_has_lanes(journal: list[Durable]) -> None:
    for end in range(len(journal)):
        assert list(trace_lines([journal[:end]], 80)) or not any(
            isinstance(event, TurnStarted) for event in journal[:end]
        )
