"""MCP servers in the configuration: whose word counts, and what a project's files can't do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.config.mcp_config import McpConfig, McpServer
from engine.core.errors import ConfigError
from engine.settings_file.config_sources import ConfigSources, LoadedConfig, load_sources
from engine.settings_file.project_config import report_ignored


def load(folder: Path, *, user: str = "", trusts: bool = True, **files: str) -> LoadedConfig:
    (folder / "project/.git").mkdir(parents=True, exist_ok=True)
    (folder / "project/.engine").mkdir(exist_ok=True)
    (folder / "user.toml").write_text(user)
    names = {"shared": ".mcp.json", "own": ".engine/config.toml"}
    for name, text in files.items():
        (folder / "project" / names[name]).write_text(text)
    sources = ConfigSources(path=folder / "user.toml", env={}, cwd=folder / "project", trusts=trusts)
    return load_sources(sources)


def test_server_has_all_its_fields(tmp_path: Path) -> None:
    user = """
[mcp]
required = ["files"]
required_wait = 2
[mcp.servers.files]
command = "npx"
args = ["-y", "server"]
env = { TOKEN = "${TOKEN}" }
call_timeout = 10
skills = ["skill://a/SKILL.md"]
[mcp.servers.files.tools.slow]
call_timeout = 900
[mcp.servers.off]
command = "x"
enabled = false
"""
    config = load(tmp_path, user=user).config().mcp
    assert list(config.servers) == ["files"]
    server = config.servers["files"]
    assert (server.command, server.origin, dict(server.env)) == (("npx", "-y", "server"), "user", {"TOKEN": "${TOKEN}"})
    assert server.skills == ("skill://a/SKILL.md",)
    assert server.limits_of("slow") == (900, 3_600)
    assert server.limits_of("other") == (10, 3_600)
    assert (config.required, config.required_wait) == (("files",), 2)


def test_shared_file_of_a_trusted_project_counts(tmp_path: Path) -> None:
    shared = {
        "mcpServers": {"a": {"command": "x", "args": ["y"]}, "b": {"type": "http", "url": "https://example.com/m"}}
    }
    servers = load(tmp_path, shared=json.dumps(shared)).config().mcp.servers
    root = str(tmp_path / "project")
    assert servers["a"] == McpServer(command=("x", "y"), folder=root, origin="project")
    assert (servers["b"].url, servers["b"].origin) == ("https://example.com/m", "project")
    untrusted = load(tmp_path, trusts=False, shared=json.dumps(shared))
    assert dict(untrusted.config().mcp.servers) == {}
    assert untrusted.untrusted.endswith(".mcp.json")


def test_name_of_the_user_is_not_the_projects(tmp_path: Path) -> None:
    """Rules that the user wrote for a server must not hold for another one."""
    user = '[mcp.servers.github]\ncommand = "mine"\n'
    shared = json.dumps({"mcpServers": {"github": {"command": "theirs"}}})
    own = '[mcp.servers.github]\ncommand = "theirs"\n[mcp]\nrequired = ["github"]\n[mcp.servers.more]\ncommand = "x"\n'
    loaded = load(tmp_path, user=user, shared=shared, own=own)
    servers = loaded.config().mcp.servers
    assert servers["github"].command == ("mine",)
    assert servers["more"].folder == str(tmp_path / "project")
    assert loaded.config().mcp.required == ()
    lines = "\n".join(report_ignored(list(loaded.ignored)))
    assert lines.count("your own configuration has a server of this name") == 2
    assert "mcp.required" in lines


def test_mistake_in_a_shared_file_costs_its_entry(tmp_path: Path) -> None:
    shared = {
        "mcpServers": {
            "bad": {"command": 5},
            "sse": {"type": "sse", "url": "https://x.example"},
            "good": {"command": "x"},
            "My Server": {"command": "x"},
            "a\x1b]0;b\x07": {"command": "x"},
        }
    }
    loaded = load(tmp_path, shared=json.dumps(shared))
    assert list(loaded.config().mcp.servers) == ["good"]
    lines = "\n".join(report_ignored(list(loaded.ignored)))
    assert "mcp.servers.bad" in lines
    assert "stdio and http are supported" in lines
    assert lines.count("the name of an MCP server has at most 64 letters") == 2
    loaded = load(tmp_path, shared="{")
    assert dict(loaded.config().mcp.servers) == {}
    assert "it is not JSON" in "\n".join(report_ignored(list(loaded.ignored)))


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"command": ("x",), "url": "https://x.example"},
        {"command": ("",)},
        {"command": ("x\0",)},
        {"command": ("x",), "headers": {"A": "b"}},
        {"url": "https://x.example", "env": {"A": "b"}},
        {"url": "ftp://x.example"},
        {"url": "https://me:secret@x.example"},
        {"url": "https://x.example:0"},
        {"url": "https://x.example", "headers": {"A b": "c"}},
        {"url": "https://x.example", "headers": {"A": "b\nc"}},
        {"command": ("x",), "env": {"A-B": "c"}},
        {"command": ("x",), "call_timeout": 0},
    ],
)
def test_impossible_server_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        McpServer(**fields)  # type: ignore[arg-type]  # each with one mistake


def test_names_are_checked() -> None:
    with pytest.raises(ConfigError, match="name of an MCP server"):
        McpConfig(servers={"a b": McpServer(command=("x",))})
    with pytest.raises(ConfigError, match="no configured server"):
        McpConfig(required=("x",))


def test_fingerprint_changes_with_what_is_started() -> None:
    one = McpServer(command=("x", "y"), env={"A": "1"})
    assert one.fingerprint == McpServer(command=("x", "y"), env={"A": "2"}, call_timeout=1).fingerprint
    others = [
        McpServer(command=("x", "z"), env={"A": "1"}),
        McpServer(command=("x", "y"), env={"B": "1"}),
        McpServer(command=("x", "y"), env={"A": "1"}, folder="/elsewhere"),
        McpServer(url="https://x.example"),
    ]
    assert len({each.fingerprint for each in (one, *others)}) == 5
