"""Where a plugin comes from: a folder, or one commit of a git repository, which is fetched into a temporary folder. It blocks."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Final

import attrs

from engine.core.errors import ConfigError

_COMMIT: Final = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_URL: Final = re.compile(r"(?:https|ssh|git|file|http)://\S+|[\w.-]+@[\w.-]+:\S+")
_PASSWORD: Final = re.compile(r"https?://[^/@]*@")
# They would lead git to another repository.
_GIT_PLACES: Final = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR")
_SECONDS: Final = 300.0
_SHOWN: Final = 500


@attrs.frozen
class Source:
    """Where a plugin comes from.

    Attributes:
        place: a path, or the URL of a git repository.
        commit: of a repository.
    """

    place: str
    commit: str = ""


def parse_source(text: str) -> Source:
    """Return the source that a user names. Raises `ConfigError`."""
    url, _, commit = text.rpartition("@")
    if _PASSWORD.match(text):
        raise ConfigError(
            "the URL holds a user's name or password\nNext: leave it out; git has credential helpers for it"
        )
    if _URL.fullmatch(url) and is_commit(commit):
        return Source(url, commit)
    if _URL.fullmatch(text):
        raise ConfigError(f"{text} does not name a commit by its whole hash\nNext: engine plugins add {text}@COMMIT")
    return Source(os.path.realpath(Path(text).expanduser()))


def is_commit(text: str) -> bool:
    """Return whether a text is the whole hash of a commit."""
    return _COMMIT.fullmatch(text) is not None


@contextlib.contextmanager
def fetched(source: Source, subfolder: str) -> Generator[Path]:
    """Fetch a source, and yield the plugin's folder. Raises `ConfigError`."""
    with tempfile.TemporaryDirectory(prefix="engine-plugin-") as scratch:
        if source.commit:
            _fetch(source, scratch)
        root = Path(os.path.realpath(scratch if source.commit else source.place))
        folder = Path(os.path.realpath(root / subfolder))
        if not folder.is_relative_to(root) or not folder.is_dir():
            raise ConfigError(f"there is no directory {subfolder or source.place}\nNext: engine plugins add --help")
        yield folder


def _fetch(source: Source, folder: str) -> None:
    _git(folder, "init", "--quiet")
    _git(
        folder,
        "fetch",
        "--quiet",
        "--depth",
        "1",
        "--no-tags",
        "--no-recurse-submodules",
        "--",
        source.place,
        source.commit,
    )
    # Filters of the user's git would run on a stranger's files.
    _git(folder, "-c", "advice.detachedHead=false", "checkout", "--quiet", source.commit, GIT_CONFIG_GLOBAL=os.devnull)


def _git(folder: str, *words: str, **variables: str) -> None:
    command = ["git", "-C", folder, "-c", "core.hooksPath=/dev/null", "-c", "core.symlinks=true", *words]
    environment = {name: value for name, value in os.environ.items() if name not in _GIT_PLACES}
    environment |= {"GIT_TERMINAL_PROMPT": "0", **variables}
    try:
        done = subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS, check=False
        )
    except FileNotFoundError as error:
        raise ConfigError("there is no git here\nNext: install git") from error
    except subprocess.TimeoutExpired as error:
        raise ConfigError(f"git took longer than {_SECONDS:g} s\nNext: try again") from error
    if done.returncode:
        raise ConfigError(
            f"git failed: {done.stderr.decode('utf-8', 'replace').strip()[-_SHOWN:]}\nNext: engine plugins add --help"
        )
