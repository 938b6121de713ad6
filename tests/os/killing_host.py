"""The model's host of the programs that are killed: what it answers is a function of the request alone.

It refuses a request in which a call has no result, or a result no call; so the prompt
after a kill shows whether what was saved can be sent.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import trio

from engine.testing.http_server import ScriptedServer
from engine.testing.loopback import ReceivedRequest
from engine.testing.script import Answer, HttpFailure, Pause, call, done, reasoning, text

NEXT = "and now?"
WELL = "All is well."
# Long enough that a kill may strike inside, and short enough that hundreds of them take a minute.
PACE = 0.002

Json = Mapping[str, Any]


def answer(request: ReceivedRequest) -> Answer:
    """Return what comes next in the conversation."""
    messages: list[Json] = cast("list[Json]", request.json.get("messages", []))
    problem = unpaired(messages)
    if problem:
        return [HttpFailure(400, json.dumps({"error": {"type": "invalid_request_error", "message": problem}}))]
    prompt, step = _place(messages)
    if prompt.startswith("go "):
        return _main(prompt.removeprefix("go "), step)
    if prompt.startswith("help "):
        return _helper(prompt.removeprefix("help "), step)
    if prompt.startswith("ask "):
        return _main(prompt.removeprefix("ask "), 2 if step == 0 else 4)
    if prompt.startswith("sum "):
        return _main(prompt.removeprefix("sum "), (0, 2, 4)[min(step, 2)])
    if prompt.startswith("stab "):
        return _stab(prompt.removeprefix("stab "), step)
    if prompt.startswith("talk "):
        return _talk(int(prompt.removeprefix("talk ")))
    return [*text(WELL, pieces=2), *done()]


def _main(key: str, step: int) -> Answer:
    match step:
        case 0:
            return [
                *reasoning("Let me think.", pieces=2, signature="sig"),
                *text("I write, then I run it.", pieces=6),
                *call("write", {"path": f"{key}.txt", "content": f"one {key}\n"}, id=f"{key}a", pieces=4),
                Pause(PACE),
                *call("effect", {"key": f"{key}-1"}, id=f"{key}b"),
                *call("bash", {"command": f"echo {key}-2 >>effects; {LINGERS} echo ready"}, id=f"{key}c"),
                Pause(PACE),
                *done("calls"),
            ]
        case 1:
            return [
                *call("edit", {"path": f"{key}.txt", "old_string": f"one {key}", "new_string": "two"}, id=f"{key}d"),
                *call("task", {"agent": "helper", "prompt": f"help {key}"}, id=f"{key}e"),
                *call("effect", {"key": f"{key}-3"}, id=f"{key}f"),
                Pause(PACE),
                *done("calls"),
            ]
        case 2:
            return [
                *text("I must ask.", pieces=3),
                *call("effect", {"key": f"{key}-10"}, id=f"{key}k"),
                *_wait_for_somebody(key),
                *call("effect", {"key": f"{key}-4"}, id=f"{key}h"),
                *done("calls"),
            ]
        case 3:
            return [
                *call("bash", {"command": f"echo {key}-7 >>effects; sleep 3771", "background": True}, id=f"{key}j"),
                *call("bash", {"command": f"echo {key}-5 >>effects; {LINGERS} sleep 0.05"}, id=f"{key}i"),
                *done("calls"),
            ]
        case _:
            return [*text("That is all I had to do.", pieces=5), *done()]


def _wait_for_somebody(key: str) -> Answer:
    """Return a call that waits: for an answer, for a permission, or for somebody elsewhere."""
    match int(key) % 3:
        case 0:
            question = {"questions": [{"question": "Which one?", "choices": [{"label": "this"}, {"label": "that"}]}]}
            return call("question", question, id=f"{key}g")
        case 1:
            return call("careful", {"key": f"{key}-8"}, id=f"{key}g")
        case _:
            return call("office", {"key": key}, id=f"{key}g")


def _helper(key: str, step: int) -> Answer:
    if step == 0:
        return [*text("I help.", pieces=2), *call("effect", {"key": f"{key}-6"}, id=f"{key}x"), *done("calls")]
    return [*text("I have helped.", pieces=2), *done()]


def _stab(key: str, step: int) -> Answer:
    """Have a command kill its own engine as soon as it has done something: sooner than anything can be written."""
    if step < int(key) % 3:
        return [*call("effect", {"key": f"{key}-{step}"}, id=f"{key}s{step}"), *done("calls")]
    return [*call("bash", {"command": f"echo {key}-9 >>effects; kill -9 $PPID"}, id=f"{key}s"), *done("calls")]


def _talk(seconds: int) -> Answer:
    words: list[Any] = []
    for event in text("word " * (200 * seconds), pieces=200 * seconds):
        words += [event, Pause(0.005)]
    return [*words, *done()]


# Processes that nobody waits for: one in the group, one that leaves it.
LINGERS = "sleep 3771 & setsid sleep 3771 &"


PROMPTS = ("go ", "help ", "ask ", "sum ", "stab ", "talk ", NEXT)


def _place(messages: list[Json]) -> tuple[str, int]:
    """Return the last prompt, and how many answers came since. What else is said (a steer, a report) is none."""
    step = 0
    for message in reversed(messages):
        if message["role"] == "assistant":
            step += 1
            continue
        # It may stand behind the results of a turn that was cut off.
        texts = [block["text"] for block in _blocks(message) if block["type"] == "text"]
        prompts = [said for said in texts if said.startswith(PROMPTS)]
        if prompts:
            return prompts[-1], step
    return "", step


def _blocks(message: Json) -> list[Json]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def unpaired(messages: list[Json]) -> str:
    """Return what is wrong with the pairs of calls and results; empty if nothing is."""
    waiting: list[str] = []
    for message in messages:
        blocks = _blocks(message)
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        if results != waiting:
            return f"results {results} stand behind calls {waiting}"
        waiting = [block["id"] for block in blocks if block["type"] == "tool_use"]
        if not blocks:
            return f"an empty message of the {message['role']}"
    return f"calls {waiting} have no results" if waiting else ""


def serve(address: int, watched: int, log: Path) -> None:
    """Serve until the other end of the pipe *watched* is closed; write the base URL into the pipe *address*."""

    async def main() -> None:
        server = ScriptedServer(answer)
        async with trio.open_nursery() as nursery:
            url = await nursery.start(server.serve)
            os.write(address, f"{url}\n".encode())
            os.close(address)
            await trio.lowlevel.wait_readable(watched)
            nursery.cancel_scope.cancel(reason="nobody is left to be served")

    try:
        trio.run(main)
    except BaseException as error:
        log.write_text(repr(error))
        raise
