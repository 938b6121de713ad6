"""What `engine trace --requests` shows is what was sent, but for what the record does not have."""

import base64
import json
from contextlib import aclosing
from pathlib import Path
from typing import Any

import attrs
import trio

import engine
from engine.cli.sessions.trace_requests import request_lines, without_media
from engine.config.config import Config
from engine.core.events import Durable, StepStarted
from engine.providers.registry import resolve
from engine.session.engine_options import PermissionOptions
from engine.testing.http_server import ScriptedServer
from engine.testing.loopback import ReceivedRequest
from engine.testing.script import Answer, HttpFailure, call, done, text
from engine.tools.builtin.builtin_tools import builtin_tools


def reply_to(number: int) -> Answer:
    match number:
        case 0:
            return [*text("I'll read it."), *call("read", {"path": "notes.txt"}, id="one"), *done("calls")]
        case 1:
            return [HttpFailure(503, "overloaded")]
        case _:
            return [*text("Read."), *done("stop")]


async def play(folder: Path) -> tuple[list[Durable], list[ReceivedRequest]]:
    (folder / "notes.txt").write_text("some notes\n")
    server = ScriptedServer(lambda _: reply_to(len(server.requests) - 1))
    async with trio.open_nursery() as nursery:
        url = await nursery.start(server.serve)
        model = resolve("anthropic/claude-sonnet-4-5", {"ANTHROPIC_API_KEY": "x", "ANTHROPIC_BASE_URL": url})
        permissions = PermissionOptions(profile="ask")
        async with (
            aclosing(model),
            engine.open_engine(model=model, tools=builtin_tools(), permissions=permissions) as eng,
        ):
            session = await eng.create_session(cwd=folder)
            for prompt in ("read the notes", "and now?"):
                async with session.prompt(prompt) as turn:
                    await turn.wait()
            events = list(session.events())
        nursery.cancel_scope.cancel()
    return events, server.requests


def test_bodies_are_those_that_were_sent(tmp_path: Path) -> None:
    events, received = trio.run(play, tmp_path)
    lines: list[dict[str, Any]] = [json.loads(line) for line in request_lines([events], Config()).splitlines()]
    assert [(line["turn"], line["step"], line["attempt"]) for line in lines] == [
        (1, 1, 1),
        (1, 2, 1),
        (1, 2, 2),
        (2, 1, 1),
    ]
    assert len(received) == len(lines)
    for line, request in zip(lines, received, strict=True):
        assert line["model"] == "anthropic/claude-sonnet-4-5"
        assert line["body"]["messages"] == request.json["messages"]
        assert line["body"].get("system") == request.json.get("system")


def test_unknown_host_is_reported(tmp_path: Path) -> None:
    events, _ = trio.run(play, tmp_path)
    elsewhere = [attrs.evolve(e, model="nowhere/x") if isinstance(e, StepStarted) else e for e in events]
    lines = [json.loads(line) for line in request_lines([elsewhere], Config()).splitlines()]
    assert {line["body"] for line in lines} == {None}
    assert all("nowhere" in line["error"] for line in lines)


def test_media_are_counted_not_shown() -> None:
    data = base64.b64encode(bytes(3_000)).decode()
    body = {"source": {"data": data}, "parts": [f"data:image/png;base64,{data}", "text", 1, None]}
    assert without_media(body) == {
        "source": {"data": "<3,000 bytes>"},
        "parts": ["data:image/png;base64,<3,000 bytes>", "text", 1, None],
    }
