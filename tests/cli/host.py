"""A model's host for these tests, as a program: `python -m tests.cli.host` prints its address and serves until it is ended.

The prompt of a session names the scenario; which answer of it comes is told by the number of answers before.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import trio

from engine.compaction.summary_prompt import SECTIONS
from engine.core.messages import Usage
from engine.testing.http_server import ScriptedServer
from engine.testing.loopback import ReceivedRequest
from engine.testing.script import Answer, HttpFailure, Pause, call, done, spread, text
from tests.cli.host_endings import ENDINGS
from tests.cli.host_texts import TEXTS

USAGE = Usage(input=1_000, output=50)

# Processes of every kind; the token is what tests find them by. {t} comes from the prompt.
TREE = "trap '' TERM; setsid sleep {t} & nohup sleep {t} >/dev/null 2>&1 & echo ready; sleep {t}; wait"

QUESTIONS = [
    {"question": "Which colour?", "choices": [{"label": "red", "description": "like a rose"}, {"label": "blue"}]},
    {"question": "Which ones?\x1b[2J", "choices": [{"label": "a"}, {"label": "b"}, {"label": "c"}], "several": True},
    {"question": "Which way?", "choices": [{"label": "left"}, {"label": "right"}]},
    {"question": "Why?"},
]

SCENARIOS: Mapping[str, Callable[[str], Sequence[Answer]]] = {**ENDINGS, **TEXTS}
Answers = Sequence[Answer | Callable[[ReceivedRequest], Answer]]


def scenario(words: list[str]) -> Answers:
    name, argument = words[0], " ".join(words[1:])
    end = [*text("All done."), *done(usage=USAGE)]
    if name in SCENARIOS:
        return SCENARIOS[name](argument)
    match name:
        case "hello":
            return [[*text("Hello, wörld.\nTwo lines.", pieces=5), *done(usage=USAGE)]]
        case "bash":
            return [
                [*text("I'll run it."), *call("bash", {"command": argument}, id="c1"), *done("calls", usage=USAGE)],
                end,
            ]
        case "chat" | "tree" | "call" | "job" | "ask" | "delegate" | "skill" | "remember" | "long" | "picture":
            return [*_OF_SEVERAL_STEPS[name](argument), end]
        case "write" | "rewrite":
            content = {"path": "a.txt", "content": "one\nTWO\n"}
            read: Answer = [*call("read", {"path": "a.txt"}, id="c0"), *done("calls", usage=USAGE)]
            return [
                *([read] if name == "rewrite" else []),
                [
                    *call("write", content, id="c1"),
                    *call("bash", {"command": "cat a.txt | tee b.txt"}, id="c2"),
                    *done("calls", usage=USAGE),
                ],
                end,
            ]
        case "stubborn":  # a tool that some test adds
            return [[*call("stubborn", {"sleep": argument}, id="c1"), *done("calls", usage=USAGE)], end]
        case "slow":
            return [[*spread(text("word " * 200, pieces=200), 0.05), *done()]]
        case "flood":
            return [[*text("x" * 1_000_000, pieces=100), *done()]]
        case "escapes":
            return [[*text("red \x1b[31m bell \x07 turn \u202e end"), *done()]]
        case "echo":
            return [lambda request: [*text(_echo(request)), *done()]]
        case "unless":  # the model whose name holds the next word is not there today
            return [lambda request: _unless(argument, request)]
        case _:
            return [[*text(f"no such scenario: {name}"), *done()]]


def _tree(sleep: str) -> Answers:
    return [
        [
            *text("I'll run two."),
            *call("bash", {"command": TREE.format(t=sleep), "timeout": 100}, id="c1"),
            *call("bash", {"command": "echo two"}, id="c2"),
            *done("calls", usage=USAGE),
        ]
    ]


def _job(sleep: str) -> Answers:
    job = {"command": TREE.format(t=sleep), "background": True, "name": "web"}
    return [
        [*call("bash", job, id="c1"), *done("calls", usage=USAGE)],
        [*call("bash_output", {"name": "web", "wait": 60, "until": "end"}, id="c2"), *done("calls", usage=USAGE)],
    ]


def _probe(_: str) -> Answers:
    return [
        [*call("question", {"questions": QUESTIONS}, id="c1"), *done("calls", usage=USAGE)],
        lambda request: [*text(_told(request)), *done(usage=USAGE)],
    ]


def _delegate(argument: str) -> Answers:
    agent, _, prompt = argument.partition(" ")
    return [[*call("task", {"agent": agent, "prompt": prompt or "echo"}, id="c1"), *done("calls", usage=USAGE)]]


def _skill(name: str) -> Answers:
    return [
        [*call("skill", {"name": name}, id="c1"), *done("calls", usage=USAGE)],
        lambda request: [*text(_told(request)), *done(usage=USAGE)],
    ]


def _call(argument: str) -> Answers:
    """A call of a tool with arguments as JSON; the answer is its result."""
    name, _, arguments = argument.partition(" ")
    return [
        [*call(name, json.loads(arguments), id="c1"), *done("calls", usage=USAGE)],
        lambda request: [*text(_told(request)), *done(usage=USAGE)],
    ]


def _remember(_: str) -> Answers:
    """One answer after the other tells what the user has said so far."""
    return [lambda request: [*text(_heard(request)), *done(usage=USAGE)]] * 5


def _long(_: str) -> Answers:
    """Calls with long results, until a summary has interrupted them, or there were many."""
    return [_next_long] * 8


def _next_long(request: ReceivedRequest) -> Answer:
    messages = cast("list[dict[str, Any]]", request.json["messages"])
    steps = sum(message["role"] == "assistant" for message in messages)
    is_over = "summarised to make room" in json.dumps(messages[-1]) or steps == 7
    if is_over or (messages[-1]["content"][-1]["type"] != "tool_result" and steps):
        return [*text("All done."), *done()]
    return [*call("bash", {"command": f"seq {steps}000 {steps}999"}, id=f"c{steps}"), *done("calls")]


def _summary(asked: str) -> Answer:
    """What a summariser says; with `long hang FILE`, nothing the first time, and with `long nonsense`, that."""
    if "long nonsense" in asked:
        return [*text("It went well."), *done()]
    hangs = re.search(r"long hang ([\w./-]+)", asked)
    if hangs is not None and not (seen := Path(hangs[1])).exists():
        seen.touch()
        return [Pause(3_600)]
    return [*text("\n\n".join(f"## {name}\n- as it was" for name in SECTIONS)), *done()]


def _picture(_: str) -> Answers:
    return [_too_large]


def _too_large(request: ReceivedRequest) -> Answer:
    messages = json.dumps(request.json["messages"])
    if '"image"' not in messages:
        return [*text(f"I was told: {messages}"), *done()]
    told = "messages.0.content.0.image.source.base64: image exceeds 5 MB maximum: 20971520 bytes > 5242880 bytes"
    return [
        HttpFailure(400, json.dumps({"type": "error", "error": {"type": "invalid_request_error", "message": told}}))
    ]


_OF_SEVERAL_STEPS: dict[str, Callable[[str], Answers]] = {
    "chat": lambda _: [[*text("Ready to chat."), *done(usage=USAGE)]],
    "tree": _tree,
    "job": _job,
    "ask": _probe,
    "delegate": _delegate,
    "skill": _skill,
    "call": _call,
    "remember": _remember,
    "long": _long,
    "picture": _picture,
}


def _echo(request: ReceivedRequest) -> str:
    return f"{request.json['model']} {request.system}\n{json.dumps(request.json)}"


def _heard(request: ReceivedRequest) -> str:
    messages = cast("list[dict[str, Any]]", request.json["messages"])
    said = [_words(message) for message in messages if message["role"] == "user"]
    return f"{request.json['model']} has heard: {' / '.join(said)}."


def _words(message: dict[str, Any]) -> str:
    content = message["content"]
    return content if isinstance(content, str) else str(content[-1]["text"])


def _told(request: ReceivedRequest) -> str:
    """What the model was told by the result of its last call."""
    messages = cast("list[dict[str, Any]]", request.json["messages"])
    return f"I was told:\n{messages[-1]['content'][0]['content']}"


def _unless(word: str, request: ReceivedRequest) -> Answer:
    model = str(request.json["model"])
    if word not in model:
        return [*text(f"{model} says hello."), *done()]
    body = '{"type":"error","error":{"type":"rate_limit_error","message":"enough for today"}}'
    return [HttpFailure(429, body, headers=(("retry-after", "3600"),))]


def _prompt_in(content: str | list[dict[str, Any]]) -> str:
    """Return what the user said first, without what the engine tells before it and behind it."""
    if isinstance(content, str):
        return content
    texts = [str(part["text"]) for part in content if part["type"] == "text"]
    return next(text for text in texts if not text.startswith(("<", "[")))


def _last_prompt(messages: list[dict[str, Any]]) -> int:
    """Return the index of the newest message that the user typed."""
    return max(
        index
        for index, message in enumerate(messages)
        if message["role"] == "user" and not _is_result(message["content"]) and _has_words(message["content"])
    )


def _is_result(content: str | list[dict[str, Any]]) -> bool:
    return not isinstance(content, str) and any(part["type"] == "tool_result" for part in content)


def _has_words(content: str | list[dict[str, Any]]) -> bool:
    texts = [content] if isinstance(content, str) else [str(p["text"]) for p in content if p["type"] == "text"]
    return any(not text.startswith(("<", "[")) for text in texts)


def respond(request: ReceivedRequest) -> Answer:
    messages = cast("list[dict[str, Any]]", request.json["messages"])
    if request.system.startswith("You keep the record"):
        return _summary(json.dumps(messages))
    prompt = _prompt_in(messages[0]["content"])
    if prompt == "chat":  # each prompt of the session names a scenario
        messages = messages[_last_prompt(messages) :]
        prompt = _prompt_in(messages[0]["content"])
    before = sum(message["role"] == "assistant" for message in messages)
    answers = scenario(prompt.split(" "))
    # An error here would end the host, and with it all tests after this one.
    answer = answers[before] if before < len(answers) else [*text("The script is over."), *done()]
    return answer if isinstance(answer, Sequence) else answer(request)


async def main() -> None:
    async with trio.open_nursery() as nursery:
        print(await nursery.start(ScriptedServer(respond).serve), flush=True)


if __name__ == "__main__":
    trio.run(main)
