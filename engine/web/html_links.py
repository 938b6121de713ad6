"""Resolve the links of a page."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urljoin

import attrs

from engine.web.html_flow import squeezed

# By how much absolute links may be longer than relative ones: a page could hold a million links.
MAX_ADDED_CHARS: Final = 2_000_000

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
# Others (javascript:, data:, about:) lead nowhere that the model could go.
_FOLLOWED: Final = ("http:", "https:", "ftp:", "mailto:")


@attrs.define(eq=False)
class LinkResolver:
    """Makes links absolute, against the page's address or its `<base>`."""

    _base_url: str
    _has_base: bool = attrs.field(default=False, init=False)
    _room: int = attrs.field(default=MAX_ADDED_CHARS, init=False)

    def set_base(self, href: str) -> None:
        """Resolve links against *href* from now on; only a page's first `<base>` counts, as in browsers."""
        if not self._has_base:
            self._has_base = True
            self._base_url = self.resolve(href) or self._base_url

    def resolve(self, href: str) -> str:
        """Return the absolute address, escaped for Markdown; empty for a place in the page and for other schemes."""
        href = href.strip()
        if not href or href.startswith("#"):
            return ""
        try:
            # Out of room, links stay relative: what is added to all links together is bounded.
            url = urljoin(self._base_url, href) if self._room > 0 else href
        except ValueError:  # brackets that hold no address
            return ""
        self._room -= max(0, len(url) - len(href))
        if _SCHEME.match(url) and not url.lower().startswith(_FOLLOWED):
            return ""
        # Markdown ends a link at a blank or a parenthesis.
        return squeezed(url).replace(" ", "%20").replace("(", "%28").replace(")", "%29")
