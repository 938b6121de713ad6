"""Agents in folders: whose count, whose do not, and that a broken file breaks no other."""

from __future__ import annotations

import os
from pathlib import Path

from engine.agents.discovery import (
    MAX_BYTES,
    PROJECT_FOLDERS,
    AgentFolder,
    LoadedAgents,
    agent_folders,
    agent_sources,
    drop_unknown_models,
    load_agents,
)
from engine.config.agent_config import AgentConfig
from engine.config.builtin_agents import PLANNING
from engine.config.config import Config
from engine.core.errors import UnknownModel


def agent(folder: Path, name: str, front: str = "description: x", body: str = "Do.") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.md"
    path.write_text(f"---\n{front}\n---\n{body}\n")
    return path


def told(found: LoadedAgents) -> dict[str, str]:
    return {Path(path).name: why for path, why in found.problems}


def test_each_file_by_itself(tmp_path: Path) -> None:
    agent(tmp_path, "good")
    agent(tmp_path / "team", "deep", "name: below")
    agent(tmp_path / "a" / "b" / "c", "too_deep")
    agent(tmp_path / ".hidden", "unseen")
    agent(tmp_path, "off", "disable: true")
    (tmp_path / "notes.txt").write_text("no agent")
    (tmp_path / "README.md").write_text("# Ours")
    (tmp_path / "wrong.md").write_text("---\nmode: both\n---\n")
    (tmp_path / "latin.md").write_bytes(b"---\ndescription: \xe9\n---\n")
    (tmp_path / "huge.md").write_bytes(b"---\n---\n" + b"x" * MAX_BYTES)
    agent(tmp_path, "zz", "name: good")
    (tmp_path / "link.md").symlink_to("/etc/passwd")
    os.mkfifo(tmp_path / "pipe.md")
    (tmp_path / "folder.md").mkdir()
    found = load_agents([AgentFolder(folder=tmp_path), AgentFolder(folder=tmp_path / "nowhere")])
    assert [each.name for each in found.agents] == ["below", "good"]
    assert told(found) == {
        "README.md": "it does not begin with a line ---",
        "wrong.md": "an agent's mode is primary, subagent or all, not 'both'",
        "latin.md": "it is not UTF-8 (byte 17)",
        "huge.md": f"it is larger than {MAX_BYTES:,} bytes",
        "zz.md": f"{tmp_path / 'good.md'} has that name already",
        "link.md": "it is a link: name the folder that it really is in, or copy it",
        "pipe.md": "it is no regular file",
    }


def test_the_users_go_before_the_projects(tmp_path: Path) -> None:
    agent(tmp_path / "user", "same", "description: mine")
    for number, name in enumerate(PROJECT_FOLDERS):
        agent(tmp_path / "project" / name, "same", "description: theirs")
        agent(tmp_path / "project" / name, f"own{number}")
    places, not_trusted = agent_folders([tmp_path / "user"], str(tmp_path / "project"), lambda _: True)
    found = load_agents(places)
    assert not_trusted == ()
    assert {each.name: each.config.description for each in found.agents} == {
        "same": "mine",
        **{f"own{n}": "x" for n in range(len(PROJECT_FOLDERS))},
    }
    assert len(found.problems) == len(PROJECT_FOLDERS)


def test_project_cannot_lift_bounds_of_builtin_agent(tmp_path: Path) -> None:
    """Who asks for a plan gets nothing but a plan, whatever the repository calls a plan."""
    lifting = "bounds: ['allow edit *', 'ask bash *', 'deny web *']\nrules: ['allow edit *']"
    path = agent(tmp_path / "project" / ".claude" / "agents", "plan", lifting)
    agent(tmp_path / "project" / ".claude" / "agents", "other", lifting)
    places, _ = agent_folders([], str(tmp_path / "project"), lambda _: True)
    found = load_agents(places)
    agents = found.merge_into(Config()).all_agents
    assert [str(rule) for rule in agents["plan"].bounds] == [*map(str, PLANNING), "deny web *"]
    assert len(agents["other"].bounds) == 3
    assert list(found.problems_and_warnings) == [
        (str(path), f"the bound '{bound}' is ignored: it came with a project")
        for bound in ("allow edit *", "ask bash *")
    ]
    # The user's own may: they know what they do.
    mine = load_agents([AgentFolder(folder=path.parent)]).merge_into(Config()).all_agents
    assert len(mine["plan"].bounds) == len(PLANNING) + 3


