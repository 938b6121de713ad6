"""The how-to about plugins, followed to the letter: a tool file, a project's one, and a package in an environment of its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import attrs
import pytest

from tests.cli.conftest import environment_for
from tests.test_docs_blocks import DOCS, blocks_of

pytestmark = [pytest.mark.os, pytest.mark.slow]
PAGE = (DOCS / "how-to/write-a-plugin.md").read_text(encoding="utf-8")
SECONDS = 120


@attrs.frozen
class Fresh:
    """A fresh environment of Python, in which only the engine is installed, and a project."""

    folder: Path
    env: Mapping[str, str]

    @property
    def project(self) -> Path:
        return self.folder / "project"

    @property
    def python(self) -> str:
        return str(self.folder / "venv/bin/python")

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, cwd=self.project, env=self.env, capture_output=True, text=True, timeout=SECONDS, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def ask(self, tool: str, arguments: object, *rules: str) -> subprocess.CompletedProcess[str]:
        flags = [flag for rule in rules for flag in ("--rule", rule)]
        return self.run(self.python, "-m", "engine", "run", *flags, f"call {tool} {json.dumps(arguments)}")


@pytest.fixture
def fresh(host: str, tmp_path: Path) -> Fresh:
    folder = tmp_path / "fresh"
    (folder / "project").mkdir(parents=True)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")], check=True, timeout=SECONDS)
    (packages,) = (folder / "venv/lib").glob("python3*/site-packages")
    # What the engine needs, without the network: the packages of the environment that runs the tests.
    here = next(path for path in sys.path if path.endswith("site-packages"))
    (packages / "tests.pth").write_text(f"{here}\n{Path(__file__).parents[2]}\n")
    home = folder / "home"
    programs = folder / "bin"
    programs.mkdir()
    (programs / "engine").write_text(f'#!/bin/sh\nexec {folder}/venv/bin/python -m engine "$@"\n')
    (programs / "engine").chmod(0o755)
    env = {"PATH": f"{programs}:{os.environ['PATH']}", **environment_for(host, tmp_path), "HOME": str(home)}
    env |= {"XDG_CONFIG_HOME": str(home / ".config"), "ENGINE_CONFIG": ""}
    subprocess.run(["git", "init", "-q"], cwd=folder / "project", check=True, timeout=SECONDS)
    return Fresh(folder, env)


def commands(part: str) -> str:
    """Return the block of commands with that text."""
    (block,) = [block.text for block in blocks_of(PAGE) if block.language == "console" and part in block.text]
    return "\n".join(line.removeprefix("$ ") for line in block.splitlines() if "engine run" not in line)


def test_tool_file_of_the_guide_works(fresh: Fresh) -> None:
    done = fresh.run("bash", "-euc", commands("class Roll"))
    assert done.returncode == 0, done.stderr
    assert "tool dice_roll: Roll a die, and return the number." in done.stdout
    assert "code of yours, which runs inside of the engine" in done.stdout
    done = fresh.ask("dice_roll", {"sides": 1}, "allow plugin:dice/roll *")
    assert (done.returncode, done.stdout) == (0, "I was told:\n1\n"), done.stderr
    # Without the rule, it asks, and there is nobody.
    assert fresh.ask("dice_roll", {}).returncode == 3


def test_project_file_of_the_guide_works(fresh: Fresh) -> None:
    done = fresh.run("bash", "-euc", commands("class Ping"))
    assert done.returncode == 0, done.stderr
    listed = fresh.run("engine", "plugins", "list", "--json")
    (facts,) = json.loads(listed.stdout)
    assert (facts["kind"], facts["isolated"], facts["loaded"], facts["has"]) == (
        "file", True, True, ["tool ping_ping: Answer with pong."],
    )  # fmt: skip
    done = fresh.ask("ping_ping", {}, "allow plugin:ping/ping *")
    assert (done.returncode, done.stdout) == (0, "I was told:\npong\n"), done.stderr
    assert fresh.run("engine", "tools", "ping_ping").stdout.startswith("ping_ping: ")
    path = fresh.project / ".engine/tools/ping.py"
    path.write_text(path.read_text().replace("pong", "bang"))
    done = fresh.ask("ping_ping", {}, "allow plugin:ping/ping *")
    assert "it has changed since you approved it. Next: engine plugins approve" in " ".join(done.stderr.split())
    assert "There is no tool named 'ping_ping'" in done.stdout


def test_package_of_the_guide_works(fresh: Fresh) -> None:
    source = fresh.project / "engine-shop"
    source.mkdir()
    (source / "engine_shop.py").write_text((DOCS / "examples/howto_plugin.py").read_text())
    (toml,) = [block.text for block in blocks_of(PAGE) if block.language == "toml" and "entry-points" in block.text]
    (source / "pyproject.toml").write_text(toml)
    install = ("--python", fresh.python, "install", "--no-index", "--no-deps", "--no-build-isolation", "./engine-shop")
    done = fresh.run(sys.executable, "-m", "pip", "-q", *install)
    assert done.returncode == 0, done.stderr
    done = fresh.run("engine", "plugins")
    assert done.stdout.startswith("shop, from the package engine-shop 1.0 (engine_shop:make): code of yours")
    assert "  hooks: before_tool\n  tool shop_stock: Return how many pieces" in done.stdout
    config = Path(fresh.env["XDG_CONFIG_HOME"]) / "engine/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text("[plugins.settings.shop]\npieces = 20\n")
    done = fresh.ask("shop_stock", {"article": "A7"}, "allow plugin:shop/stock *")
    assert (done.returncode, done.stdout) == (0, "I was told:\nA7: 20 pieces\n"), done.stderr
    done = fresh.ask("bash", {"command": "git push --force"})
    assert "Pushing with force is not our way." in done.stdout
    config.write_text('[plugins]\ndisabled = ["shop"]\n')
    assert "not loaded: the configuration disables it" in fresh.run("engine", "plugins").stdout
    done = fresh.ask("shop_stock", {"article": "A7"})
    assert "There is no tool named 'shop_stock'" in done.stdout


def test_what_a_plugin_prints_never_reaches_standard_output(fresh: Fresh) -> None:
    tools = Path(fresh.env["XDG_CONFIG_HOME"]) / "engine/tools"
    tools.mkdir(parents=True)
    (tools / "noise.py").write_text(
        "import os, subprocess, attrs, engine\n"
        "def shout():\n    print('PRINTED', flush=True); os.write(1, b'WRITTEN')\n    subprocess.run(['echo', 'CHILD'])\n"
        "shout()\n@attrs.frozen\nclass Noise:\n    'Make noise.'\n"
        "@engine.tool\nasync def noise(args: Noise, ctx: engine.ToolContext) -> str:\n    shout()\n    return 'quiet'\n"
    )
    flags = ("--yes", "--output", "stream-json")
    done = fresh.run(fresh.python, "-m", "engine", "run", *flags, "call noise_noise {}")
    assert done.returncode == 0, done.stderr
    assert all(json.loads(line) for line in done.stdout.splitlines())
    for word in ("PRINTED", "WRITTEN", "CHILD"):
        assert word not in done.stdout
        assert done.stderr.count(word) == 2
    listed = fresh.run("engine", "plugins", "list", "--json")
    assert json.loads(listed.stdout)[0]["loaded"]


def test_guide_names_each_setting() -> None:
    (table,) = [block.text for block in blocks_of(PAGE) if block.source == "examples/config_plugins.toml"]
    assert set(re.findall(r"^(\w+) = ", table, flags=re.MULTILINE)) == {"disabled", "override", "pieces"}
