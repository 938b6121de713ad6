"""Which files a session has read, and whether they have changed since: a digest for each, in the shared context.

A tool that reads a file returns `note_read(path, digest)` as the modifier of its
result. One that changes a file compares `last_read(ctx.shared, path)` with the
digest of the present content, and notes the digest of the new content. The digest
is of the whole file, even if the model saw only a part: any change since counts.

The modification time is not kept. It would save hashing a file that is read anyway,
and two writes within one tick of its clock have the same.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from functools import reduce
from typing import Final

import attrs

from engine.core.events import SharedContext
from engine.files.real_path import followed

Modifier = Callable[[SharedContext], SharedContext]

# How many files a session remembers; the one that was noted longest ago is forgotten first.
REMEMBERED: Final = 500
_PREFIX: Final = "file:"
_DIGEST_BYTES: Final = 16
_ORDER_DIGITS: Final = 12


def hasher() -> hashlib.blake2b:
    """Return a hash object for a file that is read in pieces: call `update`, then `hexdigest()`."""
    return hashlib.blake2b(digest_size=_DIGEST_BYTES)


def digest(data: bytes) -> str:
    """Return the digest of a whole file's bytes."""
    return hashlib.blake2b(data, digest_size=_DIGEST_BYTES).hexdigest()


def note_read(path: str | os.PathLike[str], data_digest: str) -> Modifier:
    """Return a modifier which records that the session has read the file with that digest. It follows links, so it blocks."""
    return _Note(_PREFIX + followed(path), data_digest)


def note_gone(path: str | os.PathLike[str]) -> Modifier:
    """Return a modifier which forgets the file at *path*. It follows links, so it blocks."""
    return _Note(_PREFIX + followed(path), None)


def together(*modifiers: Modifier) -> Modifier:
    """Return the modifier that applies these, in their order."""
    return lambda shared: reduce(lambda context, modify: modify(context), modifiers, shared)


def last_read(shared: SharedContext, path: str | os.PathLike[str]) -> str | None:
    """Return the digest of the file as the session last saw it; None if it never did. It follows links, so it blocks."""
    # A file's name may have any bytes; a value's name goes into the journal as it is.
    return shared.get(_encodable(_PREFIX + followed(path)))[_ORDER_DIGITS + 2 : -1] or None


def read_files(shared: SharedContext) -> tuple[tuple[str, str], ...]:
    """Return all files that the session has read, each with its digest, the most recent one last."""
    noted = sorted((value, name) for name, value in shared.values if name.startswith(_PREFIX))
    return tuple((name.removeprefix(_PREFIX), value[_ORDER_DIGITS + 2 : -1]) for value, name in noted)


@attrs.frozen
class _Note:
    """A modifier with a value, so that two of them can be compared."""

    name: str
    digest: str | None

    def __call__(self, shared: SharedContext) -> SharedContext:
        name = _encodable(self.name)
        if self.digest is None:
            return shared.without(name)
        # Oldest first: the JSON text begins with a number of fixed length.
        noted = sorted((value, other) for other, value in shared.values if other.startswith(_PREFIX) and other != name)
        order = int(noted[-1][0][1 : _ORDER_DIGITS + 1], 16) + 1 if noted else 0
        surplus = tuple(other for _, other in noted[: max(0, len(noted) + 1 - REMEMBERED)])
        return shared.merged(shared.cwd, ((name, f'"{order:0{_ORDER_DIGITS}x} {self.digest}"'),), surplus)


def _encodable(name: str) -> str:
    return os.fsencode(name).decode(errors="backslashreplace")
