"""Links to the page of a server: one to print, one to open in a browser. They work once, for ten minutes."""

from __future__ import annotations

import json
import os
from html import escape
from pathlib import Path
from typing import Final, cast
from urllib.parse import urlsplit

from engine.control.service.server_discovery import ServerRecord

_SECONDS: Final = 5.0
_FILE: Final = "open.html"


def running_link(record: ServerRecord, folder: Path) -> str | None:
    """Ask the server that runs for a link; None: it gives none. It blocks."""
    # Imported here: only a second start asks another server.
    from http.client import HTTPConnection, HTTPException

    parts = urlsplit(record.url)
    if parts.scheme != "http" or parts.hostname is None:
        return None  # its certificate may not be valid here; it has printed a link itself
    connection = HTTPConnection(parts.hostname, parts.port, timeout=_SECONDS)
    try:
        token = (folder / "token").read_text("ascii").strip()
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        connection.request("POST", "/v1/link", body="{}", headers=headers)
        document = cast("object", json.loads(connection.getresponse().read()))
    except (OSError, HTTPException, ValueError):
        return None
    finally:
        connection.close()
    ticket = cast("dict[str, object]", document).get("ticket") if isinstance(document, dict) else None
    return f"{record.url}/#k={ticket}" if isinstance(ticket, str) else None


def open_in_browser(folder: Path, link: str) -> bool:
    """Open *link* in the user's browser; return whether there is one. It blocks.

    The browser gets a file of ours, which leads there: every user of the machine can see the arguments of a process.
    """
    import webbrowser

    file = folder / _FILE
    file.unlink(missing_ok=True)
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as page:
        page.write(f'<!doctype html><meta http-equiv="refresh" content="0;url={escape(link)}"><title>engine</title>\n')
    return webbrowser.open(file.as_uri())
