"""`engine agents`, as a user runs it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from engine.core.events import TurnEnded
from tests.cli.conftest import Start
from tests.cli.forked import run_engine
from tests.cli.processes import await_sleepers, sleepers, token
from tests.cli.test_run import recorded

pytestmark = pytest.mark.os


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home of nobody's, with a project in it."""
    home = tmp_path / "home"
    (home / "project" / ".git").mkdir(parents=True)
    return home


def run(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    folders = {f"XDG_{name}_HOME": str(home / name.lower()) for name in ("CONFIG", "STATE", "DATA", "CACHE")}
    environment = {**os.environ, "HOME": str(home), **folders}
    return run_engine("agents", *arguments, cwd=home / "project", env=environment)


def agent(folder: Path, name: str, front: str, body: str = "") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.md").write_text(f"---\n{front}\n---\n{body}")


def test_builtin_agents_are_listed(home: Path) -> None:
    ran = run(home)
    assert (ran.returncode, ran.stderr) == (0, "")
    names = [line.split()[0] for line in ran.stdout.splitlines() if line[:2] == "  " and line[2:3] != " "]
    assert names == ["build", "explore", "general", "plan"]
    assert all(len(line) <= 100 for line in ran.stdout.splitlines())


def test_all_sources_and_one_whole(home: Path) -> None:
    agent(
        home / "config" / "engine" / "agents",
        "mine",
        "description: Mine.\ntools: read, frob\neffort: high",
        "You are mine.\x1b[2J",
    )
    agent(home / "project" / ".claude" / "agents", "theirs", "description: Theirs.\nmode: subagent")
    (home / "config" / "engine" / "config.toml").write_text(
        '[agents.own]\ndescription = "Own."\nmodel = "openai/gpt-5"\n'
    )
    ran = run(home)
    assert "mine" in ran.stdout
    assert "theirs" not in ran.stdout
    assert ran.stderr.splitlines() == [
        f"{home}/config/engine/agents/mine.md: there is no tool frob here: it works without",
        f"{home}/project/.claude/agents was ignored: the project is not trusted (`engine permissions trust` trusts it)",
    ]
    listed = {each["name"]: each for each in json.loads(run(home, "--trust", "--json").stdout)}
    assert {name: each["source"].removeprefix(f"{home}/") for name, each in listed.items()} == {
        "build": "built in",
        "explore": "built in",
        "general": "built in",
        "plan": "built in",
        "mine": "config/engine/agents/mine.md",
        "theirs": "project/.claude/agents/theirs.md",
        "own": "config/engine/config.toml",
    }
    whole = run(home, "mine").stdout
    assert whole.startswith("mine: Mine.\n  from: ")
    assert "  effort: high\n" in whole
    assert "  tools: read, frob\n" in whole
    assert "You are mine." in whole
    assert "\x1b" not in whole


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("exploer",), "unknown agent 'exploer': did you mean explore?"),
        (("--cwd", "/nosuch"), "--cwd: /nosuch is not a directory"),
        (("--config", "/nosuch.toml"), "the configuration file /nosuch.toml does not exist"),
        (("a", "b"), "too many arguments: b"),
    ],
)
def test_wrong_usage(home: Path, arguments: tuple[str, ...], words: str) -> None:
    ran = run(home, *arguments)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert words in ran.stderr


@pytest.mark.parametrize(
    ("agent_name", "words"),
    [
        ("explore", "the agent 'explore' can only be used as a sub-agent"),
        ("nosuch", "unknown agent 'nosuch': known: build,"),
    ],
)
def test_run_requires_a_known_primary_agent(home: Path, agent_name: str, words: str) -> None:
    environment = {**os.environ, "HOME": str(home), "XDG_CONFIG_HOME": str(home)}
    ran = run_engine("run", "--agent", agent_name, "hi", cwd=home, env=environment)
    assert (ran.returncode, words in ran.stderr) == (2, True)


def test_project_agents_need_trust(engine: Start, tmp_path: Path) -> None:
    agent(tmp_path / "home" / "engine" / "agents", "mine", "description: x\ntools: [read]", "You are mine.")
    agent(tmp_path / ".claude" / "agents", "theirs", "description: x\ntools: Grep", "You are theirs.")
    (tmp_path / ".git").mkdir()
    (tmp_path / "home" / "engine" / "agents" / "bad.md").write_text("nothing")
    for name, flags, words in (
        ("mine", (), ["You are mine.", "read"]),
        ("theirs", (), None),
        ("theirs", ("--trust",), ["You are theirs.", "grep"]),
    ):
        command = engine("run", "--yes", "--json", *flags, f"delegate {name}", XDG_CONFIG_HOME=str(tmp_path / "home"))
        assert command.wait() == 0
        assert "bad.md can't be used: it does not begin with a line ---" in command.output
        events = recorded(command.output)
        ends = [event.result.text for event in events if isinstance(event, TurnEnded) and len(event.path) == 2]
        is_told = f"{tmp_path}/.claude/agents was ignored: the project is not trusted" in command.output
        assert is_told == (not flags)
        if words is None:
            assert ends == []
            assert "There is no sub-agent named 'theirs'." in command.output
        else:
            (told,) = ends
            assert words[0] in told
            assert [tool["name"] for tool in json.loads(told[told.index("{") :])["tools"]] == words[1:]


def test_plan_agent_runs_no_changes(engine: Start, tmp_path: Path) -> None:
    command = engine("run", "--yes", "--agent", "plan", "bash touch hi")
    assert command.wait() == 0
    assert "deny bash *" in command.output
    assert not (tmp_path / "hi").exists()
    command = engine("run", "--yes", "--agent", "plan", "bash ls")
    assert command.wait() == 0
    assert "✓ bash  ls" in command.output


def test_ctrl_c_ends_a_sub_agents_processes(engine: Start) -> None:
    sleeper = token()
    command = engine("run", "--yes", f"delegate general bash sleep {sleeper} & sleep {sleeper}")
    await_sleepers(sleeper, 2)
    command.process.send_signal(signal.SIGINT)
    assert command.wait() == 130
    assert "No processes left." in command.output
    assert sleepers(sleeper) == []


def test_unreadable_store_exits_74(home: Path) -> None:
    """A store that can't be used is a failure, not wrong usage, as in every command."""
    agent(home / "project" / ".claude" / "agents", "theirs", "description: Theirs.")
    (home / "state").write_text("not a folder")
    ran = run(home)
    assert (ran.returncode, ran.stdout) == (74, "")
    assert ran.stderr.startswith("engine agents: can't read ")
