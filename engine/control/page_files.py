"""The page that browsers get: its files come from the package, and from nowhere else."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import PurePosixPath
from typing import Final

from engine.control.transport.http_connection import Fields, Response
from engine.control.transport.request_head import RequestHead

ASSETS: Final = "/assets/"
# In `index.html`, the folder of the other files.
_PLACEHOLDER: Final = b"ASSETS"
_CONTENT_TYPES: Final[Mapping[str, str]] = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_COMMON: Final[Fields] = (
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
)
# No feature of the browser is needed but the clipboard.
_PERMISSIONS: Final = ", ".join(
    f"{feature}=()"
    for feature in (
        "accelerometer",
        "camera",
        "display-capture",
        "geolocation",
        "gyroscope",
        "hid",
        "magnetometer",
        "microphone",
        "midi",
        "payment",
        "serial",
        "usb",
    )
)


def is_page(head: RequestHead) -> bool:
    """Return whether the page or a file of it is asked for: they hold no data, so no credential is needed."""
    return head.method != "POST" and (head.path == "/" or head.path.startswith(ASSETS))


def page_response(path: str, host: str) -> Response | None:
    """Return the page or one of its files; None: there is nothing at *path*.

    Args:
        path: the address.
        host: the checked name by which the client calls the server.
    """
    digest, assets = _assets()
    if path == "/":
        page = assets["index.html"].replace(_PLACEHOLDER, f"assets/{digest}".encode())
        return Response(body=page, content_type="text/html; charset=utf-8", fields=(*_COMMON, *_page_fields(host)))
    # All files are in a folder whose name changes with any of them, so that they can import each other by their own names.
    folder, _, name = path.removeprefix(ASSETS).partition("/")
    if folder != digest or name not in assets or name == "index.html":
        return None
    kept = ("cache-control", "public, max-age=31536000, immutable")
    content_type = _CONTENT_TYPES[PurePosixPath(name).suffix]
    return Response(body=assets[name], content_type=content_type, fields=(*_COMMON, kept))


def _page_fields(host: str) -> Fields:
    policy = (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; "
        f"connect-src 'self' ws://{host} wss://{host}; font-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    )
    return (
        ("content-security-policy", policy),
        ("permissions-policy", _PERMISSIONS),
        ("cache-control", "no-store"),
    )


@cache
def _assets() -> tuple[str, Mapping[str, bytes]]:
    """Return a digest of all files, and the files by their names. It blocks when it is first called."""
    found = dict(sorted(_read_all(files("engine.control") / "page", "")))
    digest = hashlib.sha256()
    for name, data in found.items():
        digest.update(f"{name}\n{len(data)}\n".encode() + data)
    return digest.hexdigest()[:16], found


def _read_all(folder: Traversable, prefix: str) -> Iterator[tuple[str, bytes]]:
    for entry in folder.iterdir():
        name = f"{prefix}{entry.name}"
        if entry.is_dir():
            yield from _read_all(entry, f"{name}/")
        elif PurePosixPath(name).suffix in {*_CONTENT_TYPES, ".html"}:
            yield name, entry.read_bytes()
