"""Scripts and command lines that a program passes to a shell, or splits into words itself."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Final

from engine.permission.effects.program_effects import UnknownInput
from engine.permission.effects.scan_result import Argument
from engine.permission.programs.program_analysis import ProgramAnalysis, exact_text

# A command without shell syntax: only words separated by spaces.
_PLAIN_WORDS: Final = re.compile(r"[\w ./:=,@%+~-]*", re.ASCII)


def run_stdin(analysis: ProgramAnalysis, shell: str = "sh", arguments: Sequence[Argument] = ()) -> None:
    """Pass standard input to a shell as a script."""
    stdin = analysis.invocation.stdin
    if isinstance(stdin, UnknownInput):
        analysis.mark_opaque("reads commands from standard input")
    elif stdin is not None:
        analysis.run_script(stdin, shell, arguments)


def run_joined_words(analysis: ProgramAnalysis, words: Sequence[Argument]) -> None:
    """Pass words to a shell as a script, joined by spaces."""
    texts = [exact_text(word) for word in words]
    whole = [text for text in texts if text is not None]
    if not texts:
        return
    analysis.run_script(" ".join(whole) if len(whole) == len(texts) else None)


def run_plain_words(analysis: ProgramAnalysis, value: Argument) -> None:
    """Start a command whose words are separated by spaces."""
    text = exact_text(value)
    if text is None or not _PLAIN_WORDS.fullmatch(text):
        analysis.mark_opaque("starts a command with shell syntax in it")
    elif text.strip():
        analysis.start(text.split())


def split_words(analysis: ProgramAnalysis, value: Argument) -> list[Argument] | None:
    """Split a text into words as a shell does; None: the result is uncertain."""
    text = exact_text(value)
    # Only text that `shlex` and a shell split in the same way.
    if text is None or any(sign in text for sign in "\\$#`"):
        analysis.mark_opaque("splits an unknown text into words")
        return None
    try:
        return list(shlex.split(text))
    except ValueError:
        analysis.mark_opaque("splits a text with an unclosed quote")
        return None
