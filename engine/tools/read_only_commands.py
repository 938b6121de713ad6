"""The commands that only read, and what each of them must not be given: one table, for `shell_read_only`.

A command is here if, given what its rule allows, it changes no file, no other process and
no setting, and runs no program that it was named. What a user has configured (a
filter that git runs, a wrapper called `ls`) is the user's own word and not looked at.

To add one, read its manual for options that write, that run a program, or that take a
script which can do either. Where many do, say which few don't (`only`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import attrs


def _pattern(text: str | None) -> re.Pattern[str] | None:
    return None if text is None else re.compile(text, re.DOTALL)


@attrs.frozen(kw_only=True)
class Rule:
    """What a command may be given. All patterns have to match the whole of a word.

    Attributes:
        letters: options of one letter that it must not have, be it in a cluster.
        names: long options that it must not have, be they shortened.
        only: all the options that it may have; with it, `letters` and `names` say nothing.
        values: options of `only` whose value is the next word.
        needs: the first word after its name.
        operands: how many words that are no options it may have; values of options count.
        first: the first of them.
        others: the others.
    """

    letters: str = ""
    names: tuple[str, ...] = ()
    only: re.Pattern[str] | None = attrs.field(default=None, converter=_pattern)
    values: tuple[str, ...] = ()
    needs: re.Pattern[str] | None = attrs.field(default=None, converter=_pattern)
    operands: int | None = None
    first: re.Pattern[str] | None = attrs.field(default=None, converter=_pattern)
    others: re.Pattern[str] | None = attrs.field(default=None, converter=_pattern)

    @property
    def is_free(self) -> bool:
        """Whether it allows everything."""
        return self == _ANYTHING

    @property
    def is_counted(self) -> bool:
        """Whether it matters how many operands there are, or which is which."""
        return not (self.operands is None and self.first is self.others is self.needs is None)


_ANYTHING: Final = Rule()
_NO_OPTION: Final = r"(?!)"

_FREE: Final = """
    : arch b2sum basename cal cat cd cksum cmp column comm cut df dirname du echo egrep expand factor
    false fgrep fmt fold free getconf grep groups head hexdump id join locale ls lscpu md5sum nl nproc numfmt od paste
    pgrep pr printenv ps pwd readlink realpath rev seq sha1sum sha224sum sha256sum sha384sum sha512sum sleep stat
    strings sum tac tail tr true tsort type uname unexpand uptime wc whereis which who whoami
