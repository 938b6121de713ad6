"""What is shown of an output while it comes."""

import pytest
import trio
from trio.testing import MockClock

from engine.tools.output.live_output import LiveOutput, without_half


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


@pytest.mark.parametrize(
    ("data", "whole"),
    [
        (b"", b""),
        (b"abc", b"abc"),
        ("aé".encode(), "aé".encode()),
        ("aé".encode()[:-1], b"a"),
        ("a✓".encode()[:-1], b"a"),
        ("a😀".encode()[:-1], b"a"),
        (b"a\xff", b"a\xff"),
        (b"\xa9\xa9\xa9\xa9\xa9", b"\xa9\xa9\xa9\xa9\xa9"),
    ],
)
def test_half_a_character_waits_for_the_rest(data: bytes, whole: bytes) -> None:
    assert without_half(data) == whole
