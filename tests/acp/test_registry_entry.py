"""The entry for the registry of agents: what editors install, its icon, and the login that the registry asks for.

The rules are those of the registry's schema and of its guide for contributors, as of August 2026, in our words: its files are
not a part of this repository.
"""

import json
import re
import subprocess
import sys
import tomllib
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any, Final

import pytest

from engine.core.version import __version__
from tests.conftest import REPOSITORY
from tests.support.acp_schema import jsonschema

FOLDER: Final = REPOSITORY / "docs" / "acp-registry" / "nursery-engine"
PROJECT: Final[dict[str, Any]] = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
_TEXT: Final = {"type": "string", "minLength": 1}
_URL: Final = {"type": "string", "pattern": "^https://"}
_PACKAGE: Final = {
    "type": "object",
    "required": ["package"],
    "additionalProperties": False,
    "properties": {
        "package": _TEXT,
        "args": {"type": "array", "items": {"type": "string"}},
        "env": {"type": "object", "additionalProperties": {"type": "string"}},
    },
}
SCHEMA: Final = {
    "type": "object",
    "required": ["id", "name", "version", "description", "distribution"],
    "properties": {
        "id": {"type": "string", "pattern": "^[a-z][a-z0-9-]*$"},
        "name": _TEXT,
        "version": {"type": "string", "pattern": r"^[0-9]+\.[0-9]+\.[0-9]+$"},
        "description": _TEXT,
        "repository": _URL,
        "website": _URL,
        "license_url": _URL,
        "authors": {"type": "array", "items": {"type": "string"}},
        "license": {"type": "string"},
        # Set by the registry, from the icon's file.
        "icon": False,
        "distribution": {
            "type": "object",
            "minProperties": 1,
            "additionalProperties": False,
            "properties": {"npx": _PACKAGE, "uvx": _PACKAGE},
        },
    },
}


def entry() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / "agent.json").read_text())
    return found


def test_entry_keeps_the_registrys_rules() -> None:
    jsonschema.validate(entry(), SCHEMA)
    assert entry()["id"] == FOLDER.name


def test_entry_is_of_this_version() -> None:
    # Between releases, the version is that of the next one.
    version = re.sub(r"\.dev\d+$", "", __version__)
    assert entry()["version"] == version
    # An editor installs exactly that; `latest` is refused.
    assert entry()["distribution"]["uvx"]["package"] == f"{PROJECT['name']}=={version}"
    assert entry()["license"] == PROJECT["license"]


def test_package_has_a_command_of_its_name() -> None:
    # `uvx PACKAGE ARGS` runs it.
    assert PROJECT["scripts"][PROJECT["name"]] == PROJECT["scripts"]["engine"]


def test_icon_takes_the_editors_colour() -> None:
    text = (FOLDER / "icon.svg").read_text()
    # Comments break the page that shows all icons.
    assert "<!--" not in text
    assert "<style" not in text
    root = ET.fromstring(text)  # our own file
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert (root.get("width"), root.get("height"), root.get("viewBox")) == ("16", "16", "0 0 16 16")
    colours = [each.get(name) for each in root.iter() for name in ("fill", "stroke") if each.get(name) is not None]
    assert "currentColor" in colours
    assert set(colours) <= {"currentColor", "none"}
    assert not re.search(r"style=|#[0-9a-fA-F]{3}", text)


@pytest.mark.os
def test_registry_finds_a_login(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "engine", *entry()["distribution"]["uvx"]["args"]]
    # As the registry starts it: a new home, no key, and capabilities in its own way.
    capabilities = {
        "terminal": True,
        "fs": {"readTextFile": True, "writeTextFile": True},
        "_meta": {"terminal_output": True, "terminal-auth": True},
    }
    params = {
        "protocolVersion": 1,
        "clientCapabilities": capabilities,
        "clientInfo": {"name": "registry", "version": "1"},
    }
    env = {"HOME": str(tmp_path), "TERM": "dumb", "PYTHONPATH": str(REPOSITORY)}
    request = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})
    ended = subprocess.run(
        command, cwd=tmp_path, env=env, input=f"{request}\n", capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 0, ended.stderr
    (line,) = ended.stdout.splitlines()
    methods = json.loads(line)["result"]["authMethods"]
    assert {method.get("type", "agent") for method in methods} <= {"agent", "terminal"}
    assert all(method["id"] and method["name"] for method in methods)
