"""The debug log: what the engine and its libraries report while a command runs, without secrets.

It goes to standard error (`-vv`), to a file that only its owner can read (`--debug-log FILE`), or to both.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, TextIO

import attrs

from engine.cli.terminal.terminal_text import escape_control_chars, escape_on_one_line
from engine.core import events as ev
from engine.core.errors import ConfigError
from engine.journal.state import Resync

_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_EVENTS: Final = logging.getLogger("engine.events")


@contextmanager
def debug_log(file: Path | None, secrets: Mapping[bytes, bytes], *, to_stderr: bool) -> Generator[None]:
    """Log within the block. Raises `ConfigError` if the file can't be written.

    Args:
        file: gets the log; None: none does.
        secrets: what is hidden, and what is shown instead.
        to_stderr: standard error gets the log as well.
    """
    streams: list[TextIO] = [sys.stderr] if to_stderr and sys.stderr is not None else []
    with ExitStack() as stack:
        if file is not None:
            streams.append(stack.enter_context(_open(file)))
        if streams:
            stack.enter_context(_handlers(streams, secrets))
        yield


def log_event(event: ev.Durable | ev.Live | Resync) -> None:
    """Log an event of the turn, unless it is a piece of one that comes later. Not a checkpoint."""
    if not _EVENTS.isEnabledFor(logging.DEBUG) or isinstance(event, Resync):
        return
    if not isinstance(event, ev.DELTA_TYPES):
        # Imported here: cattrs is needed for JSON only.
        from engine.journal.codec import encode_event

        _EVENTS.debug("%s", encode_event(event))


def _open(file: Path) -> TextIO:
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        # It may have been there, readable by all.
        os.fchmod(descriptor, 0o600)
    except OSError as error:
        raise ConfigError(
            f"--debug-log: can't write {escape_on_one_line(str(file))}: {error.strerror}\nNext: choose another file"
        ) from error
    return os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace")


@contextmanager
def _handlers(streams: list[TextIO], secrets: Mapping[bytes, bytes]) -> Generator[None]:
    root, before = logging.getLogger(), logging.getLogger().level
    handlers = [_Handler(stream) for stream in streams]
    for handler in handlers:
        handler.setFormatter(_Redacting(secrets))
        root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    logging.captureWarnings(capture=True)
    try:
        yield
    finally:
        logging.captureWarnings(capture=False)
        root.setLevel(before)
        for handler in handlers:
            root.removeHandler(handler)


class _Handler(logging.StreamHandler[TextIO]):
    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the name is the library's
        """Ignore it: a full disk, or a reader that has gone, must not end the run."""


@attrs.define(eq=False, init=False)
class _Redacting(logging.Formatter):
    """Formats a record without secrets, and without what would control a terminal."""

    _redact: Callable[[str], str]

    def __init__(self, secrets: Mapping[bytes, bytes]) -> None:
        super().__init__(_FORMAT)
        texts = [(secret.decode(errors="surrogateescape"), shown.decode()) for secret, shown in secrets.items()]

        def redact(text: str) -> str:
            for secret, shown in texts:
                text = text.replace(secret, shown)
            return text

        self._redact = redact

    def format(self, record: logging.LogRecord) -> str:
        return escape_control_chars(self._redact(super().format(record)))
