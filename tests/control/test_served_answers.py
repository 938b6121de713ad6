"""What clients bring to a turn over the protocol: results from outside, words, decisions; and what they do to its files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs

import engine
from engine.core.errors import ProviderError
from engine.core.settings import RetryPolicy, Settings
from engine.permission.allow_all import AllowAll
from engine.session.engine_options import FileOptions, PermissionOptions
from engine.snapshots.project_snapshots import ProjectSnapshots
from engine.testing.script import Answer, Fail, call, done, text
from engine.tools.external import external_tool
from tests.support.served_engine import Client, NoArguments, served


async def inquire(arguments: NoArguments, context: engine.ToolContext) -> str:
    """Ask the user."""
    del arguments
    outcome, texts = await context.ask_user("Which one?")
    return f"{outcome}: {', '.join(texts)}"


async def started(client: Client, folder: Path) -> str:
    """Begin a turn in a new session, whose events come to *client*."""
    await client.hello("ada")
    session_id = await client.new_session(folder)
    await client.result("subscribe", session_id=session_id)
    await client.result("prompt", session_id=session_id, text="Go", key="p1")
    return session_id


async def test_answers_reach_the_turn(tmp_path: Path) -> None:
    script: list[Answer] = [
        [*call("deploy", id="c1"), *done("calls")],
        [*call("inquire", id="c2"), *done("calls")],
        [*call("inquire", id="c3"), *done("calls")],
        [*text("Done."), *done()],
    ]
    tools = [external_tool("deploy", NoArguments, description="Deploy."), engine.tool(inquire)]
    async with served(tmp_path, *script, tools=tools) as server, server.unix() as client:
        session_id = await started(client, tmp_path)
        call_id = (await client.events_until("call_started"))[-1]["call_id"]
        settled = await client.result("call.settle", session_id=session_id, call_id=call_id, text="deployed")
        seen = await client.events_until("question_asked")
        # A client that has seen the event with that number has seen the effect.
        (result,) = [event for event in seen if event["type"] == "call_settled"]
        assert result["settlement"]["text"] == "deployed"
        assert settled["seq"] >= result["seq"]
        late = await client.call("call.settle", session_id=session_id, call_id=call_id, text="again")
        assert late["error"]["data"]["what"] == "call"
        texts: list[str] = []
        for answers in (["this"], []):
            question = {"session_id": session_id, "request_id": seen[-1]["request_id"], "answers": answers}
            seq = (await client.result("question.answer", **question))["seq"]
            seen = await client.events_until("question_asked" if answers else "turn_ended")
            (answered,) = [event for event in seen if event["type"] == "question_answered"]
            assert (answered["seq"], answered["by"]) == (seq, "ada")
            texts += [event["settlement"]["text"] for event in seen if event["type"] == "call_settled"]
        assert texts == ["answered: this", "declined: "]


async def test_failed_request_waits_for_a_decision(tmp_path: Path) -> None:
    failure: Answer = [Fail(ProviderError("the host is down"))]
    settings = Settings(on_exhausted="ask", retry=RetryPolicy(attempts=1, longest=0.01))
    opening: dict[str, Any] = {"settings": settings}
    async with served(tmp_path, failure, failure, **opening) as server, server.unix() as client:
        session_id = await started(client, tmp_path)
        seen = await client.events_until("recovery_asked")
        for how, tag in (("wait", "recovery_asked"), ("stop", "turn_ended")):
            recovery = {"session_id": session_id, "request_id": seen[-1]["request_id"]}
            unknown = await client.call("recovery.answer", **recovery, how="switch", model="antropic/x")
            data = unknown["error"]["data"]
            assert (data["kind"], data["field"], data["nearest"]) == ("config", "model", "anthropic/x")
            seq = (await client.result("recovery.answer", **recovery, how=how))["seq"]
            seen = await client.events_until(tag)
            (answered,) = [event for event in seen if event["type"] == "recovery_answered"]
            assert (answered["seq"], answered["by"]) == (seq, "ada")
        assert seen[-1]["result"]["stop_reason"] == "provider_error"


@attrs.frozen
class Content:
    text: str


async def test_files_are_compared_undone_and_restored(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    file = folder / "a.txt"
    file.write_text("first\n")

    async def change(arguments: Content, context: engine.ToolContext) -> str:
        """Change the file."""
        del context
        file.write_text(arguments.text)
        return "changed"

    script: list[Answer] = [[*call("change", {"text": "second\n"}, id="c1"), *done("calls")], [*text("Done."), *done()]]
    opening: dict[str, Any] = {
        "tools": [engine.tool(change)],
        "permissions": PermissionOptions(approver=AllowAll()),
        "files": FileOptions(snapshots=ProjectSnapshots()),
    }
    async with served(tmp_path, *script, **opening) as server, server.unix() as client:
        session_id = await started(client, folder)
        turn_id = (await client.events_until("turn_ended"))[-1]["turn_id"]
        session = {"session_id": session_id}
        (difference,) = (await client.result("diff", **session))["files"]
        assert (difference["path"], difference["change"]) == ("a.txt", "changed")
        assert "-first" in difference["text"]
        assert "+second" in difference["text"]
        file.write_text("by somebody else\n")
        for method, params in (("undo", {"key": "u1"}), ("restore", {"paths": ["a.txt"], "turn_id": turn_id})):
            refused = (await client.call(method, **session, **params))["error"]
            assert (refused["code"], refused["data"]["paths"]) == (-32014, ["a.txt"])
            assert file.read_text() == "by somebody else\n"
        file.write_text("second\n")
        undone = await client.result("undo", **session, key="u1")
        assert (undone["turn_id"], [each["parts"][0]["text"] for each in undone["inputs"]]) == (turn_id, ["Go"])
        assert (undone["files"], file.read_text()) == (["a.txt"], "first\n")
        # The same key again undoes nothing more; nothing is left to undo.
        assert await client.result("undo", **session, key="u1") == undone
        assert (await client.call("undo", **session, key="u2"))["error"]["code"] == -32013
        redone = await client.result("redo", **session, key="r1")
        assert (redone["turn_id"], file.read_text()) == (turn_id, "second\n")
        restored = await client.result("restore", **session, paths=["a.txt"], turn_id=turn_id)
        assert (restored, file.read_text()) == ({"paths": ["a.txt"]}, "first\n")
        # Nothing outside of the folder.
        assert await client.result("restore", **session, paths=["../a.txt"], turn_id=turn_id) == {"paths": []}
