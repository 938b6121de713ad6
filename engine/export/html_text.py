"""Text of models as HTML: escaped, with as much Markdown as makes it readable: code, headings, bold text. Pure.

No links and no images: foreign content must not link to anything, or load it.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import Final

from engine.export.sanitize import escape_unsafe_chars

_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})[^`]*\Z")
_HEADING: Final = re.compile(r"#{1,6} +(\S.*)\Z")
# No alternative can pass its closing sign, so there is no backtracking: the time grows with the length of the text only.
_INLINE: Final = re.compile(r"`([^`\n]+)`|\*\*([^*\n]+)\*\*")


def escape(text: str) -> str:
    """Return *text* escaped for HTML, attributes included."""
    return html.escape(escape_unsafe_chars(text), quote=True)


def render_text(text: str) -> str:
    """Return a text of a model or a person as paragraphs, headings and blocks of code."""
    return "\n".join(_blocks(escape_unsafe_chars(text)))


def _blocks(text: str) -> Iterator[str]:
    lines: list[str] = []
    fence = ""
    for line in text.split("\n"):
        fence_match = _FENCE.match(line)
        if fence:
            if fence_match is not None and fence_match[1].startswith(fence) and line.strip() == fence_match[1]:
                yield f"<pre>{html.escape(chr(10).join(lines))}</pre>"
                lines, fence = [], ""
            else:
                lines.append(line)
        elif fence_match is not None:
            yield from _paragraphs(lines)
            lines, fence = [], fence_match[1]
        else:
            lines.append(line)
    if fence:  # it was cut off
        yield f"<pre>{html.escape(chr(10).join(lines))}</pre>"
    else:
        yield from _paragraphs(lines)


def _paragraphs(lines: list[str]) -> Iterator[str]:
    open_lines: list[str] = []
    for line in [*lines, ""]:
        heading = _HEADING.match(line)
        if line.strip() and heading is None:
            open_lines.append(line)
            continue
        if open_lines:
            yield f'<p dir="auto">{_inline(chr(10).join(open_lines))}</p>'
            open_lines = []
        if heading is not None:
            yield f'<p dir="auto" class="heading">{_inline(heading[1].rstrip("#").rstrip())}</p>'


def _inline(text: str) -> str:
    parts: list[str] = []
    at = 0
    for span in _INLINE.finditer(text):
        parts.append(html.escape(text[at : span.start()]))
        is_code = span[1] is not None
        parts.append(f"<code>{html.escape(span[1])}</code>" if is_code else f"<b>{html.escape(span[2])}</b>")
        at = span.end()
    return "".join([*parts, html.escape(text[at:])])
