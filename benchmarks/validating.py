"""Figure `validating`: the arguments of a call, from JSON text to a value, and the schemas of a request."""

from __future__ import annotations

import json
import time

from benchmarks.report import Figure, Row, interleaved, median
from engine.core.messages import Settlement
from engine.tools.builtin.builtin_tools import builtin_tools
from engine.tools.registry import Registry

CALLS = 5_000
ROUNDS = 5
ARGUMENTS = {
    "bash": {"command": "pytest -q tests/test_parser.py -k comments", "timeout": 60},
    "read": {"path": "src/parser.py", "offset": 120, "limit": 80},
    "edit": {"path": "src/parser.py", "old_string": "x = 1\n" * 20, "new_string": "x = 2\n" * 20},
}
TEXTS = {name: json.dumps(arguments) for name, arguments in ARGUMENTS.items()}
MENDED = json.dumps({"path": "src/parser.py", "offset": "120", "limit": "80"})


def measure() -> list[Row]:
    registry = Registry.of(builtin_tools())
    assert not any(isinstance(registry.prepare(name, text), Settlement) for name, text in TEXTS.items())

    def prepared() -> float:
        return _each(lambda: [registry.prepare(name, text) for name, text in TEXTS.items()]) / len(TEXTS)

    def mended() -> float:
        return _each(lambda: registry.prepare("read", MENDED))

    def bare() -> float:
        return _each(lambda: [json.loads(text) for text in TEXTS.values()]) / len(TEXTS)

    def schemas() -> float:
        return _each(lambda: registry.schemas_for("anthropic/claude-sonnet-4-5"))

    taken = interleaved(ROUNDS, prepared, mended, schemas, bare)
    call, mending, schema, base = (median(samples) * 1e6 for samples in taken)
    return [
        _row("a call's arguments, read and checked", call, base),
        _row("the same, with two numbers in quotes mended", mending, base),
        _row("the schemas of all tools for a request", schema, base),
    ]


def _row(what: str, took: float, base: float) -> Row:
    return Row(
        name=f"validating: {what}",
        measured=f"{took:.1f} µs",
        baseline=f"json.loads {base:.1f} µs",
        ratio=took / base,
        target="≤ 50 µs",
        ok=took <= 50,
    )


def _each(work: object) -> float:
    """Return the seconds that one run takes, of many."""
    assert callable(work)
    began = time.perf_counter()
    for _ in range(CALLS):
        work()
    return (time.perf_counter() - began) / CALLS


FIGURE = Figure(
    name="validating",
    about="arguments and schemas of a call",
    measure=measure,
)
