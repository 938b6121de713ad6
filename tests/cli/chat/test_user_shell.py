"""A command of the user's own: it runs here, is shown, and leaves no process behind however it ends."""

import os
import time
from pathlib import Path

import pytest
import trio

from engine.cli.chat.machine import effects as do
from engine.cli.chat.machine.shell_run import MAX_LINES, ShellRun
from engine.cli.chat.user_shell import UserShell
from engine.core.ids import SessionId
from engine.process.kill_tree import find_marked
from engine.tools.shell_environment import marker
from tests.cli.chat.chat_machine import Chat
from tests.support.cancel_at import CancelAt

SESSION = SessionId("ses_shell")


def processes() -> list[object]:
    """Those that are left; one that was killed may take a moment to be gone."""
    until = time.monotonic() + 60
    while (left := find_marked(lambda mark: mark.startswith(marker(SESSION)))) and time.monotonic() < until:
        time.sleep(0.01)
    return [*left]


def shell_in(folder: Path) -> UserShell:
    return UserShell(lambda: os.fspath(folder), SESSION)


@pytest.mark.os
@pytest.mark.parametrize(
    ("command", "status", "output"),
    [
        ("echo one; echo two >&2", "exit 0", b"one\ntwo\n"),
        ("exit 3", "exit 3", b""),
        ("kill -9 $$", "ended by signal 9", b""),
    ],
)
def test_command_runs_and_says_how_it_ended(tmp_path: Path, command: str, status: str, output: bytes) -> None:
    chunks: list[bytes] = []
    assert trio.run(shell_in(tmp_path).run, command, chunks.append) == status
    assert b"".join(chunks) == output


@pytest.mark.os
def test_stop_ends_the_whole_tree(tmp_path: Path) -> None:
    async def main() -> str:
        shell, status = shell_in(tmp_path), ""

        async def run() -> None:
            nonlocal status
            status = await shell.run("sleep 1000 & setsid sleep 1000 & echo on; sleep 1000", lambda _: shell.stop())

        with trio.fail_after(60):
            await run()
        return status

    assert trio.run(main) == "stopped"
    assert not processes()


@pytest.mark.os
@pytest.mark.slow
def test_cancel_everywhere_leaves_no_process(tmp_path: Path) -> None:
    def play(step: int | None) -> CancelAt:
        points = CancelAt(step)

        async def main() -> None:
            with points.scope():
                await shell_in(tmp_path).run("sleep 1000 & echo on", lambda _: None)

        trio.run(main, instruments=[points])
        assert not processes()
        return points

    steps = play(None).steps
    assert steps > 5
    # A run may have fewer steps than the one before: output comes in one piece, or in several.
    assert sum(play(step).has_fired for step in range(steps)) > steps // 2


def test_exclamation_mark_runs_a_command_and_sends_nothing() -> None:
    chat = Chat()
    chat.type("!ls -l")
    chat.press("enter")
    assert chat.take() == [do.RunShell("ls -l")]
    assert chat.machine.composer.is_empty
    chat.machine.begin_shell("ls -l", "", 0.0)
    chat.type("!pwd")
    chat.press("enter")
    assert (chat.take(), chat.machine.notice) == ([], "A command is running. Esc stops it")
    chat.press("escape")
    assert chat.take() == [do.StopShell()]


def test_output_is_added_to_the_draft_on_request() -> None:
    chat = Chat()
    chat.machine.begin_shell("ls", "", 0.0)
    chat.machine.feed_shell(b"a\nb\n")
    chat.machine.end_shell("exit 0")
    chat.type("/add")
    chat.press("enter")
    assert chat.machine.composer.text == "I ran this command (exit 0):\n```\n$ ls\na\nb\n```"
    assert not chat.take()


def test_output_is_shown_without_its_sequences() -> None:
    run = ShellRun("x", 0.0)
    assert run.feed(b"\x1b[31mred\x1b[0m\r\nold\rnew\n\x07bell \xe6\x97") == ["  red", "  new"]
    assert run.feed(b"\xa5\n") == ["  ^Gbell 日"]


def test_endless_output_is_bounded() -> None:
    run = ShellRun("yes", 0.0)
    lines = sum(len(run.feed(b"y\n" * 30_000)) for _ in range(50))
    assert lines == MAX_LINES
    assert run.finish("stopped") == ["  1,498,000 more lines are not shown"]
    assert len(run.as_text()) < 150_000


def test_pasted_exclamation_mark_runs_nothing() -> None:
    chat = Chat()
    chat.paste("![picture](a.png)")
    chat.press("enter")
    (effect,) = chat.take()
    assert isinstance(effect, do.SendPrompt)
    assert effect.parts[0].text == " ![picture](a.png)"
