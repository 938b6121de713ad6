"""A subscription, and a connection with one, whose client is slow, silent, or stopped."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import httpx
import pytest
import trio
from trio.testing import MockClock

import engine
from engine.control.control_methods import Caller
from engine.control.credentials import Login
from engine.control.engine_methods import EngineMethods
from engine.control.protocol.watch_methods import SubscribeParams
from engine.control.service.metrics import Metrics
from engine.control.subscription import Subscription, SubscriptionShare
from engine.testing.script import Answer, Pause, call, done, text
from engine.testing.scripted_provider import ScriptedProvider
from tests.support.served_engine import served


@pytest.fixture
def clock() -> MockClock:
    """Real time, which a test may put forward."""
    return MockClock(rate=1)


@attrs.define
class SlowSink:
    """A connection that takes what is next only when the test says so."""

    waiting: trio.Event = attrs.field(factory=trio.Event)
    ready: trio.Event = attrs.field(factory=trio.Event)
    sent: list[dict[str, Any]] = attrs.field(factory=list)

    async def send_note(self, name: str, note: object) -> None:
        del name, note
        await trio.lowlevel.checkpoint()

    async def send_next(self, take: Callable[[], str | None]) -> None:
        self.waiting.set()
        await self.ready.wait()
        self.sent.append(json.loads(take() or "{}"))
        self.ready = trio.Event()


async def test_head_is_what_was_sent(tmp_path: Path) -> None:
    async with engine.open_engine(model=ScriptedProvider([]), store=tmp_path / "s.db") as eng:
        session = await eng.create_session(cwd=tmp_path)
        methods = EngineMethods(eng)
        params = SubscribeParams(session_id=session.id)
        followed = await methods.follow(params, Caller("test", Login("owner", "full")))
        share = SubscriptionShare(Metrics(), now=lambda: 0.0, with_clients=lambda head: head)
        subscription, sink = Subscription("s1", params, followed, share=share), SlowSink()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(subscription.run, sink, followed.result.head)
            before = subscription.seq
            await session.rename("one")
            await sink.waiting.wait()
            # The client does not have the event: a tick that named it would look like a loss.
            assert subscription.seq == before
            await session.rename("two")
            sink.ready.set()
            await trio.testing.wait_all_tasks_blocked(0.01)
            assert [event["seq"] for event in sink.sent[0]["params"]["events"]] == [before + 1, before + 2]
            assert subscription.seq == before + 2
            nursery.cancel_scope.cancel()


async def test_silent_connection_ticks_and_answers(tmp_path: Path, clock: MockClock) -> None:
    async with served(tmp_path, seconds=600) as server, server.unix() as client, server.unix() as other:
        await client.hello()
        await other.hello("other")
        session_id = await client.new_session(tmp_path)
        sub = (await client.result("subscribe", session_id=session_id))["sub"]
        await client.note_of("head")
        for _ in range(6):
            await trio.testing.wait_all_tasks_blocked(0.02)
            clock.jump(15)
            tick = await client.note_of("tick")
            assert tick["heads"] == {sub: 1}
            await client.send(json.dumps({"jsonrpc": "2.0", "method": "tock", "params": {"time": tick["time"]}}))
        # The other one has answered none, and is gone.
        assert [row["name"] for row in (await client.result("clients"))["clients"]] == ["test"]


@pytest.mark.os
@pytest.mark.slow
@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
async def test_stopped_client_is_left_behind(tmp_path: Path, clock: MockClock) -> None:
    model = ScriptedProvider([[*text("x" * 3_000_000, pieces=6), *done()]], repeat=True)
    async with served(tmp_path, model=model, seconds=600) as server, server.unix() as client:
        await client.hello()
        session_id = await client.new_session(tmp_path)
        await client.result("subscribe", session_id=session_id)
        url = f"{server.at.url}/v1/sessions/{session_id}/stream?at=start"
        header = f"Authorization: Bearer {server.at.token}"
        async with trio.open_nursery() as nursery:
            run = partial(trio.run_process, stdout=subprocess.PIPE, check=False)
            process: trio.Process = await nursery.start(run, ["curl", "-sN", "-H", header, url])
            assert process.stdout is not None
            assert await process.stdout.receive_some()
            os.kill(process.pid, signal.SIGSTOP)
            # More than the system keeps for a connection.
            for number in range(5):
                await client.result("prompt", session_id=session_id, text="Go", key=f"p{number}")
                # Who reads gets all of it meanwhile.
                events = await client.events_until("turn_ended")
                assert sum(len(event["text"]) for event in events if event["type"] == "text_delta") >= 3_000_000
            async with httpx.AsyncClient(base_url=server.at.url, headers=server.bearer) as http:
                clock.jump(31)
                while "\nengine_control_stalls_total 1\n" not in (await http.get("/metrics")).text:
                    await client.result("ping")  # this one is alive
                    await trio.sleep(0.02)
            os.kill(process.pid, signal.SIGCONT)
            while await process.stdout.receive_some():
                pass
        assert process.returncode != 0


async def test_live_events_wait_and_durable_ones_do_not(tmp_path: Path) -> None:
    script: Answer = [part for piece in text("x" * 30, pieces=30) for part in (piece, Pause(0.01))]
    async with served(tmp_path, [*script, *done()]) as server, server.unix() as client:
        await client.hello()
        session_id = await client.new_session(tmp_path)
        sub = (await client.result("subscribe", session_id=session_id, interval=1000))["sub"]
        began = trio.current_time()
        await client.result("prompt", session_id=session_id, text="Go", key="p1")
        live, written, tag = 0, "", ""
        while tag != "turn_ended":
            note = await client.note_of("events")
            assert note["sub"] == sub
            live += all(event["seq"] is None for event in note["events"])
            written += "".join(event["text"] for event in note["events"] if event["type"] == "text_delta")
            tag = note["events"][-1]["type"]
        assert written == "x" * 30
        assert live <= 1 + (trio.current_time() - began)


async def test_message_is_finished_when_its_subscription_ends(tmp_path: Path) -> None:
    model = ScriptedProvider([[*text("x" * 2_000_000, pieces=4), *done()]], repeat=True)
    async with served(tmp_path, model=model) as server, server.unix() as client, server.unix() as slow:
        await client.hello()
        await slow.hello("slow")
        session_id = await client.new_session(tmp_path)
        turn_id = (await client.result("prompt", session_id=session_id, text="Go", key="p1"))["turn_id"]
        await client.result("wait", session_id=session_id, turn_id=turn_id)
        sub = (await slow.result("subscribe", session_id=session_id, at="start"))["sub"]
        # Nothing is read, so the message with the text is stuck in the middle.
        await trio.testing.wait_all_tasks_blocked(0.05)
        await slow.send(json.dumps({"jsonrpc": "2.0", "id": "u", "method": "unsubscribe", "params": {"sub": sub}}))
        await trio.testing.wait_all_tasks_blocked(0.05)
        seqs: list[int] = []
        while (note := await slow.note()).get("id") != "u":
            if note["method"] == "events":
                seqs += [event["seq"] for event in note["params"]["events"] if event["seq"]]
        assert (await slow.result("ping"))["time"] > 0
        # From that position on, nothing is missing.
        await slow.result("subscribe", session_id=session_id, after=note["result"]["position"])
        await client.result("session.rename", session_id=session_id, title="New")
        seqs += [event["seq"] for event in await slow.events_until("session_titled") if event["seq"]]
        assert seqs == list(range(1, len(seqs) + 1))


async def test_requests_in_flight_are_bounded(tmp_path: Path) -> None:
    script: list[Answer] = [[*call("wait_forever", id="c1"), *done("calls")]]
    async with served(tmp_path, *script) as server, server.unix() as client:
        await client.hello()
        session_id = await client.new_session(tmp_path)
        turn_id = (await client.result("prompt", session_id=session_id, text="Go", key="p1"))["turn_id"]
        params = {"session_id": session_id, "turn_id": turn_id, "timeout": 60}
        for number in range(70):
            await client.send(json.dumps({"jsonrpc": "2.0", "id": f"w{number}", "method": "wait", "params": params}))
        refused = [await client.note() for _ in range(6)]
        assert {answer["error"]["data"]["kind"] for answer in refused} == {"overloaded"}
        assert {answer["id"] for answer in refused} == {f"w{number}" for number in range(64, 70)}
        # Who has as many as there may be can show that it is there, and free one.
        pings = [{"jsonrpc": "2.0", "id": f"p{number}", "method": "ping", "params": {}} for number in range(4)]
        await client.send(json.dumps(pings))
        assert all(answer["result"]["time"] > 0 for answer in json.loads(await client.receive()))
        assert (await client.result("rpc.cancel", id="w1")) == {"cancelled": True}
        assert (await client.note())["error"]["data"]["kind"] == "cancelled"
        await client.send(json.dumps({"jsonrpc": "2.0", "method": "rpc.cancel", "params": {"id": "w0"}}))
        assert (await client.note())["error"]["data"]["kind"] == "cancelled"
        assert (await client.result("ping"))["time"] > 0
        await client.result("cancel", session_id=session_id, turn_id=turn_id)
        answers = [await client.note() for _ in range(62)]
        assert {answer["result"]["state"] for answer in answers} == {"over"}


async def test_subscriptions_of_a_connection_are_bounded(tmp_path: Path) -> None:
    async with served(tmp_path) as server, server.unix() as client:
        await client.hello()
        session_id = await client.new_session(tmp_path)
        names = [(await client.result("subscribe", session_id=session_id))["sub"] for _ in range(64)]
        for method in ("subscribe", "watch"):
            params = {"session_id": session_id} if method == "subscribe" else {}
            refused = await client.call(method, **params)
            assert (refused["error"]["data"]["kind"], refused["error"]["data"]["limit"]) == ("too_large", 64)
        await client.result("unsubscribe", sub=names[0])
        assert (await client.result("subscribe", session_id=session_id))["sub"] not in names
