"""Which files of the project a command of `git` shows, as far as its words name them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from engine.permission.effects.scan_result import Argument
from engine.permission.programs.program_analysis import ProgramAnalysis, exact_text
from engine.permission.programs.tables.names import words_of
from engine.permission.programs.tables.option_spec import UsedOption

# These print contents of files, of the working tree or of a commit.
_SHOWING: Final = words_of(
    """
    annotate archive blame cat-file diff diff-files diff-index diff-tree difftool format-patch grep log range-diff
    rev-list show stash whatchanged
    """
)
# A name for a commit, or a kind of object, and no file.
_REVISION: Final = re.compile(
    r"HEAD|[A-Z_]+_HEAD|@|-|blob|tree|commit|[0-9a-f]{7,64}|.*(?:@\{|\^|~\d*\Z|\.\.).*", re.DOTALL
)
_PATH: Final = re.compile(r"\.{0,2}/|.*/\.\.(?:/|\Z)", re.DOTALL)
# `:(top)x`, `:!x`, `:/x`: what stands before the path in a pathspec.
_MAGIC: Final = re.compile(r":(?:\([^)]*\)|[!^/]*)")


def _files_shown(words: Sequence[Argument], operands: Sequence[Argument]) -> Iterator[str]:
    """Yield the paths behind `--`, those in `COMMIT:PATH`, and what may be a path."""
    behind = list(words[words.index("--") + 1 :]) if "--" in words else []
    for operand in operands[: max(0, len(operands) - len(behind))]:
        text = exact_text(operand)
        if text and (path := _path_in(text)):
            yield path
    for operand in behind:
        if text := exact_text(operand):
            yield _MAGIC.sub("", text, count=1) or "."


def _lines_shown(used: Sequence[UsedOption]) -> Iterator[str]:
    """Yield the files of which options such as `-L1,2:FILE` show lines."""
    for option in used:
        if option.name == "-L" and (text := exact_text(option.value)) and ":" in text:
            yield text.rpartition(":")[2]


def add_files_shown(
    analysis: ProgramAnalysis, name: str, used: Sequence[UsedOption], operands: Sequence[Argument]
) -> None:
    """Add the files that a command shows: paths in its words, and files of options such as `-L1,2:FILE`."""
    if name not in _SHOWING:
        return
    names = {option.name for option in used}
    if name == "grep" and not names & {"-e", "-f"}:
        operands = operands[1:]  # what is searched for
    if "--no-index" in names:
        # All operands are files, which may lie outside of the repository.
        for operand in operands:
            analysis.touch(operand, "read")
        return
    for path in dict.fromkeys((*_files_shown(analysis.words, operands), *_lines_shown(used))):
        analysis.touch(path, "read")


def _path_in(text: str) -> str:
    """Return the path in an operand; empty if it names a commit."""
    if _PATH.match(text):
        return text
    commit, colon, path = text.partition(":")
    if not colon:
        return "" if _REVISION.fullmatch(text) else text
    # `:0:x` is a stage of the index. `https://x` is an address, and has no commit either.
    if not commit and path[:2] in {"0:", "1:", "2:", "3:"}:
        path = path[2:]
    return path.lstrip("/")
