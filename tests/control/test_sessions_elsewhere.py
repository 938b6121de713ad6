"""A session that another engine has open: reading works, and a refusal names the server to ask instead."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

from engine.client import connect
from engine.control.listen import ServeOptions
from engine.control.service.server_discovery import server_folder
from engine.errors import SessionElsewhere
from engine.testing.script import Pause, text
from tests.support.served_engine import served


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """The path of a Unix socket has at most some 100 characters."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


@pytest.mark.parametrize("is_published", [True, False])
async def test_refusal_names_the_server_to_ask(
    tmp_path: Path, short_folder: Path, monkeypatch: pytest.MonkeyPatch, is_published: bool
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(short_folder))
    folder = server_folder(str(tmp_path / "sessions.db")) if is_published else short_folder / "hidden"
    folder.parent.mkdir(exist_ok=True)
    first = ServeOptions(folder=folder)
    second = ServeOptions(folder=short_folder / "second")
    async with (
        served(tmp_path, options=first) as holder,
        served(tmp_path, options=second) as other,
        holder.unix() as owner,
        other.unix() as client,
    ):
        await owner.hello()
        await client.hello()
        session_id = await owner.new_session(tmp_path)
        assert (await client.result("subscribe", session_id=session_id))["mode"] == "stored"
        error = (await client.call("prompt", session_id=session_id, text="Hi", key="k"))["error"]
        assert (error["data"]["kind"], error["data"]["pid"]) == ("elsewhere", os.getpid())
        assert error["data"].get("url") == (holder.at.url if is_published else None)
        async with connect(other.at.url, token=other.at.token) as link:
            with pytest.raises(SessionElsewhere) as refused:
                await link.session(session_id).prompt("Hi")
            assert refused.value.url == (holder.at.url if is_published else None)


async def test_text_that_another_engine_receives(tmp_path: Path, short_folder: Path) -> None:
    """Also what its last engine received before it was killed: both read what is saved of a part that has no end yet."""
    async with (
        served(tmp_path, [*text("Half of it")[:-1], Pause(1_000)]) as holder,
        served(tmp_path, options=ServeOptions(folder=short_folder)) as other,
        holder.unix() as owner,
        other.unix() as reader,
    ):
        await owner.hello()
        await reader.hello()
        session_id = await owner.new_session(tmp_path)
        await owner.result("prompt", session_id=session_id, text="Hi", key="p")
        snapshot: dict[str, Any] = {}
        while "Half of it" not in json.dumps(snapshot):
            await trio.sleep(0.05)
            snapshot = await reader.result("snapshot", session_id=session_id)
        # That engine runs the turn: nobody has to resume it here, or could.
        got = await reader.result("session.get", session_id=session_id)
        assert (got["row"]["holder"], got["row"]["status"], got["mode"]) == ("elsewhere", "busy", "stored")
        head = (await reader.result("subscribe", session_id=session_id))["head"]
        assert (got["head"]["parked"], head["parked"]) == (False, False)
        (listed,) = (await reader.result("session.list"))["rows"]
        assert (listed["holder"], listed["status"]) == ("elsewhere", "busy")
