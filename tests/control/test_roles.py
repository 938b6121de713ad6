"""What a client with less than the whole role can do: read, or read and answer, and nothing else by any way in."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from engine.control.protocol.handshake import Role, may
from engine.control.protocol.method_table import METHODS
from engine.control.token_file import add_token
from engine.session.engine_options import PermissionOptions
from tests.support.control_session import SCRIPT, ExampleSession
from tests.support.served_engine import served

# What their examples are answered with here; all else succeeds. Nothing is asked, so nothing can be answered.
REFUSED = {
    "attend": "not_found",
    "hello": "request",
    "permission.reply": "not_found",
    "question.answer": "not_found",
    "recovery.answer": "config",
}
# Of a session that is closed: to open it would claim it, which no reading method does.
CLOSED = {
    "context": "unsupported",
    "diff": "unsupported",
    "rewind.points": "unsupported",
    "rewind.preview": "unsupported",
}
POSTS = [
    ("/v1/sessions", "session.create"),
    *[(f"/v1/sessions/ID/{name}", name) for name in ("prompt", "queue", "steer", "cancel", "resume", "undo", "redo")],
    ("/v1/sessions/ID/requests/r-7", "permission.reply"),
]


def digest(store: Path) -> str:
    """Return a digest of everything that is in a store."""
    with closing(sqlite3.connect(store)) as database:
        return hashlib.sha256("\n".join(database.iterdump()).encode()).hexdigest()


def methods_in_order() -> Sequence[str]:
    """Return all methods, those last that end what others need."""
    last = ("unsubscribe", "session.close", "session.delete", "server.drain")
    return [*[name for name in METHODS if name not in last], *last]


@pytest.mark.parametrize("role", ["read", "answer"])
async def test_lower_roles_change_nothing(tmp_path: Path, role: Role) -> None:
    token = add_token(tmp_path / "run", "phone", role)
    async with served(tmp_path, *SCRIPT, permissions=PermissionOptions()) as server, server.unix() as owner:
        await owner.hello("owner")
        session = await ExampleSession.prepare(owner, tmp_path)
        if role == "read":
            await owner.result("session.close", session_id=session.id)
        before = digest(tmp_path / "sessions.db")
        bearer = {"authorization": f"Bearer {token}"}
        async with (
            server.websocket(token=token) as (client, _),
            httpx.AsyncClient(base_url=server.at.url, headers=bearer) as http,
        ):
            # More than the token gives can be asked for, and is not given.
            assert (await client.hello("phone", role="full"))["role"] == role
            results: dict[str, str] = {}
            for name in methods_in_order():
                answer = await client.call(name, **session.params(name))
                results[name] = answer.get("error", {}).get("data", {}).get("kind", "")
            for path, name in POSTS:
                params = {
                    key: value for key, value in session.params(name).items() if key not in {"session_id", "request_id"}
                }
                posted = await http.post(path.replace("ID", session.id), json=params)
                assert (posted.status_code == 403) == (results[name] == "forbidden"), (path, posted.text)
            binary = {"content-type": "application/octet-stream"}
            assert (await http.post("/v1/uploads", content=b"x", headers=binary)).status_code == 403
            assert (await http.post("/v1/uploads", content=bytes(2 << 20), headers=binary)).status_code == 413
            ticket = (await http.post("/v1/ticket", json={})).json()["ticket"]
            link = (await http.post("/v1/link", json={})).json()["ticket"]
            key = (await http.post("/v1/login", json={"ticket": link})).json()["key"]
            with_key = await http.get("/v1/status", headers={"authorization": f"Bearer {key}"})
            assert with_key.json()["role"] == role
        async with server.websocket(protocols=["engine.v1", f"engine.ticket.{ticket}"]) as (client, _):
            assert (await client.hello("phone", role="full"))["role"] == role
        for name, method in METHODS.items():
            allowed = method.role is None or may(role, method.role)
            expected = REFUSED | (CLOSED if role == "read" else {})
            assert results[name] == (expected.get(name, "") if allowed else "forbidden"), name
        await owner.result("ping")
        assert digest(tmp_path / "sessions.db") == before
