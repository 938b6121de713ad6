"""`engine run` as a process: on pipes, with signals, with ends that are closed. A real host, real tools."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from engine.core.events import Durable, Live, TextDelta, TurnEnded
from engine.journal.codec import decode_event
from engine.journal.state import Resync
from tests.cli.conftest import Start
from tests.cli.forked import run_engine
from tests.cli.processes import REPOSITORY, await_sleepers, sleepers, token

pytestmark = [pytest.mark.os, pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")]


SIGNALS = [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]


def without_times(output: str) -> str:
    """What was printed, whatever the machine's speed: on a busy one, a quick call is told while it runs."""
    return re.sub(r"\d+(\.\d+)? (ms|s)\b", "T", re.sub(r"● .*  running\n", "", output))


def separate(
    host: str, folder: Path, *arguments: str, stdin: str | bytes | None = None
) -> subprocess.CompletedProcess[str]:
    """Run `engine run` with standard output and standard error apart; *stdin* comes through a pipe."""
    env = {
        **os.environ,
        "ANTHROPIC_API_KEY": "key",
        "ANTHROPIC_BASE_URL": host,
        "ENGINE_MODEL": "anthropic/claude-sonnet-5-5",
        "XDG_CONFIG_HOME": str(folder / "no-config"),
        "XDG_STATE_HOME": str(folder / "no-state"),
    }
    return run_engine("run", *arguments, cwd=folder, env=env, stdin=stdin)


def recorded(output: str) -> list[Durable | Live | Resync]:
    """Return the events among the lines of `--json`."""
    documents = [line for line in output.splitlines() if line.startswith("{")]
    return [decode_event(line) for line in documents if json.loads(line)["type"] not in {"init", "result"}]


# ---- what it prints --------------------------------------------------------------------------------------------------


def test_text_streams_and_the_end_is_shown(engine: Start) -> None:
    command = engine("run", "hello")
    assert command.wait() == 0
    assert without_times(command.output) == (
        "Hello, wörld.\nTwo lines.\n· Done in T · 1 request · 0 tool calls · 1,050 tokens · $0.0025\n"
    )


def test_each_call_has_its_line(engine: Start) -> None:
    command = engine("run", "--yes", "bash echo hi; exit 3")
    assert command.wait() == 0
    assert without_times(command.output) == (
        "✗ bash  echo hi; exit 3  exit code 3  T\nAll done.\n· Done in T · 2 requests · 1 tool call · 2,100 tokens · $0.0050\n"
    )


def test_slow_call_is_shown_while_running(engine: Start) -> None:
    command = engine("run", "--yes", "bash until [ -e go ]; do sleep 0.05; done")
    command.read_until("● bash  until [ -e go ]; do sleep 0.05; done  running\n")
    Path(f"/proc/{command.process.pid}/cwd/go").touch()
    assert command.wait() == 0
    assert "✓ bash  until" in command.output


@pytest.mark.parametrize(
    ("agent", "has", "lacks"),
    [
        ("general", {"bash", "edit", "read"}, {"task", "question"}),
        ("explore", {"read", "grep"}, {"bash", "edit", "task"}),
    ],
)
def test_a_sub_agent_has_tools_of_its_own(engine: Start, agent: str, has: set[str], lacks: set[str]) -> None:
    command = engine("run", "--yes", "--json", f"delegate {agent}")
    assert command.wait() == 0
    events = recorded(command.output)
    (child,) = [event.result for event in events if isinstance(event, TurnEnded) and len(event.path) == 2]
    names = {tool["name"] for tool in json.loads(child.text[child.text.index("{") :])["tools"]}
    assert (has <= names, names & lacks) == (True, set())
    assert ("You look things up for another agent." in child.text) == (agent == "explore")


