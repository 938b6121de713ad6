"""The ledger: `results.jsonl`, with a line for each attempt that ended. Lines are only ever appended.

A row is on the disk before its worker goes on. What a crash leaves of a line is dropped when the ledger is opened, and
what a full disk leaves, at once.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Final, Self

import attrs
import trio

from engine.batch.attempt_row import AttemptRow, DamagedRow, decode_row, encode_row
from engine.batch.ledger_lock import LedgerLock
from engine.core.errors import StoreError
from engine.core.threads import to_thread

LEDGER_NAME: Final = "results.jsonl"
_BLOCK: Final = 1_048_576


@attrs.define(eq=False, repr=False)
class ResultLedger:
    """An open ledger, which no other runner has open.

    Attributes:
        path: its file.
        damaged: the numbers of lines that are no rows.
    """

    path: Path
    _file: BinaryIO
    _lock: LedgerLock
    damaged: list[int] = attrs.field(factory=list[int], init=False)
    _pending: list[bytes] = attrs.field(factory=list[bytes], init=False)
    _written: int = attrs.field(default=0, init=False)
    _queued: int = attrs.field(default=0, init=False)
    _failure: StoreError | None = attrs.field(default=None, init=False)
    _turns: trio.Lock = attrs.field(factory=trio.Lock, init=False)

    @classmethod
    def open(cls, path: Path) -> ResultLedger:
        """Open a ledger; make it if there is none. It blocks. Raises `ConfigError` if another runner has it, `StoreError`."""
        lock = LedgerLock.take(path.with_suffix(".lock"))
        try:
            file = path.open("a+b", buffering=0)
        except OSError as error:
            lock.close()
            raise _store_error(path, error) from error
        try:
            _drop_torn_line(file)
        except OSError as error:
            file.close()
            lock.close()
            raise _store_error(path, error) from error
        return cls(path, file, lock)

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Write what waits to be written, and close it. It blocks. Raises `StoreError`."""
        try:
            if self._pending:
                self._write()
        finally:
            self._file.close()
            self._lock.close()
        if self._failure is not None and error is None:
            raise self._failure

    def rows(self, decode: Callable[[bytes], AttemptRow] = decode_row) -> Iterator[AttemptRow]:
        """Yield the rows, the oldest first. It blocks. A line that is none is noted in `damaged`. Raises `StoreError`."""
        self.damaged.clear()
        try:
            with self.path.open("rb") as file:
                for number, line in enumerate(file, 1):
                    try:
                        yield decode(line)
                    except DamagedRow:
                        self.damaged.append(number)
        except OSError as error:
            raise _store_error(self.path, error) from error

    async def append(self, row: AttemptRow) -> None:
        """Write a row to the disk. Always a checkpoint. If cancelled, it is written at the latest when the ledger is closed.

        Raises `StoreError`: the row is not written, and the ledger is as it was before. After that it takes no further rows.
        """
        self._pending.append(f"{encode_row(row)}\n".encode())
        self._queued += 1
        own = self._queued
        # Rows that come while others are written are written together, with one flush.
        async with self._turns:
            if self._written < own:
                # Not abandoned: the row would be on its way without anybody knowing.
                await to_thread(self._write, abandon_on_cancel=False)
        # It may have been written together with others, by another task.
        if self._failure is not None:
            raise self._failure

    async def renew(self) -> None:
        """Keep the lease of the lock, until cancelled. Always a checkpoint."""
        await self._lock.renew()

    def _write(self) -> None:
        count, data = len(self._pending), b"".join(self._pending)
        size = os.fstat(self._file.fileno()).st_size
        try:
            while data and self._failure is None:
                data = data[self._file.write(data) :]
            os.fsync(self._file.fileno())
        except OSError as error:
            self._failure = _store_error(self.path, error)
            # What was written of a line must not be the beginning of the next one.
            with suppress(OSError):
                self._file.truncate(size)
        finally:
            del self._pending[:count]
            self._written += count


def _drop_torn_line(file: BinaryIO) -> None:
    """Cut off what follows the last whole line."""
    end = file.seek(0, os.SEEK_END)
    position = end
    while position > 0:
        start = max(0, position - _BLOCK)
        file.seek(start)
        end_of_line = file.read(position - start).rfind(b"\n")
        if end_of_line >= 0:
            position = start + end_of_line + 1
            break
        position = start
    if position < end:
        file.truncate(position)
        os.fsync(file.fileno())


def _store_error(path: Path, error: OSError) -> StoreError:
    return StoreError(f"{path}: {error.strerror or error}", is_full=error.errno in {errno.ENOSPC, errno.EDQUOT})
