"""`engine plugins`: added, shown, updated and removed as a user does it, and used by `engine run`."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from pathlib import Path

import attrs
import pytest

from engine.cli.main import main
from tests.cli.conftest import Start

pytestmark = pytest.mark.os

HOOKS = {"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "true"}]}]}}


@attrs.frozen
class Shell:
    """Runs `engine` in this process, in a project of a user's own, beside the folder `shop`."""

    folder: Path
    capture: pytest.CaptureFixture[str]

    @property
    def shop(self) -> Path:
        return self.folder / "shop"

    def run(self, *arguments: str) -> tuple[int, str, str]:
        code = main(list(arguments))
        shown = self.capture.readouterr()
        return code, shown.out, shown.err

    def write(self, name: str, content: object) -> None:
        path = self.shop / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))

    def commit(self) -> str:
        identity = ("-c", "user.name=x", "-c", "user.email=x@x.test")
        for words in (("init", "-q"), ("add", "-A"), (*identity, "commit", "-qm", "x")):
            subprocess.run(["git", "-C", str(self.shop), *words], check=True, timeout=60)
        done = subprocess.run(
            ["git", "-C", str(self.shop), "rev-parse", "HEAD"], check=True, timeout=60, capture_output=True, text=True
        )
        return done.stdout.strip()


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    monkeypatch.delenv("ENGINE_CONFIG", raising=False)
    for name in ("CONFIG", "STATE", "CACHE", "DATA"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "project/.git").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "project")
    shell = Shell(tmp_path, capsys)
    shell.write(".claude-plugin/plugin.json", {"name": "shop", "version": "1.2", "themes": "x"})
    shell.write("skills/pack/SKILL.md", "---\nname: pack\ndescription: How to pack.\n---\nPack well.")
    shell.write("commands/show.md", "bash echo ${CLAUDE_PLUGIN_ROOT}")
    shell.write("agents/clerk.md", "---\nname: clerk\ndescription: A clerk.\npermission: allow\n---\nYou are a clerk.")
    shell.write("hooks/hooks.json", HOOKS)
    shell.write(".mcp.json", {"files": {"command": "npx", "args": ["files@latest"], "env": {"KEY": "${SECRET}"}}})
    return shell


HAS = """\
  hook PreToolUse Bash runs: true
  MCP server shop_files runs: npx files@latest (with KEY=${SECRET})
  skill shop:pack: How to pack.
  command /shop:show: (no description)
  agent shop_clerk: A clerk.
  warning: not used: themes of the manifest
  warning: agents/clerk.md: the rule 'allow * *' is ignored: it came with a plugin
  warning: MCP server shop_files fetches files@latest in whatever version there is: its code may change
"""


def test_plugin_is_shown_added_and_removed(shell: Shell) -> None:
    assert shell.run("plugins") == (0, "No plugins are added.\nNext: engine plugins add DIR\n", "")
    # Nobody is there to ask.
    code, out, err = shell.run("plugins", "add", str(shell.shop))
    assert (code, out) == (1, f"The plugin shop has:\n{HAS}")
    assert "no terminal to ask for confirmation" in err
    assert list((shell.folder / "data/engine/plugins").iterdir()) == []
    code, out, _ = shell.run("plugins", "add", str(shell.shop), "--yes")
    assert (code, out) == (0, f"The plugin shop has:\n{HAS}shop is added\nNext: engine mcp approve shop_files\n")
    assert shell.run("plugins") == (0, f"shop 1.2, from {shell.shop}\n{HAS}", "")
    assert "(no tools approved, named by a plugin)" in " ".join(shell.run("mcp")[1].split())
    assert shell.run("agents", "shop_clerk")[1].startswith("shop_clerk: A clerk.")
    (facts,) = json.loads(shell.run("plugins", "list", "--json")[1])
    assert (facts["name"], facts["loaded"], facts["version"], facts["commit"]) == ("shop", True, "1.2", "")
    code, _, err = shell.run("plugins", "add", str(shell.shop), "--yes")
    assert (code, "there is a plugin 'shop' already" in err) == (2, True)
    assert shell.run("plugins", "remove", "shop") == (0, "shop is removed\n", "")
    assert list((shell.folder / "data/engine/plugins").iterdir()) == []
    assert shell.run("mcp")[1].startswith("No MCP servers are configured.")


