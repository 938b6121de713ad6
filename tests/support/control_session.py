"""A session in which the worked examples of the reference make sense, over a served engine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import attrs

from engine.control.protocol.wire_converter import write_value
from engine.testing.script import Answer, call, done, text
from scripts.control_examples import EXAMPLES
from tests.support.served_engine import Client

SCRIPT: list[Answer] = [
    [*text("They pass now."), *done()],
    [*call("wait_forever", id="c-2"), *done("calls")],
    [*text("Stopped."), *done()],
    *[[*text("Done."), *done()]] * 5,
]


@attrs.frozen
class ExampleSession:
    """A session with two turns, of which the second was refused a permission.

    Attributes:
        real: what the examples' ids are here.
    """

    id: str
    sub: str
    real: dict[str, str]

    @classmethod
    async def prepare(cls, client: Client, cwd: Path) -> ExampleSession:
        """Make it of `SCRIPT`; *client* has said hello."""
        session_id = await client.new_session(cwd)
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
        real = {"s-4f1c": session_id, "t-02": turn_id, "/home/ada/project": str(cwd), "m-2": message_id}
        return cls(session_id, sub, {**real, "c-2": asked["call_id"]})

    def params(self, method: str) -> dict[str, Any]:
        """Return the example of *method* with ids of this session."""
        example = write_value(EXAMPLES[method][0]).replace("k-9b2e", f"key {method}").replace("sub-1", self.sub)
        for there, here in self.real.items():
            example = example.replace(json.dumps(there)[1:-1], json.dumps(here)[1:-1])
        params: dict[str, Any] = json.loads(example)
        return params
