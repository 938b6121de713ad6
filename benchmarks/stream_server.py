"""A host whose answers are made beforehand: whoever reads from it is slower than it is.

`python -m benchmarks.stream_server 50000` prints its port. It answers any POST with so
many deltas of text, each of them one HTTP chunk: in Anthropic's format at `/v1/messages`,
in OpenAI's anywhere else.
"""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
    b"cache-control: no-cache\r\ntransfer-encoding: chunked\r\n\r\n"
)
_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)


def pieces_of(count: int) -> list[str]:
    """Return the text that is streamed, a delta each."""
    return [f"{n:05x} " for n in range(count)]


def anthropic_events(pieces: Sequence[str]) -> list[bytes]:
    """Return the events of an answer of the Messages API."""
    usage = {"input_tokens": 1, "output_tokens": 1}
    message: dict[str, object] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
        "usage": usage,
    }
    ends: dict[str, object] = {"stop_reason": None, "stop_sequence": None}
    deltas = ({"index": 0, "delta": {"type": "text_delta", "text": piece}} for piece in pieces)
    return [
        _named("message_start", {"message": message | ends}),
        _named("content_block_start", {"index": 0, "content_block": {"type": "text", "text": ""}}),
        *(_named("content_block_delta", delta) for delta in deltas),
        _named("content_block_stop", {"index": 0}),
        _named("message_delta", {"delta": ends | {"stop_reason": "end_turn"}, "usage": {"output_tokens": len(pieces)}}),
        _named("message_stop", {}),
    ]


def openai_events(pieces: Sequence[str]) -> list[bytes]:
    """Return the events of an answer of Chat Completions."""
    about = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "service_tier": "default",
    }

    def event(delta: object, reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        return _unnamed({**about, "choices": [choice]})

    usage = {"prompt_tokens": 1, "completion_tokens": len(pieces), "total_tokens": len(pieces) + 1}
    return [
        event({"role": "assistant", "content": ""}),
        *(event({"content": piece}) for piece in pieces),
        event({}, "stop"),
        _unnamed({**about, "choices": [], "usage": usage}),
        b"data: [DONE]\n\n",
    ]


def _named(kind: str, payload: Mapping[str, object]) -> bytes:
    return b"event: %b\n" % kind.encode() + _unnamed({"type": kind, **payload})


def _unnamed(payload: object) -> bytes:
    return f"data: {json.dumps(payload, separators=(',', ':'))}\n\n".encode()


def _answer(events: Iterable[bytes]) -> bytes:
    return _HEAD + b"".join(b"%x\r\n%b\r\n" % (len(event), event) for event in events) + b"0\r\n\r\n"


def _serve(connection: socket.socket, anthropic: bytes, openai: bytes) -> None:
    received = b""
    with connection, suppress(ConnectionError):
        while True:
            while b"\r\n\r\n" not in received:
                if not (data := connection.recv(65_536)):
                    return
                received += data
            head, _, received = received.partition(b"\r\n\r\n")
            length = _LENGTH.search(head)
            missing = int(length[1]) if length else 0
            while len(received) < missing:
                received += connection.recv(65_536)
            received = received[missing:]
            connection.sendall(anthropic if b" /v1/messages" in head.partition(b"\r\n")[0] else openai)


@contextmanager
def stream_server(count: int) -> Generator[str]:
    """Run the server in a process of its own; give its URL."""
    command = [sys.executable, "-m", "benchmarks.stream_server", str(count)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.kill()


def main() -> None:
    """Serve until killed."""
    pieces = pieces_of(int(sys.argv[1]))
    answers = (_answer(anthropic_events(pieces)), _answer(openai_events(pieces)))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=_serve, args=(connection, *answers), daemon=True).start()


if __name__ == "__main__":
    main()
