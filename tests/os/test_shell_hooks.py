"""Shell commands as hooks: real processes, in real time, in a real turn."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

import engine
from engine.core.events import CallSettled, Notice, NudgeAdded
from engine.core.hooks import Hooks
from engine.core.settings import Settings
from engine.permission.policy import Policy
from engine.testing.script import Answer, call, done, text
from engine.tools.builtin.builtin_tools import builtin_tools
from engine.tools.claude_hooks.load import load_hooks
from engine.tools.shell_environment import marker
from tests.os import trees
from tests.os.trees import STUBBORN
from tests.support.world import Played, World, said, world

pytestmark = [pytest.mark.os, pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")]

DONE: Answer = [*text("Done."), *done()]
# What a loaded machine may add.
SLACK = 20.0


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    with trees.nothing_left():
        yield


@attrs.frozen
class Touch:
    """Touch a thing."""

    path: str = "a"


@engine.tool(read_only=True)
async def touch(args: Touch, ctx: engine.ToolContext) -> str:
    if args.path == "missing":
        return engine.ToolOutput(text="no such thing", failed=True)  # type: ignore[return-value]
    return f"touched {args.path}"


def hooks(event: str, command: str, **fields: object) -> Hooks:
    return load_hooks({event: [{"hooks": [{"type": "command", "command": command, **fields}]}]})


def one_call(path: str = "a") -> Answer:
    return [*call("touch", {"path": path}, id="1"), *done("calls")]


def prints(document: object) -> str:
    return f"cat >/dev/null; echo '{json.dumps(document)}'"


async def played_with(made: Hooks, *, settings: Settings | None = None, path: str = "a") -> tuple[Played, World]:
    async with world(one_call(path), DONE, DONE, tools=[touch], hooks=made, settings=settings) as w:
        return await w.play(), w


def specific(event: str, **fields: object) -> dict[str, object]:
    return {"hookSpecificOutput": {"hookEventName": event, **fields}}


# -- before a tool -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "status", "told", "notices"),
    [
        ("true", "completed", "touched a", []),
        ("echo no >&2; exit 2", "denied", "Denied by a hook: no", []),
        ("echo '{nonsense'; echo no >&2; exit 2", "denied", "Denied by a hook: no", []),
        ('echo \'{"decision": "approve"}\'; echo no >&2; exit 2', "denied", "Denied by a hook: no", []),
        ("echo odd >&2; exit 1", "completed", "touched a", ["failed with exit code 1: odd"]),
        ("no-such-program", "completed", "touched a", ["failed with exit code 127"]),
        (
            prints(specific("PreToolUse", permissionDecision="deny", permissionDecisionReason="no")),
            "denied",
            "Denied by a hook: no",
            [],
        ),
        (prints(specific("PreToolUse", permissionDecision="allow")), "completed", "touched a", []),
        (prints(specific("PreToolUse", updatedInput={"path": "b"})), "completed", "touched b", []),
        (prints(specific("PreToolUse", updatedInput={"path": 5})), "error", "The arguments of touch are not valid", []),
        (prints({"systemMessage": "mind"}), "completed", "touched a", ["says: mind"]),
        ("echo plain words", "completed", "touched a", []),
        # What guards a call and can't say anything, denies it.
        (
            "echo '{nonsense'",
            "denied",
            "a hook that guards this call failed",
            ["no valid", "begins like a JSON object"],
        ),
        (
            prints(specific("PreToolUse", permissionDecision="perhaps")),
            "denied",
            "a hook that guards",
            ["permissionDecision"],
        ),
        (prints(specific("PostToolUse")), "denied", "a hook that guards", ["hookEventName"]),
        ("kill -9 $$", "denied", "a hook that guards", ["ended by signal 9"]),
    ],
)
async def test_before_a_tool(command: str, status: str, told: str, notices: list[str]) -> None:
    played, _ = await played_with(hooks("PreToolUse", command))
    (settled,) = played.settlements
    assert settled.status == status
    assert told in settled.text
    texts = [notice.text for notice in played.all(Notice)]
    assert len(texts) == bool(notices)
    assert not notices or any(part in texts[0] for part in notices)
    assert played.stop_reason == "completed"


async def test_c5_command_hook_cannot_bypass_rules() -> None:
    for verdict, asked in (("allow", 0), ("ask", 1)):
        made = hooks("PreToolUse", prints(specific("PreToolUse", permissionDecision=verdict)))
        async with world(one_call(), DONE, tools=[touch], hooks=made) as w:

            async def reply(turn: engine.Turn, event: object) -> None:
                if isinstance(event, engine.PermissionAsked):
                    await turn.reply(event.request_id, engine.Once())

            played = await w.play(react=reply)
        assert (played.statuses, len(played.all(engine.PermissionAsked))) == (["completed"], asked)


async def test_c11_a_command_may_stop_the_turn() -> None:
    for event, path in (("PreToolUse", "a"), ("PostToolUse", "a"), ("PostToolUseFailure", "missing")):
        played, w = await played_with(hooks(event, prints({"continue": False, "stopReason": "frozen"})), path=path)
        assert (played.stop_reason, played.result.detail, len(w.requests)) == ("hook_stopped", "frozen", 1)
        assert "frozen" not in repr(w.session.state.transcript)


async def test_slow_command_is_ended_and_denies_the_call() -> None:
    started = trio.current_time()
    played, _ = await played_with(hooks("PreToolUse", f"trap '' TERM; sleep {trees.token()}", timeout=0.2))
    assert (played.statuses, "within 0.2 s" in played.one(Notice).text) == (["denied"], True)
    assert trio.current_time() - started < 0.2 + SLACK


@pytest.mark.parametrize(
    "kind", ["plain", "ignores TERM", "setsid", "daemon", "writes for ever", "children who ignore TERM"]
)
async def test_cancel_ends_a_command_and_its_descendants(kind: str) -> None:
    script = STUBBORN[kind].replace("{t}", trees.token())
    async with world(one_call(), tools=[touch], hooks=hooks("PreToolUse", script)) as w:
        async with w.session.prompt("go") as turn:
            await trio.sleep(0.3)
            started = trio.current_time()
            turn.cancel()
            result = await turn.wait()
        assert result.stop_reason == "aborted"
        assert trio.current_time() - started < 0.25 + SLACK
        (settled,) = [e.settlement for e in w.session.events() if isinstance(e, CallSettled)]
        assert settled.reason == "not_executed"


async def test_a_hosts_deadline_ends_a_command_too() -> None:
    async with world(one_call(), tools=[touch], hooks=hooks("PreToolUse", f"sleep {trees.token()}")) as w:
        with trio.move_on_after(0.3) as scope:
            await w.session.run("go")
        assert scope.cancelled_caught


async def test_leftovers_of_a_command_are_ended() -> None:
    played, _ = await played_with(
        hooks("PreToolUse", f"sleep {trees.token()} & sleep {trees.token()} >/dev/null 2>&1 &")
    )
    assert played.statuses == ["completed"]


async def test_commands_of_one_event_run_at_the_same_time(tmp_path: Path) -> None:
    # Each waits for the other, and the first one denies the call.
    meet = (
        "touch {0}/{1}; for i in $(seq 1000); do [ -e {0}/{2} ] && break; sleep 0.05; done; [ -e {0}/{2} ] || exit 1; "
    )
    first = meet.format(tmp_path, "a", "b") + "echo no >&2; exit 2"
    second = meet.format(tmp_path, "b", "a") + f"cat >{tmp_path}/audit"
    groups = [{"hooks": [{"type": "command", "command": line}]} for line in (first, second)]
    played, _ = await played_with(load_hooks({"PreToolUse": groups}))
    assert [(settled.status, settled.text) for settled in played.settlements] == [("denied", "Denied by a hook: no")]
    assert json.loads((tmp_path / "audit").read_text())["tool_name"] == "touch"


async def test_command_need_not_read_its_input() -> None:
    made = hooks("PreToolUse", "exit 0")
    async with world(one_call("x" * 900_000), DONE, tools=[touch], hooks=made) as w:
        assert (await w.play()).statuses == ["completed"]
    made = hooks("PreToolUse", "wc -c >&2; exit 2")
    async with world(one_call("x" * 900_000), DONE, tools=[touch], hooks=made) as w:
        assert int((await w.play()).settlements[0].text.rpartition(" ")[2]) > 900_000


async def test_a_command_that_prints_without_end_is_bounded() -> None:
    made = hooks("PreToolUse", "head -c 20000000 /dev/zero | tr '\\0' x; echo no >&2; exit 2")
    played, _ = await played_with(made)
    assert played.settlements[0].text == "Denied by a hook: no"


# -- what it is told ------------------------------------------------------------------------------------------------


async def test_command_gets_folder_and_payload(tmp_path: Path) -> None:
    folder, project = tmp_path / "work", tmp_path / "project"
    folder.mkdir()
    project.mkdir()
    script = 'cat > "$CLAUDE_PROJECT_DIR/told.json"; pwd > "$ENGINE_PROJECT_DIR/env"; echo "$ENGINE_SESSION_ID $ENGINE_HOOK_EVENT" >> "$CLAUDE_PROJECT_DIR/env"; echo "$ENGINE_CALL" >> "$CLAUDE_PROJECT_DIR/env"'
    listed = {"PostToolUse": [{"matcher": "touch|Bash", "hooks": [{"type": "command", "command": script}]}]}
    async with world(one_call(), DONE, tools=[touch], hooks=load_hooks(listed, project=project)) as w:
        session = await w.engine.create_session(cwd=folder)
        await w.play(session=session)
    where, event, mark = (project / "env").read_text().splitlines()
    assert (where, event) == (str(folder), f"{session.id} PostToolUse")
    # So a crash leaves nothing of it that could not be found.
    assert mark.rpartition(":")[2].startswith(f"{marker(session.id)}hook-")
    told = json.loads((project / "told.json").read_text())
    assert (told["session_id"], told["cwd"], told["tool_name"]) == (session.id, str(folder), "touch")
    assert (told["tool_input"], told["tool_response"]) == ({"path": "a"}, {"success": True, "text": "touched a"})


async def test_missing_working_directory_falls_back_to_project(tmp_path: Path) -> None:
    script = "pwd >&2; exit 2"
    listed = {"PreToolUse": [{"hooks": [{"type": "command", "command": script}]}]}
    for project, where in ((tmp_path, str(tmp_path)), (tmp_path / "gone", "/"), (None, "/")):
        async with world(one_call(), DONE, tools=[touch], hooks=load_hooks(listed, project=project)) as w:
            gone = tmp_path / "gone away"
            gone.mkdir()
            session = await w.engine.create_session(cwd=gone)
            gone.rmdir()
            played = await w.play(session=session)
        assert played.settlements[0].text == f"Denied by a hook: {where}"


async def test_program_with_arguments_runs_without_a_shell() -> None:
    played, _ = await played_with(hooks("PreToolUse", "sh", args=["-c", 'echo "$0" >&2; exit 2', "a  b"]))
    assert played.settlements[0].text == "Denied by a hook: a  b"
    played, _ = await played_with(hooks("PreToolUse", "/no/such/program", args=[]))
    assert (played.statuses, "could not be started" in played.one(Notice).text) == (["denied"], True)


async def test_a_matcher_of_claude_code_finds_our_tools(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello\n", encoding="utf-8")
    script = "echo no >&2; exit 2"
    listed = {"PreToolUse": [{"matcher": "Read|Bash", "hooks": [{"type": "command", "command": script}]}]}
    first = [*call("read", {"path": "a.txt"}, id="1"), *call("list", {}, id="2"), *done("calls")]
    async with world(first, DONE, tools=builtin_tools(), hooks=load_hooks(listed)) as w:
        session = await w.engine.create_session(cwd=tmp_path)
        async with session.prompt("go") as turn:
            await turn.wait()
        settled = [e.settlement.status for e in session.events() if isinstance(e, CallSettled)]
    assert sorted(settled) == ["completed", "denied"]


async def test_a_changed_path_is_translated_back_and_validated(tmp_path: Path) -> None:
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text(f"this is {name}\n", encoding="utf-8")
    script = 'python3 -c \'import json,sys; d=json.load(sys.stdin)["tool_input"]; d["file_path"]=d["file_path"].replace("a.txt","b.txt"); print(json.dumps({"hookSpecificOutput": {"hookEventName": "PreToolUse", "updatedInput": d}}))\''
    first = [*call("read", {"path": "a.txt"}, id="1"), *done("calls")]
    async with world(first, DONE, tools=builtin_tools(), hooks=hooks("PreToolUse", script)) as w:
        session = await w.engine.create_session(cwd=tmp_path)
        async with session.prompt("go") as turn:
            await turn.wait()
        (settled,) = [e.settlement for e in session.events() if isinstance(e, CallSettled)]
    assert "this is b.txt" in settled.text


# -- other events -------------------------------------------------------------------------------------------------


async def nudges(event: str, command: str, path: str = "a") -> list[str]:
    played, w = await played_with(hooks(event, command), path=path)
    assert played.stop_reason == "completed"
    return [said(e.message) for e in w.session.events() if isinstance(e, NudgeAdded)]


@pytest.mark.parametrize(
    ("event", "command", "path", "told"),
    [
        ("PostToolUse", "echo look again >&2; exit 2", "a", "look again"),
        ("PostToolUse", prints({"decision": "block", "reason": "look again"}), "a", "look again"),
        ("PostToolUse", "echo look again >&2; exit 2", "missing", None),
        (
            "PostToolUseFailure",
            prints(specific("PostToolUseFailure", additionalContext="it moved")),
            "missing",
            "it moved",
        ),
        ("PostToolUseFailure", "echo never >&2; exit 2", "a", None),
        ("UserPromptSubmit", "echo the branch is main", "a", "the branch is main"),
        ("SessionStart", "echo the branch is main", "a", "the branch is main"),
        ("PreToolUse", prints(specific("PreToolUse", additionalContext="careful")), "a", "careful"),
        ("Stop", "true", "a", None),
        ("SubagentStop", "echo no >&2; exit 2", "a", None),
    ],
)
async def test_command_output_reaches_the_model(event: str, command: str, path: str, told: str | None) -> None:
    found = await nudges(event, command, path)
    assert [line.rpartition("] ")[2] for line in found] == ([] if told is None else [told])


async def test_stop_command_repeats_until_active() -> None:
    script = "if grep -q '\"stop_hook_active\": true'; then exit 0; fi; echo run the tests >&2; exit 2"
    played, w = await played_with(hooks("Stop", script))
    assert (played.reasons, said(w.requests[-1].transcript[-1])) == (
        ["next_step", "stop_hook_blocked"],
        "run the tests",
    )


async def test_a_prompt_command_may_block_a_prompt() -> None:
    played, w = await played_with(hooks("UserPromptSubmit", "echo there is a key in it >&2; exit 2"))
    assert (played.stop_reason, played.result.detail, w.requests) == ("hook_stopped", "there is a key in it", [])


async def test_a_permission_command_answers_for_the_user() -> None:
    @engine.tool
    async def touch(args: Touch, ctx: engine.ToolContext) -> str:
        return "ok"

    for behavior, status in (("allow", "completed"), ("deny", "denied")):
        made = hooks("PermissionRequest", prints(specific("PermissionRequest", decision={"behavior": behavior})))
        async with world(one_call(), DONE, tools=[touch], hooks=made, approver=Policy()) as w:
            played = await w.play()
        assert (played.statuses, played.all(engine.PermissionAsked)) == ([status], [])


async def test_commands_at_the_edges_of_a_session(tmp_path: Path) -> None:
    log = tmp_path / "log"
    one: Any = [{"hooks": [{"type": "command", "command": f'echo "$ENGINE_HOOK_EVENT" >> {log}'}]}]
    made = load_hooks(dict.fromkeys(("SessionStart", "Notification", "SessionEnd", "TaskCompleted"), one))
    async with world(DONE, hooks=made) as w:
        await w.play()
        # Nobody waits for this one but we.
        with trio.fail_after(60):
            while "Notification" not in log.read_text():
                await trio.sleep(0.01)
    assert log.read_text().split() == ["SessionStart", "TaskCompleted", "Notification", "SessionEnd"]


async def test_async_command_output_is_ignored() -> None:
    played, _ = await played_with(hooks("PreToolUse", "echo no >&2; exit 2", **{"async": True}))
    assert played.statuses == ["completed"]
