"""Files and folders that only their owner may read: tokens, sockets, and where a server is. All of it blocks."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from pathlib import Path
from typing import Final

from engine.core.errors import ConfigError

_LONGEST: Final = 1 << 20


def private_folder(path: Path) -> Path:
    """Make the folder if it is missing; return it.

    Raises:
        ConfigError: it is a link, is not ours, or others can look into it.
    """
    try:
        # The mode is for the last folder only, and the one above is ours, too.
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.mkdir(mode=0o700, exist_ok=True)
    except FileExistsError:
        pass  # it is no folder, which `is_private_folder` reports
    except OSError as error:
        raise ConfigError(f"the folder for tokens and sockets can't be made: {path}: {error.strerror}") from error
    if not is_private_folder(path):
        raise ConfigError(f"the folder for tokens and sockets was removed: {path}")
    return path


def is_private_folder(path: Path) -> bool:
    """Return whether there is such a folder, which is ours alone.

    Raises:
        ConfigError: it is a link, is not ours, or others can look into it.
    """
    try:
        status = path.lstat()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise ConfigError(f"the folder for tokens and sockets can't be used: {path}: {error.strerror}") from error
    if not stat.S_ISDIR(status.st_mode):
        raise ConfigError(f"{path} is not a folder; it must be one, and no link, since tokens are kept in it")
    _check_owner(path, status, 0o700)
    return True


def read_private(path: Path) -> str | None:
    """Return the text of a file of ours; None if there is none. Raises `ConfigError`."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"{path} can't be read: {error.strerror}") from error
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise ConfigError(f"{path} is not a file")
        _check_owner(path, status, 0o600)
        return file.read(_LONGEST).decode("utf-8", "replace")


def write_private(path: Path, text: str, *, replace: bool) -> None:
    """Write a file for us alone, atomically: no reader sees a part of it. Raises `ConfigError`.

    Args:
        path: the file.
        text: its content.
        replace: whether an existing file is replaced; otherwise it is kept as it is.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    with contextlib.ExitStack() as stack:
        try:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            stack.callback(temporary.unlink, missing_ok=True)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
            if replace:
                temporary.replace(path)
            else:
                with contextlib.suppress(FileExistsError):
                    # Unlike a rename, a link fails where another process was first.
                    os.link(temporary, path)
        except OSError as error:
            raise ConfigError(f"{path} can't be written: {error.strerror}") from error


def _check_owner(path: Path, status: os.stat_result, mode: int) -> None:
    if status.st_uid != os.geteuid():
        raise ConfigError(f"{path} belongs to another user (uid {status.st_uid}), who could read the token")
    if stat.S_IMODE(status.st_mode) & ~mode:
        raise ConfigError(f"others can get at {path}: run chmod {mode:o} {path}")
