"""Cassettes: HTTP exchanges with a model's host, stored as files.

Each exchange is two files in one folder:

    hello-0.request.json     the provider, the request, the answer's status and headers, the name of the other file
    hello-0.response.sse     the answer's body, unchanged (or .json, .bin for an AWS event stream, .txt)

`engine.testing.record` writes them, `engine.testing.replay` plays them. The body is
never parsed here: an error in it may be the purpose of the recording.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import attrs

from engine.core.errors import ConfigError

_SUFFIXES = {
    "text/event-stream": "sse",
    "application/json": "json",
    "application/vnd.amazon.eventstream": "bin",
}
_STREAMS = {"text/event-stream", "application/vnd.amazon.eventstream"}


@attrs.frozen(kw_only=True)
class Exchange:
    """A request and its answer.

    Attributes:
        provider: the provider, as the table of hosts calls it.
        host: the host, if a provider has several.
        protocol: the wire format.
        method: the request's method.
        url: the request's URL.
        sent: the request's body; empty: it was not recorded.
        status: the answer's status.
        headers: the answer's harmless headers; names in lower case.
        body: the answer's body.
        is_whole: whether the body was read to its end.
    """

    provider: str = ""
    host: str = ""
    protocol: str = ""
    method: str = "POST"
    url: str = ""
    sent: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = attrs.field(factory=dict[str, str])
    body: bytes = b""
    is_whole: bool = True

    @property
    def content_type(self) -> str:
        """The answer's content type, in lower case and without parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


def read(path: Path) -> Exchange:
    """Return the exchange whose `….request.json` is *path*. Raises `ConfigError` if it is invalid."""
    try:
        record = _object(json.loads(path.read_text(encoding="utf-8")))
        request, response = _object(record["request"]), _object(record["response"])
        status = response["status"]
        if not isinstance(status, int):
            raise TypeError("the status is not a number")
        sent = request.get("body")
        body_file = str(response["body_file"])
        # A cassette may come from elsewhere: it must not read other files.
        if Path(body_file).name != body_file:
            raise ValueError("the body's file must be in the directory of the request's")
        return Exchange(
            provider=str(record.get("provider", "")),
            host=str(record.get("host", "")),
            protocol=str(record.get("protocol", "")),
            method=str(request.get("method") or "POST"),
            url=str(request.get("url") or ""),
            sent=b"" if sent is None else json.dumps(sent, ensure_ascii=False).encode("utf-8", "surrogatepass"),
            status=status,
            headers={name.lower(): str(value) for name, value in _object(response["headers"]).items()},
            body=(path.parent / body_file).read_bytes(),
            is_whole=bool(record.get("whole", True)),
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{path.name} is not a recorded exchange: {error!r}") from error


def read_all(folder: Path, name: str) -> tuple[Exchange, ...]:
    """Return the exchanges of the cassette *name*, in order. Raises `ConfigError` if there are none."""
    matches = [read(path) for path in _numbered(folder, name)]
    if not matches:
        raise ConfigError(f"there is no cassette {name!r} in {folder.name}")
    return tuple(matches)


def write(exchange: Exchange, folder: Path, name: str) -> Path:
    """Write *exchange* under *name*, replacing existing files; return the path of its `….request.json`."""
    suffix = _SUFFIXES.get(exchange.content_type, "txt")
    body_file = f"{name}.response.{suffix}"
    record = {
        "provider": exchange.provider,
        "host": exchange.host,
        "protocol": exchange.protocol,
        "stream": exchange.content_type in _STREAMS,
        "capture": "bytes",
        "whole": exchange.is_whole,
        "request": {"method": exchange.method, "url": exchange.url, "body": _parsed(exchange.sent)},
        "response": {"status": exchange.status, "headers": dict(exchange.headers), "body_file": body_file},
    }
    folder.mkdir(parents=True, exist_ok=True)
    # The old body may have another suffix, so overwriting is not enough.
    for old in folder.glob(f"{name}.response.*"):
        old.unlink()
    (folder / body_file).write_bytes(exchange.body)
    path = folder / f"{name}.request.json"
    path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return path


def write_all(exchanges: tuple[Exchange, ...], folder: Path, name: str) -> None:
    """Write the cassette *name*, replacing an existing one."""
    # The old one may have more exchanges than the new one.
    for path in _numbered(folder, name):
        for file in folder.glob(path.name.removesuffix("request.json") + "*"):
            file.unlink()
    for number, exchange in enumerate(exchanges):
        write(exchange, folder, f"{name}-{number}")


def _numbered(folder: Path, name: str) -> list[Path]:
    """Return the request files of the cassette *name*, in the order of their numbers."""
    form = re.compile(re.escape(name) + r"-(\d+)\.request\.json")
    matches = [(match, path) for path in folder.glob("*.request.json") if (match := form.fullmatch(path.name))]
    # By number: as text, 10 would come before 2.
    return [path for _, path in sorted(matches, key=lambda entry: int(entry[0][1]))]


def _parsed(sent: bytes) -> object:
    try:
        return cast("object", json.loads(sent)) if sent else None
    except ValueError:
        return None


def _object(value: object) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise TypeError("an object was expected")
    return cast("Mapping[str, object]", value)