def test_user_skills_are_offered_but_not_project_skills(engine: Start, tmp_path: Path) -> None:
    home = tmp_path / "home" / "engine" / "skills"
    for folder, name in ((home, "bake-bread"), (home, "Bad"), (tmp_path / ".engine" / "skills", "theirs")):
        (folder / name).mkdir(parents=True)
        (folder / name / "SKILL.md").write_text(f"---\nname: {name}\ndescription: How to {name}.\n---\nKnead.\n")
    command = engine("run", "skill bake-bread", XDG_CONFIG_HOME=str(tmp_path / "home"))
    assert command.wait() == 0
    assert f"I was told:\n(The skill bake-bread, from {home.resolve()}/bake-bread.)\n\nKnead.\n" in command.output
    assert f"the skill {home}/Bad can't be used: its name must be" in command.output
    command = engine("run", "skill theirs", XDG_CONFIG_HOME=str(tmp_path / "home"))
    assert command.wait() == 0
    assert "There is no skill named 'theirs'. There is: bake-bread." in command.output


def test_running_hook_is_no_leftover(engine: Start, tmp_path: Path) -> None:
    sleeper = token()
    (tmp_path / "home" / "engine").mkdir(parents=True)
    (tmp_path / "home" / "engine" / "config.toml").write_text(
        f'[[hooks.Notification]]\nhooks = [{{ type = "command", command = "sleep {sleeper}" }}]\n'
    )
    command = engine("run", "--yes", "bash echo hi", XDG_CONFIG_HOME=str(tmp_path / "home"))
    assert command.wait() == 0
    assert "All done.\n· Done" in command.output
    assert "still running" not in command.output
    assert sleepers(sleeper) == []


def test_signs_fit_the_encoding(engine: Start) -> None:
    command = engine("run", "--yes", "bash true", PYTHONIOENCODING="ascii")
    assert command.wait() == 0
    assert "+ bash  true  exit code 0" in command.output
    command = engine("run", "hello", PYTHONIOENCODING="ascii")
    assert command.wait() == 0
    assert "Hello, w?rld." in command.output


def test_the_model_can_not_steer_the_terminal(engine: Start) -> None:
    command = engine("run", "escapes", terminal=True)
    assert command.wait() == 0
    assert command.output.startswith("red ^[[31m bell ^G turn \\u202e end\r\n")


def test_json_is_one_event_a_line(engine: Start, host: str, tmp_path: Path) -> None:
    done = separate(host, tmp_path, "hello", "--output", "stream-json")
    first, *lines, last = done.stdout.splitlines()
    events = [decode_event(line) for line in lines]
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "Hello, wörld.\nTwo lines."
    assert isinstance(events[-1], TurnEnded)
    init, result = json.loads(first), json.loads(last)
    assert (init["type"], init["schema"], init["model"]) == ("init", 1, "anthropic/claude-sonnet-5-5")
    assert (result["type"], result["text"], result["exit_code"]) == ("result", "Hello, wörld.\nTwo lines.", 0)
    assert result["session_id"] == init["session_id"]
    assert done.stderr.startswith("· Done in ")


# ---- what it is told -------------------------------------------------------------------------------------------------


