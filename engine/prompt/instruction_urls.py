"""Instructions from the web: a text is used only if its SHA-256 is the one that the user has pinned."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Final

import attrs
import trio

from engine.core.errors import ToolError

# A turn waits for them, so all tries together get this long.
SECONDS: Final = 5.0
TRIES: Final = 3
MAX_BYTES: Final = 200_000
_PAUSE: Final = 0.5


@attrs.define(eq=False, repr=False)
class PinnedTexts:
    """Texts that were fetched, cached as long as the engine lives: a pinned text never changes."""

    _texts: dict[tuple[str, str], str] = attrs.field(factory=dict[tuple[str, str], str], init=False)

    def cached(self, urls: Mapping[str, str]) -> dict[str, str]:
        """Return the cached texts by URL. Not a checkpoint."""
        return {url: self._texts[url, pin] for url, pin in urls.items() if (url, pin) in self._texts}

    async def fetch(self, urls: Mapping[str, str]) -> dict[str, str]:
        """Fetch the texts that are not cached; return the errors by URL. A checkpoint if one is missing.

        If cancelled, the texts that were fetched by then stay cached.
        """
        missing = {url: pin for url, pin in urls.items() if (url, pin) not in self._texts}
        failed: dict[str, str] = {}
        if missing:
            async with trio.open_nursery() as nursery:
                for url, pin in missing.items():
                    nursery.start_soon(self._fetch, url, pin, failed, name=f"instructions from {url}")
        return failed

    async def _fetch(self, url: str, pin: str, failed: dict[str, str]) -> None:
        why = f"it did not answer within {SECONDS:g} s"
        # For all attempts together: a turn waits for them.
        with trio.move_on_after(SECONDS):
            why = await self._try(url, pin)
        if why:
            failed[url] = why

    async def _try(self, url: str, pin: str) -> str:
        """Fetch a text; return the error, or an empty string. Always a checkpoint; if cancelled, nothing is cached."""
        attempt = 1
        while True:
            text, why, is_final = await _ask(url, pin)
            if text is not None:
                self._texts[url, pin] = text
                return ""
            if is_final or attempt == TRIES:
                return why
            await trio.sleep(_PAUSE * 2**attempt)
            attempt += 1


async def _ask(url: str, pin: str) -> tuple[str | None, str, bool]:
    """Return the text; or the error and whether it is final. A checkpoint."""
    # Imported here: httpx takes long to import, and few users have instructions on the web.
    from engine.web.fetch import ask

    try:
        reply = await ask("GET", url, {"accept": "text/plain, text/markdown, */*"}, b"", limit=MAX_BYTES)
    except ToolError as error:
        return None, str(error).rstrip("."), False
    if reply.status != 200:
        leads = f"; it redirects to {reply.location}" if reply.location else ""
        # A client error won't go away by asking again; a server's may.
        return None, f"the server answers {reply.status} {reply.reason}{leads}", reply.status < 500
    digest = sha256(reply.body).hexdigest()
    # The pin is the protection: who controls the server could change what every agent is instructed to do.
    if digest != pin:
        return None, f"the text is not the pinned one: its SHA-256 is {digest}", True
    try:
        return reply.body.decode(), "", True
    except UnicodeDecodeError:
        return None, "it is not UTF-8", True
