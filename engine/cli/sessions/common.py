"""What the subcommands of `engine sessions` have in common: the store, the session that is meant, and errors in words."""

from __future__ import annotations

import argparse
import shutil
import sys
import time
import unicodedata
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import Final, TypeVar

import attrs
import trio

from engine.cli import say, store_flags
from engine.cli.output import complain
from engine.cli.store_flags import PREFIX, add_store_flag, open_place, place_of
from engine.cli.terminal_text import one_line
from engine.core.errors import (
    ConfigError,
    JournalCorrupt,
    MessageNotFound,
    SessionElsewhere,
    SessionNotFound,
    StoreError,
)
from engine.core.ids import SessionId
from engine.session.open_store import DATABASES
from engine.store.protocols import FullStore
from engine.store.sqlite.location import MEMORY

T = TypeVar("T")

FAILED: Final = 1
USAGE_ERROR: Final = 2
CODES: Final = "Exit codes: 0 done, 1 it could not be done, 2 wrong usage."

_PIPE_WIDTH: Final = 100
_SHORTEST: Final = 8


class NoStoreYet(SessionNotFound):
    """Nothing was ever kept at that place."""


def parser_for(name: str, description: str, *, has_json: bool = False) -> argparse.ArgumentParser:
    """Return a parser for the subcommand *name*, with the flags that all have."""
    parser = argparse.ArgumentParser(
        prog=f"engine sessions {name}", allow_abbrev=False, description=description, epilog=CODES
    )
    if has_json:
        parser.add_argument("--json", action="store_true", help="as JSON")
    add_store_flag(parser)
    return parser


def add_session_argument(parser: argparse.ArgumentParser, *, several: bool = False) -> None:
    """Add the argument that names a session, or *several*."""
    told = "its id, the beginning or the end of that, or last: the newest of this folder"
    if several:
        parser.add_argument("sessions", nargs="+", metavar="ID", help=f"which: {told}")
    else:
        parser.add_argument("session", metavar="ID", help=f"which: {told}")


def command(
    name: str, parser: argparse.ArgumentParser, arguments: Sequence[str], run: Callable[[argparse.Namespace], int]
) -> int:
    """Run a subcommand; say in words what is wrong, and return the exit code."""
    try:
        return run(parser.parse_args(arguments))
    except SystemExit as error:  # argparse has said what is wrong, or has helped
        return error.code if isinstance(error.code, int) else USAGE_ERROR
    except (ConfigError, SessionNotFound, MessageNotFound, SessionElsewhere) as error:
        complain(f"engine {name}: {one_line(str(error), 1_000)}")
        return USAGE_ERROR
    except (StoreError, JournalCorrupt) as error:
        complain(f"engine {name}: {one_line(str(error), 1_000)}")
        return FAILED


def with_store(given: argparse.Namespace, work: Callable[[FullStore], Awaitable[T]], *, may_make: bool = False) -> T:
    """Return what *work* returns, which is given the open store.

    Raises `NoStoreYet` if there is none at that place, unless it *may_make* one; `ConfigError`, `StoreError`.
    """
    place = place_of(given)
    is_file = place != MEMORY and not place.startswith(DATABASES)
    if is_file and not may_make and not Path(place).exists():
        raise NoStoreYet(f"there are no sessions yet: {place} is not there")

    async def run() -> T:
        async with open_place(place) as store:
            return await work(store)

    return trio.run(run)


def here() -> str:
    """Return this folder, as sessions name it."""
    try:
        return str(Path.cwd().resolve())
    except OSError as error:
        raise ConfigError(f"this folder is gone: {error.strerror}") from error


async def find_id(store: FullStore, name: str) -> SessionId:
    """Return the id of the session that *name* means. A checkpoint. Raises `SessionNotFound`, which says what there is."""
    return await store_flags.find_id(store, name, here)


def short_ids(known: Iterable[SessionId]) -> dict[SessionId, str]:
    """Return for each of all ids, which come in order, a beginning that no other has."""
    ids = list(known)
    short: dict[SessionId, str] = {}
    for number, session_id in enumerate(ids):
        beside = [ids[n] for n in (number - 1, number + 1) if 0 <= n < len(ids)]
        shared = max((_shared(session_id, other) for other in beside), default=0)
        start = len(PREFIX) if session_id.startswith(PREFIX) else 0
        short[session_id] = session_id[start : max(shared + 1, start + _SHORTEST)]
    return short


def _shared(one: str, other: str) -> int:
    """Return how many characters both begin with."""
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


# -- how it is shown -------------------------------------------------------------------------


def tell(text: str) -> int:
    """Write *text* to standard output, what that can't show replaced; return the exit code."""
    encoding = "utf-8" if sys.stdout is None else sys.stdout.encoding
    return say(text.encode(encoding, "replace").decode(encoding, "replace"))


def width() -> int:
    """Return how many characters a line may have."""
    is_terminal = sys.stdout is not None and sys.stdout.isatty()
    return shutil.get_terminal_size((_PIPE_WIDTH, 24)).columns if is_terminal else _PIPE_WIDTH


def when(moment: float, now: float) -> str:
    """Return a moment as people say it: the time of today, else the day."""
    try:
        then, today = time.localtime(moment), time.localtime(now)
    except (ValueError, OverflowError, OSError):
        return "?"
    if then[:3] == today[:3]:
        return time.strftime("%H:%M", then)
    return time.strftime("%d %b %H:%M" if then.tm_year == today.tm_year else "%Y-%m-%d", then)


def cells(text: str) -> int:
    """Return how many columns of a terminal *text* takes."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    return len(text) + wide - sum(unicodedata.category(char) in {"Mn", "Me", "Cf"} for char in text)


@attrs.frozen(kw_only=True)
class Column:
    """A column of a table: its heading, its texts, and how they stand."""

    heading: str
    texts: Sequence[str]
    is_right: bool = False
    grows: bool = False


def table(columns: Sequence[Column], width: int) -> str:
    """Return *columns* side by side, those that are empty left out; the one that grows takes the room that is left."""
    shown = [column for column in columns if any(column.texts)]
    widths = [max(map(cells, (column.heading, *column.texts))) for column in shown]
    room = width - sum(widths) - 2 * (len(shown) - 1)
    for number, column in enumerate(shown):
        if column.grows and room < 0:
            widths[number] = max(12, widths[number] + room)
    rows = zip(*((column.heading, *column.texts) for column in shown), strict=True)
    lines = (
        "  ".join(_cell(text, size, is_right=c.is_right) for text, size, c in zip(row, widths, shown, strict=True))
        for row in rows
    )
    return "".join(f"{line.rstrip()}\n" for line in lines)


def _cell(text: str, size: int, *, is_right: bool) -> str:
    text = one_line(text, size)
    while cells(text) > size:
        text = f"{text[:-2]}…"
    blank = " " * (size - cells(text))
    return f"{blank}{text}" if is_right else f"{text}{blank}"
