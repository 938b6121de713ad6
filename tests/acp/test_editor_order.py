"""The order of what an agent sends, over requests in any order and at any time, with an editor that answers or does not."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import attrs
import trio

from engine.testing.cancellation.trio_internals import seed_scheduler
from engine.testing.script import call, done, text
from engine.testing.scripted_provider import ScriptedProvider
from engine.tools.builtin.builtin_tools import builtin_tools
from tests.conftest import CountRuns
from tests.support.editor import Editor, Host, Message, editor_of

ANSWERS = [
    [*text("First."), *call("write", {"path": "a.txt", "content": "one\n"}, id="c1"), *done("calls")],
    [*call("read", {"path": "a.txt"}, id="c2"), *call("list", {"path": "."}, id="c3"), *done("calls")],
    [*text("Done.", pieces=4), *done()],
]
# What belongs to a prompt. The rest describes a session, and may come whenever it changes.
OF_PROMPTS = {
    "agent_message_chunk",
    "agent_thought_chunk",
    "tool_call",
    "tool_call_update",
    "plan",
    "session_info_update",
}
FINAL = {"completed", "failed"}


@attrs.define
class Order:
    """Checks each message of the agent as it comes, by what the editor has sent until then."""

    sent: dict[int, tuple[str, str]] = attrs.field(factory=dict)
    open_requests: set[int] = attrs.field(factory=set)
    known: set[str] = attrs.field(factory=set)
    calls: dict[tuple[str, str], str] = attrs.field(factory=dict)
    questions: dict[int, str] = attrs.field(factory=dict)
    answered: Counter[int] = attrs.field(factory=Counter)

    def has_open(self, method: str, session_id: str) -> bool:
        return any(self.sent[number] == (method, session_id) for number in self.open_requests)

    def check(self, message: Message) -> None:
        if "method" not in message:
            self._check_answer(message)
        elif message["method"] == "session/update":
            self._check_update(message["params"]["sessionId"], message["params"]["update"])
        elif message["method"] == "session/request_permission":
            assert self.has_open("session/prompt", message["params"]["sessionId"])
            self.questions[message["id"]] = message["params"]["sessionId"]
        else:
            assert message["method"] == "$/cancel_request"
            # The editor's answer may be on its way.
            self.questions.pop(message["params"]["requestId"], None)

    def _check_update(self, session_id: str, update: Message) -> None:
        kind = update["sessionUpdate"]
        if self.has_open("session/load", session_id) and session_id not in self.known:
            return  # the replay comes before the answer
        assert session_id in self.known, f"{kind} before the answer that names its session"
        if kind in OF_PROMPTS and not self.has_open("session/load", session_id):
            assert self.has_open("session/prompt", session_id), f"{kind} without a prompt"
        if kind in {"tool_call", "tool_call_update"} and "status" in update:
            self.calls[session_id, update["toolCallId"]] = update["status"]

    def _check_answer(self, message: Message) -> None:
        number = message["id"]
        self.answered[number] += 1
        assert self.answered[number] == 1
        self.open_requests.discard(number)
        method, session_id = self.sent[number]
        result = message.get("result")
        if method == "session/new":
            self.known.add(message["result"]["sessionId"])
        elif method in {"session/load", "session/resume"} and result is not None:
            self.known.add(session_id)
        elif method == "session/close" and result is not None:
            self.known.discard(session_id)
        elif method == "session/prompt" and result is not None and "_meta" not in result:
            # It was cancelled before its turn began, so it has no turn's reason, and the prompt before it may still run.
            assert result == {"stopReason": "cancelled"}
        elif method == "session/prompt" and result is not None:
            assert {status for (owner, _), status in self.calls.items() if owner == session_id} <= FINAL, self.calls
            assert session_id not in self.questions.values(), "a question is open"
        if method == "session/prompt" and result is None:
            # Busy, or closed: never for a cancel.
            assert message["error"]["code"] in {-32600, -32002}, message


@attrs.define
class Play:
    """An editor that sends requests at random.

    Attributes:
        dice: decides everything.
        folder: of its sessions.
    """

    dice: random.Random
    folder: Path
    order: Order = attrs.field(factory=Order)
    sessions: list[str] = attrs.field(factory=list)

    async def run(self) -> None:
        host = Host(ScriptedProvider(ANSWERS, repeat=True), builtin_tools(), store=str(self.folder / "store.db"))
        async with editor_of(host) as editor:
            editor.on_message = self.order.check
            editor.choose = self._choose
            await self._send(editor, "initialize", protocolVersion=1)
            for _ in range(25):
                await self._step(editor)
                for _ in range(self.dice.choice([0, 0, 1, 10, 100])):
                    await trio.lowlevel.checkpoint()
            for session_id in self.sessions:
                await editor.notify("session/cancel", sessionId=session_id)
            for number in list(self.order.open_requests):
                await editor.answer(number)
        assert not self.order.open_requests

    def _choose(self, _: Message) -> str | None:
        option = self.dice.choice(["allow", "reject", "", None])
        if option is not None:
            self.order.questions.popitem()  # the one that has just come
        return option

    async def _step(self, editor: Editor) -> None:
        if not self.sessions or self.dice.random() < 0.1:
            answer = await editor.answer(await self._send(editor, "session/new", cwd=str(self.folder), mcpServers=[]))
            self.sessions.append(answer["result"]["sessionId"])
            return
        session_id = self.dice.choice(self.sessions)
        opening = {"cwd": str(self.folder), "mcpServers": []}
        prompt = {"prompt": [{"type": "text", "text": "go"}]}
        match self.dice.choice(
            ["prompt", "prompt", "prompt", "cancel", "withdraw", "steer", "mode", "close", "load", "resume"]
        ):
            case "prompt":
                await self._send(editor, "session/prompt", session_id, **prompt)
            case "cancel":
                await editor.notify("session/cancel", sessionId=session_id)
            case "withdraw" if self.order.open_requests:
                prompts = [n for n in self.order.open_requests if self.order.sent[n][0] == "session/prompt"]
                for number in prompts[:1]:
                    await editor.notify("$/cancel_request", requestId=number)
            case "steer":
                await self._send(editor, "_session/steering", session_id, **prompt)
            case "mode":
                mode = self.dice.choice(["ask", "read-only", "auto-edit", "full"])
                await self._send(editor, "session/set_mode", session_id, modeId=mode)
            case ("close" | "load" | "resume") as method:
                await self._send(editor, f"session/{method}", session_id, **({} if method == "close" else opening))
            case _:
                pass

    async def _send(self, editor: Editor, method: str, session_id: str = "", **params: object) -> int:
        # Noted first: the answer may come while it is being sent.
        number = len(editor.methods) + 1
        self.order.sent[number] = (method, session_id)
        self.order.open_requests.add(number)
        return await editor.begin(method, **({"sessionId": session_id} if session_id else {}), **params)


def test_order_holds_over_random_requests(tmp_path: Path, is_full: bool, count_runs: CountRuns) -> None:
    seeds = range(300 if is_full else 6)
    for seed in seeds:
        folder = tmp_path / str(seed)
        folder.mkdir()
        seed_scheduler(seed)
        trio.run(Play(random.Random(seed), folder).run)
    count_runs(len(seeds))
