"""Checks of the user's files: the configuration, the project's trust, the keys, the store."""

from __future__ import annotations

import os
import shlex
import shutil
import sqlite3
import stat
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Final
from urllib.parse import quote

from engine.cli.auth.list_keys import credentials, place_of
from engine.cli.doctor.check_result import CheckResult, CheckResults
from engine.config.config import Config
from engine.config.store_config import StoreConfig
from engine.core.errors import ConfigError, EngineError
from engine.session.open_store import DATABASES
from engine.settings_file.config_sources import ConfigSources, LoadedConfig, load_sources
from engine.settings_file.project_config import report_ignored
from engine.settings_file.variables import unknown_variables
from engine.store.memory import MEMORY
from engine.store.sqlite.file_location import is_read_only, may_access

_CHECK_SECONDS: Final = 3.0
_LARGE_STORE: Final = 2 << 30
_LITTLE_SPACE: Final = 500 << 20
# Of the folder with decisions and drafts, which are small.
_LITTLE_STATE: Final = 10 << 20
# How many steps of SQLite's machine are between two looks at the clock.
_STEPS: Final = 10_000


def check_config(sources: ConfigSources) -> tuple[CheckResults, LoadedConfig | None, Config]:
    """Return findings, the sources, and the configuration: an empty one if it is invalid. It blocks."""
    try:
        loaded = load_sources(sources)
        config = loaded.config()
    except EngineError as error:
        return [CheckResult("config", "fail", " ".join(str(error).splitlines()), "engine config check")], None, Config()
    files = [document.source for document in loaded.merged.documents if document.text]
    findings = [
        CheckResult(
            "config", "ok", f"{len(files)} file{'s' * (len(files) != 1)} read{''.join(f', {one}' for one in files)}"
        )
    ]
    findings += [CheckResult("config", "warn", line) for line in report_ignored(list(loaded.ignored))]
    findings += [CheckResult("environment", "warn", line) for line in unknown_variables(sources.env)]
    if loaded.root and loaded.untrusted:
        text = f"{loaded.root} is not trusted: {loaded.untrusted} is ignored, but for rules that deny or ask"
        findings.append(CheckResult("project", "warn", text, f"engine permissions trust {shlex.quote(loaded.root)}"))
    elif loaded.root:
        trusted = sources.trusts or sources.files.trust.is_trusted(loaded.root)
        findings.append(CheckResult("project", "ok", f"{loaded.root} is {'' if trusted else 'not '}trusted"))
    return findings, loaded, config


def check_credentials(env: Mapping[str, str], config: Config) -> CheckResults:
    """Return which providers have a key. It reads files."""
    every = credentials(env, config)
    broken = next((each for each in every.values() if isinstance(each, ConfigError)), None)
    if broken is not None:
        first, _, following = str(broken).partition("\nNext: ")
        return [CheckResult("keys", "fail", first, following)]
    shown = [f"{name} ({place_of(each)})" for name, each in every.items() if not isinstance(each, ConfigError)]
    if not shown:
        return [CheckResult("keys", "warn", "no provider has a key; a local model needs none", "engine auth add HOST")]
    return [CheckResult("keys", "ok", ", ".join(shown))]


def check_state(folder: Path) -> CheckResults:
    """Check the folder for the user's decisions, drafts and sockets: only the user may write there. It blocks."""
    where = shlex.quote(str(folder))
    there = next(filter(_is_there, (folder, *folder.parents)))
    if not there.is_dir():
        return [CheckResult("state", "fail", f"{there} is not a directory", f"ls -l {shlex.quote(str(there))}")]
    if not may_access(there, os.W_OK | os.X_OK):
        elsewhere = "export XDG_STATE_HOME=DIRECTORY"
        why, mend = _why_read_only(there, elsewhere)
        text = f"{why}: what you allow and trust can't be kept in {folder}"
        # What lies above it may be the system's.
        return [CheckResult("state", "fail", text, mend if there == folder else elsewhere)]
    if there == folder and (mode := folder.stat().st_mode) & (stat.S_IWGRP | stat.S_IWOTH):
        text = f"{folder} can be written by others ({stat.filemode(mode)}): they could trust a project in your name"
        return [CheckResult("state", "fail", text, f"chmod go-w {where}")]
    free = shutil.disk_usage(there).free
    if free < _LITTLE_STATE:
        return [CheckResult("state", "warn", f"{folder}: only {_size(free)} left on its disk", f"df -h {where}")]
    return [CheckResult("state", "ok", f"{folder}{'' if there == folder else ' does not exist yet'}")]


