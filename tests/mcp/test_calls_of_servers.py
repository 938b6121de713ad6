"""Calls of an MCP server's tools: what a server does wrong costs its own call at most, and a cancel waits for no server."""

from __future__ import annotations

import json
import os
from pathlib import Path

import mcp_types as types
import pytest
import trio
import trio.testing
from mcp.shared.exceptions import MCPError

from engine.mcp.mcp_connection import ProtocolError
from engine.mcp.server_requests import ConnectionLost, TookTooLong
from engine.mcp.server_task import LIST_SECONDS, RETRIES, NotReady
from engine.process.kill_tree import find_marked
from tests.mcp.serving import answer, call, lying, received, request_of, running, text_of
from tests.support.cancel_at import CancelAt

pytestmark = pytest.mark.os

ERAS = pytest.mark.parametrize("era", ["modern", "legacy"])


@ERAS
@pytest.mark.parametrize(
    ("tool", "expected"),
    [("echo", "echo: hi"), ("twice", "first"), ("other_id", "for you"), ("garbage", "after garbage")],
)
async def test_answer_survives_noise(tmp_path: Path, era: str, tool: str, expected: str) -> None:
    async with running(lying(era=era), tmp_path) as task:
        assert text_of(await answer(task, call(tool, text="hi"))) == expected
        # What came besides is gone before the next answer.
        assert text_of(await answer(task, call("echo", text="again"))) == "echo: again"
        if tool in {"twice", "other_id"}:
            assert task.report.late_answers == 1
        if tool == "garbage":
            assert task.report.invalid_lines == 3


@ERAS
async def test_cancel_waits_for_no_server(tmp_path: Path, era: str) -> None:
    """The server answers only after it was told, which comes too late, and goes on to work."""
    log = tmp_path / "log"
    async with running(lying(era=era, log=str(log)), tmp_path) as task:
        request = call("late")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(answer, task, request)
            while not log.exists() or received(log, "tools/call late") == 0:
                await trio.sleep(0.01)
            begin = trio.current_time()
            nursery.cancel_scope.cancel()
        assert trio.current_time() - begin < 60
        assert text_of(await answer(task, call("echo", text="on"))) == "echo: on"
        while task.report.late_answers == 0:
            await trio.sleep(0.01)
    assert received(log, "notifications/cancelled") == 1
    assert received(log, "tools/call late") == 1


@pytest.mark.parametrize("tool", ["echo", "silent"])
async def test_cancel_everywhere_in_a_call(tmp_path: Path, tool: str, is_full: bool) -> None:
    """Whatever step a cancel comes at, the server was called once at most, and goes on to work."""
    log = tmp_path / "log"
    calls = f"tools/call {tool}"
    every = 1 if is_full else 3
    async with running(lying(log=str(log)), tmp_path) as task:
        step = 0
        while True:
            before = received(log, calls)
            instrument = CancelAt(step)
            trio.lowlevel.add_instrument(instrument)
            with trio.move_on_after(60 if tool == "echo" else 1.0), instrument.scope():
                await answer(task, call(tool))
            trio.lowlevel.remove_instrument(instrument)
            if not instrument.has_fired:
                break  # the call was over, or nothing happens any more
            assert text_of(await answer(task, call("fail"))) == "it did not work"
            assert received(log, calls) - before <= 1
            step += every
    assert step > 10
    assert received(log, calls) > 0


