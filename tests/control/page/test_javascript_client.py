"""The client in JavaScript against a real server, over a WebSocket and over HTTP: cut off, restarted, refused, out of date."""

from __future__ import annotations

import json
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal

import attrs
import pytest
import trio

import engine
from engine.control.listen import ServeOptions
from engine.journal.codec import encode_state
from engine.session.engine_options import PermissionOptions
from engine.testing import FaultProxy
from engine.testing.script import Answer, call, done, text
from tests.conftest import REPOSITORY
from tests.support.javascript import FOLDER, NODE, needs_packages
from tests.support.node_client import ClientFailed, NodeClient, node_client
from tests.support.served_engine import NoArguments, Server, served

pytestmark = [needs_packages, pytest.mark.os, pytest.mark.slow]

Way = Literal["websocket", "http"]
WAYS: tuple[Way, ...] = ("websocket", "http")
Json = dict[str, Any]
ASKS: list[Answer] = [[*call("wait_forever", id="c1"), *done("calls")], [*text("Done."), *done()]]
WRITES: Answer = [*text("One, two 😀, three.", pieces=6), *done()]


@attrs.frozen
class Place:
    """A served engine behind a proxy; `options` connect a client to it."""

    server: Server
    proxy: FaultProxy
    options: Json


@asynccontextmanager
async def place(
    folder: Path, *script: Answer, proxy: FaultProxy | None = None, port: int = 0, **opening: Any
) -> AsyncGenerator[Place]:
    """Serve an engine. With *proxy* and *port*, it takes the place of a server that has ended."""
    async with trio.open_nursery() as nursery:
        if proxy is None:
            proxy = FaultProxy()
            port = await nursery.start(proxy.serve)
        url = f"http://127.0.0.1:{port}"
        options = ServeOptions(folder=folder / "run", public_url=url)
        async with served(folder, *script, options=options, **opening) as server:
            proxy.target = server.port
            yield Place(server, proxy, {"url": url, "token": server.at.token, "name": "ada"})
        nursery.cancel_scope.cancel()


async def state_of(server: Server, session_id: str) -> Json:
    """Return the state as the engine has it, as JSON."""
    session = await server.engine.open_session(session_id)
    state: Json = json.loads(encode_state(session.state))
    return state


async def folded(client: NodeClient, session_id: str) -> Json:
    """Return the state as the client has folded it; messages say no version inside of a state."""
    member = (await client.run("look", name=session_id))["sessions"][session_id]
    assert not member["isStale"]
    state: Json = member["state"]
    for message in state["transcript"]:
        message.pop("v", None)
    return state


def numbers(items: list[Json], session_id: str) -> list[int]:
    return [item["seq"] for item in items if item.get("session_id") == session_id and item["seq"] is not None]


def first_of(items: list[Json], tag: str) -> Json:
    return next(item for item in items if item["type"] == tag)


def ended(client: NodeClient, name: str, session_id: str) -> bool:
    return any(item["type"] == "turn_ended" and item["session_id"] == session_id for item in client.items[name])


def written(items: list[Json]) -> str:
    """Return the text that came as deltas."""
    return "".join(item["text"] for item in items if item["type"] == "text_delta")


@pytest.mark.parametrize("way", WAYS)
async def test_whole_turn_folds_to_the_servers_state(tmp_path: Path, way: Way) -> None:
    async with place(tmp_path, WRITES, seconds=100) as at, node_client(**at.options, transport=way) as client:
        assert [state for state, _ in client.states] == ["live"]
        session_id = (await client.call("session.create", cwd=str(tmp_path)))["row"]["id"]
        await client.run("watch", id=session_id)
        turn_id = (await client.session(session_id, "prompt", "Hi"))["turn_id"]
        assert (await client.session(session_id, "wait", turn_id))["text"] == "One, two 😀, three."
        items = await client.until_event(session_id, "turn_ended")
        assert [item["type"] for item in items[:2]] == ["resync", "head"]
        assert written(items) == "One, two 😀, three."
        assert await folded(client, session_id) == await state_of(at.server, session_id)
        assert await client.run("counts") == {"healed": 0, "unknown": 0}
        # Each answer, and each message of the stream, was compared with the schema.
        assert client.compared > 6


@pytest.mark.parametrize("way", WAYS)
async def test_role_and_way_are_shown(tmp_path: Path, way: Way) -> None:
    async with place(tmp_path) as at, node_client() as client:
        connected = await client.run("connect", **at.options, transport=way)
        assert (connected["role"], connected["transport"]) == ("full", way)


