"""The control endpoint of any engine of a fleet: it watches any session, and prompts those that it can take."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

from engine.control.listen import ServeOptions
from engine.fleet import Worker, enqueue
from engine.session.engine import engine_runtime
from engine.testing.script import Pause, done, text
from tests.support.line_client import new_key
from tests.support.served_engine import served

pytestmark = [pytest.mark.os, pytest.mark.slow]
SLOW = [*text("Half of it."), Pause(3), *text(" All of it."), *done()]


@pytest.fixture
def folders() -> Iterator[tuple[ServeOptions, ServeOptions]]:
    """The path of a Unix socket has at most some 100 characters."""
    with tempfile.TemporaryDirectory() as folder:
        yield ServeOptions(folder=Path(folder) / "a"), ServeOptions(folder=Path(folder) / "b")


async def result_of(client: Any, session_id: str, turn_id: str) -> dict[str, Any]:
    """Look until a turn has ended, as the server of another engine can."""
    while True:
        found: dict[str, Any] = await client.result("wait", session_id=session_id, turn_id=turn_id, timeout=1)
        if found["state"] == "over":
            return found
        await trio.sleep(0.05)


async def test_any_endpoint_watches_and_takes_over(
    tmp_path: Path, place: str, folders: tuple[ServeOptions, ServeOptions]
) -> None:
    async with (
        served(tmp_path, SLOW, store=place, options=folders[0]) as holder,
        served(tmp_path, store=place, options=folders[1]) as other,
        holder.unix() as owner,
        other.unix() as client,
    ):
        await owner.hello()
        await client.hello()
        session_id = await owner.new_session(tmp_path)
        turn = await owner.result("prompt", session_id=session_id, text="Hi", key=new_key())
        assert (await client.result("subscribe", session_id=session_id))["mode"] == "stored"
        (row,) = (await client.result("session.list"))["rows"]
        assert (row["id"], row["holder"]) == (session_id, "elsewhere")
        refusal = (await client.call("prompt", session_id=session_id, text="No", key=new_key()))["error"]["data"]
        assert (refusal["kind"], refusal["pid"]) == ("elsewhere", os.getpid())
        ended = await result_of(client, session_id, turn["turn_id"])
        assert ended["result"]["text"] == "Half of it. All of it."
        # What is free can be prompted anywhere.
        await owner.result("session.close", session_id=session_id)
        turn = await client.result("prompt", session_id=session_id, text="More", key=new_key())
        assert (await result_of(client, session_id, turn["turn_id"]))["result"]["text"] == "Hello."
        assert (await result_of(owner, session_id, turn["turn_id"]))["result"]["text"] == "Hello."


async def test_tasks_of_a_worker_are_watched_elsewhere(
    tmp_path: Path, place: str, folders: tuple[ServeOptions, ServeOptions]
) -> None:
    async with (
        served(tmp_path, SLOW, store=place, options=folders[0]) as works,
        served(tmp_path, store=place, options=folders[1]) as other,
        other.unix() as client,
    ):
        await client.hello()
        store = engine_runtime(other.engine).services.store.store
        task = await enqueue(store, "slowly", cwd=tmp_path, key="a")
        async with trio.open_nursery() as nursery:
            worker = Worker(works.engine)
            nursery.start_soon(worker.run)
            while not (rows := (await client.result("session.list"))["rows"]):
                await trio.sleep(0.05)
            assert (rows[0]["id"], rows[0]["holder"]) == (task.spec.session_id, "elsewhere")
            turn: dict[str, Any] | None = None
            while turn is None:
                snapshot = await client.result("snapshot", session_id=task.spec.session_id)
                turn = snapshot["sessions"][0]["state"].get("turn")
                await trio.sleep(0.05)
            ended = await result_of(client, task.spec.session_id, turn["turn_id"])
            assert ended["result"]["stop_reason"] == "completed"
            worker.drain(60)
        # The worker has let go of it.
        turn = await client.result("prompt", session_id=task.spec.session_id, text="Thanks", key=new_key())
        assert (await result_of(client, task.spec.session_id, turn["turn_id"]))["result"]["text"] == "Hello."
