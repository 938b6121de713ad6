"""The files behind the words of a task, and the words without them."""

import pytest

from engine.cli.task.file_blocks import file_block, without_file_blocks

NESTED = file_block("b", '<file path="c">\n2\n</file>')


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("look at @a.py", "look at @a.py"),
        (f"look at @a.py\n\n{file_block('a.py', '     1	x')}", "look at @a.py"),
        (f"two\n\n{file_block('a', '1')}\n\n{NESTED}", "two"),
        (f"{file_block('a', '1')}\n\nmore words", f"{file_block('a', '1')}\n\nmore words"),
        (f"words\n\n{file_block('a', '1')}\n\nmore words", f"words\n\n{file_block('a', '1')}\n\nmore words"),
    ],
)
def test_words_are_what_remains(text: str, words: str) -> None:
    assert without_file_blocks(text) == words
