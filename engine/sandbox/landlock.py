"""Landlock: the part of the Linux kernel by which a thread gives up access to files for itself and what it starts."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from functools import lru_cache
from typing import Final

_CREATE_RULESET: Final = 444
_ADD_RULE: Final = 445
_RESTRICT_SELF: Final = 446
_ASK_VERSION: Final = 1
_BELOW_PATH: Final = 1

_EXECUTE: Final = 1 << 0
_WRITE_FILE: Final = 1 << 1
_READ_FILE: Final = 1 << 2
_READ_FOLDER: Final = 1 << 3
_TRUNCATE: Final = 1 << 14
_CONTROL_DEVICE: Final = 1 << 15
# All rights over files that each version of Landlock knows; earlier ones let programs truncate any file.
_ALL: Final = {3: (1 << 15) - 1, 5: (1 << 16) - 1}
_READ: Final = _EXECUTE | _READ_FILE | _READ_FOLDER
# The rights that mean something for a file that is no folder.
_FOR_FILES: Final = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _CONTROL_DEVICE
_BIND_AND_CONNECT: Final = 0b11
_ABSTRACT_SOCKETS_AND_SIGNALS: Final = 0b11

OLDEST_USABLE: Final = 3
WITH_NETWORK: Final = 4
WITH_SIGNALS: Final = 6


@lru_cache(maxsize=1)
def landlock_version() -> int:
    """Return the version of Landlock in this kernel; 0: none, or it is switched off."""
    try:
        return max(0, _syscall(_CREATE_RULESET, None, 0, _ASK_VERSION))
    except (OSError, AttributeError):  # another system has no `syscall`
        return 0


def open_place(path: str, *, is_real: bool = False) -> int | None:
    """Return a descriptor that stands for *path*; None if there is no such file, or if it must be *is_real* and leads elsewhere."""
    with suppress(OSError):
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        if not is_real or os.readlink(f"/proc/self/fd/{place}") == path:  # noqa: PTH115
            return place
        os.close(place)
    return None


def make_ruleset(readable: Iterable[int], listable: Iterable[int], writable: Iterable[int], *, network: bool) -> int:
    """Return the descriptor of a set of rules: only files at or below these places may be used. Raises `OSError`.

    Args:
        readable: descriptors of files and folders that may be read and run.
        listable: those of folders whose entries may be listed.
        writable: those that may be changed as well as read.
        network: whether connections are allowed.
    """
    version = landlock_version()
    everything = _ALL[max(oldest for oldest in _ALL if oldest <= version)]
    attributes = struct.pack(
        "QQQ",
        everything,
        0 if network or version < WITH_NETWORK else _BIND_AND_CONNECT,
        _ABSTRACT_SOCKETS_AND_SIGNALS if version >= WITH_SIGNALS else 0,
    )
    # An older kernel takes the structure without what it does not know.
    size = 24 if version >= WITH_SIGNALS else 16 if version >= WITH_NETWORK else 8
    ruleset = _syscall(_CREATE_RULESET, attributes, size, 0)
    with ExitStack() as on_error:
        on_error.callback(os.close, ruleset)
        for places, rights in ((readable, _READ), (listable, _READ_FOLDER), (writable, everything)):
            for place in places:
                _allow(ruleset, place, rights)
        on_error.pop_all()
    return ruleset


def restrict_thread(ruleset: int) -> None:
    """Restrict the calling thread, and what it starts, for ever. It can't gain privileges any more. Raises `OSError`."""
    _syscall(_RESTRICT_SELF, ruleset, 0)


def _allow(ruleset: int, place: int, rights: int) -> None:
    rule = struct.pack("=Qi", rights, place)
    try:
        _syscall(_ADD_RULE, ruleset, _BELOW_PATH, rule, 0)
    except OSError as error:
        # It is no folder.
        if error.errno != errno.EINVAL:
            raise
        _syscall(_ADD_RULE, ruleset, _BELOW_PATH, struct.pack("=Qi", rights & _FOR_FILES, place), 0)


@lru_cache(maxsize=1)
def libc() -> ctypes.CDLL:
    """Return the C library of this process."""
    return ctypes.CDLL(None, use_errno=True)


def _syscall(call: int, *arguments: int | bytes | None) -> int:
    words = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    result = int(libc().syscall(ctypes.c_long(call), *words))
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"Landlock: {os.strerror(number)}")
    return result
