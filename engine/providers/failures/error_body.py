"""Extracts the facts of an error response in any format.

No two hosts share a format. `error` is an object, a sentence or a list; `code` is a name, a status or a number of the
host's own; details may be one or two objects deeper, as JSON in a string, or in a header. So no particular format is
expected: all objects that may hold an error are searched, and `classify` decides by what was found. That module is
imported only when there is an error, since its tables take milliseconds to build.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import attrs

from engine.core.lazy import regex
from engine.providers.failures.retry_after import (
    delay_in_text,
    limit_reset_time,
    moment_in_text,
    parse_duration,
    parse_local_reset,
    parse_moment,
    parse_number,
    retry_delay,
)
from engine.providers.wire.sse import SseParser
from engine.providers.wire.untrusted_json import Json, as_list, as_object, is_object, loads, text

if TYPE_CHECKING:
    from engine.core.errors import ProviderError
    from engine.providers.wire.wire_format import HttpReply

_DEEPEST = 8
_WIDEST = 4
_LONGEST_MESSAGE = 4_000
_LONGEST_WORD = 64

# Members of an error object that may hold another one with details.
_NESTED = (
    *("error", "errors", "innererror", "inner_error", "response", "metadata", "raw", "base_resp"),
    *("message", "detail", "details", "fault", "cause"),
)
_MESSAGES = ("message", "Message", "error_description", "msg", "status_msg", "detail", "raw", "faultstring", "title")
_CODES = ("code", "error_code", "reason", "error_type", "__type", "type", "status")
_STATUSES = ("status_code", "statusCode", "raw_status_code", "http_status_code", "http_code", "status", "code")
_WAITS = ("retryDelay", "retry_after", "retry_after_seconds", "resets_in_seconds", "reset_after_seconds")
_RESETS = ("resets_at", "reset_at")
_REQUEST_ID_HEADERS = ("request-id", "x-request-id", "x-amzn-requestid", "apim-request-id", "cf-ray")
# Types of events and objects that hold an error of any kind.
_WRAPPERS = frozenset({"error", "response.failed", "response.error", "failed", "object", "exception"})

# No pattern may look beyond the next tag, or a page of unclosed tags would take quadratic time.
_TITLE = regex(r"<(?:title|h1)\b[^<>]*>", re.IGNORECASE)
_TITLE_END = regex(r"</(?:title|h1)>", re.IGNORECASE)
_TAG = regex(r"<[^<>]*>")
_CONTROL = regex(r"[\x00-\x08\x0e-\x1f]")


@attrs.define
class _ErrorFacts:
    """The facts of an error response."""

    codes: list[str] = attrs.field(factory=list[str])
    messages: list[str] = attrs.field(factory=list[str])
    status: int | None = None
    wait: float | None = None
    reset: str = ""
    headers: dict[str, str] = attrs.field(factory=dict[str, str])
    is_lasting: bool = False
    option: str = ""
    request_id: str = ""

    @property
    def message(self) -> str:
        """The messages, from the outermost object to the innermost, without repetition."""
        from engine.providers.failures.classify import truncate_words

        combined = ""
        for message in self.messages:
            if message not in combined:
                combined = f"{combined}: {message}" if combined else message
        return truncate_words(combined, _LONGEST_MESSAGE)


def failure_of_reply(host: str, reply: HttpReply, now: float) -> ProviderError:
    """Return the error for *reply* of *host*; *now* is the time since the epoch."""
    from engine.providers.failures.classify import ErrorReport, classify

    facts = _collect_facts(_document(reply.body))
    name = reply.headers.get("x-amzn-errortype", "")
    words = [name.partition(":")[0], *facts.codes] if name else facts.codes
    wait = _first(retry_delay(reply.headers, now), facts.wait, delay_in_text(facts.message))
    report = ErrorReport(
        host=host,
        # Some hosts send an error with status 200.
        status=reply.status if reply.status >= 400 else facts.status,
        codes=tuple(words),
        message=facts.message,
        is_lasting=facts.is_lasting,
        should_retry={"true": True, "false": False}.get(reply.headers.get("x-should-retry", "")),
        retry_after=wait,
        reset_at=_reset_at(facts, reply.headers, now) if wait is None else now + wait,
        option=facts.option,
        request_id=_request_id(reply.headers) or facts.request_id,
        is_large=reply.is_large or (reply.may_be_large and bool(facts.message.strip())),
    )
    return classify(report)


def stream_failure(host: str, error: object, status: int | None = None) -> ProviderError:
    """Return the error for an error event during a response.

    *error* is the host's error object, or the whole event that holds it; *status* is set if it is known from elsewhere.
    """
    from engine.providers.failures.classify import ErrorReport, classify

    facts = _collect_facts(error)
    report = ErrorReport(
        host=host,
        status=facts.status if status is None else status,
        codes=tuple(facts.codes),
        message=facts.message,
        is_lasting=facts.is_lasting,
        retry_after=_first(facts.wait, delay_in_text(facts.message)),
        reset_at=_reset_at(facts, {}, None),
        option=facts.option,
        request_id=facts.request_id,
    )
    return classify(report)


def _request_id(headers: Mapping[str, str]) -> str:
    return next((value for name in _REQUEST_ID_HEADERS if (value := headers.get(name, ""))), "")[:_LONGEST_WORD]


def _first(*values: float | None) -> float | None:
    return next((value for value in values if value is not None), None)


def _reset_at(facts: _ErrorFacts, headers: Mapping[str, str], now: float | None) -> float | None:
    if facts.reset:
        return parse_moment(facts.reset, now)
    # Only Z.ai's dates without a time zone are parsed; Z.ai is recognised by its numeric codes.
    dated = parse_local_reset(facts.message) if any(word.isdecimal() for word in facts.codes) else None
    return _first(dated, limit_reset_time({**facts.headers, **headers}, now), moment_in_text(facts.message, now))


# -- the body ------------------------------------------------------------------------------


def _document(body: bytes) -> object:
    """Return *body* as JSON; empty if it holds no readable text."""
    page = body.decode("utf-8", "ignore").strip().lstrip("\ufeff")
    if page.startswith("<"):
        return {"message": _page_title(page)}
    try:
        return loads(page)
    except ValueError:
        pass
    if page.startswith(("data:", "event:", ":", "{", "[")):
        return _first_document(page)
    return {} if _CONTROL.search(page) else {"message": page}


def _page_title(page: str) -> str:
    """Describe a gateway's error page by its title."""
    begin = _TITLE.search(page)
    end = _TITLE_END.search(page, begin.end()) if begin else None
    title = html.unescape(_TAG.sub(" ", page[begin.end() : end.start()])).strip() if begin and end else ""
    return f'a web page instead of a response: "{title}"' if title else "a web page instead of a response"


