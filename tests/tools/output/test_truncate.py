"""What is shown of an output that is too long."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.tools.output.truncate import LIMITS, Measure, OutputLimits, Rest, cut, encoded, excerpt, fits, line_count

KEPT = Rest(spill_id="0123456789abcdef")
MARKER = re.compile(
    r"\[([\d,]+) of ([\d,]+) lines?, ([\d,]+) of ([\d,]+) bytes are not shown"
    r'(?:, and were not kept(?:: .*)?|\. To read them: read with path="spill:0123456789abcdef", offset=(\d+)(?: \(.*\))?)\]'
)


def number(text: str) -> int:
    return int(text.replace(",", ""))


# ---- what is too long ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "is_short"),
    [
        ("", True),
        ("x" * 51_200, True),
        ("x" * 51_201, False),
        ("é" * 25_600, True),
        ("é" * 25_600 + "x", False),
        ("𝄞" * 12_800, True),
        ("𝄞" * 12_801, False),
        ("\n" * 2_000, True),
        ("\n" * 2_001, False),
        ("x\n" * 2_000, True),
        ("x\n" * 2_000 + "x", False),
        ("x\n" * 1_999 + "x", True),
        ("\ud800" * 100, True),
        ("\ud800" * 20_000, False),
    ],
    ids=range(14),
)
def test_too_long_output(text: str, is_short: bool) -> None:
    assert fits(text) is is_short


# ---- what is kept of it ----------------------------------------------------------------------------------------------


def test_the_first_and_the_last_lines_are_shown() -> None:
    data = b"".join(b"line %d\n" % n for n in range(1, 10_001))
    lines = cut(data, 0.5, KEPT).split("\n")
    assert lines[:2] == ["line 1", "line 2"]
    assert lines[999:1_003] == [
        "line 1000",
        '[8,001 of 10,000 lines, 80,010 of 98,894 bytes are not shown. To read them: read with path="spill:0123456789abcdef", '
        "offset=1001]",
        "line 9002",
        "line 9003",
    ]
    assert lines[-2:] == ["line 10000", ""]
    assert len(lines) - 1 == 2_000


@pytest.mark.parametrize(
    ("share", "kept"),
    [
        (1.0, ["1", "2", "3", "4", "[16 of 20 lines, 43 of 51 bytes are not shown, and were not kept]"]),
        (0.0, ["[16 of 20 lines, 39 of 51 bytes are not shown, and were not kept]", "17", "18", "19", "20", ""]),
        (0.5, ["1", "2", "[16 of 20 lines, 41 of 51 bytes are not shown, and were not kept]", "19", "20", ""]),
        (0.2, ["1", "[16 of 20 lines, 40 of 51 bytes are not shown, and were not kept]", "18", "19", "20", ""]),
    ],
    ids=["head", "tail", "both", "process"],
)
def test_directions(share: float, kept: list[str]) -> None:
    data = "".join(f"{n}\n" for n in range(1, 21)).encode()
    assert cut(data, share, Rest(), limits=OutputLimits(lines=5)).split("\n") == kept


def test_giant_line_is_shown_in_part() -> None:
    text = cut(b"a" * 100_000 + b"z" * 100_000, 0.5, KEPT)
    assert fits(text)
    head, marker, tail = text.split("\n")
    assert set(head) == {"a"}
    assert set(tail) == {"z"}
    assert min(len(head), len(tail)) > 25_000
    assert marker.startswith(f"[1 of 1 lines, {200_000 - len(head) - len(tail):,} of 200,000 bytes are not shown.")
    assert marker.endswith("offset=1]")


@pytest.mark.parametrize("share", [0.0, 0.2, 0.5, 1.0])
def test_characters_are_not_cut_in_half(share: float) -> None:
    for text in ("é" * 40_000, "x" + "✓" * 40_000, "𝄞" * 40_000 + "y"):
        shown = cut(text.encode(), share, KEPT)
        assert "�" not in shown
        assert fits(shown)
        assert len(encoded(shown)) > LIMITS.size - 10


def test_cheap_cuts_are_between_lines() -> None:
    data = (b"x" * 99 + b"\n") * 1_000
    head, marker, tail = re.split(r"\n?(\[.*\])\n", cut(data, 0.5, KEPT))
    assert {*head.split("\n"), *tail.removesuffix("\n").split("\n")} == {"x" * 99}
    assert marker.startswith("[490 of 1,000 lines, 49,000 of 100,000 bytes")


def test_short_first_line_hides_no_giant_second() -> None:
    text = cut(b"short\n" + b"x" * 100_000, 1.0, KEPT)
    first, second, marker = text.split("\n")
    assert first == "short"
    assert len(second) > 50_000
    assert marker.startswith("[1 of 2 lines, ")
    assert marker.endswith("offset=2]")


def test_invalid_utf8_takes_more_room() -> None:
    text = cut(b"\xff" * 51_200, 0.5, KEPT)
    assert fits(text)
    assert text.count("�") > 16_000
    assert f"{51_200 - text.count('�'):,} of 51,200 bytes" in text


def test_half_characters_of_a_tool_do_no_harm() -> None:
    assert "\ud800" not in cut(encoded("\ud800" * 100_000), 0.5, KEPT)


def test_reason_for_not_keeping_is_one_line() -> None:
    rest = Rest(trouble="the disk\nis full " + "!" * 1_000)
    marker = cut(b"x" * 60_000, 1.0, rest).split("\n")[1]
    assert marker.startswith("[1 of 1 lines, ")
    assert "bytes are not shown, and were not kept: the disk is full !!!" in marker
    assert len(marker) < 400


def test_partly_kept_output_is_reported() -> None:
    rest = Rest(spill_id="0123456789abcdef", trouble="only its first 9 bytes: the disk is full")
    assert cut(b"x" * 60_000, 1.0, rest).endswith("offset=1 (only its first 9 bytes: the disk is full)]")


# ---- for any output --------------------------------------------------------------------------------------------------

PIECES = st.sampled_from([b"\n", b"\r\n", b"a", b"word ", "é".encode(), "✓".encode(), "𝄞".encode(), b"x" * 300])
DIRT = st.sampled_from([b"\xff", b"\x80", b"\xc3", b"\xf0\x9d", b"\0"])
SMALL = OutputLimits(lines=12, size=400)


@given(st.lists(PIECES | DIRT, max_size=200), st.sampled_from([0.0, 0.2, 0.5, 1.0]), st.sampled_from([KEPT, Rest()]))
def test_the_limits_hold_and_the_figures_are_true(pieces: list[bytes], share: float, rest: Rest) -> None:
    data = b"".join(pieces)
    if fits(data.decode(errors="replace"), SMALL):
        return
    text = cut(data, share, rest, limits=SMALL)
    assert fits(text, SMALL)
    found = MARKER.search(text)
    assert found is not None
    begin, end = text[: found.start()], text[found.end() :].removeprefix("\n")
    whole = data.decode(errors="replace")
    assert whole.endswith(end)
    begin = begin if whole.startswith(begin) else begin.removesuffix("\n")  # the one before the marker
    assert whole.startswith(begin)
    hidden_lines, lines, hidden, size = map(number, found.groups()[:4])
    assert (lines, size) == (line_count(data), len(data))
    assert 0 <= hidden <= size
    assert 0 < hidden_lines <= lines
    if "�" not in whole:
        assert hidden == size - len(begin.encode()) - len(end.encode())
        assert begin.encode() + data[len(begin.encode()) : size - len(end.encode())] + end.encode() == data
    if rest is KEPT:
        # That line is the first one that is not shown as it is.
        offset = int(found.group(5))
        assert data.split(b"\n")[: offset - 1] == encoded(begin).split(b"\n")[: offset - 1] or "�" in whole


@given(st.binary(max_size=2_000), st.sampled_from([0.0, 0.2, 0.5, 1.0]))
def test_ends_suffice_for_truncation(data: bytes, share: float) -> None:
    """(So an output can be cut of which nobody holds the middle.)"""
    if fits(data.decode(errors="replace"), SMALL):
        return
    whole = Measure(line_count(data), len(data))
    assert excerpt(data[:400], data[-400:], whole, share, KEPT, limits=SMALL) == cut(data, share, KEPT, limits=SMALL)
