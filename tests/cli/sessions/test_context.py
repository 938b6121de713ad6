"""Room that is made in a model's window, as people see it: `engine run`, and `engine sessions context|compact|uncompact`."""

from __future__ import annotations

import json
import re
import signal
import time
from pathlib import Path

import pytest

from tests.cli.conftest import Start
from tests.cli.processes import Command

pytestmark = pytest.mark.slow

CONFIG = """
[models."anthropic/claude-sonnet-5-5"]
context = 12_000
output = 1_000
"""
FULL = "The context window is nearly full: summarising old messages"


@pytest.fixture(autouse=True)
def config(tmp_path: Path) -> str:
    """A window in which a few results have room."""
    (tmp_path / "config.toml").write_text(CONFIG)
    return str(tmp_path / "config.toml")


def start(engine: Start, config: str, *arguments: str) -> Command:
    return engine("run", "--yes", "--config", config, *arguments)


def ended(command: Command, code: int = 0) -> str:
    assert command.wait() == code, command.output
    return command.output


def sessions(engine: Start, *arguments: str, code: int = 0) -> str:
    return ended(engine("sessions", *arguments), code)


def asked(tmp_path: Path) -> None:
    """Wait until somebody has been asked for the summary, who never answers."""
    deadline = time.monotonic() + 20
    while not (tmp_path / "seen").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_compaction_during_a_task_is_reported(engine: Start, config: str) -> None:
    output = ended(start(engine, config, "long"))
    assert f"· {FULL}\n" in output
    assert re.search(r"^· History summarised: from about [\d,]+ to about [\d,]+ tokens\r?$", output, re.MULTILINE)
    assert "All done." in output


def test_nonsense_summary_is_reported(engine: Start, config: str) -> None:
    output = ended(start(engine, config, "long nonsense"))
    assert "tokens; the model's summary was unusable (it lacks the headings Objective, Decisions, Done" in output
    assert "All done." in output


def test_where_it_is_off_nothing_is_summarised(engine: Start, config: str) -> None:
    Path(config).write_text(f"[compaction]\nauto = false\n{CONFIG}")
    output = ended(start(engine, config, "long"))
    assert "summarised" not in output
    assert "8 requests · 7 tool calls" in output


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_truncated_summary_leaves_the_history(engine: Start, config: str, tmp_path: Path, how: signal.Signals) -> None:
    command = start(engine, config, f"long hang {tmp_path}/seen")
    command.read_until(FULL)
    asked(tmp_path)
    command.send(how)
    output = ended(command, 130 if how is signal.SIGINT else -9)
    if how is signal.SIGINT:
        assert "· Compaction cancelled: the history is unchanged\n" in output
        assert "No processes left." in output
    before = json.loads(sessions(engine, "context", "last", "--config", config, "--json"))
    assert before["tokens"] > before["usable"]
    assert "summary" not in [share["kind"] for share in before["shares"]]
    again = ended(start(engine, config, "--continue", "and now?"))
    assert "· History summarised: from about " in again
    assert "All done." in again


def test_oversized_image_is_removed_and_reported(engine: Start, config: str, tmp_path: Path) -> None:
    (tmp_path / "big.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(90_000))
    output = ended(start(engine, config, "picture", "--attach", str(tmp_path / "big.png")))
    assert "· The request was too large: summarising old messages\n" in output
    assert "; images and files were removed\n" in output
    assert "summarised" not in output
    assert "an image of type image/png (90.0 kB) was here. The provider refused the request" in output


# -- by hand -----------------------------------------------------------------------------------------------------------


def test_context_compact_and_uncompact(engine: Start, config: str) -> None:
    wide = "[compaction]\nauto = false\n" + CONFIG
    Path(config).write_text(wide)
    ended(start(engine, config, "long"))
    ended(start(engine, config, "-c", "and now?"))
    shown = sessions(engine, "context", "last", "--config", config)
    assert re.match(r"anthropic/claude-sonnet-5-5: about [\d,]+ of 10,800 usable tokens \(\d+ %\), estimated", shown)
    assert re.search(r"^results of bash +[\d,]+ +\d+ %  #+ +7$", shown, re.MULTILINE)
    other = sessions(engine, "context", "last", "--model", "anthropic/claude-opus-4-1")
    assert other.startswith("anthropic/claude-opus-4-1: about ")
    said = sessions(engine, "compact", "last", "--config", config, "--heed", "mind the gap")
    assert said.startswith("Summarising old messages\nHistory summarised: from about ")
    small = json.loads(sessions(engine, "context", "last", "--config", config, "--json"))
    assert "summary" in [share["kind"] for share in small["shares"]]
    assert sessions(engine, "uncompact", "last") == "the summary was undone: the history has 18 messages again\n"
    assert sessions(engine, "context", "last", "--config", config) == shown
    none = sessions(engine, "uncompact", "last", code=1)
    assert none == "engine sessions uncompact: there is no compaction to undo\nNext: engine help sessions uncompact\n"


def test_ctrl_c_cancels_a_manual_summary(engine: Start, config: str, tmp_path: Path) -> None:
    Path(config).write_text("[compaction]\nauto = false\n" + CONFIG)
    ended(start(engine, config, f"long hang {tmp_path}/seen"))
    shown = sessions(engine, "context", "last", "--config", config)
    command = engine("sessions", "compact", "last", "--config", config)
    command.read_until("Summarising old messages")
    asked(tmp_path)
    command.send(signal.SIGINT)
    assert "engine sessions compact: cancelled: the history is unchanged\n" in ended(command, 130)
    assert sessions(engine, "context", "last", "--config", config) == shown


def test_nonsense_is_reported(engine: Start, config: str) -> None:
    ended(engine("run", "hello"))
    for name in ("context", "compact", "uncompact"):
        assert "unknown session 'nobody'" in sessions(engine, name, "nobody", code=2)
        assert "missing: " in sessions(engine, name, code=2)
    told = sessions(engine, "context", "last", "--model", "nonsense", code=2)
    assert "no host for the model name 'nonsense'" in told
    told = sessions(engine, "compact", "last", "--model", "nonsense", code=2)
    assert "a model's name must have the form host/model, not 'nonsense'" in told
    told = sessions(engine, "compact", "last", code=1)
    assert "engine sessions compact: the history is unchanged: there is nothing to summarise." in told
