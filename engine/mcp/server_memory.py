"""What is known of a server from the last time: its era and its tools, in the cache folder, by the hash of its configuration.

It saves a start the question for the era, which a silent server leaves open for ten seconds, and it lets a session offer
the tools while the server still starts. Nothing in it is trusted: what may be used is decided by the approvals.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Final, Literal, cast

import attrs

from engine.core.value_base import Value
from engine.mcp.tool_definition import ToolDefinition, ToolList
from engine.snapshots.snapshot_dir import write_atomically

_VERSION: Final = 1
_MOST_BYTES: Final = 64_000_000


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Era(Value):
    """How a server speaks: in the old era after a handshake, in the new one without.

    Attributes:
        kind: the era.
        discovered: what a server of the new era has said about itself, as JSON text.
    """

    kind: Literal["legacy", "modern"]
    discovered: str = ""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Remembered(Value):
    """What is known of a server.

    Attributes:
        era: how it speaks; None: not known.
        listed: its tools.
        fresh_until: until when it says they stay the same, in seconds since 1970.
    """

    era: Era | None = None
    listed: ToolList = ToolList()
    fresh_until: float = 0.0


@attrs.frozen
class ServerMemory:
    """The files in a folder. Its methods block."""

    folder: Path

    @classmethod
    def of_user(cls) -> ServerMemory:
        """Return the user's."""
        # Imported here: most engines have no servers.
        from platformdirs import user_cache_path

        return cls(user_cache_path("engine", appauthor=False) / "mcp")

    def load(self, fingerprint: str) -> Remembered:
        """Return what is known of a server; nothing if the file is gone or damaged."""
        path = self._path(fingerprint)
        try:
            if path.stat().st_size > _MOST_BYTES:
                return Remembered()
            return _decode(json.loads(path.read_bytes()))
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            return Remembered()

    def save(self, fingerprint: str, remembered: Remembered) -> None:
        """Write it down. A failure costs only the advantage, so it is ignored."""
        with contextlib.suppress(OSError, ValueError):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            document = {"version": _VERSION, **attrs.asdict(remembered)}
            write_atomically(self._path(fingerprint), json.dumps(document).encode())

    def forget(self, fingerprint: str) -> None:
        """Remove what is known of a server."""
        with contextlib.suppress(OSError):
            self._path(fingerprint).unlink(missing_ok=True)

    def _path(self, fingerprint: str) -> Path:
        return self.folder / f"{fingerprint[:32]}.json"


def _decode(document: object) -> Remembered:
    """Return what a file holds. Raises `ValueError`, `TypeError` or `KeyError` if it is damaged."""
    values = cast("dict[str, object]", document)
    if values["version"] != _VERSION:
        raise ValueError("another version")
    listed = cast("dict[str, list[object]]", values["listed"])
    tools = [ToolDefinition(**cast("dict[str, str]", tool)) for tool in listed["tools"]]
    refused = [cast("list[str]", one) for one in listed["refused"]]
    era = cast("dict[str, str] | None", values["era"])
    return Remembered(
        era=None
        if era is None
        else Era(kind="modern" if era["kind"] == "modern" else "legacy", discovered=era["discovered"]),
        listed=ToolList(
            tools=tuple(tools),
            refused=tuple((name, reason) for name, reason in refused),
            instructions=str(listed["instructions"]),
        ),
        fresh_until=float(cast("float", values["fresh_until"])),
    )
