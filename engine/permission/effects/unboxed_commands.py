"""The bare list: commands that may run without a question where no box can confine them.

Few programs, each with the options that are known to be harmless. An option that is not listed asks; operands are files,
which the scan reports. Programs whose settings come with a project (git) are not among them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import attrs

from engine.permission.effects.scan_result import ScannedCommand

_FOLDERS: Final = ("/bin/", "/usr/bin/")


@attrs.frozen
class _Options:
    """The options of a program.

    Attributes:
        flags: letters of options without a value.
        values: letters of options with a value.
        names: long options, with and without a value.
        operands: how many operands there may be.
    """

    flags: str = ""
    values: str = ""
    names: frozenset[str] = frozenset()
    operands: int = 1_000_000


def _options(flags: str = "", values: str = "", names: str = "", operands: int = 1_000_000) -> _Options:
    return _Options(flags, values, frozenset(names.split()), operands)


# Nothing that follows the links that it finds in folders: they may lead anywhere (`grep -R`, `diff -r`).
_GREP: Final = _options(
    "EFGPaciHhILlnoqsvwxyzr",
    "ABCem",
    "after-context before-context color colour context count extended-regexp files-with-matches files-without-match "
    "fixed-strings ignore-case invert-match line-number line-regexp max-count no-filename no-messages only-matching "
    "perl-regexp quiet recursive regexp silent with-filename word-regexp include exclude exclude-dir null",
)
_CHECKSUM: Final = _options("bt", names="binary text tag zero")
_PROGRAMS: Final[Mapping[str, _Options]] = {
    "[": _options("abcdefghknoprstuvwxzGLNOS"),
    "basename": _options("az", "s", "multiple suffix zero"),
    "cat": _options(
        "AbeEnstTuv", names="number number-nonblank show-all show-ends show-nonprinting show-tabs squeeze-blank"
    ),
    "cksum": _options(),
    "cmp": _options("bls", "in", "bytes print-bytes quiet silent verbose"),
    "comm": _options("123", names="check-order nocheck-order output-delimiter total zero-terminated"),
    "cut": _options("nsz", "bcdf", "bytes characters complement delimiter fields only-delimited output-delimiter"),
    "date": _options("uR", "d", "date utc universal rfc-3339 rfc-email iso-8601"),
    "df": _options("ahHiklPT", "Btx", "all human-readable inodes local portability print-type total type si"),
    "diff": _options(
        "abBcdeiNqstTuwy",
        "CUW",
        "brief color context ignore-all-space ignore-blank-lines ignore-case ignore-space-change minimal new-file "
        "report-identical-files side-by-side suppress-common-lines unified width",
    ),
    "dirname": _options("z", names="zero"),
    "du": _options(
        "abcDhHkLlmPsSx0", "Bdt", "all apparent-size bytes human-readable max-depth summarize total threshold"
    ),
    "echo": _options("neE"),
    "egrep": _GREP,
    "expand": _options("i", "t", "initial tabs"),
    "false": _options(),
    "fgrep": _GREP,
    "file": _options("bhikLrsvz", "F", "brief mime mime-type mime-encoding dereference"),
    "fold": _options("bs", "w", "bytes spaces width"),
    "grep": _GREP,
    "head": _options("qvz0123456789", "cn", "bytes lines quiet silent verbose"),
    "hostname": _options("fis", operands=0),
    "id": _options("agGnruz", names="group groups name real user zero"),
    "join": _options("i", "12aejotv", "header ignore-case check-order nocheck-order"),
    "ls": _options(
        "aAbBcCdfFgGhHiklLmnNopqQrRsStuUvwxXZ1",
        "ITw",
        "all almost-all author classify color directory file-type full-time group-directories-first human-readable inode "
        "no-group numeric-uid-gid recursive reverse size sort time time-style width hide ignore",
    ),
    "md5sum": _CHECKSUM,
    "nl": _options("p", "bdfhilnsvw"),
    "nproc": _options(names="all ignore"),
    "od": _options("bcdfilosxv", "AjNStw", "address-radix format read-bytes skip-bytes width"),
    "paste": _options("sz", "d", "delimiters serial"),
    "printf": _options(),
    "pwd": _options("LP"),
    "readlink": _options("efmnqsvz", names="canonicalize canonicalize-existing canonicalize-missing no-newline"),
    "realpath": _options("eLmPqsz", names="canonicalize-existing canonicalize-missing relative-to relative-base strip"),
    "rev": _options(),
    "seq": _options("w", "fs", "equal-width format separator"),
    "sha1sum": _CHECKSUM,
    "sha256sum": _CHECKSUM,
    "sort": _options(
        "bcCdfghiMmnRrsuVz",
        "kt",
        "check field-separator general-numeric-sort human-numeric-sort ignore-case ignore-leading-blanks key merge "
        "month-sort numeric-sort reverse stable unique version-sort zero-terminated",
    ),
    "stat": _options("fLt", "c", "dereference file-system format printf terse"),
    "tac": _options("br", "s", "before regex separator"),
    "tail": _options("qvz0123456789", "cn", "bytes lines quiet silent verbose"),
    "test": _options("abcdefghknoprstuvwxzGLNOS"),
    "tr": _options("cCdst", names="complement delete squeeze-repeats truncate-set1"),
    "true": _options(),
    # A second operand is a file that it writes.
    "uniq": _options(
        "cdDiuz", "fsw", "count repeated unique ignore-case skip-fields skip-chars check-chars", operands=1
    ),
    "uname": _options("amnoprsv", names="all kernel-name nodename kernel-release machine operating-system"),
    "wc": _options("clLmw", names="bytes chars lines max-line-length words total"),
    "whoami": _options(),
}
# These take a minus as the beginning of an ordinary word, or of a test.
_WITHOUT_OPTIONS: Final = frozenset({"echo", "printf", "[", "test", "true", "false", "seq"})


def is_bare(command: ScannedCommand) -> bool:
    """Return whether a command may run without a question and without a box. Pure."""
    program, *words = command.argv
    if command.through or command.remote or program is None:
        return False
    for folder in _FOLDERS:
        program = program.removeprefix(folder)
    options = _PROGRAMS.get(program)
    if options is None:
        return False
    return program in _WITHOUT_OPTIONS or _are_listed(words, options)


def _are_listed(words: list[str | None], options: _Options) -> bool:
    """Return whether all options are listed, and there are not too many operands."""
    left, operands = iter(words), 0
    for word in left:
        if not isinstance(word, str):
            # Unknown: it may begin with a minus.
            return False
        if word == "--":
            operands += sum(1 for _ in left)
        elif word.startswith("--"):
            if word[2:].partition("=")[0] not in options.names:
                return False
        elif word.startswith("-") and len(word) > 1:
            if not _is_cluster(word[1:], options, left):
                return False
        else:
            operands += 1
    return operands <= options.operands


def _is_cluster(letters: str, options: _Options, left: Iterator[str | None]) -> bool:
    """Return whether the letters of a word are listed; the value of the last one may be the next word."""
    for number, letter in enumerate(letters, 1):
        if letter in options.values:
            return number < len(letters) or isinstance(next(left, None), str)
        if letter not in options.flags:
            return False
    return True