def _first_document(page: str) -> object:
    """Return the first JSON document of a stream."""
    framing = SseParser()
    frames = [*framing.feed(f"{page}\n\n".encode())] if not page.startswith(("{", "[")) else []
    for candidate in [*(frame.data for frame in frames), *page.splitlines()[:1]]:
        try:
            return loads(candidate)
        except ValueError:
            continue
    return {}


# -- the facts ---------------------------------------------------------------------


def _collect_facts(document: object) -> _ErrorFacts:
    facts = _ErrorFacts()
    layers = list(_layers(document, _DEEPEST))
    for layer in layers:
        if message := _message_of(layer):
            facts.messages.append(message)
        _read_times(layer, facts)
        facts.is_lasting = facts.is_lasting or _is_lasting(layer)
        facts.option = facts.option or text(layer, "param").strip()[:_LONGEST_WORD] or _location(layer)
        facts.request_id = facts.request_id or text(layer, "request_id").strip()[:_LONGEST_WORD]
    for layer in reversed(layers):  # the innermost is the most specific
        facts.codes += [word for word in _codes_of(layer) if word not in facts.codes]
        facts.status = _first_status(facts.status, layer)
    if not facts.messages and isinstance(document, str):
        facts.messages.append(document)
    return facts


def _layers(value: object, depth: int) -> Iterator[Json]:
    """Yield the objects that may describe the error, the outermost first."""
    if depth == 0:
        return
    if isinstance(value, str):
        value = _parsed(value)
    if is_object(value):
        yield value
        for name in _NESTED:
            if name in value:
                yield from _layers(value[name], depth - 1)
    else:
        for item in as_list(value)[:_WIDEST]:
            yield from _layers(item, depth - 1)


def _parsed(value: str) -> object:
    """Return the JSON in *value*, for example the error of an upstream host; None if there is none."""
    if not value.lstrip().startswith(("{", "[")):
        return None
    try:
        return loads(value)
    except ValueError:
        return None


def _message_of(layer: Json) -> str:
    for name in _MESSAGES:
        message = text(layer, name).strip()
        if message and _parsed(message) is None:
            return f"{place}: {message}" if (place := _location(layer)) else message
    message = text(layer, "error").strip()
    if message:
        return message if _parsed(message) is None else ""
    return "; ".join(item for item in as_list(layer.get("error")) if isinstance(item, str))


def _location(layer: Json) -> str:
    """Return the position that a validator reports: pydantic's `loc`."""
    return ".".join(str(step) for step in as_list(layer.get("loc")))


def _codes_of(layer: Json) -> Iterator[str]:
    if "loc" in layer:
        return  # a validator's type, not an error code
    if "status_msg" in layer and isinstance(code := layer.get("status_code"), int):
        from engine.providers.failures.error_codes import base_resp_code

        yield base_resp_code(code)
    values: Iterable[object] = [layer.get(name) for name in (*_CODES, "error")]
    for value in values:
        word = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
        if isinstance(word, str) and _is_code(word):
            yield word


def _is_code(code: str) -> bool:
    """Return whether *code* is an error code: no sentence, no status, no event type."""
    return (
        0 < len(code) <= _LONGEST_WORD
        and not any(letter.isspace() for letter in code)
        and code not in _WRAPPERS
        and _status(code) is None
    )


def _first_status(current: int | None, layer: Json) -> int | None:
    if current is not None:
        return current
    return next((status for name in _STATUSES if (status := _status(layer.get(name))) is not None), None)


def _status(value: object) -> int | None:
    """Return *value* if it is an error status, as a number or as digits."""
    if isinstance(value, str) and len(value) == 3 and value.isdecimal():
        value = int(value)
    return value if type(value) is int and 400 <= value < 600 else None


def _read_times(layer: Json, facts: _ErrorFacts) -> None:
    for name in _WAITS:
        value: object = layer.get(name)
        seconds = parse_number(value)
        if seconds is None and isinstance(value, str):
            seconds = parse_duration(value)
        if seconds and facts.wait is None:
            facts.wait = seconds
    for name in _RESETS:
        value = layer.get(name)
        if isinstance(value, (str, int, float)) and not isinstance(value, bool) and not facts.reset:
            facts.reset = str(value)
    for name, value in as_object(layer.get("headers")).items():
        if isinstance(value, (str, int, float)):
            facts.headers[name.lower()] = str(value)


def _is_lasting(layer: Json) -> bool:
    """Return whether *layer* names a daily limit: Google's `quotaId`, OpenRouter's `limit_source`."""
    violations = (as_object(item) for item in as_list(layer.get("violations")))
    names = [text(layer, "limit_source"), *(text(violation, "quotaId") for violation in violations)]
    return any("perday" in name.lower() or "daily" in name.lower() for name in names)
