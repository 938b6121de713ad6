"""The rules in a project's own files: all of them if the project is trusted, else only denies and asks.

The files came with the repository, so of `[permissions]` only the rules are read here, and they lift no deny of another
layer. A project may have `.engine/config.toml`, and `.engine/config.local.toml` for what is not committed, in each folder
from its root down to the working directory. They are one layer: the nearest file comes last.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import PurePosixPath
from typing import Final

from engine.core.errors import ConfigError, EngineError
from engine.core.permission_types import Rule
from engine.files.real_folder import open_real
from engine.files.real_path import followed
from engine.permission.rules.rules import Layer

# From the weakest on.
NAMES: Final = (".engine/config.toml", ".engine/config.local.toml")
_MAX_BYTES: Final = 1_000_000


def load_project_rules(cwd: str, root: str, is_trusted: Callable[[str], bool] = lambda _: False) -> tuple[Rule, ...]:
    """Return the rules of the project in *root* that apply in *cwd*. It blocks. Raises `ConfigError`."""
    rules = read_project_rules(cwd, root)
    if not rules:
        return ()
    try:
        trusted = is_trusted(root)
    except EngineError as error:
        raise ConfigError(f"can't tell whether {root} is trusted: {error}") from error
    return rules if trusted else Layer("project", rules).untrusted.rules


def read_project_rules(cwd: str, root: str) -> tuple[Rule, ...]:
    """Return all rules in a project's files, none if there are no files. It blocks. Raises `ConfigError`."""
    return tuple(rule for path in project_files(cwd, root) for rule in _read_rules(path))


def project_files(cwd: str, root: str) -> Iterator[str]:
    """Yield where the files of a project may be, the weakest first. It follows links."""
    folder = PurePosixPath(followed(cwd))
    below = folder.relative_to(root).parts if folder.is_relative_to(root) else ()
    for depth in range(len(below) + 1):
        yield from (str(PurePosixPath(root, *below[:depth], name)) for name in NAMES)


def read_project_file(path: str) -> str | None:
    """Return the text of a project's file; None if there is none. It blocks. Raises `ConfigError`."""
    try:
        return _read(path).decode("utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except UnicodeDecodeError as error:
        raise ConfigError(f"the project's {path} is not UTF-8") from error
    except OSError as error:
        raise ConfigError(f"can't read the project's {path}: {error.strerror or error}") from error


def _read_rules(path: str) -> tuple[Rule, ...]:
    text = read_project_file(path)
    if text is None:
        return ()
    # Imported here: most projects have no rules.
    import tomllib

    from engine.permission.rules.rule_file import read_permissions

    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"the project's {path} is no valid TOML: {error}") from error
    return read_permissions(document.get("permissions", {}), text, path).rules


def _read(path: str) -> bytes:
    """Return the content of a regular file. Raises `OSError`, also for a link: it might lead anywhere."""
    descriptor = open_real(path, os.O_RDONLY | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError("it is not a regular file")
        content = file.read(_MAX_BYTES + 1)
    if len(content) > _MAX_BYTES:
        raise OSError(f"it is larger than {_MAX_BYTES:,} bytes")
    return content
