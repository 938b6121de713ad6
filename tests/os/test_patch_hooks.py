"""Command hooks that guard files, for a model that writes patches: real processes, real files."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from engine.core.hooks import Hooks, Stopping
from engine.testing.script import Answer, call, done, text
from engine.tools.builtin.apply_patch import APPLY_PATCH
from engine.tools.builtin.read import READ
from engine.tools.claude_hooks.load import load_hooks
from tests.os import trees
from tests.support.world import Played, world

pytestmark = [pytest.mark.os, pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")]

DONE: Answer = [*text("Done."), *done()]
PATCH = """*** Begin Patch
*** Add File: new.txt
+hello
*** Update File: app.py
@@
-one = 1
+one = 2
*** Update File: old.py
*** Move to: secrets/moved.py
@@
-two = 2
+two = 3
*** Delete File: gone.py
*** End Patch"""


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    with trees.nothing_left():
        yield


def hooks(event: str, command: str, matcher: str = "Edit|Write") -> Hooks:
    return load_hooks({event: [{"matcher": matcher, "hooks": [{"type": "command", "command": command}]}]})


def guard(*names: str) -> str:
    """A guard as people write them: it looks at the file's path."""
    script = (
        "import json, sys\n"
        "path = json.load(sys.stdin).get('tool_input', {}).get('file_path', '')\n"
        f"if any(name in path for name in {names!r}):\n"
        "    print('not that file', file=sys.stderr); sys.exit(2)\n"
    )
    return f"{shlex.quote(sys.executable)} -c {shlex.quote(script)}"


async def patched(folder: Path, made: Hooks, patch: str = PATCH) -> Played:
    for name, line in (("app.py", "one = 1"), ("old.py", "two = 2"), ("gone.py", "three = 3")):
        (folder / name).write_text(f"{line}\n")
    names = ("app.py", "old.py", "gone.py")
    reads: Answer = [event for name in names for event in call("read", {"path": name}, id=name)]
    asks: Answer = [*call("apply_patch", {"patch": patch}, id="1"), *done("calls")]
    async with world([*reads, *done("calls")], asks, DONE, tools=[READ, APPLY_PATCH], hooks=made, cwd=str(folder)) as w:
        return await w.play()


@pytest.mark.parametrize("event", ["PreToolUse"])
@pytest.mark.parametrize("name", ["new.txt", "app.py", "old.py", "secrets/moved.py", "gone.py"])
@pytest.mark.parametrize("matcher", ["Edit|Write", "Write", "Edit", "", "*", ".*"])
async def test_guard_of_files_denies_a_patch(tmp_path: Path, event: str, name: str, matcher: str) -> None:
    played = await patched(tmp_path, hooks(event, guard(f"/{name}"), matcher))
    settled = played.settlements[-1]
    assert (settled.status, settled.text) == ("denied", "Denied by a hook: not that file")
    assert (tmp_path / "app.py").read_text() == "one = 1\n"


async def test_harmless_patch_passes_the_guard(tmp_path: Path) -> None:
    played = await patched(tmp_path, hooks("PreToolUse", guard("/.env", "/.git/")))
    assert played.statuses[-1] == "completed"
    assert (tmp_path / "secrets/moved.py").read_text() == "two = 3\n"


async def test_each_file_has_the_form_of_edit_or_write(tmp_path: Path) -> None:
    log = tmp_path / "seen"
    await patched(tmp_path, hooks("PreToolUse", f"cat >>{log}; echo >>{log}"))
    seen = [json.loads(line) for line in log.read_text().splitlines()]
    assert [(one["tool_name"], one["engine_tool"], one["tool_use_id"]) for one in seen] == [
        (name, "apply_patch", seen[0]["tool_use_id"]) for name in ("Write", "Edit", "Edit", "Edit", "Write")
    ]
    assert [one["tool_input"] for one in seen[:2]] == [
        {"file_path": str(tmp_path / "new.txt"), "content": "hello\n"},
        {"file_path": str(tmp_path / "app.py"), "old_string": "one = 1", "new_string": "one = 2"},
    ]


async def test_after_a_patch_each_file_is_named(tmp_path: Path) -> None:
    log = tmp_path / "seen"
    await patched(tmp_path, hooks("PostToolUse", f"cat >>{log}; echo >>{log}"))
    seen = [json.loads(line)["tool_response"] for line in log.read_text().splitlines()]
    assert [one["filePath"] for one in seen] == [
        str(tmp_path / name) for name in ("new.txt", "app.py", "old.py", "secrets/moved.py", "gone.py")
    ]


async def test_hook_of_the_patch_tool_sees_the_patch(tmp_path: Path) -> None:
    log = tmp_path / "seen"
    await patched(tmp_path, hooks("PreToolUse", f"cat >>{log}", "apply_patch"))
    assert json.loads(log.read_text())["tool_input"] == {"patch": PATCH}


async def test_transcript_is_up_to_date_before_each_hook(tmp_path: Path) -> None:
    log = tmp_path / "seen"
    script = (
        "import json, os, sys\n"
        "path = json.load(sys.stdin)['transcript_path']\n"
        "lines = [json.loads(line) for line in open(path)]\n"
        f"print(json.dumps([oct(os.stat(path).st_mode & 0o777), lines]), file=open({str(log)!r}, 'a'))\n"
    )
    command = f"{shlex.quote(sys.executable)} -c {shlex.quote(script)}"
    made = load_hooks(
        {event: [{"hooks": [{"type": "command", "command": command}]}] for event in ("UserPromptSubmit", "Stop")}
    )
    await patched(tmp_path, made)
    (mode, first), (_, last) = [json.loads(line) for line in log.read_text().splitlines()]
    assert mode == "0o600"
    assert [(line["type"], line["message"]["role"]) for line in first] == [("user", "user")]
    assert last[: len(first)] == first
    kinds = [line["type"] for line in last]
    assert kinds == ["user", *["assistant"] * 3, "user", "assistant", "user", "assistant"]
    assert [line["parentUuid"] for line in last] == [None, *(line["uuid"] for line in last[:-1])]
    calls = [line["message"]["content"][0] for line in last[1:4]]
    assert (calls[0]["name"], calls[0]["input"]) == ("Read", {"file_path": str(tmp_path / "app.py")})
    results = last[4]["message"]["content"]
    assert [part["tool_use_id"] for part in results] == [part["id"] for part in calls]
    assert last[-1]["message"]["content"] == [{"type": "text", "text": "Done."}]


async def test_without_commands_there_is_no_transcript(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    await patched(tmp_path, Hooks(stop=(_silent,)))
    assert not (tmp_path / "cache/engine/transcripts").exists()


async def _silent(stopping: Stopping) -> None:
    await trio.lowlevel.checkpoint()


async def test_one_file_of_a_patch_cannot_be_replaced(tmp_path: Path) -> None:
    reply = {"hookSpecificOutput": {"hookEventName": "PreToolUse", "updatedInput": {"file_path": "/etc/passwd"}}}
    played = await patched(tmp_path, hooks("PreToolUse", f"cat >/dev/null; echo '{json.dumps(reply)}'"))
    assert played.statuses[-1] == "denied"