@pytest.mark.parametrize("way", WAYS)
async def test_cut_connection_loses_and_repeats_nothing(tmp_path: Path, way: Way) -> None:
    async with (
        place(tmp_path, [*WRITES], [*WRITES], seconds=100) as at,
        node_client(**at.options, transport=way) as client,
    ):
        session_id = (await client.call("session.create", cwd=str(tmp_path)))["row"]["id"]
        await client.run("watch", id=session_id)
        await client.session(session_id, "prompt", "Hi")
        await client.until_event(session_id, "turn_ended")
        at.proxy.cut()
        await client.until_event(session_id, "offline")
        # It waits for the connection, and is sent then.
        await client.session(session_id, "prompt", "More")
        items = await client.until_event(session_id, "turn_ended", 2)
        seen = numbers(items, session_id)
        assert seen == list(range(2, 2 + len(seen)))
        assert [item["type"] for item in items if item["type"] in {"resync", "offline", "online"}] == [
            "resync",
            "offline",
            "online",
        ]
        assert written(items) == "One, two 😀, three." * 2
        assert await folded(client, session_id) == await state_of(at.server, session_id)
        assert await client.run("counts") == {"healed": 0, "unknown": 0}


async def test_cuts_after_any_amount_of_bytes(tmp_path: Path, is_full: bool) -> None:
    """Each connection is cut after a few bytes more than the one before, until one lasts."""
    script: Answer = [*text("Some words that come in pieces, one after the other.", pieces=20), *done()]
    async with place(tmp_path, script, seconds=300) as at, node_client(**at.options, transport="websocket") as client:
        session_id = (await client.call("session.create", cwd=str(tmp_path)))["row"]["id"]
        await client.run("watch", id=session_id)
        await client.until_event(session_id, "head")
        sent = await client.begin("session", id=session_id, method="prompt", args=["Hi"])
        for bytes_of_server in range(300, 9_000, 150 if is_full else 900):
            at.proxy.cuts = [bytes_of_server] * 4
            at.proxy.cut()
            await client.until(lambda: client.states[-1][0] == "offline")
            # It would wait for longer and longer.
            await client.run("check")
        at.proxy.cuts = []
        at.proxy.cut()
        assert (await client.result(sent))["turn_id"]
        items = await client.until_event(session_id, "turn_ended")
        seen = numbers(items, session_id)
        assert seen == list(range(2, 2 + len(seen)))
        assert [item["type"] for item in items].count("turn_started") == 1
        assert await folded(client, session_id) == await state_of(at.server, session_id)


async def test_second_answer_learns_of_the_first(tmp_path: Path) -> None:
    async with (
        place(tmp_path, *ASKS, permissions=PermissionOptions()) as at,
        node_client(**at.options) as client,
        at.server.unix() as bob,
    ):
        await bob.hello("bob")
        session_id = (await client.call("session.create", cwd=str(tmp_path)))["row"]["id"]
        await client.run("watch", id=session_id)
        await client.session(session_id, "prompt", "Go")
        asked = first_of(await client.until_event(session_id, "permission_asked"), "permission_asked")
        assert (await client.run("look", name=session_id))["questions"] == [asked["request_id"]]
        question = {"session_id": session_id, "request_id": asked["request_id"]}
        await bob.result("permission.reply", **question, answer="reject", feedback="No.")
        with pytest.raises(ClientFailed) as late:
            await client.session(session_id, "reply", asked["request_id"], {"answer": "once"})
        assert (late.value.kind, late.value.code) == ("already_settled", -32007)
        assert (late.value.data["answer"], late.value.data["by"]) == ("reject", "bob")
        await client.until_event(session_id, "turn_ended")
        assert (await client.run("look", name=session_id))["questions"] == []


@pytest.mark.parametrize("way", WAYS)
async def test_answer_lets_the_turn_go_on(tmp_path: Path, way: Way) -> None:
    finishes = engine.tool(finish)
    script: list[Answer] = [[*call("finish", id="c1"), *done("calls")], [*text("Done."), *done()]]
    async with (
        place(tmp_path, *script, tools=[finishes], permissions=PermissionOptions()) as at,
        node_client(**at.options, transport=way) as client,
    ):
        session_id = (await client.call("session.create", cwd=str(tmp_path)))["row"]["id"]
        await client.run("watch", id=session_id)
        turn_id = (await client.session(session_id, "prompt", "Go"))["turn_id"]
        asked = first_of(await client.until_event(session_id, "permission_asked"), "permission_asked")
        replied = await client.session(session_id, "reply", asked["request_id"], {"answer": "once"})
        assert replied["effect"] == "allowed"
        assert (await client.session(session_id, "wait", turn_id))["text"] == "Done."
        await client.until_event(session_id, "turn_ended")
        assert await folded(client, session_id) == await state_of(at.server, session_id)


