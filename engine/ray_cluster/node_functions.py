"""The function that asks a machine of a cluster what it has: it may have no engine, or another one.

It is made inside of another function: Ray then sends its code, and not the name of a module. So it uses nothing of ours.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping


def version_probe() -> Callable[[], Mapping[str, str]]:
    """Return a function that says what is installed on the machine where it runs."""

    def probe() -> Mapping[str, str]:
        import socket

        try:
            from engine.core.version import __version__ as version
        except ImportError:
            version = ""
        return {"host": socket.gethostname(), "engine": version}

    return probe
