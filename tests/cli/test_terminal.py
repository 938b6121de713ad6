"""`engine run` on a terminal: questions, steering, Ctrl-C, Ctrl-D, a hang-up, and a status line."""

import re
import signal
import sys
import time
from pathlib import Path

import pytest

from tests.cli.conftest import Start
from tests.cli.processes import await_sleepers, sleepers, token

pytestmark = [pytest.mark.os, pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")]

PROMPT = "\r\n  Answer: "


def test_question_shows_the_change(engine: Start, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    command = engine("run", "rewrite", terminal=True)
    command.read_until(PROMPT)
    assert "● Allow write to change this file?\r\n" in command.output
    assert "    -two\r\n    +TWO\r\n" in command.output
    assert (tmp_path / "a.txt").read_text() == "one\ntwo\n"
    command.type("once\n")
    command.read_until("Allow bash to run this command?")
    assert (tmp_path / "a.txt").read_text() == "one\nTWO\n"
    command.read_until(PROMPT)
    command.answer("y")
    assert command.wait() == 0
    assert (
        "· Allowed once: edit a.txt; asked by the rule 'ask * *' of the layer defaults (profile ask)\r\n"
        in command.output
    )
    assert "✓ bash  cat a.txt | tee b.txt  exit code 0" in command.output
    (session_id,) = set(re.findall(r"ses_\w+", command.output))
    shown = engine("sessions", "show", session_id)
    assert shown.wait() == 0
    assert (
        "    Allowed once: edit a.txt; asked by the rule 'ask * *' of the layer defaults (profile ask)\n"
        in shown.output
    )


def test_a_new_file_is_shown_whole(engine: Start) -> None:
    command = engine("run", "write", terminal=True)
    command.read_until(PROMPT)
    assert "    --- /dev/null\r\n    +++ a.txt\r\n    @@ -0,0 +1,2 @@\r\n    +one\r\n    +TWO\r\n" in command.output


def test_sub_agent_question_names_it(engine: Start, tmp_path: Path) -> None:
    command = engine("run", "delegate general bash touch x", terminal=True)
    command.read_until(PROMPT)
    assert "● Allow task to start this sub-agent?\r\n    general: bash touch x\r\n" in command.output
    command.type("y\n")
    command.read_until("Allow bash to run this command?")
    command.read_until("\r\n  Asked by sub-agent general: bash touch x\r\n")
    command.read_until(PROMPT)
    command.answer("no, look first")
    command.read_until("denied: Rejected by the user: no, look first")
    assert command.wait() == 0
    assert "✓ task  bash touch x  general: completed, 2 requests" in command.output
    assert not (tmp_path / "x").exists()


def test_rejecting_stops_the_turn(engine: Start, tmp_path: Path) -> None:
    command = engine("run", "write", terminal=True)
    command.read_until(PROMPT)
    command.type("r\n")
    assert command.wait() == 3
    assert "denied: Rejected by the user." in command.output
    assert "Permission rejected" in command.output
    assert not (tmp_path / "a.txt").exists()


def test_feedback_goes_to_the_model(engine: Start, tmp_path: Path) -> None:
    command = engine("run", "write", terminal=True)
    command.read_until(PROMPT)
    command.type("not that file\n")
    command.read_until("denied: Rejected by the user: not that file")
    command.read_until("Allow bash")
    command.read_until(PROMPT)
    command.answer("a")
    assert command.wait() == 0
    assert "All done." in command.output
    assert not (tmp_path / "a.txt").exists()


def test_empty_line_answers_nothing(engine: Start) -> None:
    command = engine("run", "write", terminal=True)
    command.read_until(PROMPT)
    command.output = ""
    command.type("\n")
    command.read_until(PROMPT)
    assert "  [y] Yes, once\r\n" in command.output
    command.answer("r")
    assert command.wait() == 3


def test_message_being_typed_is_no_answer(engine: Start, tmp_path: Path) -> None:
    """What was typed when the question appears stays the beginning of a message; Tab answers beside it."""
    command = engine("run", "bash touch x", terminal=True)
    command.type("look at a.tx")
    command.read_until("\r\n  Your message (Tab, then an answer, answers the question): look at a.tx")
    command.type("t\n")
    command.read_until("  Queued for the next step.\r\n")
    command.read_until(PROMPT)
    command.type("and at b")
    command.answer("y")
    command.read_until("\r\n  Your message: and at b")
    assert command.wait() == 0
    assert "  Not sent: and at b\r\n" in command.output
    assert (tmp_path / "x").exists()


def test_pasted_lines_are_no_answers(engine: Start, tmp_path: Path) -> None:
    command = engine("run", "bash touch x", terminal=True)
    command.read_until(PROMPT)
    assert command.output.count("\x1b[?2004h") == 1
    command.type("\x1b[200~y\n\x1b[201~y\n")
    command.read_until("  Queued for the next step.\r\n")
    command.read_until(PROMPT)
    command.answer("n")
    assert command.wait() == 3
    assert command.output.count("\x1b[?2004l") == 1
    assert not (tmp_path / "x").exists()


def test_questions_are_asked_beside_pipes(engine: Start, tmp_path: Path) -> None:
    """`git diff | engine run … > answer`: the keyboard is the terminal, whatever standard input and output are."""
    program = ["sh", "-c", 'echo a diff | "$@" | cat > answer', "sh", sys.executable, "-m", "engine"]
    command = engine("run", "write it", terminal=True, program=program)
    command.read_until(PROMPT)
    command.type("y\n")
    command.read_until("Allow bash")
    command.read_until(PROMPT)
    command.answer("y")
    assert command.wait() == 0
    assert (tmp_path / "answer").read_text() == "All done.\n"
    assert (tmp_path / "b.txt").read_text() == "one\nTWO\n"


@pytest.mark.parametrize(("answer", "code", "last"), [("y", 0, "KEY=1"), ("", 2, ".env was not sent")])
def test_secret_file_is_sent_if_the_user_agrees(
    engine: Start, tmp_path: Path, answer: str, code: int, last: str
) -> None:
    (tmp_path / ".env").write_text("KEY=1\n")
    command = engine("run", "say @.env", terminal=True)
    command.read_until(".env looks like a file with keys. Send it to the model? [y/N] ")
    command.type(f"{answer}\n")
    assert command.wait() == code
    assert last in command.output


def test_details_show_rule_and_explanation(engine: Start) -> None:
    lines = "; ".join(f"echo {number}" for number in range(3)).replace("; ", "\n")
    command = engine("run", f"bash {lines}\ntouch x", terminal=True)
    command.read_until(PROMPT)
    command.answer("d")
    command.read_until("  Asked by: the rule 'ask * *' of the layer defaults (profile ask)\r\n")
    command.read_until("  [d] Details\r\n")
    command.answer("e")
    command.read_until("  What to do instead (Enter: back): ")
    command.answer("use head")
    assert command.wait() == 0
    assert "denied: Rejected by the user: use head" in command.output


def test_dumb_terminal_numbers_the_choices(engine: Start, tmp_path: Path) -> None:
    command = engine("run", "bash touch x", terminal=True, TERM="dumb")
    command.read_until(
        "Question: Allow bash to run this command?\r\n    touch x\r\n  Also writes: x\r\n  1. Yes, once\r\n"
    )
    command.read_until(PROMPT)
    command.answer("1")
    assert command.wait() == 0
    assert "\x1b" not in command.output
    assert (tmp_path / "x").exists()


WORDS = "or another answer (Enter to skip): "


def test_tool_questions_take_numbers_words_or_nothing(engine: Start) -> None:
    command = engine("run", "ask", terminal=True)
    command.read_until(f"  A number, {WORDS}")
    assert "● Which colour?\r\n    1  red: like a rose\r\n    2  blue\r\n" in command.output
    command.type("2\n")
    command.read_until(f"  Numbers, {WORDS}")
    assert "● Which ones?^[[2J\r\n    1  a\r\n" in command.output
    command.answer("3, 1")
    command.read_until("● Which way?")
    command.read_until(f"  A number, {WORDS}")
    command.answer("neither of them")
    command.read_until("● Why?\r\n  Answer (Enter to skip): ")
    command.answer("")
    assert command.wait() == 0
    told = command.output.replace("\r\n", "\n").partition("I was told:\n")[2]
    assert told.startswith(
        "Question: Which colour?\nAnswer: blue\n\nQuestion: Which ones?^[[2J\nAnswer: c; a\n\n"
        "Question: Which way?\nAnswer: neither of them\n\n"
        "Question: Why?\nAnswer: (no answer: the user declined, or no one is available to answer)\n"
    )
    assert "permission" not in command.output


def test_sub_agent_permission_is_asked_here(engine: Start) -> None:
    command = engine("run", "delegate general bash touch hi", terminal=True)
    command.read_until(PROMPT)
    assert "● Allow task to start this sub-agent?\r\n" in command.output
    command.type("ok\n")
    command.read_until("● Allow bash to run this command?\r\n    touch hi\r\n")
    command.read_until(PROMPT)
    command.answer("sure")
    assert command.wait() == 0
    assert "✓ bash  touch hi  exit code 0" in command.output
    assert "✓ task" in command.output


def test_ctrl_c_withdraws_a_tool_question(engine: Start) -> None:
    command = engine("run", "ask", terminal=True)
    command.read_until(WORDS)
    command.type("\x03")
    assert command.wait() == 130
    assert "\r\n  Withdrawn, as its call has ended.\r\n" in command.output
    assert "1 tool call stopped. No processes left." in command.output


def test_ctrl_d_declines_tool_questions(engine: Start) -> None:
    command = engine("run", "ask", terminal=True)
    command.read_until(WORDS)
    command.type("\x04")
    assert command.wait() == 0
    assert command.output.count("(no answer: the user declined, or no one is available to answer)") == 4
    assert command.output.count(WORDS) == 1


def test_a_typed_line_steers(engine: Start, tmp_path: Path) -> None:
    command = engine("run", "--yes", "bash until [ -e go ]; do sleep 0.05; done", terminal=True)
    command.read_until("running 0 s")
    command.type("please hurry\n")
    command.read_until("Queued for the next step.")
    (tmp_path / "go").touch()
    assert command.wait() == 0
    assert "· the model reads your message now\r\n" in command.output


def test_the_status_line_is_erased_again(engine: Start, tmp_path: Path) -> None:
    command = engine("run", "--yes", "bash echo said; until [ -e go ]; do sleep 0.05; done", terminal=True)
    command.read_until("running 1 s · said")
    (tmp_path / "go").touch()
    assert command.wait() == 0
    assert "\r\x1b[K✓ bash" in command.output
    assert command.output.split("\x1b[K")[-1].count("running") == 0


def test_a_dumb_terminal_gets_no_cursor_tricks(engine: Start) -> None:
    command = engine("run", "--yes", "bash sleep 0.5", terminal=True, TERM="dumb")
    assert command.wait() == 0
    assert "\x1b" not in command.output
    assert "● bash  sleep 0.5  running\r\n" in command.output


def test_ctrl_c_during_a_command(engine: Start) -> None:
    sleeper = token()
    command = engine("run", "--yes", f"tree {sleeper}", terminal=True)
    command.read_until("· ready")
    await_sleepers(sleeper, 3)
    command.type("\x03")
    assert command.wait() == 130
    assert "· Cancelled. 2 tool calls stopped. No processes left.\r\n" in command.output
    assert sleepers(sleeper) == []


def test_ctrl_c_withdraws_a_permission_question(engine: Start, tmp_path: Path) -> None:
    command = engine("run", "write", terminal=True)
    command.read_until(PROMPT)
    command.type("\x03")
    assert command.wait() == 130
    assert "\r\n· Withdrawn, as its call has ended: " in command.output
    assert "2 tool calls stopped. No processes left." in command.output
    assert not (tmp_path / "a.txt").exists()


def test_ctrl_d_rejects_permission_questions(engine: Start, tmp_path: Path) -> None:
    command = engine("run", "write", terminal=True)
    command.read_until(PROMPT)
    command.type("\x04")
    assert command.wait() == 0
    # The second is rejected along with the first if it was asked by then, and else by itself.
    denied = (
        r"denied: Rejected by the user: (?:another call of this step was rejected: )?the user can't (?:answer|[a-z]*…)"
    )
    assert len(re.findall(denied, command.output)) == 2
    assert command.output.count(PROMPT) == 1
    assert not (tmp_path / "a.txt").exists()


def test_ctrl_d_while_working_ends_nothing(engine: Start, tmp_path: Path) -> None:
    command = engine("run", "--yes", "bash until [ -e go ]; do sleep 0.05; done", terminal=True)
    command.read_until("running 0 s")
    command.type("\x04")
    command.read_until("running 1 s")
    (tmp_path / "go").touch()
    assert command.wait() == 0


@pytest.mark.parametrize("task", ["tree {}", "write"])
def test_hangup_ends_the_run(engine: Start, task: str) -> None:
    sleeper = token()
    command = engine("run", *(["--yes"] if "tree" in task else []), task.format(sleeper), terminal=True)
    command.read_until("running 0 s" if "tree" in task else PROMPT)
    command.hang_up()
    assert command.process.wait(20) == 129
    assert sleepers(sleeper) == []


def test_halted_terminal_does_not_delay_exit(engine: Start) -> None:
    """Ctrl-S: nothing can be written, and a signal is heeded all the same."""
    sleeper = token()
    command = engine("run", "--yes", f"tree {sleeper}", terminal=True)
    command.read_until("running 0 s")
    command.type("\x13")
    time.sleep(1.2)  # the next status line hangs
    command.send(signal.SIGTERM)
    assert command.process.wait(40) == 143
    assert sleepers(sleeper) == []


def test_json_asks_no_questions(engine: Start, tmp_path: Path) -> None:
    command = engine("run", "write", "--json", terminal=True)
    assert command.wait() == 3
    assert PROMPT not in command.output
    assert '"status":"denied"' in command.output
    assert not (tmp_path / "a.txt").exists()


def test_the_shells_terminal_is_left_as_it_was(engine: Start) -> None:
    """Standard input is shared with our parent: it must not be non-blocking afterwards."""
    program = [
        sys.executable,
        "-c",
        "import os, subprocess, sys; code = subprocess.call([sys.executable, '-m', 'engine', *sys.argv[1:]]); "
        "print('blocking:', os.get_blocking(0), os.get_blocking(1)); sys.exit(code)",
    ]
    command = engine("run", "hello", terminal=True, program=program)
    assert command.wait() == 0
    assert "blocking: True True" in command.output


def test_user_chooses_recovery_when_the_model_fails(engine: Start) -> None:
    command = engine("run", "unless sonnet", terminal=True)
    command.read_until("or a model name: ")
    assert "Model anthropic/claude-sonnet-5-5 failed:" in command.output
    assert "Rate limited by Anthropic until " in command.output
    command.type("nobody/knows\n")
    command.read_until("no host for the model name 'nobody/knows'")
    command.read_until("or a model name: ")
    command.answer("anthropic/claude-haiku-4-5")
    assert command.wait() == 0
    assert "claude-haiku-4-5 says hello." in command.output


def test_or_that_it_is_enough(engine: Start) -> None:
    command = engine("run", "unless sonnet", terminal=True)
    command.read_until("or a model name: ")
    command.type("s\n")
    assert command.wait() == 7
    assert "· Rate limited by Anthropic until " in command.output


def test_waiting_may_be_cut_short_by_enter(engine: Start) -> None:
    command = engine("run", "unless sonnet", terminal=True)
    command.read_until("or a model name: ")
    command.type("w\n")
    command.read_until("Enter: retry now")
    command.output = ""
    command.type("\n")
    command.read_until(" failed:")
    command.read_until("or a model name: ")
    command.answer("stop")
    assert command.wait() == 7
