"""Which instruction files go into the prompt: by name, by pattern, by URL."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import attrs

from engine.core.errors import ConfigError
from engine.core.value_base import Value

NAMES: Final = ("AGENTS.md", "CLAUDE.md")
MAX_BYTES: Final = 32_768
_PIN: Final = r"[0-9a-f]{64}"


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Instructions(Value):
    """Which files hold instructions for the agent.

    Attributes:
        names: the file names to look for, in each folder from the project's down to the working directory, and in the
            folders of files that tools touch.
        files: further paths and patterns, absolute or relative to the project's folder; `~` is the home folder.
        urls: texts on the web, each with its expected SHA-256.
        max_bytes: the maximum size of all instructions together, and again of those in folders that tools touch.
        sub_agents: whether sub-agents get the instructions as well.
    """

    names: tuple[str, ...] = NAMES
    files: tuple[str, ...] = ()
    urls: Mapping[str, str] = attrs.field(factory=dict[str, str])
    max_bytes: int = MAX_BYTES
    sub_agents: bool = False

    def __attrs_post_init__(self) -> None:
        for name in self.names:
            if not name or "/" in name or name in {".", ".."} or "\0" in name:
                raise ConfigError(f"names must be file names without a folder, not {name!r}")
        if not all(self.files):
            raise ConfigError("files must be paths or patterns; one of them is empty")
        for url, pin in self.urls.items():
            if not url.startswith(("https://", "http://")):
                raise ConfigError(f"urls must begin with https:// or http://, not {url!r}")
            if not re.fullmatch(_PIN, pin):
                raise ConfigError(
                    f"{url} has no pin, so its text could change. Set it to the text's SHA-256: 64 digits and "
                    "lower-case letters"
                )
        if self.max_bytes < 1:
            raise ConfigError(f"max_bytes must be a whole number above 0, not {self.max_bytes}")
