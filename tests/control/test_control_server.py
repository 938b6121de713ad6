"""A served engine, driven from outside: WebSocket, Unix socket, HTTP; the model is scripted, all else is real."""

from __future__ import annotations

import json
import socket
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio
from trio_websocket import ConnectionClosed

from engine.control.listen import ServeOptions, serve
from engine.control.token_file import add_token
from engine.core.errors import ConfigError
from engine.testing.script import Answer, Pause, call, done, text
from tests.support.served_engine import HELLO, served


async def test_whole_turn_over_a_websocket(tmp_path: Path) -> None:
    async with served(tmp_path) as server, server.websocket(token=server.at.token) as (client, _):
        hello = await client.result("hello", **HELLO, capabilities={"telepathy": {"range": 3}})
        assert (hello["protocol"], hello["role"], hello["deprecated"]) == (1, "full", [])
        assert {"search", "fleet", "batch", "upload", "metrics"} <= hello["capabilities"].keys()
        created = await client.result("session.create", cwd=str(tmp_path), key="k1")
        session_id = created["row"]["id"]
        subscribed = await client.result("subscribe", session_id=session_id, at="start")
        prompted = await client.result("prompt", session_id=session_id, text="Hi", key="p1")
        events = await client.events_until("turn_ended")
        assert "".join(event["text"] for event in events if event["type"] == "text_delta") == "Hello."
        assert events[-1]["result"]["stop_reason"] == "completed"
        assert [event["seq"] for event in events if event.get("seq")] == list(
            range(1, max(event.get("seq") or 0 for event in events) + 1)
        )
        again = await client.result("prompt", session_id=session_id, text="Hi", key="p1")
        assert again == prompted
        refused = await client.call("prompt", session_id=session_id, text="Other", key="p1")
        assert refused["error"]["data"]["kind"] == "conflict"
        left = await client.result("unsubscribe", sub=subscribed["sub"])
        assert left["position"]


async def test_position_continues_over_another_transport(tmp_path: Path) -> None:
    reader = add_token(tmp_path / "run", "phone", "read")
    async with served(tmp_path) as server, server.unix() as first:
        await first.result("hello", **HELLO)
        session_id = (await first.result("session.create", cwd=str(tmp_path), key="k1"))["row"]["id"]
        sub = (await first.result("subscribe", session_id=session_id, at="start"))["sub"]
        await first.result("prompt", session_id=session_id, text="Hi", key="p1")
        before = await first.events_until("turn_ended")
        position = (await first.result("unsubscribe", sub=sub))["position"]
        async with server.websocket(token=server.at.token) as (second, _):
            await second.result("hello", **HELLO)
            await second.result("subscribe", session_id=session_id, after=position)
            await second.result("prompt", session_id=session_id, text="Again", key="p2")
            after = await second.events_until("turn_ended")
        seqs = [event["seq"] for event in (*before, *after) if event.get("seq")]
        assert seqs == list(range(1, len(seqs) + 1))
        # T4: whoever has a position may continue there, with a token of a lower role, too.
        async with server.websocket(token=reader) as (third, _):
            assert (await third.result("hello", **HELLO))["role"] == "read"
            await third.result("subscribe", session_id=session_id, after=position)
            assert [each["seq"] for each in await third.events_until("turn_ended") if each.get("seq")] == [
                event["seq"] for event in after if event.get("seq")
            ]


@pytest.mark.parametrize("position", ["", "nonsense", "1.AAAA", "x" * 4096])
async def test_useless_position_resyncs(tmp_path: Path, position: str) -> None:
    async with served(tmp_path) as server, server.unix() as client:
        await client.result("hello", **HELLO)
        session_id = (await client.result("session.create", cwd=str(tmp_path), key="k1"))["row"]["id"]
        await client.result("subscribe", session_id=session_id, after=position or "-")
        notes = [await client.note(), await client.note()]
        assert [note["method"] for note in notes] == ["head", "resync"]
        assert notes[1]["params"]["snapshot"]["sessions"][0]["state"]["session_id"] == session_id


