"""`render_trace`: the lanes of a session as one HTML file, which makes no requests. Pure, but for the page's own scripts.

The scripts are those of the control server's page (`engine/control/page/lanes/`), joined into one. The content security
policy names the hashes of script and style, so that nothing else in the file can run, and allows no address at all.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from engine.core.events import Durable
from engine.export.html_text import escape
from engine.export.sanitize import one_line
from engine.export.trace_events import Document, trace_events
from engine.journal.json_text import to_json_text

# Of the whole file. What has no room is left out, the oldest first, and the page says so.
MOST_BYTES: Final = 2_000_000

_PAGE: Final = Path(__file__).parent.parent / "control" / "page"
_ENTRY: Final = _PAGE / "lanes" / "trace-file.js"
_STYLES: Final = ("theme.css", "lanes/lanes.css", "lanes/trace-file.css")
_IMPORT: Final = re.compile(r'^import \{[^}]*\} from "(\.[^"]+)";\n', re.MULTILINE)
_EXPORT: Final = re.compile(r"^export (?=(?:async )?(?:function|class|const|let)\b)", re.MULTILINE)
# Types and explanations, for those who read the sources.
_COMMENT: Final = re.compile(r"^[ \t]*/\*\*.*?\*/\n", re.MULTILINE | re.DOTALL)
_NAME: Final = re.compile(r"^(?:export )?(?:async )?(?:function\*?|class|const|let) +(\w+)", re.MULTILINE)
_TITLE_CHARS: Final = 200


def render_trace(journals: Sequence[Sequence[Durable]], title: str, *, engine: str, at: float) -> str:
    """Return the page of a session's lanes, of at most 2 MB.

    Args:
        journals: the events of the session, then those of its sub-agents.
        title: its title.
        engine: the version of the engine.
        at: the time now, in seconds since the epoch: a page of a session that runs says when it was written.
    """
    events = trace_events(journals)
    page, left_out = _page(events, 0, title, engine, at), 0
    while len(page) > MOST_BYTES and len(events) - left_out > 1:
        # By what it is too large, and some more, since the newest events may be the longest.
        left_out += max(1, int((len(events) - left_out) * (1 - 0.95 * MOST_BYTES / len(page))))
        page = _page(_without_oldest(events, left_out), left_out, title, engine, at)
    return page


def _without_oldest(events: Sequence[Document], count: int) -> list[Document]:
    """Return *events* without the oldest, but with what says which session works for which call."""
    return [event for n, event in enumerate(events) if n >= count or event["type"] == "session_created"]


def _page(events: Sequence[Document], left_out: int, title: str, engine: str, at: float) -> str:
    # All of it is ASCII. Compressed, since 1,000 calls are a megabyte of JSON; without a time, so that equal sessions
    # give equal files.
    packed = base64.b64encode(gzip.compress(to_json_text(list(events)).encode(), mtime=0)).decode()
    data = json.dumps({"at": at, "left_out": left_out, "events": packed})
    script, style = trace_script(), _style()
    heading = escape(one_line(title, _TITLE_CHARS) or "Untitled session")
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_policy(script, style)}">\n'
        '<meta name="referrer" content="no-referrer">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{heading}</title>\n<style>{style}</style>\n</head>\n<body>\n"
        f'<header><h1>{heading}</h1>\n<p id="facts"></p></header>\n<main id="lanes"></main>\n'
        "<noscript><p>This page draws with JavaScript, which is switched off here.</p></noscript>\n"
        f"<footer><p>Written by engine {escape(engine)}. It asks no server for anything.</p></footer>\n"
        f'<script type="application/json" id="trace">{data}</script>\n'
        f'<script type="module">{script}</script>\n</body>\n</html>\n'
    )


def _policy(script: str, style: str) -> str:
    sources = f"script-src '{_digest(script)}'; style-src '{_digest(style)}'"
    rest = "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    return html.escape(f"default-src 'none'; {sources}; {rest}", quote=False)


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


@cache
def _style() -> str:
    return "\n".join((_PAGE / name).read_text(encoding="utf-8") for name in _STYLES)


@cache
def trace_script() -> str:
    """Return the scripts of the lanes as one module, those that others import first.

    Raises `ValueError` if two of them have a name in common: joined, one would replace the other.
    """
    sources = [path.read_text(encoding="utf-8") for path in _in_order(_ENTRY.resolve(), set())]
    names = [name for source in sources for name in _NAME.findall(source)]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ValueError(f"several scripts of the lanes define {', '.join(repeated)}")
    joined = "\n".join(_COMMENT.sub("", _EXPORT.sub("", _IMPORT.sub("", source))) for source in sources)
    # Nothing in a script may look like its end.
    return joined.replace("</", "<\\/").replace("<!--", "<\\!--")


def _in_order(path: Path, seen: set[Path]) -> Iterator[Path]:
    """Yield the modules that *path* imports, each after those that it imports itself; then *path*."""
    if path in seen:
        return
    seen.add(path)
    for name in _IMPORT.findall(path.read_text(encoding="utf-8")):
        yield from _in_order((path.parent / name).resolve(), seen)
    yield path
