"""Sorts what Ray raises. Its words name addresses, so that only ours are passed on."""

from __future__ import annotations

import re
from typing import Final

from engine.ray_cluster.client_lines import ClusterRefused, WorkMissing
from engine.ray_cluster.ray_api import RayErrors

_VERSIONS: Final = re.compile(r"Ray: (?P<ray>[\w.+]+)\s+Python: (?P<python>[\w.+]+)")
_ADDRESS: Final = re.compile(
    r"\b[a-z][a-z0-9+.-]*://\S+"  # URLs
    r"|\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b"  # IPv4
    r"|\[[0-9a-fA-F:]+\](?::\d+)?|\b[0-9a-fA-F]{1,4}(?:::?[0-9a-fA-F]{1,4}){2,7}\b"  # IPv6
    r"|\b[\w.-]*[A-Za-z][\w.-]*:\d{2,5}\b"  # names with a port
    r"|\b[0-9a-fA-F]{32,}\b"  # tokens, and ids of nodes
)
_MAX_CHARS: Final = 500


def without_addresses(text: str) -> str:
    """Return a text without what could be an address or a token of the cluster."""
    return _ADDRESS.sub("…", text)[:_MAX_CHARS]


def refusal_of(error: BaseException, exceptions: RayErrors) -> ClusterRefused:
    """Return why Ray did not connect."""
    versions = _VERSIONS.findall(str(error))
    if isinstance(error, exceptions.AuthenticationError) or "authentication" in str(error).lower():
        return ClusterRefused(
            kind="token", message="the cluster does not accept the token of this machine, or there is none"
        )
    if len(versions) >= 2:
        (ray, python), (own_ray, own_python) = versions[:2]
        return ClusterRefused(
            kind="version",
            message=f"the cluster has Ray {ray} with Python {python}, this machine has Ray {own_ray} with Python {own_python}",
        )
    if isinstance(error, ConnectionError | TimeoutError):
        return ClusterRefused(kind="unreachable", message="the cluster can't be reached")
    return ClusterRefused(
        kind="failed", message=f"Ray does not start: {type(error).__name__}: {without_addresses(str(error))}"
    )


def loss_of(key: str, error: BaseException, exceptions: RayErrors) -> WorkMissing:
    """Return why a task has no result."""
    if isinstance(error, exceptions.TaskCancelledError):
        return WorkMissing(key=key, kind="cancelled", message="the task was cancelled in the cluster")
    if isinstance(error, exceptions.OutOfMemoryError):
        return WorkMissing(key=key, kind="memory", message="the machine of the worker ran out of memory: see --memory")
    if isinstance(error, exceptions.RayTaskError):
        # An ordinary error of an attempt is in its row: this is a fault of the engine, or of its installation.
        cause = getattr(error, "cause", error)
        return WorkMissing(key=key, kind="failed", message=f"{type(cause).__name__}: {without_addresses(str(cause))}")
    return WorkMissing(key=key, kind="worker", message="the process of the worker was killed, or its machine is gone")
