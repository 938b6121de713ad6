"""A certificate in files, which may be replaced while the server runs."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import final

from engine.core.errors import ConfigError


@final
class TlsFiles:
    """The certificate that new connections get.

    Attributes:
        context: for the next connection.
    """

    def __init__(self, certificate: Path, key: Path) -> None:
        """Read the files. It blocks. Raises `ConfigError`."""
        self._certificate = certificate
        self._key = key
        self.context: ssl.SSLContext = self._read()

    def reload(self) -> None:
        """Read the files again, for new connections. It blocks. Raises `ConfigError`; then nothing has changed."""
        self.context = self._read()

    def _read(self) -> ssl.SSLContext:
        # A new one: reading a certificate into the old one, and failing at its key, would leave half of a change.
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            # A password that is asked for at the terminal would stop the server: an empty one fails instead.
            context.load_cert_chain(self._certificate, self._key, password="")
        except (OSError, ValueError) as error:  # among them `ssl.SSLError`
            reason = getattr(error, "strerror", None) or str(error)
            raise ConfigError(
                f"the certificate {self._certificate} with {self._key} can't be used: {reason}"
            ) from error
        return context
