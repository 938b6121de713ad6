"""The content blocks of a prompt, as the text and the attachments of the engine."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from typing import cast

import attrs

from engine.control.protocol.wire_converter import BadParams
from engine.core.errors import ConfigError
from engine.core.messages import MediaPart
from engine.core.schema import Json
from engine.session.attachments import attachment


@attrs.frozen
class PromptContent:
    """What a prompt holds.

    Attributes:
        text: its text, with the files in it that the editor has sent or named.
        attachments: its images, recordings and other files.
    """

    text: str
    attachments: tuple[MediaPart, ...] = ()


def read_content(blocks: Iterable[object]) -> PromptContent:
    """Return the content of a prompt. Raises `BadParams`."""
    texts: list[str] = []
    media: list[MediaPart] = []
    for index, block in enumerate(blocks):
        reader = _BlockReader(f"prompt[{index}]", block)
        match reader.text("type"):
            case "text":
                texts.append(reader.text("text"))
            case "image" | "audio":
                media.append(reader.media(reader.text("data"), reader.text("mimeType")))
            case "resource_link":
                texts.append(f"[{reader.text('name')}]({reader.text('uri')})")
            case "resource":
                resource = reader.inner("resource")
                if resource.has("text"):
                    texts.append(f'\n<file uri="{resource.text("uri")}">\n{resource.text("text")}\n</file>\n')
                else:
                    media.append(resource.media(resource.text("blob"), resource.optional_text("mimeType")))
            case unknown:
                raise BadParams(f"{reader.path}.type", f"unknown kind of content {unknown[:50]!r}")
    text = "".join(texts)
    if not text.strip() and not media:
        raise BadParams("prompt", "it is empty")
    # The engine takes no prompt without a text.
    return PromptContent(text if text.strip() else "(see the attachment)", tuple(media))


@attrs.frozen
class _BlockReader:
    """Reads the fields of one block, and names the place of what is wrong."""

    path: str
    _value: object

    def has(self, name: str) -> bool:
        return name in self._fields()

    def text(self, name: str) -> str:
        value = self._fields().get(name)
        if not isinstance(value, str):
            raise BadParams(f"{self.path}.{name}", "expected a text")
        return value

    def optional_text(self, name: str) -> str:
        return self.text(name) if self._fields().get(name) is not None else ""

    def inner(self, name: str) -> _BlockReader:
        return _BlockReader(f"{self.path}.{name}", self._fields().get(name))

    def media(self, data: str, media_type: str) -> MediaPart:
        try:
            content = base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError) as error:
            raise BadParams(self.path, "its data is not base64") from error
        name = self.optional_text("uri").rpartition("/")[2]
        try:
            return attachment(content, media_type=media_type, name=name)
        except ConfigError as error:
            raise BadParams(self.path, str(error)) from error

    def _fields(self) -> dict[str, Json]:
        value = self._value
        if not isinstance(value, dict):
            raise BadParams(self.path, "expected an object")
        return cast("dict[str, Json]", value)
