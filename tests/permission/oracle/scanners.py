"""The scanner under test, as one function."""

from __future__ import annotations

from engine.permission.effects.scan_result import Scan
from engine.permission.shell.scan import scan
from tests.permission.oracle.stubs import HOME, PROJECT


def scan_in_project(script: str) -> Scan:
    """Scan a script that runs in the sandbox's project."""
    return scan(script, cwd=PROJECT, home=HOME)