def test_update_shows_what_is_different(shell: Shell) -> None:
    first = shell.commit()
    url = f"file://{shell.shop}"
    assert shell.run("plugins", "add", f"{url}@{first}", "--yes")[0] == 0
    shell.write("hooks/hooks.json", {"hooks": {}})
    shell.write("run.sh", "true")
    second = shell.commit()
    code, out, _ = shell.run("plugins", "update", "shop", second)
    lines = out.splitlines()
    assert code == 1
    assert lines[:2] == ["What is different in shop:", "  -hook PreToolUse Bash runs: true"]
    assert any(line.startswith("  +file run.sh (") for line in lines)
    (facts,) = json.loads(shell.run("plugins", "list", "--json")[1])
    assert facts["commit"] == first
    assert shell.run("plugins", "update", "shop", second, "--yes")[0] == 0
    (facts,) = json.loads(shell.run("plugins", "list", "--json")[1])
    assert (facts["commit"], [line for line in facts["has"] if line.startswith("hook")]) == (second, [])
    code, out, _ = shell.run("plugins", "update", "shop", second)
    assert (code, out.splitlines()[0]) == (0, "shop is up to date")
    assert [len(list(path.iterdir())) for path in [shell.folder / "data/engine/plugins"]] == [1]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("add", "{shop}/nowhere"), "there is no directory {shop}/nowhere"),
        (("add", "{shop}/skills"), " is no plugin: it has neither plugin.toml nor .claude-plugin/plugin.json"),
        (("add", "{shop}", "--folder", "../project"), "there is no directory ../project"),
        (("add", "file://{shop}"), "does not name a commit"),
        (("add", "file://{shop}@main"), "does not name a commit"),
        (("add", f"file://{{shop}}@{'0' * 40}"), "git failed: "),
        (("add", f"https://me:secret@x.test/x@{'0' * 40}"), "the URL holds a user's name or password"),
        (("update", "shop"), "unknown plugin 'shop'"),
        (("remove", "shop"), "unknown plugin 'shop'"),
    ],
)
def test_what_cannot_be_done_is_said(shell: Shell, arguments: tuple[str, ...], words: str) -> None:
    (shell.shop / "plugin.toml").unlink(missing_ok=True)
    code, out, err = shell.run("plugins", *(each.replace("{shop}", str(shell.shop)) for each in arguments))
    assert (code, out) == (2, "")
    assert words.replace("{shop}", str(shell.shop)) in err
    assert "secret" not in err


def test_changed_plugin_costs_only_itself(shell: Shell) -> None:
    assert shell.run("plugins", "add", str(shell.shop), "--yes")[0] == 0
    (copy,) = (shell.folder / "data/engine/plugins").iterdir()
    assert not stat.S_IMODE(copy.stat().st_mode) & 0o222
    copy.chmod(0o700)
    (copy / "more").touch()
    code, out, err = shell.run("agents")
    assert (code, "build" in out, "shop_clerk" in out) == (0, True, False)
    assert err == "the plugin shop was not loaded: its files have changed since it was added\nNext: engine plugins\n"
    assert "not loaded: its files have changed since it was added" in shell.run("plugins")[1]
    assert shell.run("plugins", "update", "shop", "--yes")[0] == 0
    assert "shop_clerk" in shell.run("agents")[1]


def test_damaged_list_never_stops_the_program(shell: Shell) -> None:
    (shell.folder / "state/engine").mkdir(parents=True)
    (shell.folder / "state/engine/plugins.json").write_text("{")
    code, out, err = shell.run("agents")
    assert (code, "build" in out) == (0, True)
    assert err.startswith("no plugin was loaded: ")
    assert shell.run("plugins")[0] == 2


def test_untrusted_project_brings_no_plugin(shell: Shell) -> None:
    for name in (".engine/plugins/shop", ".claude/plugins/shop", "."):
        folder = shell.folder / "project" / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "plugin.toml").write_text('name = "shop"\n[mcp.servers.files]\ncommand = "serve"\n')
    assert shell.run("plugins")[1].startswith("No plugins are added.")
    assert shell.run("mcp", "list", "--cwd", ".")[1].startswith("No MCP servers are configured.")


def test_run_uses_all_of_a_plugin(engine: Start, tmp_path: Path) -> None:
    shop = tmp_path / "shop"
    (shop / "skills/pack").mkdir(parents=True)
    (shop / "commands").mkdir()
    (shop / "skills/pack/SKILL.md").write_text("---\nname: pack\ndescription: How to pack.\n---\nPack well.")
    (shop / "commands/show.md").write_text("bash echo shown ${ENGINE_PLUGIN_ROOT}")
    hook = f"echo hooked $ENGINE_PLUGIN_ROOT >> {tmp_path}/hooked"
    hooks = json.dumps([{"type": "command", "command": hook}]).replace('": "', '" = "')
    (shop / "plugin.toml").write_text(
        f'name = "shop"\n[[hooks.PreToolUse]]\nhooks = {hooks}\n'
        f'[mcp.servers.files]\ncommand = "touch"\nargs = ["{tmp_path}/started"]\n'
    )
    added = engine("plugins", "add", str(shop), "--yes")
    assert added.wait() == 0, added.output
    command = engine("run", "--yes", "--json", "/shop:show")
    assert command.wait() == 0, command.output
    (copy,) = (tmp_path / "data/engine/plugins").iterdir()
    assert f"shown {os.path.realpath(copy)}" in command.output
    assert "- shop:pack: How to pack." in command.output
    assert (tmp_path / "hooked").read_text() == f"hooked {os.path.realpath(copy)}\n"
    # Added is not approved, and nobody is there to ask.
    approve = engine("mcp", "approve", "shop_files")
    assert approve.wait() == 1, approve.output
    assert "The project or a plugin names this server:" in approve.output
    assert not (tmp_path / "started").exists()
