"""`TokenWatch`: the tokens of a server, read again when their files change: a revoked one closes its connections."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Final, final

import trio

from engine.control.credentials import ClientCredentials, Login, digest_of, new_secret
from engine.control.token_file import load_token, load_tokens, token_files_state
from engine.core.errors import EngineError
from engine.core.threads import to_thread

# A revoked token has to be without effect within a second.
_LOOK_SECONDS: Final = 0.4
_log = logging.getLogger("engine.control")


@final
class TokenWatch:
    """Keeps credentials as the files in a folder say.

    Attributes:
        token: what the user's own programs send.
    """

    def __init__(
        self,
        credentials: ClientCredentials,
        folder: Path | None,
        revoke: Callable[[frozenset[str]], None],
        owner: Login,
    ) -> None:
        """Make it; `load` comes first.

        Args:
            credentials: what is kept.
            folder: with the files; None: there is one token, which only this server has.
            revoke: called with the names of tokens that are no longer valid, or have another role.
            owner: what the token of the user's own programs gives.
        """
        self.token: str = ""
        self._credentials = credentials
        self._folder = folder
        self._revoke = revoke
        self._owner = owner
        self._state: object = None

    async def load(self) -> None:
        """Read the files; the first call makes a token. A checkpoint. Raises `ConfigError`."""
        if self._folder is None:
            self.token = new_secret(secrets.token_bytes)
            self._credentials.set_tokens({digest_of(self.token): self._owner})
            await trio.lowlevel.checkpoint()
            return
        folder = self._folder

        def read() -> tuple[str, object, dict[str, Login]]:
            # The token first, which may be made by that; the rest last, so that a change meanwhile is seen at the next look.
            return load_token(folder), token_files_state(folder), load_tokens(folder)

        self.token, self._state, logins = await to_thread(read)
        revoked = self._credentials.set_tokens(logins)
        if revoked:
            self._revoke(revoked)

    async def run(self) -> None:
        """Watch the files until cancelled. A checkpoint."""
        while self._folder is not None:
            await trio.sleep(_LOOK_SECONDS)
            if (now := token_files_state(self._folder)) != self._state:
                # Also if they can't be read: that is reported once.
                self._state = now
                try:
                    await self.load()
                except EngineError as error:
                    # What was valid stays so: a damaged file must neither let anybody in nor shut everybody out.
                    _log.warning("the tokens can't be read again: %s", error)
        await trio.lowlevel.checkpoint()
