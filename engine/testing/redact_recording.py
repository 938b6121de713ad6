"""Remove secrets from recordings.

Only headers and query parameters that are known to be harmless are recorded. In the
rest, every known secret is replaced, in each form that it may have there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

import attrs

from engine.core.errors import ConfigError

_PLACE = "[secret]"
_HARMLESS_HEADERS = re.compile(
    r"content-type|retry-after(-ms)?|x-should-retry|(x-|x-amzn-)?request-?id|x-amzn-errortype"
    r"|(x-|anthropic-)ratelimit-[\w-]+"
)
_HARMLESS_QUERY = {"alt", "api-version", "beta"}
_CREDENTIALS = re.compile(r"auth|key|token|secret|cookie|credential|signature", re.IGNORECASE)
_MEMBER = re.compile(rb'"([^"\\]*)"\s*:\s*"((?:[^"\\]|\\.)*)"', re.DOTALL)
# A header with such a name may hold a short word or number: replacing it in every text would spoil the recording.
_SHORTEST_GUESS = 8


@attrs.frozen
class Scrubber:
    """Knows the secrets of an exchange."""

    _forms: tuple[str, ...] = attrs.field(repr=False)

    @classmethod
    def of(cls, secrets: Iterable[str], url: str, headers: Iterable[tuple[str, str]]) -> Scrubber:
        """Return a scrubber for *secrets* and for values that look secret in a request's *url* and *headers*."""
        guesses = [*_values(url), *(word for name, value in headers for word in _words(name, value))]
        secrets_to_hide = {*secrets, *(guess for guess in guesses if len(guess) >= _SHORTEST_GUESS)} - {""}
        forms = {form for secret in secrets_to_hide for form in _forms_of(secret)}
        # Longest first: a form may contain another one.
        return cls(tuple(sorted(forms, key=len, reverse=True)))

    def text(self, text: str) -> str:
        """Return *text* without secrets."""
        for form in self._forms:
            text = text.replace(form, _PLACE)
        return text

    def data(self, data: bytes) -> bytes:
        """Return *data* without secrets, its other bytes unchanged."""
        for form in self._forms:
            data = data.replace(form.encode(), _PLACE.encode())
        return data

    def answer(self, body: bytes, *, is_binary: bool) -> bytes:
        """Return the body of an answer without secrets; raise `ConfigError` if they can't be removed.

        The frames of a binary stream have checksums, and a stream may split a secret into
        pieces that are harmless by themselves.
        """
        clean = self.data(body)
        if is_binary and clean != body:
            raise ConfigError("the host's answer repeats a secret in binary frames: it can't be recorded")
        long = [form for form in self._forms if len(form) >= _SHORTEST_GUESS]  # a short one occurs by chance
        if any(form in spelled for spelled in _spelled(clean) for form in long):
            raise ConfigError("the host's answer spells a secret in several pieces: it can't be recorded")
        return clean

    def headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        """Return the harmless headers of an answer, without secrets."""
        return {
            name.lower(): self.text(value)
            for name, value in headers.items()
            if _HARMLESS_HEADERS.fullmatch(name.lower())
        }

    def url(self, url: str) -> str:
        """Return *url* without user name, password and secret query parameters."""
        parts = urlsplit(url)
        query = [(n, v if n in _HARMLESS_QUERY else _PLACE) for n, v in parse_qsl(parts.query, keep_blank_values=True)]
        place = parts.netloc.rpartition("@")[2]
        return self.text(urlunsplit((parts.scheme, place, parts.path, urlencode(query, safe="[]"), "")))


def _values(url: str) -> list[str]:
    """Return the parts of a URL that may be secret."""
    parts = urlsplit(url)
    values = [value for name, value in parse_qsl(parts.query) if name not in _HARMLESS_QUERY]
    return [*values, *(unquote(part) for part in (parts.username, parts.password) if part)]


def _words(name: str, value: str) -> list[str]:
    """Return the parts of a header that may be secret: its value, also without the scheme, and each cookie."""
    if not _CREDENTIALS.search(name):
        return []
    cookies = [cookie.partition("=")[2].strip() for cookie in value.split(";")] if name.lower() == "cookie" else []
    # "Bearer KEY": the key may also occur without the scheme.
    return [value, value.partition(" ")[2], *cookies]


def _spelled(body: bytes) -> list[str]:
    """Return the joined values of all JSON members with the same name: a stream splits a text into such members."""
    words: dict[bytes, list[str]] = {}
    for name, value in _MEMBER.findall(body):
        try:
            words.setdefault(name, []).append(str(json.loads(b'"' + value + b'"')))
        except ValueError:
            continue
    return ["".join(pieces) for pieces in words.values()]


def _forms_of(secret: str) -> set[str]:
    in_url = {quote(secret, safe=""), quote(secret)}
    in_json = _in_json(secret)
    # A gateway's error quotes the error of the host behind it as text: JSON in JSON.
    return {secret} | in_url | in_json | {twice for once in in_json for twice in _in_json(once)}


def _in_json(text: str) -> set[str]:
    escaped = json.dumps(text)[1:-1]
    return {escaped, json.dumps(text, ensure_ascii=False)[1:-1], escaped.replace("/", "\\/")}
