"""Who has connected, was refused, answered, cancelled and deleted: a line of JSON for each, without any text of a session.

The lines go to the logger `engine.control.audit`, at the level INFO, which go nowhere unless the host asks for them.
"""

from __future__ import annotations

import json
import logging
import logging.handlers
import os
import time
from io import FileIO, TextIOWrapper
from pathlib import Path
from typing import Final

from engine.core.errors import ConfigError

LOGGER: Final = logging.getLogger("engine.control.audit")


def audit(action: str, *, client: str = "", token: str = "", session: str = "", **facts: str) -> None:
    """Write a line. Not a checkpoint.

    Args:
        action: what was done.
        client: the name of the client's program.
        token: the name of the token it has used.
        session: the session.
        facts: what else there is to say; no text of a session, and no secret.
    """
    if not LOGGER.isEnabledFor(logging.INFO):
        return
    every = {"time": round(time.time(), 3), "action": action, "client": client, "token": token, "session": session}
    LOGGER.info("%s", json.dumps({**every, **facts}))


def write_audit(place: str) -> None:
    """Write the lines to a file that is ours alone, or to standard error (`-`). It blocks. Raises `ConfigError`.

    A file that was renamed or removed is made again, so that it can be rotated.
    """
    handler: logging.Handler
    if place == "-":
        handler = logging.StreamHandler()
    else:
        try:
            handler = _PrivateFile(Path(place))
        except OSError as error:
            raise ConfigError(f"the audit file {place} can't be written: {error.strerror}") from error
    handler.setFormatter(logging.Formatter("%(message)s"))
    LOGGER.addHandler(handler)
    LOGGER.setLevel(logging.INFO)
    LOGGER.propagate = False


class _PrivateFile(logging.handlers.WatchedFileHandler):
    """A file that others can't read, also after it was rotated."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, encoding="utf-8")

    def _open(self) -> TextIOWrapper:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        return TextIOWrapper(FileIO(os.open(self.baseFilename, flags, 0o600), "a"), encoding="utf-8")
