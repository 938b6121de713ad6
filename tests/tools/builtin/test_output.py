"""Output in bounded memory."""

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from engine.tools.builtin.output import HeadAndTail, LiveOutput


@given(st.lists(st.binary(max_size=30)), st.integers(1, 10), st.integers(1, 10))
def test_head_and_tail(chunks: list[bytes], head: int, tail: int) -> None:
    kept = HeadAndTail(head, tail)
    for chunk in chunks:
        kept.feed(chunk)
    whole = b"".join(chunks)
    assert kept.total == len(whole)
    if len(whole) <= head + tail:
        assert kept.text == whole.decode(errors="replace")
    else:
        assert "bytes in the middle of the output are not shown]" in kept.text


def test_what_is_cut_is_counted() -> None:
    kept = HeadAndTail(3, 3)
    kept.feed(b"abc" + b"-" * 1_000 + b"xyz")
    assert kept.text == "abc\n[1,000 bytes in the middle of the output are not shown]\nxyz"


def test_characters_are_not_cut_in_half() -> None:
    kept = HeadAndTail(4, 4)
    kept.feed("aéé".encode() + b"-" * 100 + "ééz".encode())
    assert kept.text == "aé\n[104 bytes in the middle of the output are not shown]\néz"


def test_it_holds_no_more_than_it_must() -> None:
    kept = HeadAndTail(10, 100)
    for _ in range(10_000):
        kept.feed(b"x" * 64)
    assert len(kept._head) + len(kept._tail) <= 10 + 2 * 100 + 64


def test_slow_output_is_shown_as_it_comes(autojump_clock: MockClock) -> None:
    """(The fixture stands for `trio.run` with the clock below.)"""

    async def main() -> list[tuple[float, str]]:
        shown: list[tuple[float, str]] = []
        start = trio.current_time()
        live = LiveOutput(lambda text: shown.append((round(trio.current_time() - start, 3), text)))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(live.run)
            for chunk in (b"a", b"b"):
                live.feed(chunk)
                await trio.sleep(1)
            live.feed(b"c")
            await trio.sleep(0.01)
            live.feed(b"d")
            await trio.sleep(1)
            nursery.cancel_scope.cancel()
        return shown

    shown = trio.run(main, clock=MockClock(autojump_threshold=0))
    assert shown == [(0, "a"), (1, "b"), (2, "c"), (2.1, "d")]


async def test_a_flood_is_thinned(autojump_clock: MockClock) -> None:
    shown: list[str] = []
    live = LiveOutput(shown.append)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(live.run)
        for _ in range(1_000):
            live.feed(b"y\n" * 32_768)
            await trio.sleep(0.001)
        nursery.cancel_scope.cancel()
    assert len(shown) <= 2 * 12
    assert max(map(len, shown)) <= 4_096
    assert any("characters not shown]" in text for text in shown)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_characters_in_pieces(size: int) -> None:
    shown: list[str] = []
    live = LiveOutput(shown.append)
    data = "é✓\n".encode()
    for start in range(0, len(data), size):
        live.feed(data[start : start + size])
    live.flush()
    live.flush()
    assert shown == ["é✓\n"]
