"""/copy: what is copied, and by what."""

import base64
import os
from collections.abc import Mapping
from pathlib import Path

import pytest
import trio

from engine.cli.chat.copy_text import copy_text
from engine.cli.chat.display.clipboard import copy_sequence
from engine.cli.chat.state_commands import copy_answer
from engine.core.ids import MessageId, PartId
from engine.core.messages import AssistantMessage, TextPart, Transcript

TEXTS = ["first", "second\n```py\na = 1\n```\n\n~~~\nb\n~~~"]
ANSWERS = Transcript(
    AssistantMessage(id=MessageId(text), parts=(TextPart(id=PartId("p"), text=text),), model="m") for text in TEXTS
)


@pytest.mark.parametrize(
    ("argument", "copied"),
    [
        ("", "second\n```py\na = 1\n```\n\n~~~\nb\n~~~"),
        ("2", "first"),
        ("code", "a = 1\n"),
        ("code 2", "b\n"),
        ("3", ""),
        ("x", ""),
        ("code 3", ""),
    ],
)
def test_what_is_copied(argument: str, copied: str) -> None:
    result = copy_answer(ANSWERS, argument.split())
    assert (result.copied, bool(result.lines)) == (copied, not copied)


def program(folder: Path, name: str, script: str) -> str:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


async def copied(env: Mapping[str, str], *, has_sequences: bool = True) -> tuple[str, str]:
    outcome = await copy_text("text", env, has_sequences=has_sequences)
    return outcome.remark, outcome.raw


@pytest.mark.os
def test_program_of_this_machine_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", program(tmp_path / "bin", "wl-copy", f"cat > {tmp_path}/copied"))
    assert trio.run(copied, {"WAYLAND_DISPLAY": "w"}) == ("Copied.", "")
    assert (tmp_path / "copied").read_text() == "text"
    remark, raw = trio.run(copied, {"WAYLAND_DISPLAY": "w", "SSH_CONNECTION": "1"})
    assert (remark, bool(raw)) == ("Sent to the terminal's clipboard.", True)


@pytest.mark.os
def test_tmux_hands_the_text_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(
        "PATH", program(tmp_path / "bin", "tmux", f'echo "$@" > {tmp_path}/arguments; cat > {tmp_path}/copied')
    )
    assert trio.run(copied, {"TMUX": "x"}) == ("Sent to the terminal's clipboard.", "")
    assert (tmp_path / "arguments").read_text() == "load-buffer -w -\n"
    assert (tmp_path / "copied").read_text() == "text"


@pytest.mark.os
def test_program_that_fails_leaves_it_to_the_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", program(tmp_path / "bin", "xclip", "exit 1"))
    assert trio.run(copied, {"DISPLAY": ":0"})[1] == copy_sequence("text", {})


def test_without_sequences_nothing_is_claimed() -> None:
    async def main() -> tuple[str, str]:
        return await copied({}, has_sequences=False)

    assert trio.run(main) == ("No program here copies. Next: install wl-clipboard or xclip", "")


def test_screen_gets_short_pieces() -> None:
    sequence = copy_sequence("x" * 3_000, {"STY": "1"})
    pieces = sequence.split("\x1b\\")[:-1]
    assert all(piece.startswith("\x1bP") and len(piece) <= 768 for piece in pieces)
    inner = "".join(piece[2:] for piece in pieces)
    assert base64.b64decode(inner.removeprefix("\x1b]52;c;").removesuffix("\x07")) == b"x" * 3_000
