"""Sessions with sources of tools: played with a scripted model, and what comes of it."""

from __future__ import annotations

from collections.abc import Sequence

import engine
from engine.core.events import CallSettled, Notice, PermissionAsked
from engine.core.messages import CallStatus, TextPart, UserMessage
from engine.options import PermissionOptions, Ports
from engine.session.engine import Engine
from engine.testing.fake_source import FakeSource
from engine.testing.script import Answer, call, done, text
from engine.testing.scripted_provider import ScriptedProvider

DONE: Answer = [*text("Done."), *done()]


def calls(name: str, arguments: dict[str, object] | None = None, *, id: str = "1") -> Answer:  # noqa: A002
    return [*call(name, {} if arguments is None else arguments, id=id), *done("calls")]


def uses(name: str, arguments: dict[str, object] | None = None) -> Answer:
    return calls("tool_use", {"name": name, "arguments": arguments or {}})


def opened(
    model: ScriptedProvider, *sources: FakeSource, profile: str = "full", rules: Sequence[str] = (), **options: object
) -> Engine:
    return engine.open_engine(
        model=model,
        permissions=PermissionOptions(profile=profile, rules=rules),
        ports=Ports(sources=sources),
        **options,  # type: ignore[arg-type]  # a test names only what open_engine takes
    )


async def run(session: engine.Session, prompt: str = "go") -> list[object]:
    """Run a turn, rejecting what it asks; return its events."""
    events: list[object] = []
    async with session.prompt(prompt) as turn:
        async for event in turn:
            events.append(event)
            if isinstance(event, PermissionAsked):
                await turn.reply(event.request_id, engine.Reject("no"))
    return events


def results(events: Sequence[object]) -> list[tuple[CallStatus, str]]:
    return [(e.settlement.status, e.settlement.text) for e in events if isinstance(e, CallSettled)]


def notices(events: Sequence[object]) -> list[str]:
    return [event.text for event in events if isinstance(event, Notice) and event.code == "tool_source"]


def names(model: ScriptedProvider, request: int = -1) -> list[str]:
    """Return the tools that a request lists."""
    return [tool.name for tool in model.requests[request].tools]


def remarks(model: ScriptedProvider, request: int = -1) -> list[str]:
    """Return what the engine itself has said to the model in a request."""
    return [
        part.text
        for message in model.requests[request].transcript
        if isinstance(message, UserMessage) and message.origin == "engine"
        for part in message.parts
        if isinstance(part, TextPart)
    ]