async def test_dead_server_loses_the_call_once(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with running(lying(log=str(log)), tmp_path, retries=(0.01,)) as task:
        with pytest.raises((ConnectionLost, MCPError)):
            await answer(task, call("die"))
        await task.wait_ready(30)
        assert text_of(await answer(task, call("echo", text="back"))) == "echo: back"
    assert received(log, "tools/call die") == 1


async def test_server_that_always_dies_is_given_up(tmp_path: Path, mock_clock: trio.testing.MockClock) -> None:
    """It is started again four times; then calls fail at once, until the user starts it."""
    mock_clock.rate = 1.0
    log = tmp_path / "log"
    async with running(lying(log=str(log)), tmp_path, retries=RETRIES) as task:

        async def until(phase: str) -> None:
            while task.state.phase != phase:
                await trio.sleep(0.01)

        for death in range(20):
            with pytest.raises(NotReady if death > len(RETRIES) else (ConnectionLost, MCPError)):
                await answer(task, call("die"))
            await until("failed")
            if death < len(RETRIES):
                mock_clock.jump(RETRIES[death])
                await until("ready")
            else:
                mock_clock.jump(3_600)
                await trio.testing.wait_all_tasks_blocked()
                assert task.state.phase == "failed"
    assert received(log, "tools/call die") == 1 + len(RETRIES)
    assert find_marked(lambda mark: mark.startswith(f"mcp.liar.{os.getpid()}.")) == []


async def test_list_that_never_comes_is_given_up(tmp_path: Path, mock_clock: trio.testing.MockClock) -> None:
    mock_clock.rate = 1.0
    log = tmp_path / "log"
    async with running(lying(log=str(log), pages="first"), tmp_path) as task:
        before = task.state.listed
        task.note_change()
        while received(log, "tools/list") < 2:
            await trio.sleep(0.01)
        # It is asked for again only once that is over; without its limit, never.
        task.note_change()
        mock_clock.jump(LIST_SECONDS)
        await trio.testing.wait_all_tasks_blocked()
        mock_clock.jump(2)
        while received(log, "tools/list") < 3:
            await trio.sleep(0.01)
        assert (task.state.phase, task.state.listed) == ("ready", before)


async def test_silent_server_is_given_up(tmp_path: Path) -> None:
    async with running(lying(), tmp_path) as task:
        with pytest.raises(TookTooLong, match=r"silent for 0\.05 s"):
            await answer(task, request_of("silent", {}, timeout=0.05))


async def test_progress_is_shown_and_renews_no_limit(tmp_path: Path) -> None:
    """That it renews the timeout is tried in mock time: `test_progress_renews_the_timeout`."""
    async with running(lying(), tmp_path) as task:
        shown: list[str] = []
        result = await answer(task, request_of("progress", {"count": 8}, show=shown.append))
        assert text_of(result) == "worked"
        assert shown[0].startswith("0 of 8")
        with pytest.raises(TookTooLong, match="the limit of a call"):
            await answer(task, request_of("progress", {"count": 1_000}, timeout=10.0, limit=0.3))


@ERAS
async def test_server_asks_and_gets_the_answer(tmp_path: Path, era: str) -> None:
    asked: list[str] = []

    async def reply(params: types.ElicitRequestParams) -> types.ElicitResult:
        asked.append(params.message)
        # As long as people take: it counts for no limit.
        await trio.sleep(0.3)
        return types.ElicitResult(action="accept", content={"age": 7})

    async with running(lying(era=era), tmp_path) as task:
        result = await answer(task, request_of("ask", {}, timeout=0.2, limit=0.25), reply)
    assert asked == ["How old?"]
    assert json.loads(text_of(result).removeprefix("you said "))["content"] == {"age": 7}


async def test_server_asks_ten_times_at_most(tmp_path: Path) -> None:
    asked: list[str] = []

    async def reply(params: types.ElicitRequestParams) -> types.ElicitResult:
        asked.append(params.message)
        await trio.lowlevel.checkpoint()
        return types.ElicitResult(action="decline")

    async with running(lying(), tmp_path) as task:
        with pytest.raises(ProtocolError, match="more than 10 times"):
            await answer(task, call("ask_for_ever"), reply)
    assert len(asked) == 10


async def test_long_state_of_a_request_is_refused(tmp_path: Path) -> None:
    async with running(lying(), tmp_path) as task:
        with pytest.raises(ProtocolError, match="more than 262,144 bytes"):
            await answer(task, call("ask_with_state"))


@pytest.mark.parametrize("pages", ["", "once"])
async def test_flood_of_changes_costs_few_lists(tmp_path: Path, pages: str) -> None:
    """A list that can't be fetched again stays as it was."""
    log = tmp_path / "log"
    async with running(lying(era="legacy", log=str(log), pages=pages), tmp_path) as task:
        before = task.state.listed
        await answer(task, call("flood", count=10_000))
        while received(log, "tools/list") < 2:
            await trio.sleep(0.01)
        await answer(task, call("echo", text="on"))
        assert received(log, "tools/list") <= 3
        await trio.testing.wait_all_tasks_blocked()
        assert (task.state.phase, task.state.listed) == ("ready", before)


async def test_large_result_arrives(tmp_path: Path) -> None:
    async with running(lying(), tmp_path) as task:
        assert len(text_of(await answer(task, call("big", count=8_000_000)))) == 8_000_000


async def test_too_large_result_ends_the_connection(tmp_path: Path) -> None:
    async with running(lying(), tmp_path) as task:
        with pytest.raises((ConnectionLost, MCPError)):
            await answer(task, call("big", count=17 * 1024 * 1024))
        while task.state.phase == "ready":
            await trio.sleep(0.01)
        assert "a line of more than 16,777,216 bytes" in task.state.reason
