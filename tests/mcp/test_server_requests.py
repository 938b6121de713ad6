"""Requests to servers without a server: time limits, questions of the server, and who waits for whom, in mock time."""

from __future__ import annotations

from typing import cast

import mcp_types as types
import pytest
import trio
from trio.testing import MockClock

from engine.mcp.mcp_connection import McpConnection
from engine.mcp.server_requests import ConnectionLost, ServerRequest, TookTooLong

CONNECTION = cast("McpConnection", None)
FORM = types.ElicitRequestFormParams(message="How old?", requested_schema={"type": "object", "properties": {}})


async def nobody(_: types.ElicitRequestParams) -> types.ElicitResult:
    raise AssertionError("nobody is there to ask")


async def test_progress_renews_the_timeout(autojump_clock: MockClock) -> None:
    async def work(_: McpConnection, request: ServerRequest[str]) -> str:
        for step in range(10):
            await trio.sleep(9)
            await request.report(step, 10, "working")
        return "done"

    shown: list[str] = []
    request = ServerRequest(work=work, timeout=10, limit=1_000, on_progress=shown.append)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(request.run, CONNECTION)
        assert await request.wait(nobody) == "done"
    assert shown[0] == "0 of 10: working"


async def test_progress_does_not_renew_the_limit(autojump_clock: MockClock) -> None:
    async def work(_: McpConnection, request: ServerRequest[str]) -> str:
        while True:
            await trio.sleep(1)
            await request.report(1, None, None)

    request = ServerRequest(work=work, timeout=10, limit=100)
    begin = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(request.run, CONNECTION)
        with pytest.raises(TookTooLong, match="100 s, the limit of a call"):
            await request.wait(nobody)
    assert 100 <= trio.current_time() - begin < 102


async def test_silence_ends_a_request(autojump_clock: MockClock) -> None:
    async def work(_: McpConnection, request: ServerRequest[str]) -> str:
        await request.report(1, None, None)
        await trio.sleep_forever()
        raise AssertionError

    request = ServerRequest(work=work, timeout=7, limit=100)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(request.run, CONNECTION)
        with pytest.raises(TookTooLong, match="silent for 7 s"):
            await request.wait(nobody)


async def test_progress_is_shown_four_times_a_second(autojump_clock: MockClock) -> None:
    async def work(_: McpConnection, request: ServerRequest[str]) -> str:
        for step in range(1_000):
            await request.report(step, None, None)
            await trio.sleep(0.01)
        return "done"

    shown: list[str] = []
    request = ServerRequest(work=work, timeout=10, limit=100, on_progress=shown.append)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(request.run, CONNECTION)
        await request.wait(nobody)
    assert 30 <= len(shown) <= 41


async def test_waiting_for_the_user_counts_for_no_limit(autojump_clock: MockClock) -> None:
    async def work(_: McpConnection, request: ServerRequest[str]) -> str:
        await trio.sleep(5)
        return (await request.ask(FORM)).action

    async def ask(params: types.ElicitRequestParams) -> types.ElicitResult:
        assert params is FORM
        await trio.sleep(10_000)
        return types.ElicitResult(action="decline")

    request = ServerRequest(work=work, timeout=10, limit=20)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(request.run, CONNECTION)
        assert await request.wait(ask) == "decline"


async def test_cancel_waits_for_no_request(autojump_clock: MockClock) -> None:
    """The SDK takes five seconds to tell a server that does not read; who waits does not take part in that."""
    told: list[float] = []

    async def work(_: McpConnection, __: ServerRequest[str]) -> str:
        try:
            await trio.sleep_forever()
        finally:
            with trio.move_on_after(5, shield=True):
                await trio.sleep_forever()
            told.append(trio.current_time())
        raise AssertionError

    request = ServerRequest(work=work, timeout=10, limit=20)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(request.run, CONNECTION)
        with trio.move_on_after(1):
            await request.wait(nobody)
        assert told == []
        left = trio.current_time()
    assert told == [left + 5]


async def test_request_that_never_began_is_lost() -> None:
    async def work(_: McpConnection, __: ServerRequest[str]) -> str:
        raise AssertionError

    request = ServerRequest(work=work, timeout=10, limit=20)
    request.lose()
    with pytest.raises(ConnectionLost):
        await request.wait(nobody)


async def test_failure_reaches_the_one_who_waits() -> None:
    async def work(_: McpConnection, __: ServerRequest[str]) -> str:
        await trio.lowlevel.checkpoint()
        raise ValueError("no")

    request = ServerRequest(work=work, timeout=10, limit=20)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(request.run, CONNECTION)
        with pytest.raises(ValueError, match="no"):
            await request.wait(nobody)
