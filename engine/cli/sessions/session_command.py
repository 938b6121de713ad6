"""What the subcommands of `engine sessions` share: the open store, session ids, and error messages."""

from __future__ import annotations

import argparse
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar

import trio

from engine.cli.command_table.find_command import parse_arguments
from engine.cli.flags import store_flags
from engine.cli.flags.store_flags import PREFIX, open_store, resolve_store
from engine.cli.terminal.exit_codes import NO_HINTS, run_command
from engine.core.errors import ConfigError, EngineError, SessionNotFound, StoreError
from engine.core.ids import SessionId
from engine.session.open_store import DATABASES
from engine.store.memory import MEMORY
from engine.store.store_protocols import FullStore

T = TypeVar("T")

_SHORTEST: Final = 8


class NoStoreYet(SessionNotFound):
    """There is no store at this place so far."""


def run_subcommand(
    name: str,
    arguments: Sequence[str],
    run: Callable[[argparse.Namespace], int],
    *,
    hints: Mapping[type[EngineError], str] = NO_HINTS,
) -> int:
    """Run the command *name* with its parsed *arguments* as `run_command` does; return the exit code."""
    return run_command(name, lambda: run(parse_arguments(name, arguments)), hints=hints)


def with_store(
    args: argparse.Namespace,
    work: Callable[[FullStore], Awaitable[T]],
    *,
    may_make: bool = False,
    only_reads: bool = False,
) -> T:
    """Run *work* with the open store and return its result.

    With *only_reads* it writes nothing, and a file that can't be written is read all the same: after a disk has failed,
    say. Raises `NoStoreYet` if the store does not exist, unless *may_make* allows creating it; `ConfigError`, `StoreError`.
    """
    place = resolve_store(args)
    # Reading must not create an empty store as a side effect.
    is_file = place != MEMORY and not place.startswith(DATABASES)
    if is_file and not may_make and not _exists(place):
        raise NoStoreYet(f"there are no sessions so far: {place} does not exist")

    async def run() -> T:
        async with open_store(place, only_reads=only_reads) as store:
            return await work(store)

    return trio.run(run)


def _exists(place: str) -> bool:
    """Return whether there is a file. It blocks. Raises `StoreError` if that can't be seen."""
    try:
        Path(place).stat()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise StoreError(f"the store {place} can't be read: {error.strerror}\nNext: engine doctor") from error
    return True


def current_folder() -> str:
    """Return the current folder, links resolved."""
    try:
        return str(Path.cwd().resolve())
    except OSError as error:
        raise ConfigError(
            f"the current directory is gone: {error.strerror}\nNext: change to another directory"
        ) from error


async def resolve_session_id(store: FullStore, name: str) -> SessionId:
    """Resolve *name* to a session id. A checkpoint. Raises `SessionNotFound` with a hint."""
    return await store_flags.resolve_session_id(store, name, current_folder)


def short_ids(ids: Iterable[SessionId]) -> dict[SessionId, str]:
    """Return a unique prefix of each of these ids, which are all that the store has."""
    # Without the prefix, since a name is looked up with and without it.
    every = list(ids)
    bare = sorted((each.removeprefix(PREFIX), each) for each in every)
    short: dict[SessionId, str] = {}
    for number, (name, session_id) in enumerate(bare):
        # Sorted names share the longest prefix with a neighbour.
        neighbours = [bare[n][0] for n in (number - 1, number + 1) if 0 <= n < len(bare)]
        # One character more than the longest shared prefix makes it unique.
        shared = max((_shared(name, other) for other in neighbours), default=0)
        short[session_id] = session_id if name in neighbours else name[: max(shared + 1, _SHORTEST)]
    return {each: short[each] for each in every}


def _shared(one: str, other: str) -> int:
    """Return the length of the common prefix."""
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
