"""Every worked example of the reference, sent to a served engine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from engine.control.protocol.method_table import COMMON_ERRORS, METHODS
from engine.control.protocol.wire_converter import read_received, write_value
from engine.session.engine_options import PermissionOptions
from engine.testing.script import Answer, call, done, text
from scripts.control_examples import EXAMPLES
from tests.support.served_engine import served

SCRIPT: list[Answer] = [
    [*text("They pass now."), *done()],
    [*call("wait_forever", id="c-2"), *done("calls")],
    [*text("Stopped."), *done()],
    *[[*text("Done."), *done()]] * 5,
]
# Their examples need a question, a parked turn, a running turn, or a key, which there is not here.
REFUSED = {
    "attend": "not_found",
    "call.settle": "not_found",
    "model.set": "config",
    "permission.reply": "not_found",
    "question.answer": "not_found",
    "recovery.answer": "config",
    "restore": "nothing_to_do",
    "resume": "nothing_to_do",
    "skip_wait": "conflict",
    "steer": "conflict",
}
# These end something that the others need.
LAST = ("unsubscribe", "session.close", "session.delete", "server.drain")


async def test_examples_are_answered_as_the_table_says(tmp_path: Path) -> None:
    async with (
        served(tmp_path, *SCRIPT, permissions=PermissionOptions()) as server,
        server.unix() as client,
    ):
        answers: dict[str, dict[str, Any]] = {}

        async def ask(name: str, params: dict[str, Any]) -> dict[str, Any]:
            answers[name] = await client.call(name, **params)
            return answers[name]

        await ask("hello", json.loads(write_value(EXAMPLES["hello"][0])))
        session_id = await client.new_session(tmp_path)
        sub = (await client.result("subscribe", session_id=session_id, at="start"))["sub"]
        turn_id = (await client.result("prompt", session_id=session_id, text="Make them pass", key="p1"))["turn_id"]
        await client.events_until("turn_ended")
        denied = (await client.result("prompt", session_id=session_id, text="Wait", key="p2"))["turn_id"]
        asked = (await client.events_until("permission_asked"))[-1]
        await client.result(
            "permission.reply", session_id=session_id, request_id=asked["request_id"], answer="reject", feedback="No."
        )
        await client.result("wait", session_id=session_id, turn_id=denied)
        message_id = (await client.result("messages", session_id=session_id))["messages"][1]["id"]
        real = {"s-4f1c": session_id, "t-02": turn_id, "/home/ada/project": str(tmp_path), "m-2": message_id}
        real["c-2"] = asked["call_id"]
        order = [name for name in METHODS if name not in (*LAST, "hello")]
        for name in [*order, *LAST]:
            example = write_value(EXAMPLES[name][0]).replace("k-9b2e", f"key {name}").replace("sub-1", sub)
            for there, here in real.items():
                example = example.replace(json.dumps(there)[1:-1], json.dumps(here)[1:-1])
            answer = await ask(name, json.loads(example))
            if name in {"prompt", "queue", "compact"}:
                while (await client.result("session.get", session_id=session_id))["head"]["turn"] is not None:
                    await client.events_until("turn_ended")
            if "error" in answer:
                assert answer["error"]["data"]["kind"] in (*METHODS[name].errors, *COMMON_ERRORS), answer
        refused = {name: answer["error"]["data"]["kind"] for name, answer in answers.items() if "error" in answer}
        assert refused == REFUSED
        assert set(answers) == set(METHODS)
        for name, answer in answers.items():
            if "result" in answer:
                read_received(answer["result"], METHODS[name].result)
