"""What the figures share: the trivial tools, and a way to open an engine over a script."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs
import trio

import engine
from engine.testing.script import Answer, call, done, text
from engine.testing.scripted_provider import ScriptedProvider


@attrs.frozen
class Number:
    """A number, so that no two calls are the same."""

    n: int


@engine.tool(read_only=True)
async def echo(args: Number, ctx: engine.ToolContext) -> str:  # noqa: ARG001
    """Say the number."""
    await trio.lowlevel.checkpoint()
    return str(args.n)


def one_call(tool: str, n: int) -> Answer:
    """Return an answer that asks for one call."""
    return [*call(tool, {"n": n}, id="c"), *done("calls")]


def scripted(answers: Sequence[Answer] | Callable[[int], Answer], *, batch: int = 1_000) -> ScriptedProvider:
    """Return a model that plays *answers*, or asks a function for answer N, counted from 0."""
    if not callable(answers):
        return ScriptedProvider(tuple(answers), batch=batch)
    make = answers
    # The count is the model's own: `requests` holds this request already.
    model = ScriptedProvider([lambda _request: make(len(model.requests) - 1)], batch=batch, repeat=True)
    return model


def goodbye() -> Answer:
    """Return an answer that ends the turn."""
    return [*text("done"), *done()]
