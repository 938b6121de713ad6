"""Several clients of a served engine: who did what, who is there, what they watch, and the end of the server."""

from __future__ import annotations

from pathlib import Path

from engine.session.engine_options import PermissionOptions
from engine.testing.script import Answer, call, done, text
from tests.support.served_engine import served

ASKS: list[Answer] = [[*call("wait_forever", id="c1"), *done("calls")], [*text("Done."), *done()]]


async def test_loser_of_two_answers_learns_the_winner(tmp_path: Path) -> None:
    async with (
        served(tmp_path, *ASKS, permissions=PermissionOptions()) as server,
        server.unix() as ada,
        server.unix() as bob,
    ):
        await ada.hello("ada")
        await bob.hello("bob")
        session_id = await ada.new_session(tmp_path)
        for client in (ada, bob):
            await client.result("subscribe", session_id=session_id, at="start")
        await ada.result("prompt", session_id=session_id, text="Go", key="p1")
        events = await bob.events_until("permission_asked")
        assert [event["by"] for event in events if event["type"] == "input_admitted"] == ["ada"]
        question = {"session_id": session_id, "request_id": events[-1]["request_id"]}
        await bob.result("permission.reply", **question, answer="reject", feedback="No.")
        lost = await ada.call("permission.reply", **question, answer="once")
        assert lost["error"]["data"]["kind"] == "already_settled"
        assert lost["error"]["data"]["by"] == "bob"
        (answered,) = (await ada.events_until("permission_answered"))[-1:]
        assert answered["by"] == "bob"
        assert answered["seq"] == lost["error"]["data"]["seq"]


async def test_cancel_names_its_client(tmp_path: Path) -> None:
    async with served(tmp_path, *ASKS) as server, server.unix() as ada, server.unix() as bob:
        await ada.hello("ada")
        await bob.hello("bob")
        session_id = await ada.new_session(tmp_path)
        await ada.result("subscribe", session_id=session_id, at="start")
        turn_id = (await ada.result("prompt", session_id=session_id, text="Go", key="p1"))["turn_id"]
        await ada.events_until("call_started")
        queued = await bob.result("queue", session_id=session_id, text="Next", key="q1")
        head = (await bob.result("session.get", session_id=session_id))["head"]
        assert [(each["input_id"], each["by"]) for each in head["queue"]] == [(queued["input_id"], "bob")]
        await bob.result("cancel", session_id=session_id, turn_id=turn_id)
        assert (await ada.events_until("turn_ending"))[-1]["by"] == "bob"
