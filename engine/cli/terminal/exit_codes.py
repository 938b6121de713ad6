"""The exit codes of all commands, and the errors that each stands for.

0 done; 1 failed, or the result is negative; 2 wrong usage of flags or configuration;
128 plus the signal's number after a signal. `engine run` has further ones: `STOP_CODES` by stop reason, `MEANINGS` of all.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from engine.cli.terminal.standard_streams import STDOUT_CLOSED, print_error
from engine.cli.terminal.terminal_text import one_line
from engine.core.errors import (
    ConfigError,
    Draining,
    EngineError,
    JournalCorrupt,
    MessageNotFound,
    MissingKey,
    ServerOffline,
    SessionElsewhere,
    SessionError,
    SessionNotFound,
    SnapshotError,
    StoreCorrupt,
    StoreError,
    StoreMismatch,
    Unauthorized,
)

if TYPE_CHECKING:
    from engine.core.events import StopReason

DONE: Final = 0
FAILED: Final = 1
USAGE_ERROR: Final = 2
WITHHELD: Final = 3
NO_KEY: Final = 6
NO_FIT: Final = 10
ELSEWHERE: Final = 11
INTERNAL: Final = 70
OUTPUT_FAILED: Final = 74
# What a shell reports for a program that SIGPIPE ended: 128 + 13.
BROKEN_PIPE: Final = 141

STOP_CODES: Final[Mapping[StopReason, int]] = {
    "completed": DONE,
    "aborted": FAILED,
    "doom_loop": FAILED,
    "diminishing": FAILED,
    "hook_stopped": FAILED,
    "stop_hook_limit": FAILED,
    "permission_rejected": WITHHELD,
    "step_limit": 4,
    "token_budget": 4,
    "cost_limit": 4,
    "deadline": 4,
    "prompt_too_long": 5,
    "blocking_limit": 5,
    "compaction_ineffective": 5,
    "output_limit": 5,
    "auth_failed": NO_KEY,
    "rate_limited": 7,
    "provider_error": 8,
    "incomplete": 8,
    "refusal": 9,
    "content_filter": 9,
    "internal_error": INTERNAL,
}
# What a user reads about the codes of `engine run`: in its help, and in the reference.
MEANINGS: Final[Mapping[int, str]] = {
    DONE: "completed, and no call was denied for lack of a user to ask",
    FAILED: "ended without completing: the model was going in circles, or a hook stopped it",
    USAGE_ERROR: "wrong usage or configuration, or an unknown session or file; nothing was sent",
    WITHHELD: "a call was denied for lack of a user to ask, or the user rejected one (--deny-ok: 0 if it completed)",
    4: "a limit was reached: requests, tokens, cost or time",
    5: "the conversation or the answer is too long for the model",
    NO_KEY: "no API key, or the provider rejected it",
    7: "rate limited",
    8: "the provider failed, or its answer was incomplete",
    9: "the model or its provider refused",
    NO_FIT: "the answer does not fit the schema",
    ELSEWHERE: "the session is open in another process",
    INTERNAL: "internal error",
    OUTPUT_FAILED: "the output can't be written, or the sessions can't be read or written",
    129: "SIGHUP: the turn was cancelled and saved",
    130: "Ctrl-C: the turn was cancelled and saved",
    BROKEN_PIPE: "the reader of standard output has gone",
    143: "SIGTERM: the turn was cancelled and saved",
}

# What to do: the last line of each error.
ADVICE: Final = "Next: "
# Enough for the names of some files that could not be restored.
_MAX_LINE_CHARS: Final = 4_000
NO_HINTS: Final[Mapping[type[EngineError], str]] = MappingProxyType({})


class OutputClosed(EngineError):
    """Standard output is closed (`>&-`): what the command is for would be lost."""


def check_output() -> None:
    """Raise `OutputClosed` if standard output is closed."""
    if sys.stdout is None:
        raise OutputClosed(STDOUT_CLOSED.removeprefix("engine: "))


def run_command(
    name: str,
    run: Callable[[], int],
    *,
    hints: Mapping[type[EngineError], str] = NO_HINTS,
    explain: Callable[[EngineError], Sequence[str]] = lambda _error: (),
    on_error: Callable[[EngineError, int, Sequence[str]], None] = lambda _error, _code, _lines: None,
) -> int:
    """Run the command *name*, report its errors on standard error, and return the exit code.

    Args:
        name: the command, without `engine`.
        run: parses the arguments and does the work.
        hints: a further line for some errors.
        explain: returns the lines about an error, in place of its own message and the hints; none: they stand.
        on_error: gets the error, the exit code and the lines as well.
    """
    try:
        return run()
    except SystemExit as error:  # argparse has printed the error or the help
        return error.code if isinstance(error.code, int) else USAGE_ERROR
    except EngineError as error:
        code = _error_code(error)
        if code is None:
            raise
        lines = explain(error) or [*str(error).splitlines(), *_hints_of(error, hints)]
        if not any(line.startswith(ADVICE) for line in lines):
            lines = [*lines, f"{ADVICE}{_usual_advice(name, error)}"]
        # A message may quote a file or a database: neither may control the terminal.
        print_error(f"engine {name}: " + "\n".join(one_line(line, _MAX_LINE_CHARS) for line in lines))
        on_error(error, code, lines)
        return code


def report_crash(name: str, error: Exception) -> int:
    """Print what is needed to report a fault of the engine; return the exit code."""
    # Imported here: no command should need it.
    import traceback

    # The lines of our own code are what a report needs; a message may hold what a file or a model says.
    trace = "".join(traceback.format_exception(error))
    print_error("\n".join(one_line(line, _MAX_LINE_CHARS) for line in trace.splitlines()))
    print_error(f"engine {name}: " + "\n".join(crash_lines(error)))
    return INTERNAL


def crash_lines(error: Exception) -> Sequence[str]:
    """Return what a user reads about a fault of the engine."""
    from engine.core.exception_groups import error_number

    return (f"Internal error {error_number(error)}", f"{ADVICE}engine doctor --bundle")


def _error_code(error: EngineError) -> int | None:
    """Return the exit code of an error that the user can do something about; None: it is a fault."""
    match error:
        case SessionElsewhere():
            return ELSEWHERE
        case MissingKey():
            return NO_KEY
        # A store that is another program's file, or a newer engine's, was named in error.
        case ConfigError() | SessionNotFound() | MessageNotFound() | StoreMismatch():
            return USAGE_ERROR
        case OutputClosed() | StoreError() | JournalCorrupt():
            return OUTPUT_FAILED
        case SessionError() | SnapshotError() | ServerOffline() | Unauthorized() | Draining():
            return FAILED
        case _:
            return None


# Of libraries, whose errors are read by programs as well.
_ADVICE_BY_WORDS: Final = (
    (re.compile(r"^the configuration file .* does not exist$"), "name another file, or leave it out"),
    (re.compile(r"^can't read the configuration file "), "engine doctor"),
    (re.compile(r"^(the )?(configuration file )?/\S+\.toml\b"), "engine config check"),
    (re.compile(r"^the folder for tokens and sockets "), "make it writable, or set XDG_STATE_HOME to another folder"),
    (re.compile(r"^unknown key "), "engine schema config"),
    (re.compile(r"^unknown agent "), "engine agents"),
    (re.compile(r"^--rule "), "add --rule 'allow bash git status'"),
)


def _usual_advice(name: str, error: EngineError) -> str:
    """Return what to do about an error that does not say it itself."""
    match error:
        case SessionNotFound():
            return "engine sessions list --all"
        case SessionElsewhere():
            return "engine attach"
        case MessageNotFound():
            return "engine sessions show"
        case JournalCorrupt():
            return "engine sessions repair"
        case ServerOffline():
            return "engine serve"
        case StoreMismatch():
            return "choose another file with --store"
        case StoreError():
            return "engine doctor"
        case _:
            found = (advice for pattern, advice in _ADVICE_BY_WORDS if pattern.search(str(error)))
            return next(found, f"engine help {name}")


def _hints_of(error: EngineError, hints: Mapping[type[EngineError], str]) -> Iterator[str]:
    damaged = re.match(r"the store (.+) is damaged ", str(error)) if isinstance(error, StoreCorrupt) else None
    if damaged is not None:
        yield f"{ADVICE}engine sessions repair {shlex.quote(damaged[1])}"
    # Further files may fail, which another store does not help.
    is_elsewhere = isinstance(error, StoreError) and not str(error).startswith("the store ")
    for kind, hint in hints.items():
        if isinstance(error, kind) and not is_elsewhere:
            yield from hint.splitlines() if damaged is None else hint.replace(ADVICE, "or: ").splitlines()
