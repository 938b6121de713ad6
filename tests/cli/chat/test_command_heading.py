"""Above what a slash command answers stands the command, except in lines, where the terminal shows what was typed."""

import re

import pytest

from tests.cli.chat.driven_chat import ChatScript, play_chat


@pytest.mark.parametrize("in_lines", [False, True])
def test_answer_names_its_command(in_lines: bool) -> None:
    end = "" if in_lines else "\r"
    acts: list[str | float] = [f"/cost of it{end}", 0.5, f"/quit{end}", 0.5]
    played = play_chat(ChatScript(acts=acts, answers=[], in_lines=in_lines))
    assert played.code == 0
    # The command's own answer is its line, too.
    assert len(re.findall(r"(?<!> )/cost(?: of it)?\r?\n", played.output)) == (1 if in_lines else 2)
