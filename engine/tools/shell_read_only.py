"""Which command lines only read, so that they may run beside other calls.

This decides about *parallelism* and about nothing else: a right is not given for it, and
who asks for rights has a scanner of its own. Saying no costs a little time; saying yes
to what writes would let two calls meet. So all that is not plainly understood is a no:
a syntax error, a long text, a variable, a substitution, a loop, an assignment, a function,
a redirection to anything but /dev/null, an unknown command or option.

There are two witnesses, because tree-sitter-bash sometimes takes one command for an
argument of another and reports no error: the parse tree, and a small lexer of our own
for the plain subset of the language that is allowed. They must agree on every word of
every command. Then each command is looked up in `read_only_commands`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final

import attrs
from tree_sitter import Language, Node, Parser

from engine.tools.read_only_commands import (
    GIT_OPTIONS,
    GIT_OPTIONS_WITH_VALUE,
    GIT_SIGNATURES,
    RULES,
    Rule,
)

MAX_CHARS: Final = 4_000


def is_read_only(command: str) -> bool:
    """Tell whether all that a command line does is read, as far as can be told from its text."""
    if len(command) > MAX_CHARS:
        return False
    commands = _lexed(command)
    if not commands or not all(_is_known(words) for words in commands):
        return False
    return _parsed(command) == [[word.raw for word in words] for words in commands]


# ---- the first witness: a lexer --------------------------------------------------------------------------------------

# In quotes all but control characters; outside, what means itself, and what may become names of files.
_PLAIN: Final = r"\w%+,./:=@^~\-\[\]*?!"
_SINGLE: Final = r"'[^'\x00-\x08\x0b-\x1f\x7f]*'"
# A dollar before one of these means itself.
_DOUBLE: Final = r'"(?:[^"\\$`\x00-\x08\x0b-\x1f\x7f]|\\[ -~]|\$(?=[" |)]))*"'
_TOKEN: Final = re.compile(
    rf"""
      (?P<blank>[ \t]+(?:\\\n[ \t]*)*)
    | (?P<comment>\#[^\n]*)
    | (?P<silenced>(?:[012]?>&[12]|(?:[12]?>>?|&>>?)[ \t]*/dev/null)(?=[\s;&|()]|\Z))
    | (?P<input><[ \t]*(?![<>&(]))
    | (?P<border>&&|\|\|?|;(?!;)|\n|[()])
    | (?P<word>(?:[{_PLAIN}]|\\[ -~]|{_SINGLE}|{_DOUBLE})(?:[{_PLAIN}\#]|\\[ -~]|{_SINGLE}|{_DOUBLE})*)
    """,
    re.VERBOSE,
)
_PIECE: Final = re.compile(rf"(?P<single>{_SINGLE})|(?P<double>{_DOUBLE})|\\(?P<escaped>.)|(?P<plain>[{_PLAIN}\#]+)")


@attrs.frozen
class _Word:
    """A word of a command: as it is written, as the command gets it, and whether it may become names of files."""

    raw: str
    text: str
    has_glob: bool

    @property
    def is_option(self) -> bool:
        return self.text.startswith("-") and self.text != "-"


def _lexed(source: str) -> list[list[_Word]] | None:
    """Return the words of each command; None for anything that is not plain."""
    commands: list[list[_Word]] = [[]]
    is_input = False
    at = 0
    while at < len(source):
        found = _TOKEN.match(source, at)
        if found is None:
            return None
        kind, at = found.lastgroup, found.end()
        if is_input and kind != "word":
            return None
        if kind == "word":
            word = _word(found.group())
            if not is_input:
                commands[-1].append(word)
            elif word.has_glob or word.text.startswith(("/dev/", "~")):
                return None
        elif kind == "border":
            commands.append([])
        is_input = kind == "input"
    return None if is_input else [words for words in commands if words]


def _word(raw: str) -> _Word:
    text = ""
    has_glob = False
    for piece in _PIECE.finditer(raw):
        value = piece.group()
        match piece.lastgroup:
            case "single":
                text += value[1:-1]
            case "double":
                text += re.sub(r'\\(["\\$`])', r"\1", value[1:-1])
            case "escaped":
                text += value[1]
            case _:
                text += value
                has_glob = has_glob or any(sign in value for sign in "*?[")
    return _Word(raw, text, has_glob)


# ---- the second witness: the parse tree ------------------------------------------------------------------------------

_TRANSPARENT: Final = frozenset({"program", "list", "pipeline", "subshell", "redirected_statement"})
_WORDS: Final = frozenset({"command_name", "word", "number", "string", "raw_string", "concatenation"})
_IGNORED: Final = frozenset({"comment", "file_redirect"})


@lru_cache(maxsize=1)
def _parser() -> Parser:
    import tree_sitter_bash

    return Parser(Language(tree_sitter_bash.language()))


def _parsed(source: str) -> list[list[str]] | None:
    """Return the words of each command as they are written; None for an error, or for what is more than commands."""
    root = _parser().parse(source.encode()).root_node
    if root.has_error:
        return None
    commands: list[list[str]] = []
    for node in _statements(root):
        if node.type != "command" or any(child.type not in _WORDS for child in node.children):
            return None
        commands.append([_source_of(child) for child in node.children])
    return commands


def _statements(root: Node) -> Iterator[Node]:
    """Yield the statements in their order, without what only joins them."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node.type in _TRANSPARENT:
            waiting += [child for child in reversed(node.children) if child.is_named and child.type not in _IGNORED]
        else:
            yield node


def _source_of(node: Node) -> str:
    return (node.text or b"").decode()


# ---- the table -------------------------------------------------------------------------------------------------------


def _is_known(words: Sequence[_Word]) -> bool:
    """Tell whether a rule knows the command, and allows what it is given."""
    if any(word.has_glob for word in words[:1]):
        return False
    name, rest = words[0].text, words[1:]
    if name != "git":
        return name in RULES and _allows(RULES[name], rest)
    rest = _without_git_options(rest)
    if any(sign in word.text for word in rest for sign in GIT_SIGNATURES):
        return False
    for length in (2, 1):
        name = " ".join(["git", *(word.text for word in rest[:length])])
        if name in RULES and not any(word.has_glob for word in rest[:length]):
            return _allows(RULES[name], rest[length:])
    return False


def _without_git_options(words: Sequence[_Word]) -> Sequence[_Word]:
    while words and words[0].is_option:
        if words[0].text in GIT_OPTIONS:
            words = words[1:]
        elif words[0].text in GIT_OPTIONS_WITH_VALUE and len(words) > 1 and not words[1].has_glob:
            words = words[2:]
        else:
            break
    return words


def _allows(rule: Rule, words: Sequence[_Word]) -> bool:
    if rule.is_free:
        return True
    if rule.needs is not None and not (words and rule.needs.fullmatch(words[0].text)):
        return False
    operands: list[str] = []
    waiting = iter(words)
    for word in waiting:
        # Names of files may look like options, or be more than one.
        if word.has_glob and (rule.is_counted or word.text[0] in "-*?["):
            return False
        if not word.is_option:
            operands.append(word.text)
        elif word.text in rule.values:
            next(waiting, None)
        elif word.text == "--":
            # It may as well be the value of the option before it: what follows counts as options, too.
            if rule.is_counted:
                return False
        elif not _allows_option(rule, word.text):
            return False
    return _allows_operands(rule, operands)


def _allows_option(rule: Rule, option: str) -> bool:
    if rule.only is not None:
        return rule.only.fullmatch(option) is not None
    if not option.startswith("--"):
        return not set(option[1:]) & set(rule.letters)
    name = option[2:].partition("=")[0]
    return not any(forbidden.startswith(name) for forbidden in rule.names)


def _allows_operands(rule: Rule, operands: Sequence[str]) -> bool:
    if rule.operands is not None and len(operands) > rule.operands:
        return False
    patterns = [rule.first, *[rule.others] * len(operands)]
    return all(
        pattern is None or pattern.fullmatch(operand) for operand, pattern in zip(operands, patterns, strict=False)
    )
