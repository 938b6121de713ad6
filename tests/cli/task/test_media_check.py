"""Attachments that a model does not read are reported before a request."""

from __future__ import annotations

import pytest

from engine.cli.task.media_check import check_media
from engine.cli.task.task_files import TaskPart
from engine.config.config import Config
from engine.core.errors import ConfigError
from engine.session.attachments import attachment

DATA = {
    "a.png": b"\x89PNG\r\n\x1a\n",
    "a.pdf": b"%PDF-1.7",
    "a.mp3": b"ID3",
}


def part(name: str, media_type: str = "") -> TaskPart:
    return TaskPart(name, "media", media=attachment(DATA.get(name, b"x"), media_type=media_type, name=name))


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("anthropic/claude-sonnet-5-5", "a.png"),
        ("anthropic/claude-sonnet-5-5", "a.pdf"),
        ("openai/gpt-6.1-terra", "a.pdf"),
        ("google/gemini-3.8-flash", "a.mp3"),
        ("ollama/llava", "a.png"),
    ],
)
def test_media_that_a_model_reads_pass(model: str, name: str) -> None:
    check_media([TaskPart("notes.txt", "text", text="x"), part(name)], model, Config())


@pytest.mark.parametrize(
    ("model", "attached", "message"),
    [
        (
            "deepseek/deepseek-v4-pro",
            part("a.png"),
            "deepseek/deepseek-v4-pro does not read images: a.png\nNext: --model anthropic/claude-sonnet-5-5",
        ),
        (
            "mistral/mistral-medium-latest",
            part("a.pdf"),
            "mistral/mistral-medium-latest does not read PDF files: a.pdf\nNext: --model anthropic/claude-sonnet-5-5",
        ),
        (
            "anthropic/claude-sonnet-5-5",
            part("a.mp3"),
            "anthropic/claude-sonnet-5-5 does not read audio: a.mp3\nNext: --model google/gemini-3.8-flash",
        ),
        (
            "openai/gpt-6.1-terra",
            part("a.tiff", "image/tiff"),
            "openai/gpt-6.1-terra does not read images of type image/tiff: a.tiff\nNext: leave out a.tiff",
        ),
        (
            "local:model.gguf",
            part("a.pdf"),
            "local:model.gguf does not read PDF files: a.pdf\nNext: --model anthropic/claude-sonnet-5-5",
        ),
    ],
)
def test_media_that_a_model_does_not_read_are_refused(model: str, attached: TaskPart, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_media([attached], model, Config())
    assert str(caught.value) == message