async def test_t4_position_of_a_megabyte(tmp_path: Path) -> None:
    """It is useless like any other damaged one; with a longer message, or head of a request, only its connection ends."""
    async with served(tmp_path) as server, server.unix() as other:
        await other.hello()
        session_id = await other.new_session(tmp_path)
        async with server.websocket(token=server.at.token) as (client, connection):
            await client.hello()
            # Never an error, as long as the message is no longer than any may be.
            await client.result("subscribe", session_id=session_id, after="x" * ((1 << 20) - 1000))
            notes = [await client.note(), await client.note()]
            assert [note["method"] for note in notes] == ["head", "resync"]
            assert len(json.dumps(notes)) < 10_000
            with pytest.raises(ConnectionClosed):
                await client.call("subscribe", session_id=session_id, after="x" * (1 << 20))
            assert connection.closed is not None
            assert connection.closed.code == 1009
        async with httpx.AsyncClient(base_url=server.at.url, headers=server.bearer) as http:
            target = f"/v1/sessions/{session_id}/stream"
            # No server reads a head that long: the connection may end before all of it is sent.
            with suppress(httpx.TransportError):
                assert (await http.get(target, headers={"Last-Event-ID": "x" * (1 << 20)})).status_code == 431
        assert (await other.result("ping"))["time"] > 0


async def test_cancel_shows_its_grace_to_all(tmp_path: Path) -> None:
    script: list[Answer] = [[*call("wait_forever", id="c1"), *done("calls")]]
    async with served(tmp_path, *script) as server, server.unix() as one, server.unix() as two:
        for client in (one, two):
            await client.result("hello", **HELLO)
        session_id = (await one.result("session.create", cwd=str(tmp_path), key="k1"))["row"]["id"]
        for client in (one, two):
            await client.result("subscribe", session_id=session_id, at="start")
        turn_id = (await one.result("prompt", session_id=session_id, text="Wait", key="p1"))["turn_id"]
        await two.events_until("call_started")
        stale = await two.call("cancel", session_id=session_id, turn_id="turn_other")
        assert stale["error"]["data"]["kind"] == "conflict"
        await two.result("cancel", session_id=session_id, turn_id=turn_id)
        for client in (one, two):
            events = await client.events_until("turn_ended")
            assert "turn_ending" in [event["type"] for event in events]
            assert events[-1]["result"]["stop_reason"] == "aborted"


async def test_same_by_http(tmp_path: Path) -> None:
    async with served(tmp_path) as server, httpx.AsyncClient(base_url=server.at.url, headers=server.bearer) as http:
        assert (await http.get("/healthz")).text == "ok\n"
        created = await http.post("/v1/sessions", json={"cwd": str(tmp_path)}, headers={"Idempotency-Key": "k1"})
        session_id = created.json()["row"]["id"]
        repeated = await http.post("/v1/sessions", json={"cwd": str(tmp_path), "key": "k1"})
        assert repeated.json() == created.json()
        prompted = await http.post(f"/v1/sessions/{session_id}/prompt", json={"text": "Hi", "key": "p1"})
        assert prompted.status_code == 202, prompted.text
        waited = await http.post(
            "/v1/rpc",
            json={
                "jsonrpc": "2.0",
                "id": 1,
                "method": "wait",
                "params": {"session_id": session_id, "turn_id": prompted.json()["turn_id"], "timeout": 30},
            },
        )
        assert waited.json()["result"]["result"]["stop_reason"] == "completed"
        listed = await http.get("/v1/sessions", params={"limit": 10})
        assert [row["id"] for row in listed.json()["rows"]] == [session_id]
        messages = await http.get(f"/v1/sessions/{session_id}/messages")
        assert messages.json()["messages"][-1]["parts"][-1]["text"] == "Hello."
        missing = await http.get("/v1/sessions/none")
        assert (missing.status_code, missing.json()["kind"]) == (404, "not_found")
        assert (await http.get("/v1/nothing")).status_code == 404


