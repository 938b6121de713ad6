"""HTTP as a person uses it: the lines of the how-to as they stand there, and what else the addresses promise."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio

from engine.control.protocol.method_table import METHODS
from engine.session.engine_options import PermissionOptions
from engine.testing.script import Answer, Pause, call, done, text
from tests.conftest import REPOSITORY
from tests.support.raw_http import raw_stream, request
from tests.support.served_engine import Server, served

PNG = b"\x89PNG\r\n\x1a\nnot really"
BINARY = {"content-type": "application/octet-stream"}


def http_of(server: Server) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=server.at.url, headers=server.bearer, timeout=60)


@pytest.mark.os
async def test_lines_of_the_how_to_work(tmp_path: Path) -> None:
    page = await trio.Path(REPOSITORY / "docs/how-to/serve.md").read_text()
    (block,) = re.findall(r"```sh\n# needs a server\n(.*?)```", page, re.DOTALL)
    create, prompt, wait, stream, asked, answer, _answers, cancel, turn, messages = block.strip().split("\n")
    asks: list[Answer] = [[*call("wait_forever", id="c1"), *done("calls")]]
    script = [*asks, [*text("Committed."), *done()]]
    async with served(tmp_path, *script, permissions=PermissionOptions()) as server, server.unix() as client:
        variables = {"TOKEN": server.at.token, "URL": server.at.url}

        async def run(line: str) -> dict[str, Any]:
            result = await trio.run_process(
                ["sh", "-c", f"{line} --silent --show-error"], env={**os.environ, **variables}, capture_stdout=True
            )
            document: dict[str, Any] = json.loads(result.stdout)
            assert "kind" not in document, document
            return document

        variables["SESSION"] = (await run(create.replace("/home/me/project", str(tmp_path))))["row"]["id"]
        variables["TURN"] = (await run(prompt))["turn_id"]
        assert (await run(prompt))["turn_id"] == variables["TURN"]
        await client.hello()
        await client.result("subscribe", session_id=variables["SESSION"], at="start")
        await client.events_until("permission_asked")
        (question,) = (await run(asked))["questions"]
        variables["REQUEST"] = question["question"]["request_id"]
        assert (await run(answer))["effect"] == "allowed"
        await client.events_until("call_started")
        async with trio.open_nursery() as nursery:
            watch = partial(trio.run_process, env={**os.environ, **variables}, stdout=subprocess.PIPE)
            watching: trio.Process = await nursery.start(watch, ["sh", "-c", f"exec {stream} --silent"])
            assert watching.stdout is not None
            received = b""
            while b"event: head" not in received:
                received += await watching.stdout.receive_some()
            nursery.cancel_scope.cancel()
        assert (await run(turn))["state"] == "pending"
        assert (await run(cancel))["state"] == "ending"
        await client.events_until("turn_ended")
        ended = await run(wait)
        assert (ended["state"], ended["result"]["text"]) == ("over", "Committed.")
        assert [message["type"] for message in (await run(messages))["messages"]][-1] == "assistant"


async def test_missing_idempotency_key_is_named(tmp_path: Path) -> None:
    async with served(tmp_path, [*text("One."), *done()]) as server, http_of(server) as http:
        refused = await http.post("/v1/sessions", json={"cwd": str(tmp_path)})
        assert refused.status_code == 400
        assert "Idempotency-Key" in refused.json()["detail"]


async def test_prompt_is_answered_with_its_turn(tmp_path: Path) -> None:
    script: list[Answer] = [[*text("One."), *done()], [*text("Two"), Pause(1000), *done()]]
    async with served(tmp_path, *script) as server, http_of(server) as http:
        created = await http.post("/v1/sessions", json={"cwd": str(tmp_path), "key": "k"})
        address = f"/v1/sessions/{created.json()['row']['id']}"
        started = await http.post(f"{address}/prompt", json={"text": "Go", "key": "p1"})
        assert started.status_code == 202
        where = httpx.URL(f"{server.at.url}{address}/prompt").join(started.headers["location"])
        with trio.fail_after(60):
            while (await http.get(where)).json()["state"] != "over":
                await trio.sleep(0.01)
        waited = await http.post(f"{address}/prompt", json={"text": "Go", "key": "p1"}, headers={"prefer": "wait=5"})
        assert (waited.status_code, waited.headers["preference-applied"]) == (200, "wait=5")
        assert waited.json()["result"]["text"] == "One."
        turns: set[str] = set()
        for prefer in ("wait=0", "respond-async, wait=1", "wait = 0"):
            body = {"text": "More", "key": "p2"}
            late = await http.post(f"{address}/prompt", json=body, headers={"prefer": prefer})
            assert (late.status_code, late.json().get("state")) == (202, None), late.text
            turns.add(late.json()["turn_id"])
        busy = await http.post(f"{address}/prompt", json={"text": "x", "key": "p3"}, headers={"prefer": "wait=5"})
        assert (busy.status_code, busy.json()["kind"], {busy.json()["turn_id"]}) == (409, "busy", turns)


async def test_client_that_hangs_up_ends_no_turn(tmp_path: Path) -> None:
    script: list[Answer] = [[*call("wait_forever", id="c1"), *done("calls")]]
    async with served(tmp_path, *script) as server, server.unix() as client:
        await client.hello()
        session_id = await client.new_session(tmp_path)
        await client.result("subscribe", session_id=session_id)
        async with raw_stream(server.port) as stream:
            body = json.dumps({"text": "Go", "key": "p1"})
            target = f"/v1/sessions/{session_id}/prompt"
            fields = "Prefer: wait=60\r\n"
            await stream.send_all(
                request(target, server.port, method="POST", body=body, token=server.at.token, fields=fields)
            )
            await client.events_until("call_started")
        # The request is gone; its turn is not.
        with trio.fail_after(60):
            while (await client.result("server.status"))["connections"] != 1:
                await trio.sleep(0.01)
        head = (await client.result("session.get", session_id=session_id))["head"]
        assert (head["status"]["type"], head["ending"]) == ("busy", None)


async def test_body_is_read_as_strictly_as_messages(tmp_path: Path) -> None:
    json_type = {"content-type": "application/json"}
    async with served(tmp_path) as server, http_of(server) as http:
        for body in (
            b'{"cwd":"a","cwd":"b","key":"k"}',
            b'{"cwd":"a","key":"k","x":NaN}',
            b"\xff",
            b"[]",
            b"[" * 5000,
            b"{",
        ):
            refused = await http.post("/v1/sessions", content=body, headers=json_type)
            assert (refused.status_code, refused.json()["kind"]) == (400, "request"), body[:20]
        unknown = await http.post("/v1/sessions", json={"cwd": "a", "key": "k", "titles": "x"})
        assert (unknown.json()["kind"], unknown.json()["nearest"]) == ("params", "title")
        created = await http.post("/v1/sessions", json={"cwd": str(tmp_path), "key": "k"})
        address = f"/v1/sessions/{created.json()['row']['id']}"
        # As UTF-8 it is well below the limit, and must not grow above it on its way.
        prompted = await http.post(
            f"{address}/prompt", content=json.dumps({"text": "ж" * 150_000, "key": "p"}, ensure_ascii=False)
        )
        assert prompted.status_code == 415
        large = json.dumps({"text": "ж" * 450_000, "key": "p"}, ensure_ascii=False).encode()
        assert (await http.post(f"{address}/prompt", content=large, headers=json_type)).status_code == 202
        too_large = await http.post("/v1/rpc", content=b" " * (1 << 20) + b"{}", headers=json_type)
        assert (too_large.status_code, too_large.json()["kind"], too_large.json()["limit"]) == (
            413,
            "too_large",
            1 << 20,
        )
        keyed = await http.post(f"{address}/requests/r1", json={"answer": "once"}, headers={"idempotency-key": "k"})
        assert (keyed.status_code, keyed.json()["what"]) == (404, "question")


async def test_numbers_in_addresses_are_read(tmp_path: Path) -> None:
    async with served(tmp_path) as server, http_of(server) as http:
        for query, status in [
            ("/v1/usage?by=model&since=1.5&until=2000000000", 200),
            ("/v1/usage?since=soon", 400),
            ("/v1/sessions?limit=10", 200),
            ("/v1/sessions?limit=1.5", 400),
            ("/v1/sessions?limit=-1", 400),
            ("/v1/sessions?limit=٣", 400),
            ("/v1/sessions?cwd=7", 200),
            ("/v1/sessions?colour=red", 400),
            ("/v1/asked", 200),
        ]:
            answer = await http.get(query)
            assert answer.status_code == status, (query, answer.text)


async def test_addresses_answer_as_their_methods_do(tmp_path: Path) -> None:
    async with served(tmp_path) as server, http_of(server) as http, server.unix() as client:
        await client.hello()
        session_id = await client.new_session(tmp_path)
        turn_id = (await client.result("prompt", session_id=session_id, text="Hi", key="p1"))["turn_id"]
        await client.result("wait", session_id=session_id, turn_id=turn_id)
        own: dict[str, Any] = {"session_id": session_id}
        addresses: list[tuple[str, str, dict[str, Any]]] = [
            ("/v1/status", "server.status", {}),
            ("/v1/agents", "agent.list", {}),
            ("/v1/tools", "tool.list", {}),
            ("/v1/clients", "clients", {}),
            ("/v1/usage?by=model", "session.usage", {"by": "model"}),
            ("/v1/search?words=Hi", "session.search", {"words": "Hi"}),
            ("/v1/sessions?limit=5", "session.list", {"limit": 5}),
            (f"/v1/sessions/{session_id}", "session.get", own),
            (f"/v1/sessions/{session_id}/messages?limit=1", "messages", {**own, "limit": 1}),
            (f"/v1/sessions/{session_id}/events?after=2", "events", {**own, "after": 2}),
            (f"/v1/sessions/{session_id}/snapshot?tail=1", "snapshot", {**own, "tail": 1}),
            (f"/v1/sessions/{session_id}/asked", "asked", own),
            (f"/v1/sessions/{session_id}/diff", "diff", own),
            (f"/v1/sessions/{session_id}/context", "context", own),
            (f"/v1/sessions/{session_id}/turns/{turn_id}", "wait", {**own, "turn_id": turn_id, "timeout": 0}),
        ]
        for path, method, params in addresses:
            assert METHODS[method].role == "read"  # no GET has an effect
            shown, answered = await http.get(path), await client.call(method, **params)
            if "result" in answered:
                assert (shown.status_code, shown.json()) == (200, answered["result"]), path
            else:
                assert shown.json()["kind"] == answered["error"]["data"]["kind"], path
        plain = await http.get("/v1/socket")
        assert (plain.status_code, plain.headers["upgrade"]) == (426, "websocket")


async def test_unchanged_answers_are_not_sent_again(tmp_path: Path) -> None:
    async with served(tmp_path) as server, http_of(server) as http, server.unix() as client:
        await client.hello()
        session_id = await client.new_session(tmp_path)
        for path in ("", "/messages", "/events", "/snapshot", "/asked", "/export.json"):
            url = f"/v1/sessions/{session_id}{path}"
            first = await http.get(url)
            if path == "/export.json":  # it holds the time at which it was made
                continue
            tag = first.headers["etag"]
            for sent in (tag, f"W/{tag}", f'"other", {tag}', "*"):
                again = await http.get(url, headers={"if-none-match": sent})
                assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag), (path, sent)
            assert (await http.get(url, headers={"if-none-match": '"other"'})).status_code == 200
            head = await http.head(url)
            assert (head.status_code, head.headers["etag"], head.content) == (200, tag, b"")
            assert first.headers["cache-control"] == "no-store"
        url = f"/v1/sessions/{session_id}"
        tag = (await http.get(url)).headers["etag"]
        await client.result("session.rename", session_id=session_id, title="New")
        assert (await http.get(url, headers={"if-none-match": tag})).status_code == 200


async def test_media_are_fetched_by_reference(tmp_path: Path) -> None:
    async with served(tmp_path) as server, http_of(server) as http, server.unix() as client:
        await client.hello()
        session_id = await client.new_session(tmp_path)
        upload = (await http.post("/v1/uploads", content=PNG, headers=BINARY)).json()["upload"]
        drawing = base64.b64encode(b"<svg onload=alert(1)/>").decode()
        attachments = [
            {"upload": upload, "name": "a.png"},
            {"data": drawing, "media_type": "image/svg+xml"},
            {"data": drawing, "media_type": "text/html", "name": "b.html"},
        ]
        prompt = {"session_id": session_id, "text": "See", "attachments": attachments, "key": "p1"}
        turn_id = (await client.result("prompt", **prompt))["turn_id"]
        await client.result("wait", session_id=session_id, turn_id=turn_id)
        (first, *_) = (await client.result("messages", session_id=session_id))["messages"]
        assert (await client.result("snapshot", session_id=session_id))["messages"][0] == first
        references = [part["data"].removeprefix("href:") for part in first["parts"] if "data" in part]
        answers = [await http.get(f"/{reference}") for reference in references]
        assert [answer.headers["content-type"] for answer in answers] == [
            "image/png",
            *["application/octet-stream"] * 2,
        ]
        assert [answer.content for answer in answers] == [PNG, *[b"<svg onload=alert(1)/>"] * 2]
        for answer in answers:
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert "sandbox" in answer.headers["content-security-policy"]
        kinds = [answer.headers["content-disposition"].partition(";")[0] for answer in answers]
        assert kinds == ["inline", "attachment", "attachment"]
        alone = await http.get(f"/v1/sessions/{session_id}/messages/{first['id']}")
        assert alone.json() == first
        for path in ("media/" + "0" * 32, "media/x", "messages/none"):
            assert (await http.get(f"/v1/sessions/{session_id}/{path}")).status_code == 404, path
        assert (await http.get(f"/{references[0]}", headers={"authorization": ""})).status_code == 401


async def test_attachments_of_a_prompt_are_bounded(tmp_path: Path) -> None:
    async with served(tmp_path) as server, http_of(server) as http, server.unix() as client:
        await client.hello()
        session_id = await client.new_session(tmp_path)
        upload = (await http.post("/v1/uploads", content=PNG + bytes(20 << 20), headers=BINARY)).json()["upload"]
        for method in ("prompt", "queue"):
            prompt = {"session_id": session_id, "text": "See", "attachments": [{"upload": upload}] * 2, "key": method}
            refused = await client.call(method, **prompt)
            assert (refused["error"]["data"]["kind"], refused["error"]["data"]["limit"]) == ("too_large", 32 << 20)
        for name, size in (("title", 501), ("words", 1001)):
            method, params = (
                ("session.rename", {"session_id": session_id}) if name == "title" else ("session.search", {})
            )
            assert (await client.call(method, **params, **{name: "x" * size}))["error"]["data"]["path"] == name


async def test_large_event_is_fetched_where_it_was_elided(tmp_path: Path) -> None:
    async with served(tmp_path) as server, http_of(server) as http, server.unix() as client:
        await client.hello()
        session_id = await client.new_session(tmp_path)
        image = PNG + os.urandom(13 << 20)
        upload = (await http.post("/v1/uploads", content=image, headers=BINARY)).json()["upload"]
        prompt = {"session_id": session_id, "text": "See", "attachments": [{"upload": upload}], "key": "p1"}
        turn_id = (await client.result("prompt", **prompt))["turn_id"]
        await client.result("wait", session_id=session_id, turn_id=turn_id)
        await client.result("subscribe", session_id=session_id, at="start")
        elided = (await client.events_until("elided"))[-1]
        assert (elided["of"], elided["bytes"] > 16 << 20) == ("input_admitted", True)
        (event,) = (await http.get(f"/{elided['href']}")).json()["events"]
        assert base64.b64decode(event["message"]["parts"][0]["data"]) == image
        assert len((await client.result("snapshot", session_id=session_id))["messages"]) == 2


async def test_bodies_have_limits(tmp_path: Path) -> None:
    async with served(tmp_path) as server, http_of(server) as http:
        nobody = {"authorization": "", "content-type": "application/json"}
        for path, size, status in [("/v1/login", 5000, 413), ("/v1/login", 100, 400), ("/v1/rpc", 2 << 20, 401)]:
            assert (await http.post(path, content=b" " * size, headers=nobody)).status_code == status, path
        assert (await http.post("/v1/uploads", content=bytes(32 << 20), headers=BINARY)).status_code == 200
        refused = await http.post("/v1/uploads", content=bytes((32 << 20) + 1), headers=BINARY)
        assert (refused.status_code, refused.json()["kind"], refused.json()["limit"]) == (413, "too_large", 32 << 20)


async def test_proxy_may_keep_its_path(tmp_path: Path) -> None:
    from engine.control.listen import ServeOptions

    options = ServeOptions(folder=tmp_path / "run", public_url="https://proxy.example/engine/")
    async with served(tmp_path, options=options) as server, http_of(server) as http:
        host = {"host": "proxy.example", "origin": "https://proxy.example"}
        for path in ("/engine/v1/status", "/v1/status"):
            assert (await http.get(path, headers=host)).status_code == 200
        assert (await http.get("/enginev1/status", headers=host)).status_code == 404
        # What a proxy adds is not believed: anybody can add it.
        forwarded = {
            "forwarded": "host=proxy.example",
            "x-forwarded-host": "proxy.example",
            "x-forwarded-proto": "https",
        }
        for headers, status in (
            ({**forwarded, "host": "evil.example"}, 421),
            ({**host, "x-forwarded-host": "evil"}, 200),
        ):
            assert (await http.get("/v1/status", headers=headers)).status_code == status