@pytest.mark.parametrize("way", WAYS)
async def test_question_of_a_sub_agent_is_seen_by_who_joins(tmp_path: Path, way: Way) -> None:
    script: list[Answer] = [
        [*call("delegate", {"prompt": "Look."}, id="c1"), *done("calls")],
        [*call("finish", id="c2"), *done("calls")],
        [*text("Found."), *done()],
        [*text("Done."), *done()],
    ]
    tools = [engine.tool(read_only=True)(delegate), engine.tool(finish)]
    async with (
        place(tmp_path, *script, tools=tools, permissions=PermissionOptions()) as at,
        node_client(**at.options, transport=way) as client,
    ):
        session_id = (await client.call("session.create", cwd=str(tmp_path)))["row"]["id"]
        await client.run("watch", id=session_id)
        await client.session(session_id, "prompt", "Go")
        await client.until_event(session_id, "permission_asked")
        await client.run("watch", id=session_id, name="late")
        await client.until_event("late", "head")
        (request_id,) = (await client.run("look", name="late"))["questions"]
        assert (await client.run("look", name=session_id))["questions"] == [request_id]
        call_id = first_of(client.items[session_id], "call_announced")["call_id"]
        await client.session(session_id, "reply", request_id, {"answer": "once"})
        for name in (session_id, "late"):
            await client.until(partial(ended, client, name, session_id))
            looked = await client.run("look", name=name)
            assert looked["questions"] == []
            (child_id,) = set(looked["sessions"]) - {session_id}
            child = looked["sessions"][child_id]
            assert (child["depth"], child["call_id"], child["isStale"]) == (1, call_id, False)
            whole = await state_of(at.server, child_id)
            # Of a sub-agent that was there before, the messages are counted.
            skipped = child["state"].pop("skipped", 0)
            whole["transcript"] = whole["transcript"][skipped:]
            assert child["state"] == whole
        assert await folded(client, session_id) == await state_of(at.server, session_id)


@pytest.mark.parametrize("way", WAYS)
async def test_cancel_ends_the_turn_and_is_seen(tmp_path: Path, way: Way) -> None:
    async with place(tmp_path, *ASKS) as at, node_client(**at.options, transport=way) as client:
        session_id = (await client.call("session.create", cwd=str(tmp_path)))["row"]["id"]
        await client.run("watch", id=session_id)
        turn_id = (await client.session(session_id, "prompt", "Go"))["turn_id"]
        await client.until_event(session_id, "call_started")
        with pytest.raises(ClientFailed) as stale:
            await client.session(session_id, "cancel", "turn_other")
        assert stale.value.kind == "conflict"
        cancelled = await client.session(session_id, "cancel", turn_id)
        assert cancelled["state"] == "ending"
        items = await client.until_event(session_id, "turn_ended")
        ended = first_of(items, "turn_ended")
        ending = first_of(items, "turn_ending")
        # Over HTTP it is the token that has a name.
        assert ending["by"] == ("ada" if way == "websocket" else "owner")
        assert ended["result"]["stop_reason"] == "aborted"
        assert (await client.session(session_id, "cancel", turn_id))["state"] == "over"


async def test_queued_and_steering_input_is_admitted_once(tmp_path: Path) -> None:
    async with place(tmp_path, *ASKS) as at, node_client(**at.options) as client:
        session_id = (await client.call("session.create", cwd=str(tmp_path)))["row"]["id"]
        turn_id = (await client.session(session_id, "prompt", "Go"))["turn_id"]
        first = await client.session(session_id, "queue", "Then this", {"key": "q1"})
        assert await client.session(session_id, "queue", "Then this", {"key": "q1"}) == first
        with pytest.raises(ClientFailed) as other:
            await client.session(session_id, "queue", "Something else", {"key": "q1"})
        assert other.value.kind == "conflict"
        assert (await client.session(session_id, "steer", turn_id, "Look there"))["input_id"]
        with pytest.raises(ClientFailed) as busy:
            await client.session(session_id, "prompt", "Now")
        assert (busy.value.kind, busy.value.data["turn_id"]) == ("busy", turn_id)