async def test_batches_are_answered_by_each_way(tmp_path: Path) -> None:
    def message(method: str, **more: object) -> dict[str, object]:
        return {"jsonrpc": "2.0", "method": method, "params": {}, **more}

    note = message("rpc.cancel", params={"id": 99})
    batch = [message("ping", id=1), note, message("nothing", id="two"), message("session.list", id=3), 7]
    async with (
        served(tmp_path) as server,
        httpx.AsyncClient(base_url=server.at.url, headers=server.bearer) as http,
        server.unix() as client,
        server.websocket(token=server.at.token) as (socket, connection),
    ):
        found: list[Any] = [(await http.post("/v1/rpc", json=batch)).json()]
        assert (await http.post("/v1/rpc", json=[note])).status_code == 204
        for each in (client, socket):
            await each.hello()
            await each.send(json.dumps(batch))
            found.append(await each.note())
            # A batch without requests has no answer: the next one is to the ping.
            await each.send(json.dumps([note]))
            await each.result("ping")
        for answers in found:
            kinds = {answer["id"]: answer.get("error", {}).get("data", {}).get("kind") for answer in answers}
            assert (len(answers), kinds) == (4, {1: None, "two": "method", 3: None, None: "request"})
        assert connection.closed is None


async def test_schema_is_that_of_the_handshake(tmp_path: Path) -> None:
    async with served(tmp_path) as server, server.unix() as client:
        digest = (await client.hello())["schema"]
        async with httpx.AsyncClient(base_url=server.at.url, headers=server.bearer) as http:
            assert sha256((await http.get("/v1/schema.json")).content).hexdigest() == digest


async def test_nobody_without_a_credential_gets_anything(tmp_path: Path) -> None:
    async with served(tmp_path) as server, httpx.AsyncClient(base_url=server.at.url) as http:
        for path in ["/v1/status", "/v1/sessions", "/v1/schema.json", "/v1/nothing"]:
            assert (await http.get(path)).status_code == 401
        for token in ["w", "wrong", server.at.token[:-1], server.at.token + "x"]:
            refused = await http.get("/v1/sessions", headers={"Authorization": f"Bearer {token}"})
            assert refused.status_code in {401, 429}
        await trio.sleep(1.1)
        async with server.websocket(token="wrong") as (_, connection):
            with pytest.raises(ConnectionClosed) as caught:
                await connection.get_message()
            assert caught.value.reason is not None
            assert caught.value.reason.code == 4401


async def test_link_logs_a_page_in(tmp_path: Path) -> None:
    async with served(tmp_path) as server, httpx.AsyncClient(base_url=server.at.url) as http:
        link = server.at.link()
        assert link is not None
        assert link.startswith(f"{server.at.url}/#k=")
        ticket = link.partition("#k=")[2]
        key = (await http.post("/v1/login", json={"ticket": ticket})).json()["key"]
        assert (await http.post("/v1/login", json={"ticket": ticket})).status_code == 401
        socket_ticket = (await http.post("/v1/ticket", json={}, headers={"Authorization": f"Bearer {key}"})).json()[
            "ticket"
        ]
        protocols = ["engine.v1", f"engine.ticket.{socket_ticket}"]
        async with server.websocket(protocols=protocols) as (client, connection):
            assert connection.subprotocol == "engine.v1"
            assert (await client.result("hello", **HELLO))["role"] == "full"
        async with server.websocket(protocols=protocols) as (_, connection):
            with pytest.raises(ConnectionClosed):
                await connection.get_message()


async def test_first_message_must_be_hello(tmp_path: Path) -> None:
    async with served(tmp_path) as server, server.unix() as client:
        assert (await client.call("session.list"))["error"]["data"]["kind"] == "not_ready"
        refused = await client.call("hello", protocol={"min": 7, "max": 9}, client={"name": "new"})
        assert refused["error"]["data"] == {"kind": "unsupported", "retry": "no", "min": 1, "max": 1}


