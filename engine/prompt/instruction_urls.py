"""Instructions from the web: a text counts only if it is the very one that the user has pinned."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Final

import attrs
import trio

from engine.core.errors import ToolError

SECONDS: Final = 5.0
TRIES: Final = 3
MAX_BYTES: Final = 200_000
_PAUSE: Final = 0.5


@attrs.define(eq=False)
class PinnedTexts:
    """What was fetched, kept as long as the engine lives: it can't be another text tomorrow."""

    _known: dict[tuple[str, str], str] = attrs.field(factory=dict[tuple[str, str], str], init=False)

    def known(self, urls: Mapping[str, str]) -> dict[str, str]:
        """Return the texts that were fetched, by URL. Not a checkpoint."""
        return {url: self._known[url, pin] for url, pin in urls.items() if (url, pin) in self._known}

    async def fetch(self, urls: Mapping[str, str]) -> dict[str, str]:
        """Fetch what is not known yet; return why others could not be had, by URL. A checkpoint if there is one to fetch.

        If cancelled, what was fetched by then is kept.
        """
        missing = {url: pin for url, pin in urls.items() if (url, pin) not in self._known}
        failed: dict[str, str] = {}
        if missing:
            async with trio.open_nursery() as nursery:
                for url, pin in missing.items():
                    nursery.start_soon(self._fetch, url, pin, failed, name=f"instructions from {url}")
        return failed

    async def _fetch(self, url: str, pin: str, failed: dict[str, str]) -> None:
        why = f"it did not answer within {SECONDS:g} s"
        # For all tries together: a turn waits for it.
        with trio.move_on_after(SECONDS):
            why = await self._try(url, pin)
        if why:
            failed[url] = why

    async def _try(self, url: str, pin: str) -> str:
        """Fetch a text; return why it could not be had, empty if it was. Always a checkpoint; cancelled, nothing is kept."""
        attempt = 1
        while True:
            text, why, is_final = await _ask(url, pin)
            if text is not None:
                self._known[url, pin] = text
                return ""
            if is_final or attempt == TRIES:
                return why
            await trio.sleep(_PAUSE * 2**attempt)
            attempt += 1


async def _ask(url: str, pin: str) -> tuple[str | None, str, bool]:
    """Return the text; or why there is none, and whether it is of use to ask again. A checkpoint."""
    # Imported here: httpx costs an import, and few have instructions on the web.
    from engine.web.fetch import ask

    try:
        reply = await ask("GET", url, {"accept": "text/plain, text/markdown, */*"}, b"", limit=MAX_BYTES)
    except ToolError as error:
        return None, str(error).rstrip("."), False
    if reply.status != 200:
        leads = f"; it leads to {reply.location}" if reply.location else ""
        return None, f"its host answers {reply.status} {reply.reason}{leads}", reply.status < 500
    found = sha256(reply.body).hexdigest()
    if found != pin:
        return None, f"what is there is not the text that was pinned: its SHA-256 is {found}", True
    try:
        return reply.body.decode(), "", True
    except UnicodeDecodeError:
        return None, "it is not UTF-8", True