def _is_there(path: Path) -> bool:
    """Return whether this user can see that there is something."""
    try:
        return path.exists()
    except OSError:
        return False


def _why_read_only(place: Path, elsewhere: str) -> tuple[str, str]:
    """Return why this user can't write to a place, and the command that mends it: at worst, *elsewhere*."""
    quoted, owner = shlex.quote(str(place)), place.stat().st_uid
    if os.statvfs(place).f_flag & os.ST_RDONLY:
        return f"{place} is on a read-only file system", elsewhere
    if owner == os.geteuid():
        return f"{place} is read-only", f"chmod u+rwX {quoted}"
    # A command with sudo has made it, say.
    return f"{place} belongs to the user with the id {owner}", f"sudo chown {os.geteuid()} {quoted}"


def check_store(place: str, config: StoreConfig | None = None) -> CheckResults:
    """Check where the sessions are: that it can be read, a file's size and space, a database's connections. It blocks."""
    if place == MEMORY:
        return [CheckResult("store", "ok", "nothing is saved")]
    if place.startswith(DATABASES):
        # Imported here: most stores are files.
        from engine.cli.doctor.database_check import check_database

        return [check_database(place, config or StoreConfig())]
    path = Path(place)
    folder = next(filter(_is_there, path.parents))
    free = shutil.disk_usage(folder).free
    findings: CheckResults = []
    if free < _LITTLE_SPACE:
        text = f"{_size(free)} left on the disk of {folder}"
        findings.append(CheckResult("disk", "warn", text, f"df -h {shlex.quote(str(folder))}"))
    if not _is_there(path):
        writable = may_access(folder, os.W_OK)
        text = f"{path} does not exist yet" if writable else f"{path} can't be created"
        return [
            *findings,
            CheckResult("store", "ok" if writable else "fail", text, "" if writable else f"ls -ld {folder}"),
        ]
    if is_read_only(path):
        why, mend = _why_read_only(folder if may_access(path, os.W_OK) else path, "export ENGINE_STORE=FILE")
        text = f"{why}: sessions can be listed and exported, but not continued"
        return [*findings, CheckResult("store", "fail", text, mend)]
    return [*findings, _check_file(path)]


def _check_file(path: Path) -> CheckResult:
    size = path.stat().st_size
    deadline = time.monotonic() + _CHECK_SECONDS
    repair = f"engine sessions repair --store {shlex.quote(str(path))}"
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, timeout=1.0)) as connection:
            # A large file is checked in part.
            connection.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS)
            rows: list[tuple[str]] = connection.execute("PRAGMA quick_check (3)").fetchall()
    except sqlite3.Error as error:
        if "interrupted" in str(error):
            return CheckResult("store", "ok", f"{path}, {_size(size)}; too large to be checked in {_CHECK_SECONDS:g} s")
        return CheckResult("store", "fail", f"{path} can't be read: {error}", repair)
    if rows != [("ok",)]:
        return CheckResult("store", "fail", f"{path} is damaged: {'; '.join(text for (text,) in rows)}", repair)
    if size > _LARGE_STORE:
        return CheckResult("store", "warn", f"{path} has {_size(size)}", "engine sessions prune --help")
    return CheckResult("store", "ok", f"{path}, {_size(size)}")


def _size(size: int) -> str:
    return f"{size / (1 << 30):.1f} GiB" if size >= 1 << 30 else f"{size / (1 << 20):.1f} MiB"