async def test_lower_role_is_kept(tmp_path: Path) -> None:
    async with served(tmp_path) as server, server.unix() as client:
        await client.result("hello", **HELLO, role="read")
        refused = await client.call("session.create", cwd=str(tmp_path), key="k")
        assert refused["error"]["data"]["kind"] == "forbidden"
        assert (await client.result("session.list"))["rows"] == []


async def test_running_request_can_be_cancelled(tmp_path: Path) -> None:
    script: list[Answer] = [[*call("wait_forever", id="c1"), *done("calls")]]
    async with served(tmp_path, *script) as server, server.unix() as client:
        await client.result("hello", **HELLO)
        session_id = (await client.result("session.create", cwd=str(tmp_path), key="k1"))["row"]["id"]
        turn_id = (await client.result("prompt", session_id=session_id, text="Wait", key="p1"))["turn_id"]
        params = {"session_id": session_id, "turn_id": turn_id, "timeout": 60}
        await client.send(json.dumps({"jsonrpc": "2.0", "id": "w", "method": "wait", "params": params}))
        assert (await client.result("ping"))["time"] > 0
        assert (await client.result("rpc.cancel", id="w"))["cancelled"]
        cancelled = await client.note()
        assert (cancelled["id"], cancelled["error"]["data"]["kind"]) == ("w", "cancelled")


async def test_end_of_the_server_ends_no_turn(tmp_path: Path) -> None:
    script: list[Answer] = [[Pause(0.2), *text("Late."), *done()]]
    async with served(tmp_path, *script) as server:
        async with server.websocket(token=server.at.token) as (client, connection):
            await client.result("hello", **HELLO)
            session_id = (await client.result("session.create", cwd=str(tmp_path), key="k1"))["row"]["id"]
            await client.result("prompt", session_id=session_id, text="Hi", key="p1")
            server.nursery.cancel_scope.cancel()
            with pytest.raises(ConnectionClosed) as caught:
                while True:
                    await connection.get_message()
            assert caught.value.reason is not None
            assert caught.value.reason.code == 1012
        with trio.CancelScope(shield=True, deadline=trio.current_time() + 30):
            session = await server.engine.open_session(session_id)
            while session.state.turn is not None:
                await trio.sleep(0.05)
            assert session.state.last_result is not None
            assert session.state.last_result.text == "Late."


async def test_second_server_for_a_folder_is_refused(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        with pytest.raises(ConfigError, match="another server"):
            await serve(server.engine, ServeOptions(folder=tmp_path / "run"))
        with pytest.raises(ConfigError, match="can't listen"):
            await serve(server.engine, ServeOptions(port=server.port))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.1"])
async def test_other_machines_need_tls(tmp_path: Path, host: str) -> None:
    async with served(tmp_path) as server:
        with pytest.raises(ConfigError, match="certificate"):
            await serve(server.engine, ServeOptions(host=host))


async def test_each_adopted_socket_needs_tls(tmp_path: Path) -> None:
    made = [socket.create_server((host, 0)) for host in ("127.0.0.1", "127.0.0.2")]
    async with served(tmp_path) as server:
        with pytest.raises(ConfigError, match=r"can reach 127\.0\.0\.2"):
            await serve(server.engine, ServeOptions(sockets=[("http", each.detach()) for each in made]))


async def test_each_adopted_socket_is_known(tmp_path: Path) -> None:
    made = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    ports = [each.getsockname()[1] for each in made]
    options = ServeOptions(sockets=[("http", each.detach()) for each in made])
    async with served(tmp_path, options=options), httpx.AsyncClient() as http:
        for port in ports:
            assert (await http.get(f"http://127.0.0.1:{port}/healthz")).status_code == 200


@pytest.mark.parametrize("url", ["", "engine.example.com", "https:///engine"])
async def test_useless_public_url_is_refused(tmp_path: Path, url: str) -> None:
    async with served(tmp_path) as server:
        with pytest.raises(ConfigError, match="the public URL"):
            await serve(server.engine, ServeOptions(public_url=url))
