"""A model's host for the figure `chat`: `python -m benchmarks.chat_host` prints its address and serves until it is ended.

A prompt `lines 1000` is answered by so many numbered lines at once, `deltas 1500` by so many pieces, 500 in a second,
and everything else by a short text: the request for a summary.
"""

from __future__ import annotations

from typing import Any, Final, cast

import trio

from engine.core.llm_types import StreamEvent, TextChunk, TextDone, TextStarted
from engine.testing.http_server import ScriptedServer
from engine.testing.loopback import ReceivedRequest
from engine.testing.script import Answer, done, spread

_LINES_AT_ONCE: Final = 40
_DELTAS_IN_A_SECOND: Final = 500


def respond(request: ReceivedRequest) -> Answer:
    """Answer the newest prompt."""
    messages = cast("list[dict[str, Any]]", request.json["messages"])
    match _words(messages[-1]["content"]):
        case ["lines", count, *_]:
            return [*_lines(int(count)), *done()]
        case ["deltas", count, *_]:
            return [*spread(_deltas(int(count)), 1 / _DELTAS_IN_A_SECOND), *done()]
        case _:  # a summary is requested: the window is full
            return [*_lines(20), *done()]


def _words(content: str | list[dict[str, Any]]) -> list[str]:
    texts = [content] if isinstance(content, str) else [str(part.get("text", "")) for part in content]
    return next((text for text in texts if text.startswith(("lines", "deltas"))), "").split()


def _lines(count: int) -> list[StreamEvent]:
    lines = [f"line {number} of the answer, as long as lines are\n" for number in range(count)]
    chunks = ["".join(lines[at : at + _LINES_AT_ONCE]) for at in range(0, count, _LINES_AT_ONCE)]
    return [TextStarted("text"), *(TextChunk("text", chunk) for chunk in chunks), TextDone("text")]


def _deltas(count: int) -> list[StreamEvent]:
    words = [f"word{number}{' ' if number % 12 else chr(10)}" for number in range(1, count + 1)]
    return [TextStarted("text"), *(TextChunk("text", word) for word in words), TextDone("text")]


async def main() -> None:
    """Serve."""
    async with trio.open_nursery() as nursery:
        print(await nursery.start(ScriptedServer(respond).serve), flush=True)


if __name__ == "__main__":
    trio.run(main)