def test_the_model_and_the_folder(engine: Start, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    command = engine("run", "echo", "--model", "anthropic/claude-haiku-4-5", "--cwd", "sub")
    assert command.wait() == 0
    assert command.output.startswith("claude-haiku-4-5 You are a coding agent.")
    assert str(tmp_path / "sub") in command.output
    command = engine("run", "echo", ENGINE_MODEL="anthropic/claude-opus-4-5")
    assert command.wait() == 0
    assert command.output.startswith("claude-opus-4-5 ")
    command = engine("run", "echo")
    assert command.wait() == 0
    assert command.output.startswith("claude-sonnet-5-5 ")


def test_unknown_model_is_reported_once(engine: Start) -> None:
    for times in (1, 0):  # not again in the next run
        command = engine("run", "hello", "--model", "anthropic/claude-of-tomorrow")
        assert command.wait() == 0
        assert command.output.count("Unknown model anthropic/claude-of-tomorrow: assuming ") == times


def test_how_the_model_is_to_work(engine: Start, tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(
        '[agents.quick]\nmodel = "anthropic/claude-haiku-4-5"\neffort = "low"\nsystem = "Be quick."\n'
        '[models."anthropic/claude-opus-4-5"]\ntemperature = 0.5\n'
    )
    command = engine("run", "echo", "--config", "config.toml", "--agent", "quick", "--max-output", "7000")
    assert command.wait() == 0, command.output
    assert command.output.startswith("claude-haiku-4-5 Be quick.")
    assert '"max_tokens": 7000' in command.output
    assert '"budget_tokens": 4096' in command.output
    command = engine("run", "echo", "--config", "config.toml", "--model", "anthropic/claude-opus-4-5", "--cache", "off")
    assert command.wait() == 0, command.output
    assert '"temperature": 0.5' in command.output
    assert "cache_control" not in command.output


def test_an_attachment(engine: Start, tmp_path: Path) -> None:
    (tmp_path / "x.pdf").write_bytes(b"%PDF-1.7 hello")
    command = engine("run", "echo", "--attach", "x.pdf")
    assert command.wait() == 0, command.output
    assert '"application/pdf"' in command.output
    command = engine("run", "echo", "--attach", "nowhere.png")
    assert command.wait() == 2
    assert "engine run: can't attach nowhere.png: No such file or directory" in command.output


def test_an_attachment_that_never_comes_can_be_interrupted(engine: Start, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.pdf")
    command = engine("run", "echo", "--attach", "pipe.pdf")
    writer = -1
    while writer < 0:
        try:
            writer = os.open(tmp_path / "pipe.pdf", os.O_WRONLY | os.O_NONBLOCK)
        except OSError:  # nobody reads it yet
            assert command.process.poll() is None, command.output
            time.sleep(0.02)
    command.send(signal.SIGINT)
    assert command.wait() == 130
    os.close(writer)
    assert command.output == ""


def test_missing_home_folder(engine: Start) -> None:
    command = engine("run", "hello", "--cwd", "~nobody-of-this-name")
    assert command.wait() == 2
    assert "--cwd: ~nobody-of-this-name is not a directory" in command.output


def test_fallback_model_takes_over(engine: Start) -> None:
    command = engine("run", "unless sonnet", "--fallback", "anthropic/claude-haiku-4-5")
    assert command.wait() == 0, command.output
    assert "claude-haiku-4-5 says" in command.output


def test_the_task_from_standard_input(host: str, tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": str(REPOSITORY), "ANTHROPIC_API_KEY": "key", "ANTHROPIC_BASE_URL": host}
    command = [sys.executable, "-m", "engine", "run", "-"]
    result = subprocess.run(command, cwd=tmp_path, env=env, input="hello", capture_output=True, text=True, check=True)
    assert result.stdout.startswith("Hello")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ([], 'engine run: the task is missing\nNext: engine run "TASK"\n'),
        (["", "--yes"], "the task is missing"),
        ([" ", "--yes"], "the task is missing"),
        (["-"], "the task is missing"),
        (["a", "b"], "engine run: too many arguments: 'b' is a separate argument"),
        (["/nope", "b"], "engine run: unknown command /nope; no commands are defined"),
        (["a", "--fast"], "unknown flag: --fast\nNext: engine run --help"),
        (["a", "--mod", "x"], "unknown flag: --mod: did you mean --model?"),
        (["a", "--cwd", "nowhere"], "--cwd: nowhere is not a directory"),
        (["a", "--max-steps", "0"], "argument --max-steps: must be a whole number of at least 1, not '0'"),
        (["a", "--max-steps", "many"], "argument --max-steps: must be a whole number of at least 1, not 'many'"),
        (
            ["a", "--max-seconds", "-1"],
            "argument --max-seconds/--timeout: must be a time above 0, such as 90, 10m or 2h, not '-1'",
        ),
        (["a", "--timeout", "nan"], "argument --max-seconds/--timeout: must be a time above 0, such as 90, 10m or 2h"),
        (["a", "--network"], "engine run: --network needs --sandbox bwrap"),
        (["a", "--network", "--sandbox", "off"], "engine run: --network needs --sandbox bwrap"),
        (["a", "--model", "gpt"], "engine run: Several models match 'gpt': "),
    ],
)
def test_wrong_usage_is_one_clear_line(engine: Start, arguments: list[str], error: str) -> None:
    command = engine("run", *arguments)
    assert command.wait() == 2
    assert error in command.output
    assert "Traceback" not in command.output


def test_a_missing_key_names_three_ways(engine: Start) -> None:
    # No server on this machine is found either.
    nowhere = {
        f"{name}_BASE_URL": "http://127.0.0.1:1" for name in ("OLLAMA", "LMSTUDIO", "LLAMACPP", "VLLM", "LITELLM")
    }
    command = engine("run", "hello", terminal=False, ANTHROPIC_API_KEY="", **nowhere)
    assert command.wait() == 6
    assert command.output == (
        "engine run: No API key for Anthropic\n"
        "Next: export ANTHROPIC_API_KEY=KEY\n"
        "or: engine auth add anthropic\n"
        "or: engine run --model local:FILE.gguf TASK\n"
    )


@pytest.mark.parametrize("terminal", [False, True])
def test_failure_has_the_same_words_everywhere(engine: Start, terminal: bool) -> None:
    command = engine("run", "refused", terminal=terminal)
    if terminal:  # there the user may choose another model first
        command.read_until("or a model name: ")
        assert "rejected the key in ANTHROPIC_API_KEY (ends …6789)" in command.output
        command.answer("s")
    assert command.wait() == 6
    assert (
        "· Anthropic rejected the key in ANTHROPIC_API_KEY (ends …6789)\n"
        "· Next: engine auth test anthropic\n"
        "· or: set ANTHROPIC_API_KEY to another key\n"
        "· Stopped after "
    ) in command.output.replace("\r\n", "\n")


def test_a_limit_of_steps(engine: Start) -> None:
    command = engine("run", "--yes", "--max-steps", "1", "bash echo hi")
    assert command.wait() == 4
    assert "· Stopped: 1 of 1 requests used\n· Next: engine run --continue --max-steps 2\n" in command.output


def test_a_limit_of_seconds(engine: Start) -> None:
    sleeper = token()
    command = engine("run", "--yes", "--max-seconds", "1", f"tree {sleeper}")
    assert command.wait() == 4
    assert "· Stopped: the time limit of 1 s is over\n· Next: engine run --continue --timeout 2\n" in command.output
    assert sleepers(sleeper) == []


def test_denied_without_a_terminal(engine: Start, tmp_path: Path) -> None:
    command = engine("run", "write")
    assert command.wait() == 3
    assert "✗ write a.txt  Denied: it needs the permission 'edit'" in command.output
    assert "· Next: engine run --continue --rule 'allow edit ./a.txt' " in command.output
    assert not (tmp_path / "a.txt").exists()


# ---- how it is ended -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("number", "code"), SIGNALS)
def test_signal_cancels_and_leaves_nothing(engine: Start, number: signal.Signals, code: int) -> None:
    sleeper = token()
    command = engine("run", "--yes", f"tree {sleeper}")
    command.read_until("running\n")
    await_sleepers(sleeper, 3)
    command.send(number)
    assert command.wait() == code
    assert "■ bash  echo two  aborted: not executed\n" in command.output
    assert "aborted: cancelled  " in command.output
    assert command.output.endswith("· Cancelled. 2 tool calls stopped. No processes left.\n")
    assert sleepers(sleeper) == []


@pytest.mark.parametrize(("number", "code"), SIGNALS)
def test_a_signal_while_the_answer_streams(engine: Start, number: signal.Signals, code: int) -> None:
    command = engine("run", "--stream", "slow")
    command.read_until("word word")
    command.send(number)
    assert command.wait() == code
    assert command.output.endswith("word \n· Cancelled. No tool call was running. No processes left.\n")


# Leaves its session, its environment and its parent, one after the other, faster than anyone looks.
DAEMON = """
import os, sys
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.dup2(os.open("/dev/null", os.O_RDWR), 1)
        os.dup2(1, 2)
        os.execve("/bin/sleep", ["sleep", sys.argv[1]], {})
    os._exit(0)
"""


def programs(sleeper: str) -> list[str]:
    """What the processes with that token run."""
    found: list[str] = []
    for pid in sleepers(sleeper):
        with suppress(OSError):
            found.append(Path(f"/proc/{pid}/cmdline").read_text().split("\0")[0])
    return found


@pytest.mark.parametrize("then", ["true", "until [ -e never ]; do sleep 0.05; done"])
def test_process_that_cuts_all_ties_is_ended(engine: Start, tmp_path: Path, then: str) -> None:
    sleeper = token()
    (tmp_path / "daemon.py").write_text(DAEMON)
    command = engine("run", "--yes", f"bash {sys.executable} daemon.py {sleeper}; {then}")
    if then != "true":
        # Before that there are the program, which has the same argument, and the process between.
        while programs(sleeper) != ["sleep"]:
            time.sleep(0.02)
        command.send(signal.SIGINT)
        assert command.wait() == 130
        assert command.output.endswith("No processes left.\n")
    else:
        assert command.wait() == 0
    assert sleepers(sleeper) == []


def test_a_signal_ends_background_jobs_too(engine: Start) -> None:
    sleeper = token()
    command = engine("run", "--yes", f"job {sleeper}")
    command.read_until("bash_output")
    await_sleepers(sleeper, 3)
    command.send(signal.SIGINT)
    assert command.wait() == 130
    assert command.output.endswith("· Cancelled. 1 tool call stopped. No processes left.\n")
    assert sleepers(sleeper) == []


def test_simultaneous_signals_count_once(engine: Start) -> None:
    """A service manager sends SIGTERM and SIGHUP at once: the clean-up is not cut short by the second."""
    sleeper = token()
    command = engine("run", "--yes", f"tree {sleeper}")
    command.read_until("running\n")
    command.send(signal.SIGTERM)
    command.send(signal.SIGHUP)
    assert command.wait() in {143, 129}
    assert command.output.endswith("No processes left.\n")


def test_a_signal_that_was_ignored_stays_ignored(engine: Start) -> None:
    ignoring = ["sh", "-c", 'trap "" HUP; exec "$@"', "-", sys.executable, "-m", "engine"]
    command = engine("run", "--yes", "bash until [ -e go ]; do sleep 0.05; done", program=ignoring)
    command.read_until("running\n")
    command.send(signal.SIGHUP)
    time.sleep(0.3)
    Path(f"/proc/{command.process.pid}/cwd/go").touch()
    assert command.wait() == 0


def test_second_ctrl_c_exits_and_leaves_nothing(engine: Start) -> None:
    """`stubborn.py` has a tool that starts a process and can't be stopped within its grace."""
    sleeper = token()
    program = [sys.executable, str(Path(__file__).with_name("stubborn.py"))]
    command = engine("run", "--yes", f"stubborn {sleeper}", program=program)
    command.read_until("running\n")
    await_sleepers(sleeper, 1)
    command.send(signal.SIGINT)
    command.read_until("would not stop")
    assert command.process.poll() is None, "it waits for the tool"
    command.send(signal.SIGINT)
    assert command.wait() == 130
    assert sleepers(sleeper) == []


def test_closed_reader_ends_it(engine: Start) -> None:
    sleeper = token()
    command = engine("run", "--stream", "--yes", f"tree {sleeper}")
    command.read_until("two.")
    command.hang_up()
    assert command.process.wait(40) == 141
    assert sleepers(sleeper) == []


def test_blocked_reader_does_not_delay_exit(engine: Start) -> None:
    """The pipe is full: the writer hangs, but not the loop that heeds the signal."""
    command = engine("run", "--stream", "flood")
    command.read_until("x")
    time.sleep(0.5)
    command.send(signal.SIGTERM)
    assert command.process.wait(40) in {143, 0}, "0 if the answer was there before the signal"


@pytest.mark.parametrize(
    ("redirection", "code", "error"),
    [
        ("<&- >&-", 74, "engine run: standard output is closed\nNext: add >/dev/null if the output is not needed\n"),
        ("<&- >&- 2>&-", 74, ""),
        ("<&- >&- -o answer", 0, ""),
        (
            ">/dev/full",
            74,
            "engine run: can't write the output: No space left on device\nNext: add -o FILE\n",
        ),
    ],
)
def test_ends_that_are_closed(engine: Start, tmp_path: Path, redirection: str, code: int, error: str) -> None:
    program = ["bash", "-c", f'"$@" {redirection}', "-", sys.executable, "-m", "engine"]
    command = engine("run", "--yes", "bash touch done", program=program)
    assert command.wait() == code
    assert command.output.endswith(error)
    # Where nothing can take the answer, nothing is sent; what fails later has done its work.
    assert (tmp_path / "done").exists() == (">&-" not in redirection or not code)
