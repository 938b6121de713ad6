"""Files that go with a prompt."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any, cast

import pytest

import engine
from engine.core.errors import ConfigError
from engine.core.messages import FilePart, ImagePart, MediaPart, TextPart, UserMessage
from engine.session.attachments import LARGEST
from engine.testing.script import done, text
from tests.support.world import world

PNG = b"\x89PNG\r\n\x1a\nrest"
ANSWER = [*text("Seen."), *done()]


def image(media_type: str, data: bytes) -> MediaPart:
    return ImagePart(media_type=media_type, data=base64.b64encode(data).decode())


def file(media_type: str, data: bytes, name: str = "") -> MediaPart:
    return FilePart(media_type=media_type, data=base64.b64encode(data).decode(), name=name)


@pytest.mark.parametrize(
    ("data", "name", "expected"),
    [
        (PNG, "", image("image/png", PNG)),
        (b"\xff\xd8\xffrest", "wrong.png", image("image/jpeg", b"\xff\xd8\xffrest")),
        (b"GIF89a..", "", image("image/gif", b"GIF89a..")),
        (b"RIFF....WEBP..", "", image("image/webp", b"RIFF....WEBP..")),
        (b"RIFF....WAVE..", "", file("audio/wav", b"RIFF....WAVE..")),
        (b"%PDF-1.7", "a.pdf", file("application/pdf", b"%PDF-1.7", "a.pdf")),
        (b"ID3...", "", file("audio/mpeg", b"ID3...")),
        (b"hello", "notes.txt", file("text/plain", b"hello", "notes.txt")),
    ],
)
async def test_media_type_comes_from_the_first_bytes(data: bytes, name: str, expected: MediaPart) -> None:
    assert await engine.attach(data, name=name) == expected


async def test_host_may_name_the_media_type() -> None:
    assert await engine.attach(b"x", media_type="video/mp4") == file("video/mp4", b"x")


async def test_a_path_is_read_and_gives_its_name(tmp_path: Path) -> None:
    path = tmp_path / "paper.pdf"
    path.write_bytes(b"%PDF-1.4")
    assert (
        await engine.attach(path) == await engine.attach(str(path)) == file("application/pdf", b"%PDF-1.4", "paper.pdf")
    )


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("/nowhere/at/all.png", "can't attach /nowhere/at/all.png: No such file or directory"),
        ("~nobody-of-this-name/x.png", "can't attach ~nobody-of-this-name/x.png: "),
        (b"", "it is empty"),
        (b"?", "media_type="),
        (b"\x89PNG\r\n\x1a\n" + b"x" * LARGEST, "larger than 32 MB"),
    ],
)
async def test_unattachable_files_are_reported(source: str | bytes, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        await engine.attach(source)
    assert words in str(caught.value)


async def test_attachment_precedes_text_in_every_request() -> None:
    shot = await engine.attach(PNG)
    async with world(ANSWER, repeat=True) as w:
        async with w.session.prompt("what is this?", attachments=[shot]) as turn:
            await turn.wait()
        await w.session.run("and now?", attachments=(shot,))
        turn = w.engine.start_turn(w.session, "again", attachments=[shot])
        await turn.wait()
        said = [m for m in w.requests[-1].transcript if isinstance(m, UserMessage)]
    assert [[type(part) for part in message.parts] for message in said] == [[ImagePart, TextPart]] * 3
    assert [message.text for message in said] == ["what is this?", "and now?", "again"]


@pytest.mark.parametrize("wrong", ["shot.png", ["shot.png"], [b"x"], 5, [None]])
async def test_anything_else_is_refused(wrong: object) -> None:
    async with world(ANSWER) as w:
        with pytest.raises(ConfigError, match=r"engine\.attach"):
            w.session.prompt("go", attachments=cast("Any", wrong))
