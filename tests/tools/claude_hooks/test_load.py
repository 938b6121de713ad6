"""`load_hooks`: settings as Claude Code has them, read strictly."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any, cast

import attrs
import pytest

from engine.core.errors import ConfigError
from engine.core.hooks import Hooks
from engine.tools.claude_hooks.load import ABSENT, HOOK_EVENTS, SHELL, TIMEOUT, load_hooks
from engine.tools.claude_hooks.run_command import ShellHook

POINTS = {
    "SessionStart": {"session_start", "after_compaction"},
    "UserPromptSubmit": {"user_prompt"},
    "Request": {"request"},
    "PreToolUse": {"before_tool"},
    "PermissionRequest": {"permission_request"},
    "PostToolUse": {"after_tool"},
    "PostToolUseFailure": {"tool_failed"},
    "Stop": {"stop"},
    "SubagentStop": {"sub_agent_stop"},
    "TaskCompleted": {"task_completed"},
    "PreCompact": {"before_compaction"},
    "PostCompact": {"after_compaction"},
    "Notification": {"notification", "idle"},
    "TeammateIdle": {"idle"},
    "SessionEnd": {"session_end"},
}


HOOK_POINTS = [field.name for field in attrs.fields(Hooks)]


def loaded(source: Any, point: str) -> list[ShellHook[Any, Any]]:
    return list(getattr(load_hooks(source), point))


def handler(command: str = "true", **fields: object) -> dict[str, object]:
    return {"type": "command", "command": command, **fields}


def one(event: str = "PreToolUse", matcher: object = None, **fields: Any) -> Any:
    group: dict[str, object] = {"hooks": [handler(**fields)]}
    return {event: [group if matcher is None else group | {"matcher": matcher}]}


def test_each_event_runs_at_its_points() -> None:
    assert set(POINTS) == HOOK_EVENTS
    for event, points in POINTS.items():
        hooks = load_hooks(one(event))
        assert {name for name in HOOK_POINTS if getattr(hooks, name)} == points


def test_a_command_and_its_options() -> None:
    (hook,) = loaded(one(command="check.sh --quick", timeout=5), "before_tool")
    assert (hook.argv, hook.timeout, hook.is_blocking) == ((SHELL, "-c", "--", "check.sh --quick"), 5, True)
    (hook,) = loaded(one(command="/bin/check", args=["a b", "c"], statusMessage="…", once=True), "before_tool")
    assert (hook.argv, hook.timeout) == (("/bin/check", "a b", "c"), TIMEOUT)
    (hook,) = loaded({"Stop": [{"hooks": [handler() | {"async": True}]}]}, "stop")
    assert hook.is_blocking is False


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ('"$CLAUDE_PROJECT_DIR"/hooks/check.sh --token=secret', "PreToolUse (check.sh)"),
        ("curl -H 'Authorization: secret' https://example.org", "PreToolUse (curl)"),
        ("jq -r '.x", "PreToolUse (jq)"),
        ("", "PreToolUse (nothing)"),
    ],
)
def test_hook_name_shows_command_without_secrets(command: str, name: str) -> None:
    (hook,) = loaded(one(command=command), "before_tool")
    assert hook.name == name


@pytest.mark.parametrize(
    ("matcher", "matches", "not_these"),
    [
        (None, ["Bash", "Edit", ""], []),
        ("", ["Bash", "Edit"], []),
        ("*", ["Bash", "Edit"], []),
        ("Bash", ["Bash"], ["BashOutput", "bash", "Edit"]),
        ("Edit|Write", ["Edit", "Write"], ["NotebookEdit", "MultiEdit"]),
        ("Edit, Write", ["Edit", "Write"], ["Read"]),
        ("Notebook.*", ["NotebookEdit", "MyNotebook"], ["Note"]),
        ("^Bash$", ["Bash"], ["BashOutput"]),
        ("mcp__memory__.*", ["mcp__memory__add"], ["mcp__other__add"]),
        ("mcp__my-server__add", ["mcp__my-server__add"], ["mcp__my-server__add2"]),
    ],
)
def test_matcher_is_names_or_an_expression(matcher: str | None, matches: list[str], not_these: list[str]) -> None:
    (hook,) = loaded(one(matcher=matcher), "before_tool")
    test = hook.matches
    assert [name for name in [*matches, *not_these] if test((name,))] == matches
    assert test(()), "an event without anything to match is for all"
    assert not not_these or test((not_these[0], matches[0])), "one of several names is enough"


def test_settings_from_object_or_file(tmp_path: Path) -> None:
    file = tmp_path / "settings.json"
    settings = {"permissions": {"allow": []}, "hooks": one("Stop")}
    file.write_text(json.dumps(settings), encoding="utf-8")
    for source in (settings, settings["hooks"], file, str(file)):
        assert [hook.name for hook in loaded(source, "stop")] == ["Stop (true)"]
    file.write_text('{"permissions": {}}', encoding="utf-8")
    assert load_hooks(file) == load_hooks({}) == load_hooks({"hooks": {}}) == Hooks()
    assert load_hooks(settings | {"disableAllHooks": True}) == Hooks()


def test_hooks_of_one_event_stay_in_their_order() -> None:
    groups = [{"hooks": [handler("a"), handler("b")]}, {"matcher": "Bash", "hooks": [handler("c")]}]
    assert [hook.argv[-1] for hook in loaded({"PreToolUse": groups}, "before_tool")] == ["a", "b", "c"]


def test_unsupported_events_are_reported_and_skipped(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        hooks = load_hooks(one("WorktreeCreate") | one("Stop"))
    assert len(hooks.stop) == 1
    assert "WorktreeCreate" in caplog.text
    assert not HOOK_EVENTS & ABSENT


def test_unknown_types_cost_one_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    handlers = [{"type": "prompt", "prompt": "x"}, handler("guard"), {"type": "http", "url": "https://example.org"}]
    file = tmp_path / "settings.json"
    file.write_text(json.dumps({"hooks": {"PreToolUse": [{"hooks": handlers}], "Setup": [{"hooks": handlers}]}}))
    with caplog.at_level(logging.WARNING):
        hooks = load_hooks(file)
    assert [cast("Any", hook).argv[-1] for hook in hooks.before_tool] == ["guard"]
    assert len(caplog.records) == 1
    for part in ("PreToolUse[0].hooks[0]", "'prompt'", "hooks[2]", "'http'", "Setup"):
        assert part in caplog.text


@pytest.mark.parametrize(
    ("source", "told"),
    [
        (one("PreToolUs"), "there is no event 'PreToolUs'; did you mean PreToolUse?"),
        (one("Xyzzy"), "there are: Notification"),
        ({"hooks": []}, "must be an object, not []"),
        ({"PreToolUse": {}}, "PreToolUse must be an array, not {}"),
        ({"PreToolUse": ["x"]}, "PreToolUse[0] must be an object, not 'x'"),
        ({"PreToolUse": [{}]}, "PreToolUse[0].hooks must be an array, not None"),
        ({"PreToolUse": [{"hooks": [5]}]}, "PreToolUse[0].hooks[0] must be an object, not 5"),
        ({"PreToolUse": [{"hooks": [], "command": "x"}]}, "there is no command here, only matcher and hooks"),
        (one(matcher=5), "the matcher must be a text, not 5"),
        (one(matcher="(["), "the matcher '([' is no regular expression"),
        ({"Stop": [{"hooks": [{"command": "x"}]}]}, "a hook's type must be 'command' here, not None"),
        ({"Stop": [{"hooks": [{"type": "command"}]}]}, "Stop[0].hooks[0]: command: is required"),
        (one(command=5), "command: expected string, got integer"),
        (one(timeout=0), "timeout"),
        (one(timeout=-1), "timeout"),
        (one(timeout="60"), "timeout: expected number, got string"),
        (one(args="x"), "args: expected"),
        (one(shell="powershell"), "the shell must be 'bash' here, not 'powershell'"),
        (one(**{"async": "yes"}), "async must be true or false, not 'yes'"),
        (one(**{"if": "Bash(git *)"}), "if: no such field"),
        (5, "from a mapping or a path, not from 5"),
        ("/no/such/settings.json", "can't read the hooks of /no/such/settings.json: No such file"),
        ("/", "can't read the hooks of /: Is a directory"),
    ],
    ids=str,
)
def test_unsupported_hooks_are_refused(source: Any, told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_hooks(source)
    assert told in str(caught.value)


@pytest.mark.parametrize("text", ["", "{", "[]", "\xff", "null", "[" * 100_000])
def test_invalid_settings_file_is_reported(tmp_path: Path, text: str) -> None:
    file = tmp_path / "settings.json"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(ConfigError, match=r"settings\.json"):
        load_hooks(file)
