"""The head of an HTTP request, parsed strictly and without I/O.

A head that two programs could read differently is refused: a lone CR or LF, folded lines, two lengths, a length and a
coding. Bodies need a Content-Length, since no client of ours sends chunks, and chunks are where proxies and servers
disagree. What passes here goes to h11, which checks it once more and keeps the state of the connection.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, Self
from urllib.parse import parse_qsl, unquote_to_bytes

import attrs

HEAD_LIMIT: Final = 16 * 1024
END_OF_HEAD: Final = b"\r\n\r\n"

_MOST_FIELDS: Final = 100
_REQUEST_LINE: Final = re.compile(rb"([A-Z]{1,16}) ([\x21-\x7e]+) HTTP/(1\.[01])")
_FIELD: Final = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\x20-\x7e\x80-\xff\t]*?)[ \t]*")
_LENGTH: Final = re.compile(r"[0-9]{1,18}")
# A field that decides who is asking, where to, or how long the body is: twice is ambiguous.
_ONCE: Final = frozenset(
    [
        "authorization",
        "content-length",
        "content-type",
        "expect",
        "host",
        "idempotency-key",
        "if-none-match",
        "last-event-id",
        "origin",
        "sec-fetch-dest",
        "sec-fetch-mode",
        "sec-fetch-site",
        "sec-websocket-key",
        "sec-websocket-version",
        "upgrade",
    ]
)


class BadRequest(Exception):  # the name HTTP gives it
    """The request is refused: *status* and a reason for a person; the connection is closed after it.

    *limit* is what it exceeds, if that is why.
    """

    def __init__(self, status: int, reason: str, *, limit: int | None = None) -> None:
        """Make it."""
        super().__init__(f"{status}: {reason}")
        self.status = status
        self.reason = reason
        self.limit = limit


@attrs.frozen
class RequestHead:
    """The head of a request.

    Attributes:
        method: in capitals.
        target: as sent: path and query.
        path: decoded, beginning with a slash, without `.` and `..`.
        query: the last value of each name.
        fields: the values by name in lower case; those sent several times are joined by a comma.
        length: of the body, in bytes.
        keep_alive: whether another request may follow on the connection.
    """

    method: str
    target: str
    path: str
    query: Mapping[str, str]
    fields: Mapping[str, str] = attrs.field(repr=False)  # among them are credentials
    length: int
    keep_alive: bool

    @property
    def is_upgrade(self) -> bool:
        """Whether it asks for a WebSocket."""
        return "upgrade" in _tokens(self.fields.get("connection", "")) and "websocket" in _tokens(
            self.fields.get("upgrade", "")
        )

    def below(self, base: str) -> Self:
        """Return it without the path *base*, under which a proxy has passed it on; unchanged where it has none."""
        return attrs.evolve(self, path=self.path[len(base) :]) if base and self.path.startswith(f"{base}/") else self


def parse_head(data: bytes) -> RequestHead:
    """Return the head in *data*, which ends with an empty line.

    Raises:
        BadRequest: it is malformed, ambiguous, or asks for what this server does not do.
    """
    lines = data.removesuffix(END_OF_HEAD).split(b"\r\n")
    matched = _REQUEST_LINE.fullmatch(lines[0])
    if matched is None:
        raise BadRequest(400, "the request line is not one of HTTP/1.1")
    method, target, version = (group.decode("ascii") for group in matched.groups())
    fields = _fields(lines[1:])
    path, query = _path_and_query(target)
    connection = _tokens(fields.get("connection", ""))
    return RequestHead(
        method=method,
        target=target,
        path=path,
        query=query,
        fields=fields,
        length=_length(fields),
        keep_alive=version == "1.1" and "close" not in connection,
    )


def _fields(lines: list[bytes]) -> dict[str, str]:
    if len(lines) > _MOST_FIELDS:
        raise BadRequest(431, f"more than {_MOST_FIELDS} header fields")
    fields: dict[str, str] = {}
    for line in lines:
        matched = _FIELD.fullmatch(line)
        if matched is None:
            raise BadRequest(400, "a header field is malformed")
        name, value = matched[1].decode("ascii").lower(), matched[2].decode("latin-1")
        if name in fields and name in _ONCE:
            raise BadRequest(421 if name == "host" else 400, f"{name} is there twice")
        fields[name] = f"{fields[name]}, {value}" if name in fields else value
    return fields


def _path_and_query(target: str) -> tuple[str, dict[str, str]]:
    """Return the decoded path and the query of *target*, which must be a path: no scheme, host or `*`."""
    if not target.startswith("/") or target.startswith("//"):
        raise BadRequest(421, "the target must be a path")
    raw, _, query = target.partition("?")
    if "#" in target:
        raise BadRequest(400, "the target has a fragment")
    try:
        path = unquote_to_bytes(raw).decode("utf-8")
        pairs = parse_qsl(query, keep_blank_values=True, errors="strict", max_num_fields=32) if query else []
    except ValueError:
        raise BadRequest(400, "the target is not UTF-8, or has too many parameters") from None
    if not path.isprintable() or "\\" in path or any(part in {".", ".."} for part in path.split("/")):
        raise BadRequest(400, "the path is not allowed")
    return path, dict(pairs)


def _length(fields: Mapping[str, str]) -> int:
    if "transfer-encoding" in fields:
        raise BadRequest(411, "send a Content-Length instead of a Transfer-Encoding")
    length = fields.get("content-length", "0")
    if _LENGTH.fullmatch(length) is None:
        raise BadRequest(400, "the Content-Length is not a number")
    return int(length)


def _tokens(value: str) -> frozenset[str]:
    return frozenset(token.strip().lower() for token in value.split(","))
