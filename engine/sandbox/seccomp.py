"""The filter for system calls: a program for the kernel, which it runs at every call of a confined process.

A filter sees numbers, not paths: it refuses what Landlock does not restrict. Refused calls fail with EPERM.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Final, cast

from engine.sandbox.landlock import libc
from engine.sandbox.refused_calls import (
    ALWAYS_REFUSED,
    AUDIT_MACHINES,
    CONDITIONS,
    FIRST_PROCESS,
    GROUPS,
    LAST_NUMBER,
    NETWORK,
    NOT_IMPLEMENTED,
    NOT_IN_NAMESPACES,
    NOT_IN_SANDBOX,
    READER_REFUSED,
    SESSIONS,
    SIGNALS,
    SIGNALS_OF_FILES,
    SOCKET_PAIRS,
    SOCKETS_INSIDE,
    SOCKETS_OF_PROGRAMS,
    TIMES_BY_PATH,
    UNSEEN_MEMORY,
    Condition,
    Machine,
    numbers,
)

# Instructions of the filter machine: load a word of the call's description, compare the last loaded word, return.
_LOAD: Final = 0x20
_JUMP_IF_EQUAL: Final = 0x15
_JUMP_IF_GREATER: Final = 0x25
_JUMP_IF_NOT_LESS: Final = 0x35
_JUMP_IF_ANY_BIT: Final = 0x45
_RETURN: Final = 0x06
_INSTRUCTION: Final = struct.Struct("=HBBI")
# Where the description holds the call's number, the machine, the address that it comes from (the lower half and the upper
# one), and the lower half of its first argument.
_NUMBER: Final = 0
_MACHINE: Final = 4
_ADDRESS: Final = 8
_FIRST_ARGUMENT: Final = 16
# More than the C library's function for a simple call takes.
_FUNCTION_BYTES: Final = 64
_ALLOW: Final = 0x7FFF_0000
_FAIL: Final = 0x0005_0000

_NO_NEW_PRIVILEGES: Final = 38
_SET_SECCOMP: Final = 22
_FILTER: Final = 2
_DROP_CAPABILITY: Final = 24
_AMBIENT: Final = 47
_CLEAR_ALL: Final = 4
# `CAP_DAC_READ_SEARCH`, and one more than the kernel can have.
_READ_ANY_FILE: Final = 2
_LAST_CAPABILITY: Final = 64


def seccomp_filter(machine: Machine, *, is_reader: bool, network: bool, refuses_signals: bool) -> bytes:
    """Return the filter.

    Args:
        machine: the kind of processor.
        is_reader: nothing can be changed, so attributes of open files can't either.
        network: sockets are allowed.
        refuses_signals: no signals to any process, because Landlock can't keep them inside.
    """
    refused = [
        ALWAYS_REFUSED,
        *((READER_REFUSED, GROUPS, UNSEEN_MEMORY) if is_reader else ()),
        *([] if network else [NETWORK]),
    ]
    if refuses_signals:
        refused.append(SIGNALS)
    conditions = (
        *CONDITIONS,
        *(() if is_reader else (TIMES_BY_PATH,)),
        *((SIGNALS_OF_FILES,) if refuses_signals else ()),
    )
    return _filter(
        machine,
        *_refuse(numbers(NOT_IMPLEMENTED, machine), errno.ENOSYS),
        *(part for calls in refused for part in _refuse(numbers(calls, machine), errno.EPERM)),
        *(_refuse_if(condition, machine) for condition in conditions),
        *([_refuse_elsewhere(SESSIONS, machine)] if is_reader else []),
    )


def namespace_filter(machine: Machine) -> bytes:
    """Return the filter for commands in namespaces of their own, which keep most inside."""
    return _filter(
        machine,
        *_refuse(numbers(NOT_IN_NAMESPACES, machine), errno.EPERM),
        *(_refuse_if(condition, machine) for condition in (SOCKETS_INSIDE, *SOCKET_PAIRS, *FIRST_PROCESS)),
    )


def sandbox_filter(machine: Machine) -> bytes:
    """Return the filter for commands in a sandbox that may change a project: less is refused, for debuggers and servers."""
    return _filter(
        machine,
        *_refuse(numbers(NOT_IN_SANDBOX, machine), errno.EPERM),
        *(_refuse_if(condition, machine) for condition in (SOCKETS_OF_PROGRAMS, *FIRST_PROCESS)),
    )


def machine() -> Machine | None:
    """Return this machine's kind; None if no table lists its system calls."""
    name = os.uname().machine
    is_64_bit = os.sysconf("SC_LONG_BIT") == 64
    return cast("Machine", name) if is_64_bit and name in AUDIT_MACHINES else None


def keep_privileges_low() -> None:
    """Keep the calling thread, and what it starts, from gaining privileges. Raises `OSError`."""
    _prctl(_NO_NEW_PRIVILEGES, 1, 0)


