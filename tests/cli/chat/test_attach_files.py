"""Files and images that go with a message: as labels in the draft, and as media in what is sent."""

import os
import struct
from pathlib import Path

import pytest
import trio

from engine.cli.chat.attach_files import (
    AttachedFile,
    AttachFailure,
    attach_clipboard,
    attach_path,
    image_pixels,
)
from engine.cli.chat.machine import effects as do
from engine.cli.chat.machine.pasted_path import pasted_image
from engine.cli.chat.message_files import load_message
from engine.config.config import Config
from engine.core.errors import ConfigError
from engine.process.kill_tree import find_marked
from tests.cli.chat.chat_machine import Chat
from tests.support.cancel_at import CancelAt

PNG = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + b"IHDR" + struct.pack(">II", 1280, 800) + bytes(240_000)
READER = "anthropic/claude-sonnet-4-5"


@pytest.mark.parametrize(
    ("head", "pixels"),
    [
        (PNG, (1280, 800)),
        (b"GIF89a" + struct.pack("<HH", 3, 4), (3, 4)),
        (b"\xff\xd8\xff\xe0\x00\x04ab\xff\xc0\x00\x11\x08\x00\x05\x00\x07", (7, 5)),
        (b"RIFF\x00\x00\x00\x00WEBPVP8X" + bytes(8) + b"\x09\x00\x00\x13\x00\x00", (10, 20)),
        (b"\x89PNG\r\n\x1a\n", None),
        (b"\xff\xd8\xff", None),
        (b"plain", None),
    ],
)
def test_pixels_of_an_image(head: bytes, pixels: tuple[int, int] | None) -> None:
    assert image_pixels(head) == pixels


def test_image_is_a_label_and_sent_as_its_path(tmp_path: Path) -> None:
    (tmp_path / "a b.png").write_bytes(PNG)
    attached = attach_path("a b.png", str(tmp_path))
    assert isinstance(attached, AttachedFile)
    assert attached == AttachedFile(str(tmp_path / "a b.png"), "Image", "1280×800 240 kB")
    chat = Chat()
    chat.type("see")
    chat.machine.attach(attached.path, attached.kind, attached.size)
    assert chat.machine.composer.rows[0].shown == "see [Image #1 1280×800 240 kB] "
    assert chat.machine.composer.text == f'see @"{tmp_path}/a b.png" '


def test_files_that_can_not_be_attached(tmp_path: Path) -> None:
    for name in ("none.png", ".", "~nobody-here/x", "a\0b"):
        assert isinstance(attach_path(name, str(tmp_path)), AttachFailure)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("/tmp/a.png", "/tmp/a.png"),
        ("'/tmp/a b.PNG'\n", "/tmp/a b.PNG"),
        ("/tmp/a\\ b.jpeg", "/tmp/a b.jpeg"),
        ("/tmp/a b.webp", "/tmp/a b.webp"),
        ("file:///tmp/a%20b.gif", "/tmp/a b.gif"),
        ("see /tmp/a.png", ""),
        ("/tmp/a.png\n/tmp/b.png", ""),
        ("/tmp/notes.txt", ""),
        ("it's", ""),
    ],
)
def test_pasted_path_of_an_image(text: str, path: str) -> None:
    assert pasted_image(text) == path


def test_paste_of_a_path_attaches_and_of_nothing_asks_the_clipboard() -> None:
    chat = Chat()
    chat.paste("/tmp/a.png")
    chat.paste("")
    chat.press("ctrl+v")
    chat.type("/attach b.pdf")
    chat.press("enter")
    assert chat.take() == [
        do.AttachFile("/tmp/a.png", pasted="/tmp/a.png"),
        do.AttachClipboard(),
        do.AttachClipboard(),
        do.AttachFile("b.pdf"),
    ]
    assert chat.machine.composer.is_empty


def test_message_is_loaded_with_its_files(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(PNG)
    (tmp_path / "a.txt").write_text("words")
    (tmp_path / "id_rsa").write_text("key")

    async def load(text: str, model: str = READER) -> tuple[str, int]:
        loaded = await load_message(text, str(tmp_path), model, Config())
        return loaded.text, len(loaded.media)

    assert trio.run(load, "no files") == ("no files", 0)
    text, count = trio.run(load, "see @a.png and @a.txt")
    assert (text.startswith("see @a.png and @a.txt\n\n<file"), "words" in text, count) == (True, True, 1)
    with pytest.raises(ConfigError, match="looks like a file with keys"):
        trio.run(load, "@id_rsa")
    with pytest.raises(ConfigError, match="does not read images"):
        trio.run(load, "@a.png", "deepseek/deepseek-v4-pro")


# -- the clipboard


def clipboard_program(folder: Path, script: str) -> dict[str, str]:
    """An environment whose clipboard is a script."""
    program = folder / "bin" / "wl-paste"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return {"WAYLAND_DISPLAY": "w", "PATH": f"{program.parent}:{os.environ['PATH']}"}


@pytest.mark.os
def test_image_of_the_clipboard_is_saved_for_its_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.png").write_bytes(PNG)
    env = clipboard_program(tmp_path, f"cat {tmp_path}/a.png")
    monkeypatch.setenv("PATH", env["PATH"])
    attached = trio.run(attach_clipboard, tmp_path / "images", env)
    assert isinstance(attached, AttachedFile)
    assert (attached.kind, attached.size) == ("Image", "1280×800 240 kB")
    assert Path(attached.path).read_bytes() == PNG
    assert Path(attached.path).stat().st_mode & 0o077 == 0


@pytest.mark.os
def test_clipboard_without_an_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    env = clipboard_program(tmp_path, "echo text")
    monkeypatch.setenv("PATH", env["PATH"])
    assert trio.run(attach_clipboard, tmp_path, env) == AttachFailure("There is no image in the clipboard")


def test_no_clipboard_names_the_way_out(tmp_path: Path) -> None:
    for env in ({}, {"SSH_CONNECTION": "1"}):
        failure = trio.run(attach_clipboard, tmp_path, env)
        assert isinstance(failure, AttachFailure)
        assert "/attach FILE" in failure.message


@pytest.mark.os
@pytest.mark.slow
def test_cancel_everywhere_leaves_no_clipboard_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.png").write_bytes(PNG)
    env = clipboard_program(tmp_path, f"cat {tmp_path}/a.png; sleep 0.05")
    monkeypatch.setenv("PATH", env["PATH"])

    def play(step: int | None) -> CancelAt:
        points = CancelAt(step)

        async def main() -> None:
            with points.scope():
                await attach_clipboard(tmp_path / "images", env)

        trio.run(main, instruments=[points])
        assert not find_marked(lambda mark: mark.startswith("clipboard/"))
        for path in (tmp_path / "images").glob("*.png"):
            assert path.read_bytes() == PNG  # saved whole, or not at all
        return points

    steps = play(None).steps
    assert sum(play(step).has_fired for step in range(0, steps, 2)) > steps // 4