"""

# A command of sed which prints or drops lines, or replaces text in what it prints. No backslash and no bracket,
# because implementations differ in where such a text ends.
_SED_TEXT: Final = r"[^/\\\[\n]*"
_SED_ADDRESS: Final = rf"(?:\d+|\$|/{_SED_TEXT}/)"
_SED_COMMAND: Final = rf"(?:{_SED_ADDRESS}(?:,\+?{_SED_ADDRESS})?)?(?:[pdq=]|s/{_SED_TEXT}/{_SED_TEXT}/[gpI\d]*)"
_SED: Final = rf"{_SED_COMMAND}(?:; ?{_SED_COMMAND})*"

_AWK_FIELD: Final = r"\$?(?:\d+|NF|NR)"
_AWK: Final = rf"(?:NR ?[=!<>]=? ?\d+|/{_SED_TEXT}/)? ?\{{ ?print(?: {_AWK_FIELD}(?:, ?{_AWK_FIELD})*)? ?\}}"

_FIND: Final = (
    r"-[HLP]|-O\d|-(?:[acm](?:min|time)|[acmB]newer|newer\w*|and?|o|or|not|true|false|daystart|depth|empty|executable"
    r"|follow|fstype|gid|group|i?lname|i?name|i?path|i?wholename|i?regex|inum|links|ls|maxdepth|mindepth|mount|noleaf"
    r"|nogroup|nouser|perm|print|print0|printf|prune|quit|readable|regextype|samefile|size|type|uid|user|writable|xdev"
    r"|xtype)|-\d\w*"
)

# Options of git's commands that show differences.
_SHOWN: Final = Rule(names=("output", "ext-diff", "show-signature"))
_LISTED: Final = r"-[avrl]+|--(?:all|remotes|list|verbose|show-current|no-color|no-column)"

_GIT: Final[Mapping[str, Rule]] = {
    **dict.fromkeys(
        [
            "annotate",
            "blame",
            "check-attr",
            "check-ignore",
            "cherry",
            "count-objects",
            "describe",
            "for-each-ref",
            "ls-files",
            "ls-tree",
            "merge-base",
            "name-rev",
            "rev-list",
            "rev-parse",
            "show-branch",
            "show-ref",
            "status",
            "version",
        ],
        _ANYTHING,
    ),
    **dict.fromkeys(
        ["diff", "diff-files", "diff-index", "diff-tree", "log", "range-diff", "shortlog", "show", "whatchanged"],
        _SHOWN,
    ),
    "branch": Rule(only=_LISTED, operands=0),
    "cat-file": Rule(names=("textconv", "filters")),
    "config": Rule(
        needs=r"--(?:get|get-all|get-regexp|list)|-l", only=r"--(?:get|get-all|get-regexp|list|show-origin)|-l"
    ),
    "grep": Rule(letters="O", names=("open-files-in-pager",)),
    "reflog": attrs.evolve(_SHOWN, operands=0),
    "remote": Rule(only=r"-v|--verbose", operands=0),
    "remote get-url": _ANYTHING,
    "stash list": _SHOWN,
    "stash show": _SHOWN,
    "tag": Rule(needs=r"-l|--list|-n\d*", only=r"-l|--list|-n\d*"),
    "worktree list": _ANYTHING,
}

RULES: Final[Mapping[str, Rule]] = {
    **dict.fromkeys(_FREE.split(), _ANYTHING),
    **{f"git {name}": rule for name, rule in _GIT.items()},
    "awk": Rule(only=r"-F.*", values=("-F",), first=_AWK, others=r"(?!/inet)[\w./~-]+"),
    **dict.fromkeys(("base32", "base64"), Rule(letters="o", names=("output",))),
    "command": Rule(needs=r"-[vV]+", only=r"-[vV]+"),
    "date": Rule(
        only=r"-[uRdr]|-I\w*|--(?:utc|universal|rfc-email|date)|--(?:date|iso-8601|rfc-3339|reference)=.*",
        values=("-d", "-r", "--date"),
        first=r"\+.*",
        operands=1,
    ),
    "diff": Rule(letters="l", names=("paginate",)),
    "env": Rule(only=_NO_OPTION, operands=0),
    "fd": Rule(letters="xX", names=("exec", "exec-batch")),
    "file": Rule(letters="CzZ", names=("compile", "uncompress")),
    "find": Rule(only=_FIND),
    "jq": Rule(letters="i", names=("in-place",)),
    "rg": Rule(letters="z", names=("pre", "hostname-bin", "search-zip")),
    "sed": Rule(only=r"-[nEr]+|--(?:quiet|silent|regexp-extended)", first=_SED),
    "set": Rule(only=r"-[eux]*o?", first="pipefail", operands=1),
    "sort": Rule(letters="To", names=("output", "compress-program", "temporary-directory")),
    "tree": Rule(letters="oR", names=("output",)),
    "uniq": Rule(operands=1),
}

# What may stand between `git` and its command, and those of them whose value is the next word.
GIT_OPTIONS: Final = frozenset({"--no-pager", "-P", "--no-optional-locks", "--literal-pathspecs"})
GIT_OPTIONS_WITH_VALUE: Final = frozenset({"-C"})
# In a format they make git ask gpg, which writes its own files.
GIT_SIGNATURES: Final = ("%G", "signature")
