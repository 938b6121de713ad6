"""The accessible chat: every line once, no escape sequences, and everything can be done in lines."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.processes import REPOSITORY

pytestmark = pytest.mark.slow


class Lines:
    """The chat on pipes."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self.output = ""

    def type(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def read_until(self, *texts: str) -> str:
        """Read until one of *texts* has come; return it."""
        assert self.process.stdout is not None
        while True:
            line = self.process.stdout.readline()
            assert line, f"{texts!r} did not come; this did:\n{self.output}"
            self.output += line
            found = next((text for text in texts if text in line), None)
            if found is not None:
                return found

    def answer(self, number: str, text: str) -> None:
        """Answer until *text* comes: what is typed too soon after a question is a message."""
        while self.read_after(number, "Queued for", text) != text:
            pass

    def read_after(self, line: str, *texts: str) -> str:
        self.type(line)
        return self.read_until(*texts)

    def end(self) -> int:
        out, _ = self.process.communicate(timeout=60)
        self.output += out
        return self.process.returncode


@pytest.fixture
def chat(host: str, tmp_path: Path) -> Iterator[Lines]:
    environment = {
        **os.environ,
        "PYTHONPATH": str(REPOSITORY),
        "ANTHROPIC_API_KEY": "test-key-0123456789",
        "ANTHROPIC_BASE_URL": host,
        "ENGINE_MODEL": "anthropic/claude-sonnet-5-5",
        "ENGINE_CONFIG": "",
        **{f"XDG_{name}_HOME": str(tmp_path / name) for name in ("CONFIG", "STATE", "DATA")},
        "HOME": str(tmp_path / "home"),
    }
    folder = tmp_path / "project"
    folder.mkdir()
    with subprocess.Popen(
        [sys.executable, "-m", "engine", "chat", "--accessible"],
        cwd=folder,
        env=environment,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:
        try:
            yield Lines(process)
        finally:
            process.kill()


def test_question_is_answered_by_a_number(chat: Lines, tmp_path: Path) -> None:
    chat.type("write")
    chat.read_until("6. Details")
    chat.answer("6", "Asked by")
    chat.answer("1", "Allow bash")
    assert (tmp_path / "project" / "a.txt").read_text() == "one\nTWO\n"
    assert "\x1b" not in chat.output


def test_feedback_is_asked_for_in_words(chat: Lines, tmp_path: Path) -> None:
    chat.type("write")
    chat.read_until("6. Details")
    chat.answer("5", "Type what to do instead.\n")
    chat.type("use another name")
    chat.read_until("instead: use another name")
    assert not (tmp_path / "project" / "a.txt").exists()


def test_transcript_has_labels(chat: Lines) -> None:
    chat.type("chat")
    chat.read_until("Done in")
    chat.type("/status")
    chat.read_until("turns")
    chat.type("/modle")
    chat.read_until("did you mean /model?")
    chat.type("/quit")
    assert chat.end() == 0
    lines = chat.output.splitlines()
    assert lines[0] == "Accessible mode: nothing is redrawn. Type a line and press Enter."
    assert "You: chat" in lines
    assert "Engine: Ready to chat." in lines
    assert "\x1b" not in chat.output


def test_end_of_input_waits_for_the_turn(chat: Lines) -> None:
    chat.type("chat")
    assert chat.end() == 0
    assert "Engine: Ready to chat." in chat.output


def test_failure_has_the_words_of_a_run(chat: Lines) -> None:
    chat.type("refused")
    chat.read_until("Another model: ")
    chat.answer("2", "Stopped.")
    chat.read_until("Stopped after")
    chat.type("/quit")
    assert chat.end() == 0
    # In the question, and at the end with what to do.
    words = "Anthropic rejected the key in ANTHROPIC_API_KEY (ends …6789)\n"
    assert chat.output.count(words) == 2
    assert f"Note: {words}Next: engine auth test anthropic\nor: set ANTHROPIC_API_KEY to another key\n" in chat.output


def test_rewind_is_chosen_by_numbers_and_redone(chat: Lines, tmp_path: Path) -> None:
    file = tmp_path / "project" / "a.txt"
    chat.type("write")
    chat.read_until("6. Details")
    chat.answer("1", "Allow bash")
    chat.read_until("6. Details")
    chat.answer("1", "Done in")
    assert file.exists()
    chat.read_after("/rewind", "1. write")
    chat.read_after("1", "-one")
    chat.read_until("4. Summarise from here")
    chat.read_after("1", "Undone: the turn. The prompt is in the composer")
    assert not file.exists()
    chat.read_after("/redo", "Changed: a.txt")
    assert file.read_text() == "one\nTWO\n"
    chat.read_after("/theme mono", "The theme is mono")
    chat.read_after("/undo force", "Undone: the turn")
    assert not file.exists()


def test_command_leaves_a_list(chat: Lines) -> None:
    chat.type("/theme")
    chat.read_until("4. color-blind")
    chat.type("purple")
    chat.read_until("Nothing matches purple.")
    chat.type("/theme mono")
    chat.read_until("The theme is mono.")
    chat.type("/context")
    chat.read_until("tools: ")
    assert "##" not in chat.output
    chat.type("/help")
    chat.read_until("Ctrl+D: quit")
    assert "escape" not in chat.output


def test_draft_of_an_undone_turn_is_told(chat: Lines) -> None:
    chat.type("chat")
    chat.read_until("Done in")
    chat.type("/undo")
    chat.read_until("Draft: chat")
    chat.read_until("An empty line sends the draft")
    chat.process.send_signal(signal.SIGINT)
    chat.read_until("The draft is cleared")
    chat.type("remember me")
    chat.read_until("You: remember me")


def test_output_is_added_to_the_draft(chat: Lines) -> None:
    chat.type("chat")
    chat.read_until("Done in")
    chat.type("/undo")
    chat.read_until("An empty line sends")
    chat.type("!echo h''i")
    chat.read_until("exit 0")
    chat.type("/add")
    chat.read_until("The draft ends with the output.")
    chat.type("")
    chat.read_until("You: chat")
    chat.read_until("I ran this command (exit 0)")


def test_tab_completes_the_end_of_a_line(chat: Lines, tmp_path: Path) -> None:
    folder = tmp_path / "project/colours"
    folder.mkdir()
    for name in ("red.txt", "green.txt"):
        (folder / name).write_text("a colour\n")
    chat.read_after("chat", "Done in")
    # A folder first; Tab alone goes on with the draft, and a number chooses.
    chat.read_after("hello @colou\t", "Draft: hello @colours/")
    chat.read_after("\t", "Complete: type a number")
    chat.read_until("2. ")
    chat.read_after("red", "1. colours/red.txt")
    chat.read_after("1", "Draft: hello @colours/red.txt")
    chat.read_after("/he\t", "A draft is kept.")
    chat.read_after("", "You: hello")
    chat.read_until("Done in")
    # Commands are completed, and run with an empty line.
    chat.read_after("/renam\t", "Draft: /rename")
    chat.read_after("", "the title is missing")
    chat.read_after("nothing to complete\t", "You: nothing to complete")
    chat.read_until("Done in")
    chat.type("/quit")
    assert chat.end() == 0
