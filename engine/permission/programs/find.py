"""What `find` and `fd` do: the expression of the one, the options of the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from engine.permission.effects.program_effects import FILE_NAME, FileAccess, ListedName, WordPrefix
from engine.permission.effects.scan_result import Argument
from engine.permission.programs.program_analysis import ProgramAnalysis, exact_text, list_files, read_paths
from engine.permission.programs.table_analysis import apply_options, parse_words
from engine.permission.programs.tables.names import words_of
from engine.permission.programs.tables.program_spec import Program

# Words of the expression without a value, and with one.
_ALONE: Final = words_of(
    """
    ( ) ! , -a -and -o -or -not -true -false -daystart -depth -d -empty -executable -follow -ignore_readdir_race
    -noignore_readdir_race -ls -mount -noleaf -nogroup -nouser -print -print0 -prune -quit -readable -warn -nowarn
    -writable -xdev -x -H -L -P -E -X -s -help --help -version --version -O0 -O1 -O2 -O3
    """
)
_VALUED: Final = words_of(
    """
    -amin -anewer -atime -cmin -cnewer -context -ctime -fstype -gid -group -ilname -iname -inum -ipath -iregex
    -iwholename -links -lname -maxdepth -mindepth -mmin -mtime -name -newer -path -perm -printf -regex -regextype
    -samefile -size -type -uid -used -user -wholename -xtype -D -f -flags -Bmin -Bnewer -Btime -files0-from
    """
)
_STARTING: Final = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_WRITING: Final = frozenset({"-fprint", "-fprint0", "-fls"})
# With one of these, a `-name` may not hold for all files.
_CHOOSING: Final = frozenset({"-o", "-or", ",", "("})


def analyze_find(analysis: ProgramAnalysis, _: Program) -> None:
    """Analyze the arguments of `find`."""
    words = analysis.words
    at = _roots(analysis, words)
    # Unless a part of the expression says otherwise, below.
    analysis.reads_only = analysis.passes_on = True
    analysis.output.prints_names = all(exact_text(root) is not None for root in words[:at])
    analysis.output.listing = list_files(analysis, read_paths(analysis) or [analysis.cwd], _names(words[at:]))
    while at < len(words):
        text = exact_text(words[at])
        if text is None:
            # An unknown part of the expression may start a command, and the next words may belong to that.
            analysis.mark_opaque("a word of its expression is unknown")
            return
        at = _read_part(analysis, words, at, text)


def _names(expression: Sequence[Argument]) -> tuple[str, ...]:
    """Return a pattern for the names of all files with which *expression* does something; empty: they are unknown."""
    texts = list(map(exact_text, expression))
    at, before = 0, None
    while at + 1 < len(texts) and not _CHOOSING & set(texts):
        text = texts[at]
        if text is None or (text.startswith(_ACTING) and text != "-printf"):
            break
        if text == "-name" and before not in {"!", "-not"}:
            return (texts[at + 1] or "*",)
        at, before = at + (2 if text in _VALUED or text.startswith("-newer") else 1), text
    return ()


# Parts of the expression that do something.
_ACTING: Final = ("-exec", "-ok", "-print", "-fprint", "-ls", "-fls", "-delete", "-quit")


def _roots(analysis: ProgramAnalysis, words: Sequence[Argument]) -> int:
    """Add the folders before the expression; return where that begins."""
    at = 0
    while at < len(words):
        word = words[at]
        text = exact_text(word)
        if text in {"-D", "-f"}:
            at += 1
        elif text not in _LEADING:
            if _begins_expression(word):
                break
            analysis.touch(word, "read")
        at += 1
    return min(at, len(words))


def _begins_expression(word: Argument) -> bool:
    """Return whether the expression of `find` begins with a word, or may begin with it."""
    if word is None or isinstance(word, WordPrefix):
        return not word or word[0] in "-(!),"
    return word[:1] in {"-", ",", ")"} or word in {"(", "!"}


_LEADING: Final = frozenset({"-H", "-L", "-P", "-E", "-X", "-s", "-x", "-d", "-O0", "-O1", "-O2", "-O3", "--"})


def _read_part(analysis: ProgramAnalysis, words: Sequence[Argument], at: int, text: str) -> int:
    """Parse one part of the expression; return where the next one begins."""
    value = words[at + 1] if at + 1 < len(words) else ""
    if text in _STARTING:
        return _read_command(analysis, words, at + 1, in_place=text.endswith("dir"))
    if text == "-delete":
        # Everything below the roots may be deleted.
        _touch_roots(analysis)
        analysis.changes = True
        return at + 1
    if text in _WRITING:
        analysis.touch(value, "write")
        return at + 2
    if text == "-fprintf":
        analysis.touch(value, "write")
        return at + 3
    if text == "-files0-from":
        analysis.mark_opaque("further files that it reads are listed elsewhere")
    if text in {"-printf", "-ls"}:
        # These print more than names.
        analysis.output.prints_names = False
    if text in _VALUED or text.startswith("-newer"):
        return at + 2
    if text not in _ALONE and text.startswith("-"):
        # A new option of a newer find: it may start a command.
        analysis.mark_opaque(f"its option {text} is unknown")
    return at + 1


def _touch_roots(analysis: ProgramAnalysis) -> None:
    """Add a write to each folder that is read."""
    if not analysis.changes:
        for touched in [touched for touched in analysis.touches if touched.access == "read"]:
            analysis.touches.append(FileAccess(path=touched.path, access="write"))


def _read_command(analysis: ProgramAnalysis, words: Sequence[Argument], at: int, *, in_place: bool) -> int:
    """Start the command that ends with `;` or `{} +`; return where the next part begins."""
    command: list[Argument] = []
    listed = ListedName(analysis.output.listing)
    while at < len(words):
        word = words[at]
        # In `{} +` the braces must be a word of their own, right before the plus.
        if exact_text(word) == ";" or (exact_text(word) == "+" and command and command[-1] == FILE_NAME):
            break
        if word is not None and not isinstance(word, WordPrefix) and "{}" in word:
            word = listed if word == "{}" else None
        command.append(word)
        at += 1
    else:
        analysis.mark_opaque("one of its commands has no end")
    cwd = analysis.cwd
    if in_place:
        # With -execdir, the folder is that of each file.
        analysis.cwd = None
    analysis.output.prints_names = False
    analysis.start(command, takes_stdin=True)
    analysis.cwd = cwd
    return at + 1


def analyze_fd(analysis: ProgramAnalysis, program: Program) -> None:
    """Analyze the arguments of `fd`; `-x` and `-X` are followed by a command."""
    words = list(analysis.words)
    start = next((at for at, word in enumerate(words) if _starts_command(word)), None)
    arguments = parse_words(program, words if start is None else words[:start])
    apply_options(analysis, program, arguments)
    for path in arguments.operands[1:]:
        analysis.touch(path, "read")
    # An unknown word may be `-x`.
    if arguments.is_uncertain:
        analysis.mark_opaque("one of its words is unknown, and may be an option that executes commands")
    analysis.output.prints_names = not any(used.name == "--format" for used in arguments.used)
    analysis.output.listing = list_files(analysis, [analysis.cwd, *read_paths(analysis)])
    if start is None:
        return
    analysis.changes = True
    analysis.start(_command_of(words[start:]), takes_stdin=False)


def _command_of(words: Sequence[Argument]) -> list[Argument]:
    """Return the command after `-x` or `--exec=COMMAND`, with a file name where fd inserts one."""
    opening = words[0]
    command: list[Argument] = [opening.partition("=")[2]] if opening is not None and "=" in opening else []
    command += words[1:]
    if not any(word is not None and "{" in word for word in command):
        return [*command, FILE_NAME]
    return [None if word is not None and "{" in word else word for word in command]


def _starts_command(word: Argument) -> bool:
    text = exact_text(word)
    if text is None:
        return False
    if text.startswith("--"):
        return len(text) > 3 and "--exec-batch".startswith(text.partition("=")[0])
    return text.startswith("-") and text[-1:] in {"x", "X"} and text[1:].isalpha()
