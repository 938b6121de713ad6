"""How often the live region is drawn (cli C2)."""

from engine.testing.script import done, spread, text
from tests.cli.chat.driven_chat import ChatScript, play_chat


def test_streaming_text_has_few_frames() -> None:
    answer = [*spread(text("".join(f"word{number} " for number in range(1_000)), pieces=1_000), 0.004), *done()]
    played = play_chat(ChatScript(acts=["go\r", 5.0, "/quit\r", 0.5], answers=[answer]))
    frames = played.output.count("\x1b[?2026h")
    assert frames == played.output.count("\x1b[?2026l")
    # Of four seconds of text: at most 30 in a second, and enough to read along.
    assert 60 < frames < 120
