"""The user's settings of git, without what may hold a key: `git config --list` in a reader box shows no token.

git gets a copy (`GIT_CONFIG_GLOBAL`, from git 2.32 on), and the files themselves can't be read in the box. In the copy are
the sections that git's reading commands obey; what is in files that the settings include is in it as well.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Final
from uuid import uuid4

from engine.files.real_path import followed, is_within
from engine.process.secret_names import is_secret_name
from engine.sandbox.places import NOTHING
from engine.sandbox.temporary import process_folder

_SECTIONS: Final = frozenset(
    [
        "advice",
        "alias",
        "am",
        "apply",
        "blame",
        "branch",
        "clean",
        "color",
        "column",
        "commit",
        "core",
        "diff",
        "difftool",
        "fetch",
        "filter",
        "format",
        "gc",
        "gpg",
        "grep",
        "guitool",
        "help",
        "i18n",
        "index",
        "init",
        "interactive",
        "log",
        "maintenance",
        "mailmap",
        "man",
        "merge",
        "mergetool",
        "notes",
        "pack",
        "pager",
        "pull",
        "push",
        "rebase",
        "rerere",
        "safe",
        "sequence",
        "showbranch",
        "stash",
        "status",
        "submodule",
        "tag",
        "trailer",
        "user",
        "versionsort",
        "worktree",
    ]
)
_SECRET: Final = re.compile(r"token|passw|secret|authorization|bearer|://[^/\s]*@", re.IGNORECASE)
# What git reads because its settings name it.
_NAMED_FILES: Final = frozenset(
    ("core.excludesfile", "core.attributesfile", "blame.ignorerevsfile", "mailmap.file", "gpg.ssh.allowedsignersfile")
)
_SECONDS: Final = 10.0
_MOST_FILES: Final = 8
_NAME_CHARS: Final = 16


def git_settings(cwd: str, home: str, project: str) -> tuple[str, ...]:
    """Return the path of the copy for commands in *cwd*, then those of files that it names. It blocks."""
    program = followed(shutil.which("git") or "/")
    # It runs unconfined, so it must not be one that the project brings.
    if program == "/" or (project and is_within(program, project)):
        return (NOTHING,)
    main = [f"{home}/.gitconfig", f"{os.environ.get('XDG_CONFIG_HOME') or f'{home}/.config'}/git/config"]
    if named := os.environ.get("GIT_CONFIG_GLOBAL"):
        main = [named]
    if not any(map(os.path.exists, main)):
        return (NOTHING,)
    settings, files = _listed(program, cwd, home, _state(main), process_folder())
    # A file that they include may have changed since.
    if _state(name for name, _ in files) != files:
        _listed.cache_clear()
        settings, _ = _listed(program, cwd, home, _state(main), process_folder())
    return settings


def _state(files: Iterable[str]) -> tuple[tuple[str, int], ...]:
    return tuple((name, _changed(name)) for name in files)


def _changed(name: str) -> int:
    with suppress(OSError):
        return os.stat(name).st_mtime_ns  # noqa: PTH116
    return 0


@lru_cache(maxsize=32)
def _listed(
    program: str, cwd: str, home: str, _main: tuple[tuple[str, int], ...], folder: str
) -> tuple[tuple[str, ...], tuple[tuple[str, int], ...]]:
    """Return what `git_settings` does, and the state of the files that hold the settings."""
    try:
        listed = subprocess.run(
            (program, "config", "--global", "--includes", "--show-origin", "--null", "--list"),
            cwd=cwd,
            env={**os.environ, "HOME": home},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return (NOTHING,), ()
    fields = os.fsdecode(listed.stdout).split("\0")
    origins = dict.fromkeys(origin.removeprefix("file:") for origin in fields[:-1:2])
    shown = [(key, value) for key, _, value in _entries(fields[1::2]) if _is_shown(key, value)]
    named = [
        followed(value.replace("~", home, 1) if value.startswith("~/") else value)
        for key, value in shown
        if key in _NAMED_FILES
    ]
    return (_written("".join(_lines(fields[1::2])), folder), *named[:_MOST_FILES]), _state(origins)


def _entries(settings: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    """Yield the key, the line's end if there is a value, and the value of each setting."""
    return (setting.partition("\n") for setting in settings)


def _is_shown(key: str, value: str) -> bool:
    return (
        key.partition(".")[0] in _SECTIONS
        and not is_secret_name(key.rpartition(".")[2])
        and _SECRET.search(f"{key}={value}") is None
    )


def _lines(settings: Iterable[str]) -> Iterator[str]:
    """Yield the settings as a file holds them, without those that may hold a key."""
    for key, has_value, value in _entries(settings):
        if _is_shown(key, value):
            section, _, rest = key.partition(".")
            inner, _, name = rest.rpartition(".")
            yield f'[{section} "{_escaped(inner)}"]\n' if inner else f"[{section}]\n"
            yield f'\t{name} = "{_escaped(value)}"\n' if has_value else f"\t{name}\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")


def _written(content: str, folder: str) -> str:
    """Return the path of a file with this content, which nothing changes."""
    data = os.fsencode(content)
    path = Path(folder, f"git-{sha256(data).hexdigest()[:_NAME_CHARS]}")
    if not path.exists():
        new = path.with_name(uuid4().hex)
        new.write_bytes(data)
        new.replace(path)
    return str(path)
