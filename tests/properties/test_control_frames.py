"""Frames of the control protocol, made from good ones by damaging them: each gets a typed answer, and none a crash."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

import pytest

from engine.control.protocol.client_side import ClientSide
from engine.control.protocol.error_kinds import Refusal
from engine.control.protocol.handshake import WireLimits
from engine.control.protocol.method_table import METHODS
from engine.control.protocol.server_side import ServerSide
from engine.control.protocol.wire_converter import to_json
from engine.jsonrpc.strict_json import FrameTooLarge
from scripts.control_examples import EXAMPLES
from tests.conftest import Soak
from tests.support.control_answers import check_answers

FRAMES = [
    {"jsonrpc": "2.0", "id": number, "method": name, "params": to_json(params)}
    for number, (name, (params, _)) in enumerate(EXAMPLES.items())
]
ODD: Sequence[object] = (
    None,
    True,
    -1,
    2**70,
    1.5,
    "",
    "\ud800",
    "a" * 300,
    [],
    {},
    [[]],
    {"type": "text"},
    float("inf"),
)


@pytest.mark.soak
def test_damaged_frames_get_typed_answers(soak: Soak) -> None:
    done = 0
    for seed in soak.seeds(at_least=100 if soak.seconds else 2):
        done += run(random.Random(seed), 1000)
    assert done >= (100_000 if soak.seconds else 2_000)


def run(chance: random.Random, count: int) -> int:
    side, client = ServerSide.of(WireLimits()), ClientSide()
    side.welcome("full")
    for _ in range(count):
        frame = damaged(chance)
        incoming = side.receive(frame)
        check_answers(incoming)
        for call in incoming.calls:
            text = (
                side.answer(call, EXAMPLES[call.method.name][1])
                if chance.random() < 0.5
                else side.fail(call, Refusal("busy", "no"))
            )
            if text is not None:
                client.receive(text)
        try:
            client.receive(frame)
        except FrameTooLarge:
            assert incoming.close == 1009
    # Nothing is left over: every request was answered.
    assert not any(side.is_open(number) for number in range(len(METHODS)))
    return count


def damaged(chance: random.Random) -> str | bytes:
    entry: dict[str, Any] = json.loads(json.dumps(chance.choice(FRAMES)))
    for _ in range(chance.randrange(3)):
        damage(chance, entry)
    text = json.dumps([entry] * chance.randrange(34) if chance.random() < 0.1 else entry)
    data = bytearray(text.encode())
    for _ in range(chance.choice([0, 0, 0, 1, 5])):
        place = chance.randrange(len(data) + 1)
        data[place : place + chance.randrange(3)] = bytes(chance.randrange(256) for _ in range(chance.randrange(3)))
    return bytes(data)


def damage(chance: random.Random, entry: dict[str, Any]) -> None:
    inside = entry.get("params")
    target = inside if isinstance(inside, dict) and inside and chance.random() < 0.7 else entry
    name = chance.choice([*target, "zzz"])
    match chance.randrange(3):
        case 0:
            target.pop(name, None)
        case 1:
            target[name] = chance.choice(ODD)
        case _:
            target[name + chance.choice("_xs")] = target.get(name)