def test_disabled_agent_stays_disabled(tmp_path: Path) -> None:
    agent(tmp_path / "user", "reviewer", "disable: true")
    path = agent(tmp_path / "user", "general", "disabled: true")
    agent(tmp_path / "project" / ".claude" / "agents", "reviewer")
    places, _ = agent_folders([tmp_path / "user"], str(tmp_path / "project"), lambda _: True)
    found = load_agents(places)
    assert found.agents == ()
    assert found.problems == (
        (str(path), "general is built in, so it stays: a rule `deny task general` keeps others from it"),
    )


def test_untrusted_project_is_not_read(tmp_path: Path) -> None:
    folder = tmp_path / "project" / ".claude" / "agents"
    agent(folder, "theirs")
    asked: list[str] = []

    def is_trusted(root: str) -> bool:
        asked.append(root)
        return False

    places, not_trusted = agent_folders([tmp_path / "user"], str(tmp_path / "project"), is_trusted)
    assert (load_agents(places), not_trusted) == (LoadedAgents(), (str(folder),))
    assert asked == [str(tmp_path / "project")]
    asked.clear()
    assert agent_folders([], str(tmp_path), is_trusted) == ((), ())
    assert agent_folders([], "", is_trusted) == ((), ())
    assert asked == [], "who has no such folder needs no trust"


def test_project_folder_is_not_followed_through_a_link(tmp_path: Path) -> None:
    agent(tmp_path / "elsewhere", "secret")
    project = tmp_path / "project"
    (project / ".claude").mkdir(parents=True)
    (project / ".claude" / "agents").symlink_to(tmp_path / "elsewhere")
    agent(project / "real", "fine")
    (project / ".opencode").mkdir()
    (project / ".opencode" / "agents").symlink_to(project / "real")
    found = load_agents(agent_folders([], str(project), lambda _: True)[0])
    assert [each.name for each in found.agents] == ["fine"]
    assert told(found) == {"agents": "it leads out of the project by a link"}


def test_linked_subfolder_is_skipped(tmp_path: Path) -> None:
    agent(tmp_path / "elsewhere", "secret")
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "more").symlink_to(tmp_path / "elsewhere")
    assert load_agents([AgentFolder(folder=tmp_path / "agents")]) == LoadedAgents()


def test_unknown_tools_and_models_are_reported(tmp_path: Path) -> None:
    path = agent(tmp_path, "one", "tools: read, frob\nmodel: nosuch/x")

    def check(model: str) -> None:
        raise UnknownModel(f"no host answers to {model}")

    found = drop_unknown_models(load_agents([AgentFolder(folder=tmp_path)], tools=["read"]), check)
    (one,) = found.agents
    assert (one.config.model, one.config.tools) == (None, ("read", "frob"))
    assert list(found.problems_and_warnings) == [
        (str(path), "there is no tool frob here: it works without"),
        (str(path), "the model 'nosuch/x': no host answers to nosuch/x: it uses its caller's model"),
    ]
    assert drop_unknown_models(found, check) == found


def test_file_agents_are_merged_below_the_configuration(tmp_path: Path) -> None:
    path = agent(tmp_path, "reviewer", "description: from a file\nsteps: 5")
    agent(tmp_path, "explore", "description: mine")
    own = Config(agents={"reviewer": AgentConfig(steps=9), "own": AgentConfig()}, source="config.toml")
    found = load_agents([AgentFolder(folder=tmp_path)])
    config = found.merge_into(own)
    assert config.agents["reviewer"] == AgentConfig(description="from a file", steps=9, system="Do.")
    explore = config.all_agents["explore"]
    assert (explore.description, explore.mode, explore.tools is None) == ("mine", "subagent", False)
    assert list(config.all_agents) == ["build", "explore", "general", "own", "plan", "reviewer"]
    assert agent_sources(own, found) == {
        "build": "built in",
        "plan": "built in",
        "general": "built in",
        "explore": str(tmp_path / "explore.md"),
        "reviewer": "config.toml",
        "own": "config.toml",
    }
    assert path.exists()


def test_too_many(tmp_path: Path) -> None:
    for number in range(205):
        agent(tmp_path, f"a{number:03}")
    found = load_agents([AgentFolder(folder=tmp_path)])
    assert (len(found.agents), len(found.problems)) == (200, 5)
