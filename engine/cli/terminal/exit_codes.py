"""The exit codes of all commands, and the errors that each stands for.

0 done; 1 failed, or the result is negative; 2 wrong usage of flags or configuration;
128 plus the signal's number after a signal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from engine.cli.terminal.standard_streams import print_error
from engine.cli.terminal.terminal_text import one_line
from engine.core.errors import (
    ConfigError,
    Draining,
    EngineError,
    MessageNotFound,
    ServerOffline,
    SessionElsewhere,
    SessionError,
    SessionNotFound,
    SnapshotError,
    StoreError,
    Unauthorized,
)

DONE: Final = 0
FAILED: Final = 1
USAGE_ERROR: Final = 2
# What a shell reports for a program that SIGPIPE ended: 128 + 13.
BROKEN_PIPE: Final = 141

# Enough for the names of some files that could not be restored.
_MAX_LINE_CHARS: Final = 4_000
NO_HINTS: Final[Mapping[type[EngineError], str]] = MappingProxyType({})


def run_command(name: str, run: Callable[[], int], *, hints: Mapping[type[EngineError], str] = NO_HINTS) -> int:
    """Run the command *name*, report its errors on standard error, and return the exit code.

    Args:
        name: the command, without `engine`.
        run: parses the arguments and does the work.
        hints: a further line for some errors.
    """
    try:
        return run()
    except SystemExit as error:  # argparse has printed the error or the help
        return error.code if isinstance(error.code, int) else USAGE_ERROR
    except (ConfigError, SessionNotFound, MessageNotFound, SessionElsewhere) as error:
        _report(name, error, hints)
        return USAGE_ERROR
    except (StoreError, SessionError, SnapshotError, ServerOffline, Unauthorized, Draining) as error:
        _report(name, error, hints)
        return FAILED


def _report(name: str, error: EngineError, hints: Mapping[type[EngineError], str]) -> None:
    # A message may quote a file or a database: neither may control the terminal.
    lines = [one_line(line, _MAX_LINE_CHARS) for line in str(error).splitlines()]
    lines += [hint for kind, hint in hints.items() if isinstance(error, kind)]
    print_error(f"engine {name}: " + "\n".join(lines))
