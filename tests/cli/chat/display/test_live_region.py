"""The live region on a terminal: finished lines are there once and in order, whatever is drawn and resized."""

import re
from collections.abc import Sequence

import pyte
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.cli.chat.display.live_region import LiveRegion, RegionFrame

# Nothing of this may ever be written (cli A7).
FORBIDDEN = re.compile(r"\x1b\[(\?1049[hl]|[0-9;]*r|2J|3J|\?100[0-6][hl]|>[0-9]*u|6n)")


def terminal(columns: int = 40, rows: int = 12) -> tuple[pyte.HistoryScreen, pyte.Stream]:
    screen = pyte.HistoryScreen(columns, rows, history=10_000, ratio=0.5)
    return screen, pyte.Stream(screen)


def lines_of(screen: pyte.HistoryScreen) -> list[str]:
    """All lines, of the scrollback too, up to the last one that is not empty."""
    history = ["".join(line[x].data for x in range(screen.columns)).rstrip() for line in screen.history.top]
    lines = [*history, *(line.rstrip() for line in screen.display)]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def frame(rows: Sequence[str], row: int | None = None) -> RegionFrame:
    at = len(rows) - 1 if row is None else row
    return RegionFrame(tuple(rows), at, len(rows[at]) if rows else 0)


def test_equal_frame_writes_nothing() -> None:
    region = LiveRegion(40)
    assert region.draw([], frame(["> "]))
    assert region.draw([], frame(["> "])) == ""


def test_typed_letter_costs_few_bytes() -> None:
    region = LiveRegion(40)
    region.draw([], frame(["working", "> hell", "status"], 1))
    assert len(region.draw([], frame(["working", "> hello", "status"], 1))) < 60


STEPS = st.lists(
    st.tuples(
        st.lists(st.sampled_from(["", "short", "a line of text"]), max_size=3),
        st.lists(st.sampled_from(["", "live", "a longer live row"]), min_size=1, max_size=6),
        st.integers(0, 5),
    ),
    min_size=1,
    max_size=12,
)


@given(STEPS)
@settings(max_examples=60, deadline=None)
def test_finished_lines_are_there_once(steps: list[tuple[list[str], list[str], int]]) -> None:
    screen, stream = terminal()
    region, printed = LiveRegion(40), list[str]()
    for number, (names, rows, row) in enumerate(steps):
        lines = [f"{number}.{index} {name}".rstrip() for index, name in enumerate(names)]
        printed += lines
        shown = frame(rows, min(row, len(rows) - 1))
        text = region.draw(lines, shown)
        assert FORBIDDEN.search(text) is None
        assert text.count("\x1b[?2026h") == text.count("\x1b[?2026l")
        stream.feed(text)
        expected = [*printed, *rows]
        while expected and not expected[-1]:
            expected.pop()
        assert lines_of(screen) == expected
        assert screen.cursor.x == shown.column
    stream.feed(region.clear())
    while printed and not printed[-1]:
        printed.pop()
    assert lines_of(screen) == printed


@given(st.lists(st.sampled_from(["a", "ab", "abc", "abcd", "", "x"]), min_size=1, max_size=8), st.integers(0, 3))
@settings(max_examples=60, deadline=None)
def test_open_rows_become_lines(open_rows: list[str], count: int) -> None:
    """What is finished as it is shown is not written again, and what has grown gets its end."""
    screen, stream = terminal()
    region = LiveRegion(40)
    stream.feed(region.draw(["before"], frame([*open_rows, "> draft", "status"], len(open_rows))))
    lines = [*open_rows[:count], *(f"{row}c" for row in open_rows[count : count + 1])]
    written = region.draw(lines, frame(["open", "> draft", "status"], 1))
    stream.feed(written)
    assert lines_of(screen) == ["before", *lines, "open", "> draft", "status"]
    assert "abcd" not in written


@given(st.lists(st.tuples(st.integers(20, 60), st.integers(1, 5)), min_size=1, max_size=10))
@settings(max_examples=40, deadline=None)
def test_resizes_keep_finished_lines(sizes: list[tuple[int, int]]) -> None:
    """On a terminal that cuts rows, such as pyte; one that wraps them is tried with tmux."""
    screen, stream = terminal(60)
    region, printed = LiveRegion(60), list[str]()
    for number, (columns, count) in enumerate(sizes):
        screen.resize(columns=columns)
        stream.feed(region.resize(columns, "none"))
        line = f"line {number}"
        printed.append(line)
        rows = [*(f"row {index}" for index in range(count)), "> "]
        stream.feed(region.draw([line], frame(rows)))
        assert lines_of(screen) == [*printed, *(row.rstrip() for row in rows)]


def test_frame_in_a_window_that_became_lower() -> None:
    """The terminal has removed the rows below the cursor, which the program does not know yet."""
    region = LiveRegion(40)
    region.draw([], frame(["open", "> draft", "status"], 1))
    screen, stream = terminal(40, 3)
    stream.feed("finished\r\nopen\r\n> draft")
    stream.feed(region.draw([], frame(["open", "> drafts", "other status"], 1)))
    assert lines_of(screen) == ["finished", "open", "> drafts", "other status"]
