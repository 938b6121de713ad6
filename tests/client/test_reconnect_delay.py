"""The delays between attempts to connect."""

from engine.client.reconnect_delay import FIRST, ReconnectDelay


def test_delays_double_up_to_the_limit() -> None:
    delay = ReconnectDelay(random=lambda: 1.0)
    assert [delay.next_delay() for _ in range(7)] == [0.5, 1, 2, 4, 8, 15, 15]
    delay.reset()
    assert delay.next_delay() == FIRST


def test_delays_are_spread() -> None:
    numbers = iter([0.0, 0.5, 1.0])
    delay = ReconnectDelay(random=lambda: next(numbers))
    assert [delay.next_delay() for _ in range(3)] == [0.0, 0.5, 2.0]
