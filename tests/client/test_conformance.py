"""What each client must do, as data (`cases.json`): the clients in Python and JavaScript run the same cases over each transport."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import pytest
import trio

from engine.client.server_address import WebSocketAddress
from engine.journal.codec import encode_state
from engine.session.engine_options import PermissionOptions
from engine.testing import FakeTools
from engine.testing.script import Answer, Pause, call, done, text
from tests.support.client_world import TRANSPORTS, ClientWorld, Transport, client_world
from tests.support.driven_clients import DrivenClient, NodeDriver, Refused, python_driver
from tests.support.javascript import needs_packages
from tests.support.node_client import node_client

Language = Literal["python", "javascript"]
CASES: list[dict[str, Any]] = json.loads(Path(__file__).with_name("cases.json").read_text())


def answer_of(items: list[list[Any]]) -> Answer:
    """Return an answer of the model, from data."""
    answer: list[Any] = []
    for kind, *rest in items:
        match kind:
            case "text":
                answer += text(rest[0], pieces=(rest[1:] or [1])[0], id=(rest[2:] or ["text"])[0])
            case "call":
                answer += call(rest[0], rest[1], id=rest[2])
            case "pause":
                answer.append(Pause(rest[0]))
            case "done":
                answer += done(*rest)
            case _:
                raise AssertionError(kind)
    return answer


@asynccontextmanager
async def driven(world: ClientWorld, language: Language) -> AsyncGenerator[DrivenClient]:
    if language == "python":
        async with python_driver(world.address) as driver:
            yield driver
        return
    assert isinstance(world.address, WebSocketAddress)
    options = {"url": str(world.address), "token": world.address.token, "name": "test", "transport": "websocket"}
    async with node_client(**options) as client:
        yield NodeDriver(client)


async def take(step: list[Any], world: ClientWorld, client: DrivenClient) -> None:
    kind, *rest = step
    match kind:
        case "watch":
            await client.watch()
        case "until":
            await client.until_event(*rest)
        case "cut" if world.proxy is None:
            world.cut()
        case "cut":
            world.proxy.cut(rest[0])  # type: ignore[union-attr]  # the case before
        case "split" | "stall" | "resume":
            disturb(kind, rest, world)
        case "refused":
            with pytest.raises(Refused) as refused:
                await (client.elsewhere() if rest[1] == "elsewhere" else client.send(*rest[1:]))
            assert refused.value.kind == rest[0]
        case _:
            await client.send(kind, *rest)


def disturb(kind: str, rest: list[Any], world: ClientWorld) -> None:
    if world.proxy is None:
        return
    if kind == "split":
        world.proxy.largest_piece = rest[0]
    elif kind == "stall":
        world.proxy.stall()
    else:
        world.proxy.resume()


async def play(case: dict[str, Any], folder: Path, transport: Transport, language: Language) -> None:
    script = [answer_of(items) for items in case["script"]]
    opening: dict[str, Any] = {"tools": FakeTools().tools(), "store": folder / "s.db"}
    if case.get("asks"):
        opening["permissions"] = PermissionOptions()
    async with client_world(folder, transport, *script, **opening) as world, driven(world, language) as client:
        await client.begin(str(folder))
        for step in case["steps"]:
            await take(step, world, client)
        await check(case, world, client)


async def check(case: dict[str, Any], world: ClientWorld, client: DrivenClient) -> None:
    """Compare what the client has with the server's record, and with the case."""
    if not case.get("turns", 1):
        return
    items = await client.until_event("turn_ended", case.get("turns", 1))
    numbers = [item["seq"] for item in items if item.get("seq") is not None and item["type"] != "head"]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len([item for item in items if item["type"] == "turn_started"]) == case.get("turns", 1)
    ends = [item["result"]["stop_reason"] for item in items if item["type"] == "turn_ended"]
    assert ends == case.get("stops", ["completed"] * case.get("turns", 1))
    if "text" in case:
        assert "".join(item["text"] for item in items if item["type"] == "text_delta") == case["text"]
    live = await world.engine.open_session(items[-1]["session_id"])
    while live.state.seq > numbers[-1]:
        await trio.sleep(0.01)
    assert await client.state() == json.loads(encode_state(live.state))
    assert await client.healed() == 0


def sample(is_full: bool, number: int) -> list[int]:
    """Return which of three variants of a case to run."""
    return [0, 1, 2] if is_full else [number % 3]


@pytest.mark.parametrize("number", range(len(CASES)), ids=lambda number: CASES[number]["name"])
async def test_client_in_python(number: int, folder: Path, is_full: bool) -> None:
    for variant in sample(is_full, number):
        place = folder / str(variant)
        place.mkdir()
        await play(CASES[number], place, TRANSPORTS[variant], "python")


@needs_packages
@pytest.mark.os
@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(CASES)), ids=lambda number: CASES[number]["name"])
async def test_client_in_javascript(number: int, folder: Path, is_full: bool) -> None:
    if 0 in sample(is_full, number):
        await play(CASES[number], folder, "websocket", "javascript")
