"""What `engine run` tells a model before the task: by files, by trust, by commands."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Start

pytestmark = pytest.mark.os

SKILL = "---\nname: fish\ndescription: How to fish.\n---\nCast the line.\n"


def write(path: Path, said: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(said)
    return path


def events(engine: Start, *arguments: str, XDG_CONFIG_HOME: str = "/nowhere") -> list[dict[str, Any]]:  # noqa: N803
    """What `engine run --json …` prints."""
    command = engine("run", "--json", *arguments, XDG_CONFIG_HOME=XDG_CONFIG_HOME)
    assert command.wait() == 0, command.output
    return [json.loads(line) for line in command.output.splitlines() if line.startswith("{")]


def sections(told: list[dict[str, Any]]) -> Mapping[str, str]:
    """The sections of the prompt, by name."""
    (prompt,) = (event for event in told if event["type"] == "prompt_set")
    return {section["name"]: section["text"] for section in prompt["sections"]}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    write(tmp_path / "AGENTS.md", "Use tabs.\n")
    write(tmp_path / ".claude/skills/fish/SKILL.md", SKILL)
    write(tmp_path / ".engine/commands/greet.md", "---\nmodel: anthropic/claude-haiku-4-5\n---\nhello $1\n")
    return tmp_path


def test_trusted_project_is_in_the_prompt(engine: Start, project: Path) -> None:
    told = sections(events(engine, "hello", "--trust"))
    assert list(told) == ["base", "environment", "git", "date", f"instructions:{project}/AGENTS.md", "skills"]
    assert told["base"].startswith("You are a coding agent.")
    assert f"- Working folder: {project}\n" in told["environment"]
    assert "Use tabs." in told[f"instructions:{project}/AGENTS.md"]
    assert "- fish: How to fish." in told["skills"]


def test_untrusted_project_is_reported_to_the_user_only(engine: Start, project: Path) -> None:
    found = events(engine, "hello")
    assert list(sections(found)) == ["base", "environment", "git", "date"]
    (notice,) = (event for event in found if event["type"] == "notice" and event["code"] == "project_not_trusted")
    assert notice["text"] == (
        f"{project} is not trusted, so this was not read: AGENTS.md, .claude/skills. `engine permissions trust` says that "
        "it may be"
    )


@pytest.mark.parametrize(("typed", "lasts"), [("1", True), ("2", False), ("", False)])
def test_user_is_asked_about_trust(engine: Start, project: Path, typed: str, lasts: bool) -> None:
    command = engine("run", "remember it", terminal=True)
    command.read_until("(Enter to skip): ")
    assert "brings along instructions for the agent (AGENTS.md, .claude/skills)" in " ".join(command.output.split())
    command.type(f"{typed}\n")
    assert command.wait() == 0, command.output
    assert "has heard: remember it." in command.output
    # Who goes on with the session is not asked, and the model begins as it did.
    went_on = events(engine, "more", "--continue")
    assert not [event for event in went_on if event["type"] == "prompt_set"]
    fresh = sections(events(engine, "hello"))
    assert (f"instructions:{project}/AGENTS.md" in fresh) is lasts


def test_a_command_stands_for_its_text(engine: Start, project: Path) -> None:
    command = engine("run", "/greet", "you", "--trust")
    assert command.wait() == 0, command.output
    assert command.output.startswith("Hello")
    (step,) = (e for e in events(engine, "/greet you", "--trust") if e["type"] == "step_started")
    assert step["model"] == "anthropic/claude-haiku-4-5"


def test_project_commands_need_trust(engine: Start, project: Path) -> None:
    command = engine("run", "/greet")
    assert command.wait() == 2
    assert command.output == (
        f"engine run: unknown command /greet; no commands are defined\n{project} defines commands, but is not trusted\n"
        "Next: engine permissions trust\n"
    )


def test_the_user_s_own_commands_skills_and_instructions(engine: Start, tmp_path: Path) -> None:
    own = tmp_path / "own/engine"
    write(own / "AGENTS.md", "Call me Al.")
    write(own / "commands/greet.md", "hello $ARGUMENTS")
    write(own / "commands/broken.md", "---\nno end")
    write(own / "skills/fish/SKILL.md", SKILL)
    cwd = tmp_path / "work"
    cwd.mkdir()
    command = engine("run", "/greet you", "--cwd", str(cwd), XDG_CONFIG_HOME=str(tmp_path / "own"))
    assert command.wait() == 0, command.output
    assert "broken.md can't be used: its front matter has no end" in command.output
    assert "Hello" in command.output
    told = sections(events(engine, "hello", "--cwd", str(cwd), XDG_CONFIG_HOME=str(tmp_path / "own")))
    assert "Call me Al." in told[f"instructions:{own}/AGENTS.md"]
    assert "- fish: How to fish." in told["skills"]


def test_task_may_begin_with_a_path(engine: Start) -> None:
    command = engine("run", "/etc is what this is about")
    assert command.wait() == 0, command.output
    assert "no such scenario: /etc" in command.output  # what the host says to a task that it does not know


def test_foreign_command_uses_the_users_model(engine: Start, project: Path) -> None:
    write(project / ".claude/commands/greet2.md", "---\nmodel: sonnet\n---\nhello $1\n")
    write(project / ".opencode/command/greet3.md", "---\nmodel: nowhere/large\n---\nhello $1\n")
    for name, told in (
        (
            "greet2",
            "/greet2: the model 'sonnet' is a name of another program's: it uses its caller's model",
        ),
        ("greet3", "/greet3: no host for the model name 'nowhere/large'"),
    ):
        command = engine("run", f"/{name}", "you", "--trust")
        assert command.wait() == 0, command.output
        assert told in command.output
        assert "Hello" in command.output


def test_command_for_unknown_agent_does_not_run(engine: Start, project: Path) -> None:
    path = write(project / ".engine/commands/look.md", "---\nagent: looker\n---\nhello\n")
    command = engine("run", "/look", "--trust")
    assert command.wait() == 2
    assert f"engine run: /look ({path}): unknown agent 'looker'" in command.output
    command = engine("run", "/look", "--trust", "--agent", "plan")
    assert command.wait() == 0, command.output
