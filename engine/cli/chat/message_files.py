"""The files that a message names as `@path`: read on this machine, and sent with it."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import attrs

from engine.cli.task.media_check import check_media
from engine.cli.task.task_files import find_mentions, is_secret, load_file
from engine.cli.terminal.terminal_text import escape_on_one_line
from engine.config.config import Config
from engine.core.errors import ConfigError, UnknownModel
from engine.core.messages import MediaPart
from engine.core.threads import to_thread


@attrs.frozen
class LoadedMessage:
    """A message with its files.

    Attributes:
        text: the message, and the text of the files.
        media: those that are no text.
    """

    text: str
    media: tuple[MediaPart, ...] = ()


async def load_message(text: str, folder: str, model: str, config: Config) -> LoadedMessage:
    """Return *text* with the files that it names, relative to *folder*. A checkpoint if it may name any.

    Raises `ConfigError` if one can't be read, may hold keys, or is of a kind that *model* does not read.
    """
    return LoadedMessage(text) if "@" not in text else await to_thread(_load, text, Path(folder), model, config)


def _load(text: str, folder: Path, model: str, config: Config) -> LoadedMessage:
    mentions = find_mentions(text, folder)
    for name in filter(is_secret, mentions.paths):
        raise ConfigError(
            f"{escape_on_one_line(name)} looks like a file with keys. Next: remove the @, or copy what is needed"
        )
    parts = [load_file(name, folder) for name in mentions.paths]
    if model:
        # A provider of the host's own knows by itself what it reads.
        with suppress(UnknownModel):
            check_media(parts, model, config)
    blocks = [mentions.text, *(part.text for part in parts if part.text)]
    media = tuple(part.media for part in parts if part.media is not None)
    return LoadedMessage("\n\n".join(filter(str.strip, blocks)), media)
