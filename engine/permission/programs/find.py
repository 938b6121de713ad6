"""What `find` and `fd` do: the expression of the one, the options of the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from engine.permission.effects.program_effects import Begun, Touched
from engine.permission.effects.scan_result import Word
from engine.permission.programs.analysis import NAME, Study, known
from engine.permission.programs.names import words_of
from engine.permission.programs.program_spec import Program

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


def follow_find(study: Study, _: Program) -> None:
    """Read the words of `find`."""
    words = study.words
    at = _roots(study, words)
    study.reads_only = True
    study.prints_names = all(known(root) is not None for root in words[:at])
    while at < len(words):
        text = known(words[at])
        if text is None:
            # A part of the expression that nobody knows may start something, of which the words may follow.
            study.give_up("a word of its expression is not known")
            return
        at = _read_part(study, words, at, text)


def _roots(study: Study, words: Sequence[Word]) -> int:
    """Return where the expression begins, and remember the folders before it."""
    at = 0
    while at < len(words):
        word = words[at]
        text = known(word)
        if text in {"-D", "-f"}:
            at += 1
        elif (text is None and not (isinstance(word, Begun) and word and word[0] not in "-(!),")) or (
            text is not None and text not in _LEADING and (text[:1] in {"-", ",", ")"} or text in {"(", "!"})
        ):
            break
        elif text is None or text not in _LEADING:
            study.touch(word, "read")
        at += 1
    return min(at, len(words))


_LEADING: Final = frozenset({"-H", "-L", "-P", "-E", "-X", "-s", "-x", "-d", "-O0", "-O1", "-O2", "-O3", "--"})


def _read_part(study: Study, words: Sequence[Word], at: int, text: str) -> int:
    """Read one part of the expression; return where the next one begins."""
    value = words[at + 1] if at + 1 < len(words) else ""
    if text in _STARTING:
        return _read_command(study, words, at + 1, in_place=text.endswith("dir"))
    if text == "-delete":
        _touch_roots(study)
        study.changes = True
        return at + 1
    if text in _WRITING:
        study.touch(value, "write")
        return at + 2
    if text == "-fprintf":
        study.touch(value, "write")
        return at + 3
    if text in {"-printf", "-ls", "-files0-from"}:
        study.prints_names = False
    if text in _VALUED or text.startswith("-newer"):
        return at + 2
    if text not in _ALONE and text.startswith("-"):
        study.give_up(f"its option {text} is not known")
    return at + 1


def _touch_roots(study: Study) -> None:
    """Remember that what was read is written as well."""
    if not study.changes:
        for touched in [touched for touched in study.touches if touched.access == "read"]:
            study.touches.append(Touched(path=touched.path, access="write"))


def _read_command(study: Study, words: Sequence[Word], at: int, *, in_place: bool) -> int:
    """Start the command that ends with `;` or `{} +`; return where the next part begins."""
    command: list[Word] = []
    while at < len(words):
        word = words[at]
        if known(word) == ";" or (known(word) == "+" and command and command[-1] == NAME):
            break
        if word is not None and not isinstance(word, Begun) and "{}" in word:
            word = NAME if word == "{}" else None
        command.append(word)
        at += 1
    else:
        study.give_up("a command of its has no end")
    cwd = study.cwd
    if in_place:
        study.cwd = None
    study.reads_only = False
    study.prints_names = False
    study.start(command, takes_stdin=True)
    study.cwd = cwd
    return at + 1


def follow_fd(study: Study, program: Program) -> None:
    """Read the words of `fd`: behind `-x` and `-X` is a command."""
    words = list(study.words)
    start = next((at for at, word in enumerate(words) if _starts_command(word)), None)
    arguments = study.read_words(program, words if start is None else words[:start])
    study.judge(program, arguments)
    for path in arguments.operands[1:]:
        study.touch(path, "read")
    if arguments.is_uncertain:
        study.give_up("one of its words is not known, and may be an option that executes something")
    study.prints_names = True
    if start is None:
        return
    opening = words[start]
    command: list[Word] = [opening.partition("=")[2]] if opening is not None and "=" in opening else []
    command += words[start + 1 :]
    has_place = any(word is not None and "{" in word for word in command)
    placed = [None if word is not None and "{" in word else word for word in command]
    study.changes = True
    study.start(placed if has_place else [*placed, NAME], takes_stdin=False)


def _starts_command(word: Word) -> bool:
    text = known(word)
    if text is None:
        return False
    if text.startswith("--"):
        return len(text) > 3 and "--exec-batch".startswith(text.partition("=")[0])
    return text.startswith("-") and text[-1:] in {"x", "X"} and text[1:].isalpha()