def after_loss(items: list[Json]) -> list[str]:
    """The types of the items from the loss of the connection on."""
    types = [item["type"] for item in items]
    return types[types.index("offline") :]


@pytest.mark.parametrize("way", WAYS)
async def test_restarted_server_gives_one_snapshot(tmp_path: Path, way: Way) -> None:
    async with trio.open_nursery() as nursery, node_client() as client:
        proxy = FaultProxy()
        port = await nursery.start(proxy.serve)
        async with place(tmp_path, WRITES, proxy=proxy, port=port) as at:
            await client.run("connect", **at.options, transport=way)
            session_id = (await client.call("session.create", cwd=str(tmp_path)))["row"]["id"]
            await client.run("watch", id=session_id)
            await client.session(session_id, "prompt", "Hi")
            await client.until_event(session_id, "turn_ended")
            position = (await client.run("look", name=session_id))["position"]
        await client.until_event(session_id, "offline")
        async with place(tmp_path, WRITES, proxy=proxy, port=port) as at:
            await client.run("check")
            # Or the snapshot may hold the next turn, of which no event comes then.
            await client.until(lambda: "resync" in after_loss(client.items[session_id]))
            await client.session(session_id, "prompt", "More")
            items = await client.until_event(session_id, "turn_ended", 2)
            after = after_loss(items)
            assert (after.count("resync"), after.count("online")) == (1, 1)
            seen = numbers(items, session_id)
            assert len(seen) == len(set(seen))
            assert await folded(client, session_id) == await state_of(at.server, session_id)
            # A position of the server before: not an error, but a snapshot.
            await client.run("watch", id=session_id, name="again", options={"after": position})
            await client.until_event("again", "resync")
        nursery.cancel_scope.cancel()


async def test_refused_token_is_not_tried_again(tmp_path: Path) -> None:
    async with place(tmp_path) as at, node_client() as client:
        for way in WAYS:
            with pytest.raises(ClientFailed) as refused:
                await client.run("connect", **{**at.options, "token": "wrong"}, transport=way)
            assert (refused.value.kind, refused.value.code) == ("refused", 4401)
            assert client.states[-1][0] == "refused"
        accepted = at.proxy.accepted
        await client.run("connect", **at.options)
        assert at.proxy.accepted <= accepted + 2


async def test_link_is_exchanged_for_a_key(tmp_path: Path) -> None:
    async with place(tmp_path) as at, node_client() as client:
        options = {"url": at.options["url"], "name": "page"}
        link = at.server.at.link()
        assert link is not None
        ticket = link.rpartition("#k=")[2]
        key = (await client.run("connect", **options, ticket=ticket))["key"]
        assert key != at.options["token"]
        assert (await client.run("connect", **options, key=key))["key"] == key
        with pytest.raises(ClientFailed) as used:
            await client.run("connect", **options, ticket=ticket)
        assert used.value.kind == "refused"


@pytest.mark.parametrize("sockets", ["none", "broken"])
async def test_without_a_websocket_it_uses_http(tmp_path: Path, sockets: str) -> None:
    async with place(tmp_path) as at, node_client() as client:
        assert (await client.run("connect", **at.options, sockets=sockets))["transport"] == "http"


@pytest.mark.parametrize("way", WAYS)
async def test_list_of_sessions_shows_what_changes(tmp_path: Path, way: Way) -> None:
    async with (
        place(tmp_path, *ASKS, permissions=PermissionOptions()) as at,
        node_client(**at.options, transport=way) as client,
    ):
        old = (await client.call("session.create", cwd=str(tmp_path)))["row"]["id"]
        await client.run("list", options={})
        await client.until_event("list", "sessions")
        (first,) = client.items["list"][:1]
        assert (first["isReset"], [each["row"]["id"] for each in first["rows"]]) == (True, [old])
        await client.session(old, "prompt", "Go")
        rows: list[Json] = []

        def is_waiting() -> bool:
            rows[:] = [row for item in client.items["list"] for row in item["rows"]]
            # The question may be there before the row that the store has.
            return bool(rows[-1]["waiting"]) and rows[-1]["row"]["status"] == "waiting"

        await client.until(is_waiting)
        assert rows[-1]["row"]["id"] == old
        if way == "websocket":
            at.proxy.cut()
            await client.until(lambda: [item["isReset"] for item in client.items["list"]].count(True) == 2)


