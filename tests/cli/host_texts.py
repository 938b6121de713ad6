"""Scenarios of the tests' host that are a single text, as the chat is tried with."""

from collections.abc import Callable, Mapping

from engine.core.llm_types import StreamEvent, TextChunk, TextDone, TextStarted
from engine.core.messages import Usage
from engine.testing.script import Answer, done, spread, text

_END = done(usage=Usage(input=1_000, output=50))


def _words(count: str) -> list[Answer]:
    """So many numbered words, in prose that is wrapped and in code that is not."""
    words = [f"w{number:04}" for number in range(1, int(count) + 1)]
    lines = [" ".join(words[at : at + 30]) for at in range(0, len(words), 30)]
    whole = "\n".join(f"```text\n{line}\n```" if index % 3 == 2 else line for index, line in enumerate(lines))
    return [[*spread(text(whole, pieces=300), 0.01), *_END]]


def _lines(count: str) -> list[Answer]:
    """So many numbered lines of code, some too long for a terminal. The end of a line never comes without its newline."""
    chunks = ["```text\n"]
    for number in range(1, int(count) + 1):
        chunks += [f"L{number:04} {'.' * (number * 37 % 230)}", f" E{number:04}\n"]
    items: list[StreamEvent] = [
        TextStarted("text"),
        *(TextChunk("text", chunk) for chunk in [*chunks, "```"]),
        TextDone("text"),
    ]
    return [[*spread(items, 0.01), *_END]]


TEXTS: Mapping[str, Callable[[str], list[Answer]]] = {"words": _words, "lines": _lines}
