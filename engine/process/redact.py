"""Hides our secrets in the output of commands, before it is shown or stored.

A command does not get the secrets of our environment (`secret_names`), but it may get one that the
configuration passes, or find one elsewhere, and print it. It is not needed there: neither by the
model, nor its host, nor by readers of the session years later. So the values of variables that hold
secrets are hidden. Another spelling of a secret (base64, one character a line) is not recognized.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import attrs

from engine.core.lazy import regex
from engine.process.secret_names import SecretVariables, is_place
from engine.process.secret_values import SECRET_VALUES

_PASSWORD: Final = regex(r"(?:PASSWORD|PASSWD|PASSPHRASE|PASS|_PWD)\Z", re.IGNORECASE)
# Shorter values may be words of any text, and no host has shorter keys. Passwords are shorter, but must mix letters and digits.
_SHORTEST: Final = 16
_SHORTEST_PASSWORD: Final = 8
_MIXED: Final = regex(r"(?=.*[^\W\d_])(?=.*\d)", re.DOTALL)


def secrets_in(environment: Mapping[str, str], variables: SecretVariables | None = None) -> dict[bytes, bytes]:
    """Return what is to be hidden, and what is shown instead; a value that holds another before that. It looks for paths.

    That is secrets of the environment, and those that the process got elsewhere.

    *variables* says which of the environment hold secrets; None: by their names.
    """
    variables = variables or SecretVariables()
    secrets = {
        secret.encode("utf-8", "surrogateescape"): f"[the value of {name}]".encode()
        for name, value in environment.items()
        if variables.holds(name)
        for secret in _secrets_of(value, is_password=_PASSWORD.search(name) is not None)
    }
    secrets |= {
        value.encode("utf-8", "surrogateescape"): f"[{name}]".encode()
        for name, value in SECRET_VALUES.items()
        if len(value) >= _SHORTEST
    }
    return dict(sorted(secrets.items(), key=lambda item: -len(item[0])))


def _secrets_of(value: str, *, is_password: bool) -> Iterator[str]:
    words = value.split()
    if len(words) > 1 and not is_password:
        # `Bearer …`, a key over several lines: what of it is no word.
        yield from (word for word in words if len(word) >= _SHORTEST and _MIXED.match(word))
        return
    secret = value.strip()
    is_long = len(secret) >= _SHORTEST
    is_strong = is_password and len(secret) >= _SHORTEST_PASSWORD and _MIXED.match(secret) is not None
    if (is_long or is_strong) and not is_place(secret):
        yield secret


@attrs.define(eq=False, repr=False)
class Mask:
    """A filter for a command's output, in front of the callback that takes it. Nothing here is a checkpoint.

    A secret that comes in two chunks is found as well: an end of a chunk that may be the
    beginning of one is held back until more has come, or until `finish`. Of two that begin
    at the same place the longer one is hidden. So it makes no difference where chunks end.
    """

    _take: Callable[[bytes], None]
    _secrets: Mapping[bytes, bytes]
    _held: bytes = attrs.field(default=b"", init=False)
    _any: re.Pattern[bytes] | None = attrs.field(default=None, init=False)

    def feed(self, chunk: bytes) -> None:
        """Take more output."""
        if not self._secrets:
            self._take(chunk)
            return
        whole = self._held + chunk
        shown = b""
        # `in` is much faster than the regular expression, and most output contains no secret.
        if any(secret in whole for secret in self._secrets):
            shown, whole = self._hidden(whole, until_end=False)
        keep = self._beginning(whole)
        self._held = whole[len(whole) - keep :]
        if shown := shown + whole[: len(whole) - keep]:
            self._take(shown)

    def finish(self) -> None:
        """Hand over what was held back: there is no more output."""
        held, self._held = self._held, b""
        if held:
            self._take(b"".join(self._hidden(held, until_end=True)))

    def _hidden(self, whole: bytes, *, until_end: bool) -> tuple[bytes, bytes]:
        """Return the first part of *whole* with its secrets hidden, and the rest, which may hold only the beginning of one."""
        if self._any is None:
            self._any = re.compile(b"|".join(map(re.escape, sorted(self._secrets, key=len, reverse=True))))
        pieces: list[bytes] = []
        end = len(whole) if until_end else len(whole) - self._beginning(whole)
        at = 0
        for match in self._any.finditer(whole):
            if match.start() >= end:
                break  # it may be a part of a longer one that has come in part
            pieces += [whole[at : match.start()], self._secrets[match[0]]]
            at = match.end()
            if at > end:
                end = len(whole) - self._beginning(whole[at:])
        return b"".join(pieces), whole[at:]

    def _beginning(self, text: bytes) -> int:
        """Return how many bytes at the end of *text* may be the beginning of a secret."""
        return max(_overlap(text, secret) for secret in self._secrets)


def _overlap(text: bytes, secret: bytes) -> int:
    """Return how many bytes at the end of *text* are the beginning of *secret*."""
    start = len(text) - min(len(text), len(secret) - 1)
    while (start := text.find(secret[:1], start)) >= 0:
        if secret.startswith(text[start:]):
            return len(text) - start
        start += 1
    return 0
