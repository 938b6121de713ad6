"""`engine --version --json`: the version and what it promises, for programs."""

from __future__ import annotations

import json
import platform
import sys

from engine.cli.turn.record_types import SCHEMA
from engine.core.version import __version__


def version_record() -> str:
    """Return one JSON object, on a line."""
    record = {
        "name": "engine",
        "version": __version__,
        # Of the objects that `engine run --output json` prints: fields are only added while it stays.
        "record_schema": SCHEMA,
        "python": platform.python_version(),
        "platform": sys.platform,
    }
    return f"{json.dumps(record)}\n"
