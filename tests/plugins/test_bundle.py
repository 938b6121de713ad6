"""A plugin's folder as it is read: both manifests, what is left out, and what never costs more than itself."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from engine.core.errors import ConfigError
from engine.plugins.plugin_bundle import read_bundle
from engine.settings_file.build_config import build_config
from engine.settings_file.document import parse_document
from engine.settings_file.merge import merge

HOOK: Mapping[str, object] = {"type": "command", "command": "check.sh"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path.resolve() / "shop"


def write(folder: Path, **files: object) -> Path:
    """Write files by their names, where `__` stands for a slash; what is no text is JSON."""
    for name, content in {"plugin.json": {"name": "shop"}, **files}.items():
        path = folder / (f".claude-plugin/{name}" if name == "plugin.json" else name.replace("__", "/"))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))
    return folder


def test_own_manifest_is_read(folder: Path) -> None:
    (folder / "more" / "a").mkdir(parents=True)
    (folder / "skills").mkdir()
    (folder / "plugin.toml").write_text(
        'name = "shop"\nversion = "1.2"\ndescription = "A\\n shop."\nskills = ["more"]\n'
        '[mcp.servers.files]\ncommand = "serve"\nargs = ["${ENGINE_PLUGIN_ROOT}/x"]\n'
        '[[hooks.PreToolUse]]\nhooks = [{ type = "command", command = "check.sh" }]\n'
    )
    bundle = read_bundle(folder)
    assert (bundle.plugin.name, bundle.version, bundle.description) == ("shop", "1.2", "A shop.")
    assert bundle.plugin.skills == (f"{folder}/skills", f"{folder}/more")
    assert bundle.servers == {"shop_files": {"command": "serve", "args": [f"{folder}/x"], "folder": str(folder)}}
    variables = {"ENGINE_PLUGIN_ROOT": str(folder), "CLAUDE_PLUGIN_ROOT": str(folder)}
    assert bundle.hooks == {"PreToolUse": [{"hooks": [{**HOOK, "env": variables}]}]}
    assert bundle.ignored == ()


def test_widespread_layout_is_read(folder: Path) -> None:
    for name in ("skills", "commands", "agents"):
        (folder / name).mkdir(parents=True)
    bundle = read_bundle(
        write(
            folder,
            **{
                "plugin.json": {
                    "name": "shop",
                    "author": {"name": "x"},
                    "mcpServers": {"web": {"url": "https://x.test"}},
                },
                ".mcp.json": {"mcpServers": {"files": {"command": "serve"}}},
                "hooks__hooks.json": {"description": "d", "hooks": {"Stop": [{"hooks": [HOOK]}]}},
            },
        )
    )
    plugin = bundle.plugin
    assert (plugin.skills, plugin.commands, plugin.agents) == (
        (f"{folder}/skills",),
        (f"{folder}/commands",),
        (f"{folder}/agents",),
    )
    assert bundle.servers == {
        "shop_files": {"command": "serve", "folder": str(folder)},
        "shop_web": {"url": "https://x.test"},
    }
    assert list(bundle.hooks) == ["Stop"]
    assert bundle.ignored == ()


def test_what_cannot_be_used_is_listed_alone(folder: Path) -> None:
    (folder / "output-styles").mkdir(parents=True)
    bundle = read_bundle(
        write(
            folder,
            **{
                "plugin.json": {
                    "name": "shop",
                    "lspServers": {},
                    "commands": ["./a.md", "../other"],
                    "hooks": "./no.json",
                },
                ".mcp.json": {"old": {"type": "sse", "url": "https://x.test"}, "bad": 5, "good": {"command": "serve"}},
                "hooks__hooks.json": {
                    "hooks": {
                        "Setup": [{"hooks": [HOOK]}],
                        "Nonsense": [],
                        "PreToolUse": [{"hooks": [{"type": "prompt", "prompt": "x"}, HOOK]}],
                        "Stop": [{"hooks": [{"type": "command"}]}],
                        "PostToolUse": "x",
                    }
                },
                "a.md": "x",
            },
        )
    )
    assert list(bundle.servers) == ["shop_good"]
    assert list(bundle.hooks) == ["PreToolUse"]
    expected = [
        "lspServers of the manifest",
        "output-styles",
        "commands './a.md': it is no folder of the plugin",
        "'../other': it is no path inside of the plugin",
        "MCP server old: its type is 'sse'",
        "MCP server bad: it is no object",
        "hooks of Setup: there is no such event here",
        "hooks of Nonsense: ",
        "a hook of PreToolUse: its type is 'prompt'",
        "hooks of Stop: ",
        "hooks of PostToolUse: ",
        "hooks './no.json': it is no file of the plugin",
    ]
    assert len(bundle.ignored) == len(expected)
    assert all(any(one.startswith(text) for one in bundle.ignored) for text in expected), bundle.ignored


@pytest.mark.parametrize("name", ["", "Shop", "a_b", "../x", "a--b", "x" * 33, 5, None])
def test_names_that_are_refused(folder: Path, name: object) -> None:
    with pytest.raises(ConfigError, match="a plugin's name must be at most 32 lower-case letters"):
        read_bundle(write(folder, **{"plugin.json": {"name": name}}))


@pytest.mark.parametrize(
    ("manifest", "words"),
    [
        ("{", "is no valid JSON"),
        ("[]", "must hold an object"),
        ("[" * 100_000, "nested too deeply"),
        (None, "is no plugin"),
    ],
)
def test_unusable_manifest_is_named(folder: Path, manifest: str | None, words: str) -> None:
    folder.mkdir()
    if manifest is not None:
        write(folder, **{"plugin.json": manifest})
    with pytest.raises(ConfigError, match=words):
        read_bundle(folder)


def test_users_own_server_wins_whole(folder: Path) -> None:
    document = read_bundle(write(folder, **{".mcp.json": {"a": {"command": "x"}, "b": {"command": "y"}}})).document
    own = parse_document(b'[mcp.servers.shop_a]\nurl = "https://x.test"\n', "config.toml")
    servers = build_config(merge([document, own])).mcp.servers
    assert (servers["shop_a"].url, servers["shop_a"].command, servers["shop_a"].is_foreign) == (
        "https://x.test",
        (),
        False,
    )
    assert (servers["shop_b"].command, servers["shop_b"].is_foreign) == (("y",), True)
