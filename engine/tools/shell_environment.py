"""How a command line is run: by bash, in surroundings in which nothing waits for a person."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from signal import Signals
from typing import TYPE_CHECKING, Final

from engine.process.crash_cleanup import owned

if TYPE_CHECKING:
    from engine.process.process import FinishedProcess

# Added to the environment of the engine.
ENVIRONMENT: Final[Mapping[str, str]] = {
    "TERM": "dumb",
    "NO_COLOR": "1",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    # An editor would wait for ever. `true` takes the text that is proposed, if there is one.
    "EDITOR": "true",
    "VISUAL": "true",
    "GIT_EDITOR": "true",
    "GIT_TERMINAL_PROMPT": "0",
    "SSH_ASKPASS_REQUIRE": "never",
    # A status that is looked at must not stand in the way of a commit that the user makes meanwhile.
    "GIT_OPTIONAL_LOCKS": "0",
    # What is printed is seen now, and not when there are 8 KiB of it.
    "PYTHONUNBUFFERED": "1",
}

_MOST_NAMED: Final = 20
_HOOK: Final = "hook-"


def argv(command: str) -> list[str]:
    """Return what runs a command line."""
    return ["bash", "-c", "--", command]  # so that one which begins with a dash is no option of bash


def environment() -> dict[str, str]:
    """Return the environment in which it runs."""
    return {**os.environ, **ENVIRONMENT}


def marker(session_id: str, call_id: str = "") -> str:
    """Return the marker of a call's processes, by which they are found wherever they went.

    Without a call, it is what the markers of all the session's calls begin with: so the processes of a session
    are found by `find_marked(lambda mark: mark.startswith(marker(session_id)))`. That of a call ends with its owner,
    so that the next engine finds what was left by one that crashed.
    """
    name = f"{session_id}/{call_id}".replace(":", "_")
    return owned(name) if call_id else name


def hook_marker(session_id: str) -> str:
    """Return a new marker for a hook's processes: found with those of the session's calls, and distinguished from them."""
    return marker(session_id, f"{_HOOK}{secrets.token_hex(8)}")


def is_of_hook(mark: str) -> bool:
    """Tell whether a marker is a hook's."""
    return mark.partition("/")[2].startswith(_HOOK)


def ending_of(finished: FinishedProcess, timeout: float = 0.0) -> str:
    """Say in a few words how a command ended."""
    if finished.timed_out:
        return f"ended at its timeout of {timeout:g} s"
    if finished.cause == "cancel":
        return "stopped"
    if finished.signal is not None:
        return f"killed by {_signal_name(finished.signal)}"
    return f"exit code {finished.exit_code}"


def survivors_of(finished: FinishedProcess) -> str:
    """Say who could not be ended; of very many, the first."""
    shown = [str(process.pid) for process in finished.survivors[:_MOST_NAMED]]
    left_out = len(finished.survivors) - len(shown)
    pids = ", ".join(shown) + (f" and {left_out:,} more" if left_out else "") or "unknown"
    return f"[some of its processes could not be ended and may still run; pids: {pids}]"


def _signal_name(number: int) -> str:
    try:
        return Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"
