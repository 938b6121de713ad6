"""Every worked example of the reference, sent to a served engine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from engine.control.protocol.method_table import METHODS
from engine.control.protocol.wire_converter import read_received, write_value
from engine.session.engine_options import PermissionOptions
from scripts.control_examples import EXAMPLES
from tests.support.control_session import SCRIPT, ExampleSession
from tests.support.served_engine import served

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
LAST = ("rewind", "unsubscribe", "session.close", "session.delete", "server.drain")


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
        session = await ExampleSession.prepare(client, tmp_path)
        order = [name for name in METHODS if name not in (*LAST, "hello")]
        for name in [*order, *LAST]:
            answer = await ask(name, session.params(name))
            if METHODS[name].needs_key:
                # The same key again: the first answer, and nothing is done twice.
                again = await client.call(name, **session.params(name))
                assert {**again, "id": answer["id"]} == answer, name
            if name in {"prompt", "queue", "compact"}:
                while (await client.result("session.get", session_id=session.id))["head"]["turn"] is not None:
                    await client.events_until("turn_ended")
        refused = {name: answer["error"]["data"]["kind"] for name, answer in answers.items() if "error" in answer}
        assert refused == REFUSED
        assert set(answers) == set(METHODS)
        for name, answer in answers.items():
            if "result" in answer:
                read_received(answer["result"], METHODS[name].result)
