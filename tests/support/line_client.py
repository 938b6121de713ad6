"""A client of a served engine in another process: requests and notifications as lines, without Trio, with a time limit."""

from __future__ import annotations

import itertools
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Self

HELLO = {"protocol": {"min": 1, "max": 1}, "client": {"name": "test"}}
_keys = itertools.count(1)


def new_key() -> str:
    return f"key-{next(_keys)}"


class LineClient:
    """A connection. `notes` are the notifications that came while it waited for answers."""

    def __init__(self, reading: BinaryIO, writing: BinaryIO, connection: socket.socket | None = None) -> None:
        self._reading, self._writing, self._connection = reading, writing, connection
        self._numbers = itertools.count(1)
        self.notes: list[dict[str, Any]] = []

    @classmethod
    def connect(cls, path: Path) -> Self:
        """Connect to a Unix socket, and say hello."""
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(60)
        connection.connect(str(path))
        client = cls(connection.makefile("rb"), connection.makefile("wb"), connection)
        client.result("hello", **HELLO)
        return client

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        # Each of the three keeps the descriptor open.
        for each in (self._reading, self._writing, self._connection):
            if each is not None:
                each.close()

    def send(self, method: str, **params: Any) -> int:
        """Send a request; return its id."""
        number = next(self._numbers)
        request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        self._writing.write(json.dumps(request).encode() + b"\n")
        self._writing.flush()
        return number

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Return the whole answer to a request."""
        return self.answer_to(self.send(method, **params))

    def result(self, method: str, **params: Any) -> dict[str, Any]:
        answer = self.call(method, **params)
        assert "result" in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    def answer_to(self, number: int) -> dict[str, Any]:
        while True:
            message = self._next()
            assert message is not None, "the server has closed the connection"
            if message.get("id") == number:
                return message
            self.notes.append(message)

    def rest(self) -> Iterator[dict[str, Any]]:
        """Return the notifications until the server closes the connection."""
        yield from self.notes
        while (message := self._next()) is not None:
            yield message

    def events_until(self, tag: str) -> list[dict[str, Any]]:
        """Return the events up to the message with the first of that type."""
        events: list[dict[str, Any]] = []
        while not any(event["type"] == tag for event in events):
            note = self.notes.pop(0) if self.notes else self._next()
            assert note is not None, f"the connection ended before {tag}"
            if note.get("method") == "events":
                events += note["params"]["events"]
        return events

    def start_turn(self, cwd: Path, text: str, *, until: str) -> str:
        """Prompt in a new session, and wait for an event of it; return the session."""
        session_id: str = self.result("session.create", cwd=str(cwd), key=new_key())["row"]["id"]
        self.result("subscribe", session_id=session_id, at="start")
        self.result("prompt", session_id=session_id, text=text, key=new_key())
        self.events_until(until)
        return session_id

    def _next(self) -> dict[str, Any] | None:
        line = self._reading.readline()
        if not line:
            return None
        message: dict[str, Any] = json.loads(line)
        return message
