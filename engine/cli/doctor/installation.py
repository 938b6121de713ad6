"""How the engine was installed, and, if the user asks, whether its package index has a newer version."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from engine.cli.doctor.check_result import CheckResult, CheckResults
from engine.core.version import __version__
from engine.process.run_tree import run_tree

ONLINE_SECONDS: Final = 30.0
_PACKAGE: Final = "nursery-engine"
_MAX_OUTPUT: Final = 1_000_000
_NEWEST: Final = re.compile(
    r"(?:^Would install .*?\bnursery[-_]engine-|^ \+ nursery-engine==)(?P<version>[\w.!+]+)", re.MULTILINE
)
_UPDATES: Final = {
    "installed by pipx": f"pipx upgrade {_PACKAGE}",
    "installed by uv tool": f"uv tool upgrade {_PACKAGE}",
    "installed by uv": f"uv pip install --upgrade {_PACKAGE}",
}


def install_kind() -> str:
    """Return how the engine was installed, in words. It reads files."""
    try:
        package: Distribution = distribution(_PACKAGE)
    except PackageNotFoundError:
        return "run from its source folder"
    with suppress(ValueError):
        origin = json.loads(package.read_text("direct_url.json") or "{}")
        if origin.get("dir_info", {}).get("editable"):
            return f"editable, from {origin.get('url', '').removeprefix('file://')}"
    parts = {part.lower() for part in Path(sys.prefix).parts}
    if "pipx" in parts:
        return "installed by pipx"
    if "uv" in parts and "tools" in parts:
        return "installed by uv tool"
    return f"installed by {(package.read_text('INSTALLER') or 'an unknown installer').strip()}"


async def check_newest() -> CheckResults:
    """Ask the package index that the user's installer is configured for. A checkpoint; if cancelled, the installer is ended.

    The installer only says what it would do, and runs nothing of a package. It knows the index, its certificate and the
    proxy, so the engine needs no address of its own.
    """
    command = next(_questions(), None)
    if command is None:
        text = "neither pip nor uv is there to ask for a newer version"
        return [CheckResult("newest", "warn", text, f"{sys.executable} -m ensurepip")]
    output = bytearray()

    def keep(chunk: bytes) -> None:
        output.extend(chunk[: max(0, _MAX_OUTPUT - len(output))])

    try:
        finished = await run_tree(
            command, cwd="/", marker=f"doctor-newest-{os.getpid()}", on_output=keep, timeout=ONLINE_SECONDS
        )
    except OSError as error:
        return [CheckResult("newest", "warn", f"{command[0]} can't be run: {error.strerror}", f"ls -l {command[0]}")]
    text = output.decode(errors="replace")
    if finished.exit_code != 0:
        lines = [line for line in text.splitlines() if line.strip()]
        why = next((line for line in reversed(lines) if "error" in line.lower()), lines[-1] if lines else "no answer")
        return [
            CheckResult("newest", "warn", f"the package index can't be asked: {why.strip()}", "engine doctor --online")
        ]
    newest = _NEWEST.search(text)
    if newest is None or _release(newest["version"]) <= _release(__version__):
        return [CheckResult("newest", "ok", f"the package index has nothing newer than {__version__}")]
    update = _UPDATES.get(install_kind(), f"{sys.executable} -m pip install --upgrade {_PACKAGE}")
    return [CheckResult("newest", "warn", f"{newest['version']} can be installed; this is {__version__}", update)]


def _questions() -> Iterator[list[str]]:
    """Yield the commands that say which version an installation would take. None of them looks at the one that is here."""
    quiet = ("--disable-pip-version-check", "--no-input", "--retries", "1", "--timeout", "10")
    pip = (*quiet, "install", "--dry-run", "--ignore-installed", "--no-deps", "--only-binary", ":all:", _PACKAGE)
    if find_spec("pip") is not None:
        yield [sys.executable, "-m", "pip", *pip]
    uv = shutil.which("uv")
    if uv is not None:
        alone = ("--dry-run", "--reinstall", "--no-deps", "--no-build", "--color", "never")
        yield [uv, "pip", "install", *alone, "--python", sys.executable, _PACKAGE]
    # Environments of tools have no pip of their own.
    for program in filter(None, map(shutil.which, ("pip3", "pip"))):
        yield [program, *pip]


def _release(version: str) -> tuple[int, ...]:
    """Return the numbers of a version, without what marks a release for trial."""
    return tuple(int(number) for number in re.findall(r"\d+", re.split(r"[^\d.]", version)[0]))
