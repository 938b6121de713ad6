"""Recordings whose source had glued several answers into one body.

The SDKs read them on as if they were one; to us the first end is the end. So each
answer is played by itself, and the SDK's view is put together from all of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import attrs

from engine.testing.cassette import Exchange
from tests.conformance.answers import Answer, Part

_STARTS = re.compile(rb'"type":\s*"(?:message_start|response\.created|message-start)"|messageStart')
_EVENT = re.compile(rb".*?(?:\r?\n){2,}|.+", re.DOTALL)


def answers_in(exchange: Exchange) -> list[Exchange]:
    """Return the answers that *exchange* holds, one after another: nearly always one."""
    if exchange.status != 200 or len(_STARTS.findall(exchange.body)) < 2:
        return [exchange]
    bodies: list[bytes] = []
    for event in _frames(exchange.body) if _is_binary(exchange) else _EVENT.findall(exchange.body):
        if not bodies or _STARTS.search(event):
            bodies.append(b"")
        bodies[-1] += event
    return [attrs.evolve(exchange, body=body) for body in bodies]


def _is_binary(exchange: Exchange) -> bool:
    return exchange.content_type == "application/vnd.amazon.eventstream"


def _frames(body: bytes) -> list[bytes]:
    """Return the frames of an AWS event stream: each begins with its length."""
    frames: list[bytes] = []
    while len(body) >= 4:
        length = int.from_bytes(body[:4], "big")
        frames.append(body[:length])
        body = body[length:]
    return frames


def as_one(answers: Sequence[Answer]) -> list[Part]:
    """Return what an SDK makes of the answers: a new block is added at the end, but what belongs to it goes to the
    block that has its number, which is one of the first answer, if that is of the same kind."""
    blocks: list[Part] = []
    for answer in answers:
        for number, part in enumerate(answer.parts):
            blocks.append(attrs.evolve(part, text=""))
            if blocks[number].kind == part.kind:
                blocks[number].text += part.text
    return blocks
