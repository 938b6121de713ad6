"""`Uploads`: files that clients have sent ahead, to be attached to prompts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

import attrs

from engine.control.credentials import new_secret
from engine.control.protocol.error_kinds import Refusal

KEPT_SECONDS: Final = 3600.0
# Of all clients together: they are in memory.
MOST_BYTES: Final = 256 << 20


@attrs.frozen
class _Upload:
    data: bytes = attrs.field(repr=False)
    until: float


@final
class Uploads:
    """Uploads by reference, for an hour."""

    def __init__(self, *, now: Callable[[], float], random: Callable[[int], bytes]) -> None:
        """Make it empty.

        Args:
            now: the time in seconds, of a clock that does not go back.
            random: returns so many random bytes.
        """
        self._now = now
        self._random = random
        self._uploads: dict[str, _Upload] = {}

    def add(self, data: bytes) -> str:
        """Keep *data*; return its reference. Raises `Refusal` if there are too many."""
        self._drop_old()
        if sum(len(each.data) for each in self._uploads.values()) + len(data) > MOST_BYTES:
            raise Refusal("too_large", "too much was uploaded: try again later", limit=MOST_BYTES)
        name = new_secret(self._random)
        self._uploads[name] = _Upload(data, self._now() + KEPT_SECONDS)
        return name

    def data(self, name: str) -> bytes:
        """Return an upload. Raises `Refusal`."""
        self._drop_old()
        upload = self._uploads.get(name)
        if upload is None:
            raise Refusal("not_found", "there is no such upload, or it is too old: send it again", what="upload")
        return upload.data

    def _drop_old(self) -> None:
        now = self._now()
        self._uploads = {name: each for name, each in self._uploads.items() if each.until > now}
