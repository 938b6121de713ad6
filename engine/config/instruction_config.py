"""What a user wants to have in the prompt besides: instruction files, by name, by pattern, by address."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import attrs

from engine.core.errors import ConfigError

NAMES: Final = ("AGENTS.md", "CLAUDE.md")
MAX_BYTES: Final = 32_768
_PIN: Final = re.compile(r"[0-9a-f]{64}")


@attrs.frozen(kw_only=True)
class Instructions:
    """Which files hold instructions for the agent.

    Attributes:
        names: files of these names are looked for in each folder from the project's down to the working directory, and
            beside each file that a tool touches.
        files: more of them: paths and patterns, from the project's folder or absolute, `~` for the home folder.
        urls: texts on the web, each with the SHA-256 that what is there must have.
        max_bytes: so much is shown of all of them together; and once more of those that are found on the way.
        sub_agents: whether sub-agents are shown them as well.
    """

    names: tuple[str, ...] = NAMES
    files: tuple[str, ...] = ()
    urls: Mapping[str, str] = attrs.field(factory=dict[str, str])
    max_bytes: int = MAX_BYTES
    sub_agents: bool = False

    def __attrs_post_init__(self) -> None:
        for name in self.names:
            if not name or "/" in name or name in {".", ".."} or "\0" in name:
                raise ConfigError(f"names are those of files, without a folder, not {name!r}")
        if not all(self.files):
            raise ConfigError("files are paths and patterns: one of them is empty")
        for url, pin in self.urls.items():
            if not url.startswith(("https://", "http://")):
                raise ConfigError(f"urls begin with https:// or http://, not {url!r}")
            if not _PIN.fullmatch(pin):
                raise ConfigError(
                    f"{url} has no pin: what is there may be another text tomorrow. Give it the text's SHA-256, 64 "
                    "digits and small letters"
                )
        if self.max_bytes < 1:
            raise ConfigError(f"max_bytes must be a whole number above 0, not {self.max_bytes}")
