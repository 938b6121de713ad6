"""What the chat does to the terminal: it arms little, and every end of it leaves a shell that works (cli A7, A8)."""

import os
import random
import re
import signal
import sys
import time
from pathlib import Path

import pytest

from tests.cli.chat.display.test_live_region import FORBIDDEN
from tests.cli.conftest import Start
from tests.cli.processes import Command

pytestmark = [pytest.mark.slow, pytest.mark.os]

CHAT = f"{sys.executable} -m engine chat"
# Of the pasteboard, and of a window's title; everything else that is written is text, colours and moves of the cursor.
SEQUENCE = re.compile(r"\x1b(\[[0-9;:<=>?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)|.)")
WRITTEN = re.compile(r"\x1b\[([0-9;]*m|[0-9]*[ABCDJK]|\?20(04|26)[hl])|\x1b\]52;c;[\w+/=]*\x07")
ENDS = ("kill", "term", "hup", "stop", "tstp", "ctrl-z", "quit")


def is_paired(output: str, mode: str) -> bool:
    """Whether a mode is set and reset in turn, and reset in the end."""
    changes = re.findall(rf"\x1b\[\?{mode}([hl])", output)
    return "".join(changes) == "hl" * (len(changes) // 2)


def test_whole_chat_writes_harmless_sequences(engine: Start, tmp_path: Path) -> None:
    (tmp_path / "editor").write_text('#!/bin/sh\nprintf "edited" >"$1"\n')
    (tmp_path / "editor").chmod(0o755)
    chat = engine("chat", terminal=True, NO_COLOR="", EDITOR=str(tmp_path / "editor"), DISPLAY="", WAYLAND_DISPLAY="")

    def step(keys: str, comes: str) -> None:
        before = len(chat.output)
        time.sleep(0.05)  # lines that come at once are a paste
        chat.type(keys)
        chat.read_until(comes, after=before)

    chat.read_until("Ready")
    step("chat\r", "Done in")
    step("escapes\r", "Done in")
    chat.resize(50, 20)
    step("slow\r", "word")
    step("\x1b", "Cancelled")
    step("write\r", "[y]")
    time.sleep(0.8)  # what is typed sooner is no answer
    chat.type("\t")
    step("y", "[y]")
    chat.type("\t")
    step("n", "Stopped")
    step("\x12", "filter>")
    step("\x1b", "> ")
    step("\x07", "edited")
    chat.type("\x15")
    step("/copy\r", "clipboard")
    step("\x0c/status\r", "turns")
    chat.type("\x04")
    assert chat.wait() == 0
    assert FORBIDDEN.search(chat.output) is None
    assert {found[0] for found in SEQUENCE.finditer(chat.output) if not WRITTEN.fullmatch(found[0])} == set()
    assert is_paired(chat.output, "2004")
    assert is_paired(chat.output, "2026")


class Shell:
    """A shell on a terminal, in which the chat is started."""

    def __init__(self, command: Command, folder: Path) -> None:
        self.command, self._folder = command, folder
        self.command.read_until("shell> ")
        self.settings = self.ask("stty -a")
        self._chat = CHAT

    def ask(self, line: str) -> str:
        """What a command prints, typed as a user does."""
        path = self._folder / "said"
        path.unlink(missing_ok=True)
        before = len(self.command.output)
        # The letters of the answer are not among those that are typed.
        self.command.type(f"{line} >{path}; echo o''k\r")
        self.command.read_until("ok", after=before)
        self.command.read_until("shell> ", after=before)
        return path.read_text()

    def start(self) -> int:
        """Start the chat; return the process."""
        before = len(self.command.output)
        self.command.type(f"{self._chat}\r")
        self.command.read_until("Ready", after=before)
        return int(Path(f"/proc/{self.command.process.pid}/task/{self.command.process.pid}/children").read_text())

    def begin(self) -> None:
        """Have a session whose prompts name the scenarios; it is continued from then on."""
        pid = self.start()
        self.command.type("chat\r")
        self.command.read_until("Done in")
        self.end("quit", pid)
        self._chat = f"{CHAT} --continue"

    def end(self, how: str, pid: int) -> None:
        """End or stop the chat, and wait for the shell's prompt."""
        before = len(self.command.output)
        match how:
            case "kill":
                os.kill(pid, signal.SIGKILL)
            case "term":
                os.kill(pid, signal.SIGTERM)
            case "hup":
                os.kill(pid, signal.SIGHUP)
            case "stop":
                os.kill(pid, signal.SIGSTOP)
            case "tstp":
                os.kill(pid, signal.SIGTSTP)
            case "ctrl-z":
                self.command.type("\x1a")
            case _:
                self.command.type("\x03")
                time.sleep(0.2)
                self.command.type("\x03\x04")
        self.command.read_until("shell> ", after=before)

    def wait_for_draft(self, text: str) -> None:
        deadline = time.monotonic() + 20
        while self.draft() != text:
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def draft(self) -> str:
        files = list((self._folder / "no-state" / "engine" / "chat").glob("*.draft"))
        return "".join(file.read_text() for file in files)


@pytest.fixture
def shell(engine: Start, tmp_path: Path) -> Shell:
    command = engine("--norc", "--noprofile", "-i", terminal=True, program=["bash"], PS1="shell> ", HISTFILE="")
    return Shell(command, tmp_path)


@pytest.mark.timeout(1_200)  # a hundred programs, in `make full`
def test_shell_works_after_every_end(shell: Shell, is_full: bool) -> None:
    dice = random.Random(8)
    ends = [dice.choice(ENDS) for _ in range(100)] if is_full else ["kill", "tstp"]
    shell.begin()
    draft = ""
    for number, how in enumerate([*ends, "quit"]):
        before = len(shell.command.output)
        pid = shell.start()
        # What the last one was writing is there again.
        shell.command.read_until(f"> {draft}", after=before)
        before = len(shell.command.output)
        shell.command.type("\x15words 90\r")
        shell.command.read_until("w00", after=before)
        draft = "" if how == "quit" else f"draft {number}"
        shell.command.type(draft)
        shell.command.read_until(draft, after=before)
        if how == "kill":
            shell.wait_for_draft(draft)
        time.sleep(dice.random())
        shell.end(how, pid)
        assert shell.ask("stty -a") == shell.settings, how
        if how in {"stop", "tstp", "ctrl-z"}:
            before = len(shell.command.output)
            shell.command.type("fg\r")
            shell.command.read_until(f"> {draft}", after=before)
            shell.end("term", pid)
            assert shell.ask("stty -a") == shell.settings, how
    assert shell.draft() == ""
