"""The rules in a project's `.engine/config.toml`: all of them if the project is trusted, else only denies and asks.

The file came with the repository, so only `[permissions]` is read, it cannot select a
profile, and it cannot lift a deny of another layer.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from typing import Final

from engine.core.errors import ConfigError, EngineError
from engine.core.permission_types import Rule
from engine.files.real_folder import open_real
from engine.permission.rules.rules import Layer

NAME: Final = ".engine/config.toml"
_MAX_BYTES: Final = 1_000_000
_SECTIONS: Final = ("permissions",)


def load_project_rules(root: str, is_trusted: Callable[[str], bool] = lambda _: False) -> tuple[Rule, ...]:
    """Return the rules that apply to the project in *root*. It blocks. Raises `ConfigError`."""
    rules = read_project_file(root)
    if not rules:
        return ()
    try:
        trusted = is_trusted(root)
    except EngineError as error:
        raise ConfigError(f"can't tell whether {root} is trusted: {error}") from error
    return rules if trusted else Layer("project", rules).untrusted.rules


def read_project_file(root: str) -> tuple[Rule, ...]:
    """Return all rules in a project's file, none if there is no file. It blocks. Raises `ConfigError`."""
    path = f"{root}/{NAME}"
    try:
        content = _read(path)
    except (FileNotFoundError, NotADirectoryError):
        return ()
    except OSError as error:
        raise ConfigError(f"can't read the project's {path}: {error.strerror or error}") from error
    # Imported here: most projects have no rules.
    import tomllib

    from engine.permission.rules.rule_file import read_permissions

    try:
        text = content.decode("utf-8")
        document = tomllib.loads(text)
    except UnicodeDecodeError as error:
        raise ConfigError(f"the project's {path} is not UTF-8") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"the project's {path} is no valid TOML: {error}") from error
    unknown = [section for section in document if section not in _SECTIONS]
    if unknown:
        raise ConfigError(
            f"{path}: there is no section [{unknown[0]}] in a project's file: all but [permissions] belongs to the user"
        )
    return read_permissions(document.get("permissions", {}), text, path, has_profile=False).rules


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
