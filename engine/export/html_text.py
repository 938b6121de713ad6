"""Text of models as HTML: escaped, with as much Markdown as makes it readable. Pure."""

from __future__ import annotations

import html

from engine.export.html_blocks import BlockParser
from engine.export.sanitize import escape_unsafe_chars


def escape(text: str) -> str:
    """Return *text* escaped for HTML, attributes included."""
    return html.escape(escape_unsafe_chars(text), quote=True)


def render_text(text: str) -> str:
    """Return a text of a model or a person as paragraphs, headings, lists, quotes, tables and blocks of code."""
    parser = BlockParser()
    for line in escape_unsafe_chars(text).split("\n"):
        parser.add_line(line)
    return "\n".join(parser.html_blocks())
