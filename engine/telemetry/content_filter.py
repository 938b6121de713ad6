"""Takes what looks like a key out of text that is exported, and cuts the text to what an attribute may hold."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import Final

import attrs

from engine.process.redact import secrets_in
from engine.process.secret_values import SECRET_VALUES

# In bytes of UTF-8. A collector refuses a batch that is too large, and with it the spans of other turns.
LONGEST: Final = 32 * 1024
_CUT: Final = " […]"
_PLACE: Final = "[secret]"

# Keys by the form that their issuers give them; whatever follows a name such as `api_key`; blocks of private keys.
_KEYS: Final = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
    r"|\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*"
    r"|\b(?:sk|pk|rk|gsk|hf|xai|r8|npm|pypi|glpat|dop|shpat|sq0atp|ya29|AIza|github_pat|gh[pousr]|xox[abeoprs]|lin_api|ntn|phc|tvly|pplx|nvapi)"
    r"[-_.]?[A-Za-z0-9][\w.\-]{14,}"
    r"|\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{12,}"
    r"|(?<=://)[^\s/@:\"']*:[^\s/@\"']+(?=@)"
    r"|\b[A-Fa-f0-9]{32,}\b",
    re.DOTALL,
)
_NAMED: Final = re.compile(
    r"((?:api[\w-]?key|access[\w-]?key|secret|token|passw(?:or)?d|passphrase|pwd|authorization|credential|private[\w-]?key)[\w-]*"
    r"[\\\"']*\s*[:=]\s*[\\\"']*(?:(?:Bearer|Basic|Token)\s+)?)([^\s\\\"',;&]{6,})"
    r"|(\b(?:Bearer|Basic)\s+)([\w.~+/=-]{8,})",
    re.IGNORECASE,
)


@attrs.define(eq=False)
class ContentFilter:
    """Makes text fit for an attribute: without secrets that the process knows, and without what looks like a key."""

    _cached: tuple[tuple[str, str], ...] | None = attrs.field(default=None, init=False)
    _values: int = attrs.field(default=0, init=False)

    def text(self, text: str) -> str:
        """Return *text* without what looks like a key, cut to `LONGEST`."""
        # Cut first, roughly: a result may have megabytes. What is cut in the middle of a key is cut again below.
        text = text[: 2 * LONGEST]
        for secret, shown in self._secrets():
            text = text.replace(secret, shown)
        text = _NAMED.sub(_hide_value, _KEYS.sub(_PLACE, text))
        return cut(text)

    def _secrets(self) -> tuple[tuple[str, str], ...]:
        """Return the secrets of the process, and what is shown instead of each; a longer one first."""
        # Looking for them takes a while. The environment stays as it is, but keys are found when they are first needed.
        if self._cached is None or self._values != len(SECRET_VALUES):
            self._values = len(SECRET_VALUES)
            found = secrets_in(os.environ).items()
            self._cached = tuple((old.decode("utf-8", "replace"), new.decode("utf-8", "replace")) for old, new in found)
        return self._cached


def _hide_value(match: re.Match[str]) -> str:
    return f"{match[1] or match[3]}{_PLACE}"


def cut(text: str) -> str:
    """Return *text* cut to `LONGEST` bytes."""
    data = text.encode("utf-8", "replace")
    if len(data) <= LONGEST:
        return data.decode()
    return data[: LONGEST - len(_CUT.encode())].decode("utf-8", "ignore") + _CUT


def newest_that_fit(texts: Iterable[str]) -> list[str]:
    """Return, of JSON texts that come newest first, as many as fit into an attribute as a list; the oldest one first."""
    kept: list[str] = []
    room = LONGEST - 2
    for text in texts:
        room -= len(text.encode("utf-8", "replace")) + 2
        if room < 0:
            break
        kept.append(text)
    kept.reverse()
    return kept