@pytest.mark.parametrize("way", WAYS)
async def test_unknown_session_ends_the_stream(tmp_path: Path, way: Way) -> None:
    async with place(tmp_path) as at, node_client(**at.options, transport=way) as client:
        for name, options in {"a": {}, "b": {"at": "start"}, "c": {"at": "now"}}.items():
            await client.run("watch", id="ses_none", name=name, options=options)
        await client.until(lambda: len(client.ends) == 3)
        assert set(client.ends.values()) == {"not_found"}


@pytest.mark.parametrize(("at_place", "first"), [("start", 1), ("now", 2), ("snapshot", 2)])
async def test_stream_begins_where_it_was_told(tmp_path: Path, at_place: str, first: int) -> None:
    async with place(tmp_path) as at, node_client(**at.options) as client:
        session_id = (await client.call("session.create", cwd=str(tmp_path)))["row"]["id"]
        await client.run("watch", id=session_id, options={"at": at_place})
        await client.until_event(session_id, "head")
        await client.session(session_id, "prompt", "Hi")
        items = await client.until_event(session_id, "turn_ended")
        assert numbers(items, session_id)[0] == first
        position = (await client.run("look", name=session_id))["position"]
        await client.session(session_id, "prompt", "More")
        await client.until_event(session_id, "turn_ended", 2)
        await client.run("watch", id=session_id, name="later", options={"after": position})
        later = await client.until_event("later", "turn_ended")
        assert numbers(later, session_id)[0] == numbers(items, session_id)[-1] + 1
        assert [item["type"] for item in later].count("resync") == 0


async def test_snapshot_of_a_long_session_goes_on_folding(tmp_path: Path) -> None:
    async with place(tmp_path, seconds=100) as at, node_client(**at.options) as client:
        session_id = (await client.call("session.create", cwd=str(tmp_path)))["row"]["id"]
        for number in range(6):
            turn_id = (await client.session(session_id, "prompt", f"Number {number}"))["turn_id"]
            await client.session(session_id, "wait", turn_id)
        await client.run("watch", id=session_id, options={"tail": 3})
        await client.until_event(session_id, "head")
        await client.session(session_id, "prompt", "Last")
        await client.until_event(session_id, "turn_ended")
        state, whole = await folded(client, session_id), await state_of(at.server, session_id)
        assert state.pop("skipped") == 9
        assert state.pop("transcript") == whole.pop("transcript")[9:]
        assert state == whole


async def test_large_prompt_goes_by_upload(tmp_path: Path) -> None:
    async with place(tmp_path) as at, node_client(**at.options) as client:
        session_id = (await client.call("session.create", cwd=str(tmp_path)))["row"]["id"]
        with pytest.raises(ClientFailed) as large:
            await client.session(session_id, "prompt", "é" * 600_000)
        assert large.value.kind == "too_large"
        reference = await client.run("upload", text="words\n" * 100, name="words.txt")
        sent = await client.session(session_id, "prompt", "Read this", {"attachments": [reference]})
        assert sent["turn_id"]


async def test_panel_of_the_documentation_runs(tmp_path: Path) -> None:
    example = REPOSITORY / "docs" / "examples" / "panel.mjs"
    script: list[Answer] = [[*call("finish", id="c1"), *done("calls")], [*text("They are gone."), *done()]]
    assert NODE is not None
    async with served(tmp_path, *script, tools=[engine.tool(finish)], permissions=PermissionOptions()) as server:
        command = [NODE, str(example), server.at.url, server.at.token]
        run = await trio.run_process(command, cwd=tmp_path, capture_stdout=True)
    assert run.stdout.decode() == example.with_suffix(".out").read_text("utf-8")


@pytest.mark.parametrize("file", sorted(path.name for path in FOLDER.glob("*.test.mjs")))
def test_tests_in_javascript_pass(file: str) -> None:
    """What a real server does seldom, or only after a while, and parts of the page."""
    assert NODE is not None
    command = [NODE, "--test", "--test-reporter=spec", file]
    run = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, timeout=100, check=False)
    assert run.returncode == 0, run.stdout


async def finish(arguments: NoArguments, context: engine.ToolContext) -> str:
    """Do nothing."""
    del arguments, context
    await trio.lowlevel.checkpoint()
    return "done"


@attrs.frozen
class Order:
    """Give work to a sub-agent."""

    prompt: str


async def delegate(order: Order, context: engine.ToolContext) -> str:
    """Give work to a sub-agent."""
    return (await context.run_agent(order.prompt)).text
