"""Whether a model reads what is attached to a task: known before a request, so that nothing is sent in vain."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from engine.cli.task.task_files import TaskPart
from engine.cli.terminal.terminal_text import escape_on_one_line
from engine.config.config import Config
from engine.core.errors import ConfigError

_WORDS: Final = {"image": "images", "audio": "audio", "video": "video", "application": "PDF files"}
# Each of a provider whose default model reads more than text.
_READERS: Final = ("anthropic/claude-sonnet-5-5", "openai/gpt-6.1-terra", "google/gemini-3.8-flash")


def check_media(parts: Iterable[TaskPart], model: str, config: Config) -> None:
    """Raise `ConfigError` for the first attached image, PDF or recording that *model* does not read."""
    media = [(part, part.media) for part in parts if part.media is not None]
    if not media:
        return
    # Imported here: hardly any task has them, and the providers take long to import.
    from engine.providers.registry import reads_media

    for part, content in media:
        kind = content.media_type
        if reads_media(model, kind, config):
            continue
        family = kind.partition("/")[0]
        # An image of a rare type is refused by a model that reads others.
        reads_others = family == "image" and reads_media(model, "image/png", config)
        what = f"images of type {kind}" if reads_others else _WORDS.get(family, kind)
        other = next((name for name in _READERS if name != model and reads_media(name, kind, config)), "")
        way = f"--model {other}" if other else f"leave out {escape_on_one_line(part.path)}"
        raise ConfigError(f"{model} does not read {what}: {escape_on_one_line(part.path)}\nNext: {way}")
