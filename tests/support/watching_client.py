"""A client in a process of its own: `python -m tests.support.watching_client URL TOKEN SESSION`.

It watches a session up to the end of its turn, with a line for what has happened to the connection and for each event of
the record, then one with the text of the deltas.
"""

from __future__ import annotations

import sys
from typing import cast, get_args

import trio

from engine.client import Offline, Online, connect
from engine.core.events import Durable, TextDelta, TurnEnded
from engine.journal.state import Resync


async def watch(url: str, token: str, session_id: str) -> None:
    texts: list[str] = []
    async with connect(url, token) as client, client.session(session_id).watch(from_start=True) as stream:
        async for item in stream:
            if isinstance(item, Offline | Online | Resync):
                print(type(item).__name__.lower(), flush=True)
            elif isinstance(item, TextDelta):
                texts.append(item.text)
            elif isinstance(item, get_args(Durable)):
                print(cast("Durable", item).seq, flush=True)
            if isinstance(item, TurnEnded):
                break
        print(f"text {''.join(texts)}", flush=True)
        print(f"healed {client.healed}", flush=True)


if __name__ == "__main__":
    address, secret, watched = sys.argv[1:]
    trio.run(watch, address, secret, watched)
