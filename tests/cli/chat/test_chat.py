"""`engine chat` as a process on a terminal."""

import json
import signal
from pathlib import Path

import pytest

from tests.cli.chat.emulators import Pyte, shows, wait_for
from tests.cli.conftest import Quick, Start

pytestmark = pytest.mark.slow


def test_chat_answers_and_continues(engine: Start) -> None:
    with engine("chat", terminal=True) as chat:
        chat.read_until("Ready")
        chat.type("chat\r")
        chat.read_until("Done in")
        chat.type("remember me\r")
        chat.read_until("has heard")
        chat.type("\x04")
        assert chat.wait() == 0
        assert "Ready to chat." in chat.output
        assert "Next: engine chat --continue" in chat.output
        assert chat.output.count("\x1b[?2004h") == chat.output.count("\x1b[?2004l") == 1
    with engine("chat", "--continue", terminal=True) as chat:
        chat.read_until("> remember me")
        chat.read_until("Ready")
        chat.type("/quit\r")
        assert chat.wait() == 0


def test_prompt_is_there_while_the_chat_starts(engine: Start) -> None:
    """What is typed meanwhile is not lost, and an error does not stand beside the prompt."""
    with engine("chat", terminal=True) as chat:
        chat.read_until("Starting")
        assert "Ready" not in chat.output
        chat.type("remember")
        chat.read_until("Ready")
        emulator = Pyte(chat)
        assert wait_for(emulator, shows("> remember"))
        assert not shows("Starting")(emulator.lines())
        chat.type("\x03\x04")
        assert chat.wait() == 0
    with engine("chat", "--model", "nonsense", terminal=True) as chat:
        assert chat.wait() == 2
        lines = Pyte(chat).lines()
        assert lines[0].startswith("engine chat: ")
        assert not shows("Starting")(lines)


def test_configured_chat_in_lines_draws_nothing(engine: Start, tmp_path: Path) -> None:
    (tmp_path / "engine.toml").write_text("[chat]\naccessible = true\n")
    with engine("chat", terminal=True, ENGINE_CONFIG=str(tmp_path / "engine.toml")) as chat:
        chat.read_until("Accessible mode")
        chat.type("\x04")
        assert chat.wait() == 0
        assert "\x1b" not in chat.output


def test_escape_cancels_only_the_turn(engine: Start) -> None:
    with engine("chat", terminal=True) as chat:
        chat.read_until("Ready")
        chat.type("slow\r")
        chat.read_until("word ")
        chat.type("a draft")
        chat.read_until("draft")
        chat.type("\x1b")
        chat.read_until("Cancelled")
        chat.type("\x03")
        chat.read_until("brings the draft back")
        chat.type("\x04")
        assert chat.wait() == 0


def test_signal_settles_the_turn(engine: Start) -> None:
    with engine("chat", terminal=True) as chat:
        chat.read_until("Ready")
        chat.type("slow\r")
        chat.read_until("word ")
        chat.send(signal.SIGTERM)
        assert chat.wait() == 143
        assert "Cancelled" in chat.output
        assert chat.output.count("\x1b[?2004h") == chat.output.count("\x1b[?2004l")


def test_session_without_a_message_is_not_kept(engine: Start, quick: Quick) -> None:
    with engine("chat", terminal=True) as chat:
        chat.read_until("Ready")
        for line, comes in (("/new", "(/help)"), ("chat", "Done in"), ("/new", "(/help)")):
            before = len(chat.output)
            chat.type(f"{line}\r")
            chat.read_until(comes, after=before)
            chat.read_until("Ready", after=before)
        chat.type("\x04")
        assert chat.wait() == 0
    ended = quick("sessions", "list", "--all", "--json")
    assert [session["turns"] for session in json.loads(ended.stdout)] == [1]


def test_missing_key_has_the_words_of_a_run(engine: Start) -> None:
    chat = engine("chat", terminal=True, ANTHROPIC_API_KEY="")
    assert chat.wait() == 6
    assert chat.output.replace("\r\n", "\n").endswith(
        "engine chat: No API key for Anthropic\nNext: export ANTHROPIC_API_KEY=KEY\n"
        "or: engine auth add anthropic\nor: engine chat --model local:FILE.gguf\n"
    )


def test_found_model_and_other_keys_are_named(quick: Quick) -> None:
    ended = quick("chat", "--accessible", ENGINE_MODEL="", OPENAI_API_KEY="k", XAI_API_KEY="k")
    shown = " ".join(ended.stdout.decode().split())
    assert (
        "Using anthropic/claude-sonnet-5-5 (found ANTHROPIC_API_KEY) "
        "Other keys: OPENAI_API_KEY, XAI_API_KEY. /model chooses another model. "
        "To keep it: engine config set defaults.model anthropic/claude-sonnet-5-5"
    ) in shown
    assert "Using" not in quick("chat", "--accessible").stdout.decode()


def test_part_of_a_models_name_is_enough(engine: Start) -> None:
    with engine("chat", terminal=True) as chat:
        chat.read_until("Ready")
        chat.type("/model opus-5-5\r")
        chat.read_until("· anthropic/claude-opus-5-5")
        chat.type("/model sonet-5\r")
        chat.read_until("Next: /model ")
        chat.type("\x04")
        assert chat.wait() == 0
