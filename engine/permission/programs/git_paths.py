"""Which files of the project a command of `git` shows, as far as its words name them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from engine.permission.effects.program_effects import ListedName
from engine.permission.effects.scan_result import Argument
from engine.permission.programs.program_analysis import ProgramAnalysis, exact_text, list_files, read_paths
from engine.permission.programs.tables.names import words_of
from engine.permission.programs.tables.option_spec import Arguments, UsedOption

# These print contents of files, of the working tree or of a commit.
_SHOWING: Final = words_of(
    """
    annotate archive blame cat-file diff diff-files diff-index diff-tree difftool format-patch grep log range-diff
    rev-list show stash whatchanged
    """
)
_SUMMARIES: Final = words_of("--name-only --name-status --stat --numstat --shortstat --summary -q --quiet")
# With nothing but these, `log` prints nothing that is in a file.
_WITHOUT_CONTENTS: Final = _SUMMARIES | words_of(
    """
    -n -0 -1 -2 -3 -4 -5 -6 -7 -8 -9 --max-count --skip --since --after --until --before --author --committer --grep
    --format --pretty --date
    --decorate --oneline --graph --all --reverse --follow --branches --tags --remotes --no-color --cached --staged
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


def add_files_shown(analysis: ProgramAnalysis, name: str, arguments: Arguments) -> None:
    """Add the files that a command shows: paths in its words, and files of options such as `-L1,2:FILE`."""
    if name not in _SHOWING:
        return
    used, operands = arguments.used, arguments.operands
    names = {option.name for option in used}
    analysis.output.shows_contents = bool(arguments.unknown) or _shows_contents(name, names)
    if name == "grep" and not names & {"-e", "-f"}:
        operands = operands[1:]  # what is searched for
    if "--no-index" in names:
        # All operands are files, which may lie outside of the repository.
        for operand in operands:
            analysis.touch(operand, "read")
        return
    for operand in filter(_is_unknown_file, operands):
        analysis.touch(operand, "read")
    for path in dict.fromkeys((*_files_shown(analysis.words, operands), *_lines_shown(used))):
        analysis.touch(path, "read")


def _shows_contents(name: str, names: set[str]) -> bool:
    """Return whether a command with these options may print what is in files."""
    if name == "diff" and not names & _SUMMARIES:
        return True
    return name not in {"diff", "log"} or not names <= _WITHOUT_CONTENTS


def _is_unknown_file(word: Argument) -> bool:
    """Return whether a word may name a file, though nobody knows which; other such words are names of commits."""
    return isinstance(word, ListedName) or (word is not None and exact_text(word) is None and ":" in word)


def add_listing(analysis: ProgramAnalysis, name: str, arguments: Arguments) -> None:
    """Record what the names stand for that a command prints."""
    if name == "ls-files":
        _list_files(analysis, arguments)
    elif name in {"log", "branch", "describe", "merge-base"}:
        _list_commits(analysis, name, arguments)


def _list_files(analysis: ProgramAnalysis, arguments: Arguments) -> None:
    """Record which files `git ls-files` lists."""
    tracked = not arguments.unknown and {used.name for used in arguments.used} <= {"-z", "-c", "--cached"}
    texts = [exact_text(word) or "" for word in arguments.operands if word != "--"]
    # The star of a pathspec stands for folders, too.
    names = tuple(text for text in texts if text.startswith("*") and "/" not in text)
    analysis.output.listing = list_files(
        analysis, [analysis.cwd, *read_paths(analysis)], names if len(names) == len(texts) else (), tracked=tracked
    )


def _list_commits(analysis: ProgramAnalysis, name: str, arguments: Arguments) -> None:
    """Record that a command prints names of commits and branches, of which none is a file, and nothing else."""
    names = {option.name for option in arguments.used}
    formats = [exact_text(one.value) for one in arguments.used if one.name in {"--format", "--pretty"}]
    if name == "log":
        analysis.output.prints_names = not (analysis.output.shows_contents or names & _SUMMARIES) and formats in (
            ["%h"],
            ["%H"],
        )
    elif name == "branch":
        # Otherwise it prints a star, too, which an unquoted expansion replaces by names of files.
        analysis.output.prints_names = not arguments.unknown and (
            names == {"--show-current"} or formats == ["%(refname:short)"]
        )
    if analysis.output.prints_names:
        analysis.output.listing = list_files(analysis, [])


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
