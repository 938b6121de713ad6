"""A server's start, its lists, its end and a login are cancelled at steps of the scheduler: no process and no task is left.

The servers lie in each of the ways that the specification names (BI1 to BI9).
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import attrs
import pytest
import trio
from mcp.shared.exceptions import MCPError

from engine.mcp import McpServer
from engine.mcp.oauth import log_in
from engine.mcp.server_requests import ConnectionLost
from engine.process.kill_tree import find_marked
from tests.conftest import CountRuns
from tests.mcp.serving import answer, call, lying, running
from tests.mcp.test_servers_over_http import demands_a_token
from tests.mcp.web_server import Json, Reply, WebServer, web_server
from tests.support.cancel_at import CancelAt

pytestmark = [
    pytest.mark.os,
    pytest.mark.slow,
    # httpx2 leaves the generators of a stream that is given up to the garbage collector.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

LIES: dict[str, dict[str, object]] = {
    "modern": {"skills": {"entries": [], "resources": {}}},
    "legacy": {"era": "legacy"},
    "never answers": {"start": "sleep"},
    "line without an end": {"start": "endless"},
    "long line": {"start": "long"},
    "ends at once": {"start": "exit"},
    "leaves a child": {"start": "fork"},
    "same page for ever": {"pages": "same"},
    "too many tools": {"pages": "huge"},
    "flood of notifications": {"flood": True},
    "dies in a call": {"die": True},
}
# Of those that never get ready: long enough for all that happens.
_WATCH_SECONDS = 0.8


async def use(server: McpServer, folder: Path, tool: str) -> None:
    """Run a server, and call a tool if it gets ready."""
    with trio.move_on_after(_WATCH_SECONDS):
        async with running(server, folder) as task:
            if task.state.phase == "ready":
                with trio.move_on_after(_WATCH_SECONDS), suppress(ConnectionLost, MCPError):
                    await answer(task, call(tool, count=200))


def enumerate_cancels(work: Callable[[Path], Awaitable[None]], folder: Path, samples: int) -> int:
    """Cancel *work* at that many steps, evenly; at the end of each run nothing of it may be left."""

    async def once(at: CancelAt, place: Path) -> None:
        begin = trio.current_time()
        with at.scope():
            await work(place)
        # A process that ignores signals has its grace; and this machine may be busy.
        assert trio.current_time() - begin < 60
        mine = f".{os.getpid()}."
        assert find_marked(lambda mark: mark.startswith("mcp.") and mine in mark) == []

    def play(step: int | None) -> CancelAt:
        place = folder / str(step)
        place.mkdir()
        at = CancelAt(step)
        trio.run(once, at, place, instruments=[at])
        return at

    steps = play(None).steps
    chosen = sorted({steps * number // samples for number in range(samples)})
    for step in chosen:
        play(step)
    return len(chosen)


@pytest.mark.parametrize("lie", LIES)
def test_process_is_gone_after_any_cancel(tmp_path: Path, lie: str, is_full: bool, count_runs: CountRuns) -> None:
    options = dict(LIES[lie])
    tool = "flood" if options.pop("flood", None) else "die" if options.pop("die", None) else "echo"
    server = attrs.evolve(lying(**options), skills=("skill://a/SKILL.md",))

    async def work(place: Path) -> None:
        await use(server, place, tool)

    count_runs(enumerate_cancels(work, tmp_path, 40 if is_full else 2))


def _answers(kind: str, other: WebServer) -> Callable[[Json, object], Reply | None]:
    replies: dict[str, Reply | None] = {
        "usual": None,
        "413": Reply(status=413),
        "redirect": Reply(status=307, headers={"Location": other.url}),
        "wrong type": Reply(body=b"<html>", headers={"Content-Type": "text/html"}),
        "cut event": Reply(body=b"data: {", headers={"Content-Type": "text/event-stream"}),
    }
    return lambda _, __: replies[kind]


@pytest.mark.parametrize("kind", ["usual", "413", "redirect", "wrong type", "cut event", "401"])
def test_connection_is_gone_after_any_cancel(
    tmp_path: Path, kind: str, is_full: bool, count_runs: CountRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    with web_server() as web, web_server() as other:
        if kind == "401":
            demands_a_token(web)
        else:
            web.answer = _answers(kind, other)

        async def work(place: Path) -> None:
            await use(McpServer(url=web.url), place, "echo")

        count_runs(enumerate_cancels(work, tmp_path, 40 if is_full else 2))


def test_login_can_be_cancelled_anywhere(
    tmp_path: Path, is_full: bool, count_runs: CountRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    with web_server() as web:
        demands_a_token(web)

        async def work(_: Path) -> None:
            # No user comes to the page: the callback is waited for.
            with trio.move_on_after(_WATCH_SECONDS):
                await log_in("docs", McpServer(url=web.url), lambda _: None)

        count_runs(enumerate_cancels(work, tmp_path, 40 if is_full else 4))
