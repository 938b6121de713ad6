"""How command lines are run: by bash, in an environment in which nothing waits for a person."""

from __future__ import annotations

import os
from collections.abc import Mapping
from secrets import token_hex
from signal import Signals
from typing import TYPE_CHECKING, Final

from engine.journal.trace_context import trace_environment
from engine.process.crash_cleanup import owned
from engine.process.secret_names import SecretVariables

if TYPE_CHECKING:
    from engine.process.run_tree import FinishedProcess

# Added to the environment of the engine.
ENVIRONMENT: Final[Mapping[str, str]] = {
    "TERM": "dumb",
    "NO_COLOR": "1",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    # An editor would wait for ever. `true` accepts the proposed text, such as a merge commit's.
    "EDITOR": "true",
    "VISUAL": "true",
    "GIT_EDITOR": "true",
    # Fail instead of asking for a password on a terminal that no one sees.
    "GIT_TERMINAL_PROMPT": "0",
    "SSH_ASKPASS_REQUIRE": "never",
    # `git status` takes a lock to refresh the index: a commit by the user at that moment would fail.
    "GIT_OPTIONAL_LOCKS": "0",
    # Show output as it is printed. Python buffers 8 KiB when it writes to a pipe.
    "PYTHONUNBUFFERED": "1",
}

# A fork bomb may leave thousands.
_MOST_NAMED: Final = 20
_HOOK: Final = "hook-"


def argv(command: str) -> list[str]:
    """Return the argument list that runs a command line."""
    return ["bash", "-c", "--", command]  # `--`, so that a command that begins with a dash is no option of bash


def environment(secrets: SecretVariables) -> dict[str, str]:
    """Return the environment of commands: the engine's without its *secrets*, and the call's trace if it is passed on."""
    return {**secrets.without(os.environ), **ENVIRONMENT, **trace_environment()}


def marker(session_id: str, call_id: str = "") -> str:
    """Return the marker of a call's processes, an environment variable by which they are found even if they detach.

    Without *call_id*, it is the common prefix of the markers of all calls of the session: to find the session's
    processes, use `find_marked(lambda mark: mark.startswith(marker(session_id)))`. A call's marker ends with the engine
    that owns it, so that a later engine finds what a crashed one has left.
    """
    name = f"{session_id}/{call_id}".replace(":", "_")
    return owned(name) if call_id else name


def hook_marker(session_id: str) -> str:
    """Return a new marker for a hook's processes: with the session's prefix, but different from those of calls."""
    return marker(session_id, f"{_HOOK}{token_hex(8)}")


def is_of_hook(mark: str) -> bool:
    """Return whether a marker is a hook's."""
    return mark.partition("/")[2].startswith(_HOOK)


def ending_of(finished: FinishedProcess, timeout: float = 0.0) -> str:
    """Return how a command ended, in a few words."""
    if finished.timed_out:
        return f"ended at its timeout of {timeout:g} s"
    if finished.exceeded:
        return f"ended: it took more than it may, {finished.exceeded}"
    if finished.cause == "cancel":
        return "stopped"
    if finished.signal is not None:
        return f"killed by {_signal_name(finished.signal)}"
    return f"exit code {finished.exit_code}"


def survivors_of(finished: FinishedProcess) -> str:
    """Return a note on processes that could not be ended; of very many, the first."""
    shown = [str(process.pid) for process in finished.survivors[:_MOST_NAMED]]
    left_out = len(finished.survivors) - len(shown)
    pids = ", ".join(shown) + (f" and {left_out:,} more" if left_out else "") or "unknown"
    return f"[some of its processes could not be ended and may still run; pids: {pids}]"


def _signal_name(number: int) -> str:
    try:
        return Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"