def drop_privileges() -> None:
    """Keep the calling thread, and what it starts, from having or gaining privileges. Raises `OSError`.

    Root loses its capabilities as well: with them it could read the environment of any process, in spite of Landlock.
    One stays: in a container, the project's files often belong to another user.
    """
    keep_privileges_low()
    _prctl(_AMBIENT, _CLEAR_ALL, 0)
    if os.geteuid() == 0:
        for capability in range(_LAST_CAPABILITY):
            if capability != _READ_ANY_FILE:
                with suppress(OSError):  # this kernel does not know it, or it was dropped before
                    _prctl(_DROP_CAPABILITY, capability, 0)


def install_filter(program: bytes) -> None:
    """Filter the system calls of the calling thread, and of what it starts, for ever. Raises `OSError`."""
    steps = ctypes.create_string_buffer(program, len(program))
    packed = struct.pack("HxxxxxxP", len(program) // _INSTRUCTION.size, ctypes.addressof(steps))
    header = ctypes.create_string_buffer(packed, len(packed))
    _prctl(_SET_SECCOMP, _FILTER, ctypes.addressof(header))


def _filter(machine: Machine, *refusals: bytes) -> bytes:
    return b"".join(
        (
            # A call in another machine's form (32 bits) would have other numbers.
            _step(_LOAD, _MACHINE),
            _step(_JUMP_IF_EQUAL, AUDIT_MACHINES[machine], then=1),
            _step(_RETURN, _FAIL | errno.EPERM),
            _step(_LOAD, _NUMBER),
            # This includes the 32-bit form on x86-64, whose numbers have a high bit set.
            _step(_JUMP_IF_GREATER, LAST_NUMBER, otherwise=1),
            _step(_RETURN, _FAIL | errno.ENOSYS),
            *refusals,
            _step(_RETURN, _ALLOW),
        )
    )


def _step(code: int, value: int, *, then: int = 0, otherwise: int = 0) -> bytes:
    """Return an instruction; a comparison skips *then* or *otherwise* instructions."""
    return _INSTRUCTION.pack(code, then, otherwise, value)


def _refuse(refused: Iterable[int], error: int) -> Iterator[bytes]:
    for number in refused:
        yield _step(_JUMP_IF_EQUAL, number, otherwise=1)
        yield _step(_RETURN, _FAIL | error)


def _refuse_if(condition: Condition, machine: Machine) -> bytes:
    (number,) = numbers(condition.call, machine)
    refuse = _step(_RETURN, _FAIL | errno.EPERM)
    lower = _FIRST_ARGUMENT + 8 * condition.argument
    if condition.mask:
        checks = [_step(_LOAD, lower), _step(_JUMP_IF_ANY_BIT, condition.mask, otherwise=1), refuse]
    elif condition.only:
        left = range(len(condition.values), 0, -1)
        tests = (_step(_JUMP_IF_EQUAL, value, then=skip) for value, skip in zip(condition.values, left, strict=True))
        checks = [_step(_LOAD, lower), *tests, refuse]
    elif condition.values:
        checks = [_step(_LOAD, lower)]
        for value in condition.values:
            checks += [_step(_JUMP_IF_EQUAL, value, otherwise=1), refuse]
    else:
        checks = [
            _step(_LOAD, lower),
            _step(_JUMP_IF_EQUAL, 0, then=1),
            refuse,
            # A pointer has an upper half; of a number, the kernel ignores it.
            _step(_LOAD, lower + 4),
            _step(_JUMP_IF_EQUAL, 0, then=1),
            refuse,
        ]
    checks.append(_step(_LOAD, _NUMBER))
    return _step(_JUMP_IF_EQUAL, number, otherwise=len(checks)) + b"".join(checks)


def _refuse_elsewhere(call: str, machine: Machine) -> bytes:
    """Refuse a call that does not come from this process's C library, which a program has at another address."""
    name = call.split(maxsplit=1)[0]
    address = ctypes.cast(getattr(libc(), name), ctypes.c_void_p).value or 0
    refuse = _step(_RETURN, _FAIL | errno.EPERM)
    checks = [
        *(_step(_LOAD, _ADDRESS + 4), _step(_JUMP_IF_EQUAL, address >> 32, then=1), refuse),
        *(_step(_LOAD, _ADDRESS), _step(_JUMP_IF_NOT_LESS, address & 0xFFFF_FFFF, then=1), refuse),
        *(_step(_JUMP_IF_GREATER, (address + _FUNCTION_BYTES) & 0xFFFF_FFFF, otherwise=1), refuse),
        _step(_LOAD, _NUMBER),
    ]
    return _step(_JUMP_IF_EQUAL, numbers(call, machine)[0], otherwise=len(checks)) + b"".join(checks)


def _prctl(option: int, first: int, second: int) -> None:
    if libc().prctl(option, ctypes.c_ulong(first), ctypes.c_ulong(second), ctypes.c_ulong(0), ctypes.c_ulong(0)):
        number = ctypes.get_errno()
        raise OSError(number, f"prctl {option}: {errno.errorcode.get(number, number)}")
