"""opencode's own SDK as the client of a server, in a process of node."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import trio

import engine
from engine.control.listen import ServeOptions
from engine.control.opencode.opencode_api import OpencodeApi
from engine.session.engine_options import PermissionOptions
from engine.testing.script import Answer, call, done, reasoning, text
from tests.support.javascript import FOLDER, NODE, PACKAGES, needs_packages
from tests.support.served_engine import NoArguments, served, wait_forever

pytestmark = [needs_packages, pytest.mark.os]

ANSWERS: list[Answer] = [
    [*reasoning("Hm.", pieces=2), *text("Well, then", pieces=4), *call("look", id="c1"), *done("calls")],
    [*text("Done.", pieces=2), *done()],
    [*text("Now"), *call("wait_forever", id="c2"), *done("calls")],
]


async def look(arguments: NoArguments, context: engine.ToolContext) -> str:
    """Look."""
    del arguments, context
    return "a tree"


async def drive(folder: Path) -> list[dict[str, Any]]:
    """Return what the client has received, each document with its type."""
    tools = [engine.tool(look), engine.tool(wait_forever)]
    options = ServeOptions(folder=folder / "run", adapter=OpencodeApi)
    async with served(folder, *ANSWERS, tools=tools, permissions=PermissionOptions(), options=options) as server:
        command = [str(NODE), str(FOLDER / "opencode_client.mjs"), server.at.url, server.at.token, str(folder)]
        finished = await trio.run_process(command, capture_stdout=True, capture_stderr=True, check=False)
        assert finished.returncode == 0, finished.stderr.decode()
        return [json.loads(line) for line in finished.stdout.splitlines()]


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    return trio.run(drive, tmp_path_factory.mktemp("sdk"))


def events_of(documents: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [each["document"] for each in documents if each["type"] == "Event" and each["document"]["id"] != "evt_0"]


def test_documents_have_the_types_of_the_sdk(documents: list[dict[str, Any]], tmp_path: Path) -> None:
    kinds = sorted({each["type"] for each in documents if each["type"]})
    names = sorted({re.split(r"\W", kind)[0] for kind in kinds})
    lines = [f'import type {{ {", ".join(names)} }} from "@opencode-ai/sdk/v2";']
    lines += [f"({json.dumps(each['document'])}) satisfies {each['type']};" for each in documents if each["type"]]
    (tmp_path / "node_modules").symlink_to(PACKAGES)
    (tmp_path / "received.mts").write_text("\n".join(lines))
    check = [str(PACKAGES / ".bin" / "tsc"), "--noEmit", "--strict", "--skipLibCheck", "--module", "nodenext"]
    checked = subprocess.run(
        [*check, "received.mts"], cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False
    )
    assert checked.returncode == 0, checked.stdout
    assert {"Event", "SessionMessagesResponses[200]", "PermissionRespondResponse", "NotFoundError"} <= set(kinds)


def test_cut_client_gets_each_event_once(documents: list[dict[str, Any]]) -> None:
    connections = documents[-1]["document"]["connections"]
    assert len(connections) > 1
    assert connections[0] is None
    assert all(connections[1:])
    names = [event["id"] for event in events_of(documents)]
    assert len(names) == len(set(names))


def test_turn_ends_once_and_last(documents: list[dict[str, Any]]) -> None:
    kinds = [event["type"] for event in events_of(documents)]
    statuses = [
        event["properties"]["status"]["type"] for event in events_of(documents) if "status" in event["properties"]
    ]
    assert statuses == ["busy", "idle", "busy", "idle"]
    assert kinds.count("session.idle") == 2
    assert kinds.count("session.error") == 1
    first = kinds.index("session.idle")
    assert "message.part.delta" not in kinds[first : kinds.index("session.status", first)]
    assert kinds[-2:] == ["session.idle", "session.deleted"]


def test_parts_are_announced_before_their_text(documents: list[dict[str, Any]]) -> None:
    messages: set[str] = set()
    parts: dict[str, str] = {}
    for event in events_of(documents):
        found = event["properties"]
        if event["type"] == "message.updated":
            messages.add(found["info"]["id"])
        elif event["type"] == "message.part.updated":
            part = found["part"]
            assert part["messageID"] in messages
            # What came in pieces is what the whole part has.
            assert parts.get(part["id"], "") in {"", part.get("text", "")}
            parts[part["id"]] = part.get("text", "")
        elif event["type"] == "message.part.delta":
            parts[found["partID"]] += found["delta"]
    assert "Well, then" in parts.values()


def test_messages_are_what_the_events_have_shown(documents: list[dict[str, Any]]) -> None:
    told: dict[str, Any] = {}
    for event in events_of(documents):
        if event["type"] == "message.updated":
            told[event["properties"]["info"]["id"]] = event["properties"]["info"]
        elif event["type"] == "message.part.updated":
            told[event["properties"]["part"]["id"]] = event["properties"]["part"]
    messages = next(each["document"] for each in documents if each["type"] == "SessionMessagesResponses[200]")
    assert told == {
        **{message["info"]["id"]: message["info"] for message in messages},
        **{part["id"]: part for message in messages for part in message["parts"]},
    }
    assert messages[0]["info"]["id"] == "msg_0001"
    assert messages[1]["info"]["parentID"] == "msg_0001"
    assert messages[-1]["info"]["error"]["name"] == "MessageAbortedError"
    states = [part["state"]["status"] for message in messages for part in message["parts"] if part["type"] == "tool"]
    assert states == ["completed", "error"]
