"""Scenarios of the scripted host by how a turn ends."""

import json
from collections.abc import Callable, Sequence

from engine.core.messages import Usage
from engine.testing.script import Answer, HttpFailure, call, done, text

_USAGE = Usage(input=1_000, output=50)


def _say(texts: str) -> Sequence[Answer]:
    """One answer after the other."""
    return [[*text(each), *done(usage=_USAGE)] for each in texts.split(" || ")]


def _refusal(message: str, status: int = 400, kind: str = "invalid_request_error") -> Sequence[Answer]:
    return [[HttpFailure(status, json.dumps({"type": "error", "error": {"type": kind, "message": message}}))]]


def _loop(_: str) -> Sequence[Answer]:
    return [[*call("bash", {"command": "true"}, id=f"c{n}"), *done("calls", usage=_USAGE)] for n in range(40)]


def _work(steps: str) -> Sequence[Answer]:
    """So many steps with a call each, then an answer."""
    calls = [
        [*call("bash", {"command": f"echo {n}"}, id=f"c{n}"), *done("calls", usage=_USAGE)] for n in range(int(steps))
    ]
    return [*calls, [*text("All done."), *done(usage=_USAGE)]]


ENDINGS: dict[str, Callable[[str], Sequence[Answer]]] = {
    "say": _say,
    "work": _work,
    "loops": _loop,
    "limited": lambda seconds: [[HttpFailure(429, "{}", headers=(("retry-after", seconds),))]],
    "cut": lambda _: [[*text(f"Part {n}, about {n * 7}."), *done("length", usage=_USAGE)] for n in range(9)],
    "refused": lambda _: _refusal("wrong key", 401, "authentication_error"),
    "fails": _refusal,
    "overflows": lambda _: _refusal("prompt is too long: 250000 tokens > 200000 maximum"),
    "filtered": lambda _: _refusal("Output blocked by content filtering policy"),
    "empty": lambda _: [[*done(usage=_USAGE)]] * 3,
    "refuses": lambda _: [[*text("I won't."), *done("refusal", usage=_USAGE)]],
}
