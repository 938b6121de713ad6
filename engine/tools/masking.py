"""Hides the secrets of our environment in what commands print, before anybody sees or keeps it.

A command runs in the user's environment, with the keys that are in it, and may print them:
`env` does. Nobody needs to read them there: not the model, its host, nor who opens the
session years later. So the values of variables that hold secrets by their names are hidden.
Another spelling of one (base64, one character in a line) is not known again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

import attrs

# Names by which variables say that they hold a secret; `…_KEY` alone may be the path of one.
_NAME: Final = re.compile(
    r"(?:\A|_)(?:API_?KEY|ACCESS_KEY|AUTH|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)\Z", re.IGNORECASE
)
# Shorter ones may be a word of any text, and are no keys of any host.
_SHORTEST: Final = 16
_NO_SECRET: Final = re.compile(r"\A(?:[~./]|https?://)|\s")


def secrets_in(environment: Mapping[str, str]) -> dict[bytes, bytes]:
    """Return what is to be hidden, and what is shown instead; a value that holds another before that."""
    found = {
        value.encode("utf-8", "surrogateescape"): f"[the value of {name}]".encode()
        for name, value in environment.items()
        if _NAME.search(name) and len(value) >= _SHORTEST and not _NO_SECRET.search(value)
    }
    return dict(sorted(found.items(), key=lambda item: -len(item[0])))


@attrs.define(eq=False)
class Mask:
    """Stands between a command and who takes its output. Nothing here is a checkpoint.

    A secret that comes in two chunks is found as well: an end of a chunk that may be the
    beginning of one is held back until more has come, or until `finish`.
    """

    _take: Callable[[bytes], None]
    _secrets: Mapping[bytes, bytes]
    _held: bytes = attrs.field(default=b"", init=False)

    def feed(self, chunk: bytes) -> None:
        """Take more output."""
        if not self._secrets:
            self._take(chunk)
            return
        whole = self._held + chunk
        for secret, shown in self._secrets.items():
            if secret in whole:
                whole = whole.replace(secret, shown)
        keep = max(_overlap(whole, secret) for secret in self._secrets)
        self._held = whole[len(whole) - keep :]
        if len(whole) > keep:
            self._take(whole[: len(whole) - keep])

    def finish(self) -> None:
        """No more will come: hand over what was held back."""
        held, self._held = self._held, b""
        if held:
            self._take(held)


def _overlap(text: bytes, secret: bytes) -> int:
    """Return how many bytes at the end of *text* are the beginning of *secret*."""
    start = len(text) - min(len(text), len(secret) - 1)
    while (start := text.find(secret[:1], start)) >= 0:
        if secret.startswith(text[start:]):
            return len(text) - start
        start += 1
    return 0
