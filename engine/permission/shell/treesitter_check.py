"""The comparison with tree-sitter's grammar of bash.

It must not find a command that our parser did not find. The other way round it may miss some: in everyday scripts it
takes some commands for arguments of the one before.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from engine.permission.shell.parser.expansion import DollarReader

if TYPE_CHECKING:
    import tree_sitter

_QUERY: Final = """
[(command_name) @name (declaration_command) @name (unset_command) @name]
"""


@lru_cache(maxsize=1)
def _tools() -> tuple[tree_sitter.Parser, tree_sitter.Query]:
    import tree_sitter_bash
    from tree_sitter import Language, Query
    from tree_sitter import Parser as TreeParser

    language = Language(tree_sitter_bash.language())
    return TreeParser(language), Query(language, _QUERY)


def find_disagreement(script: str, ours: DollarReader) -> str:
    """Return how the two parsers disagree about the commands of a script; empty: they agree."""
    difference = _compare(script, ours)
    if difference and (ours.masked or ours.filled):
        # The grammar does not support all of bash: hide those parts from it that our parser has parsed by itself.
        difference = _compare(_masked(script, ours), ours)
    for text, reader in ours.inner if not difference else ():
        if reader.starts:
            difference = difference or find_disagreement(text, reader)
    return difference


def _compare(script: str, ours: DollarReader) -> str:
    from tree_sitter import QueryCursor

    parser, query = _tools()
    root = parser.parse(script.encode()).root_node
    if root.has_error:
        return "tree-sitter's grammar finds a syntax error"
    starts, masked = set(ours.starts), ours.masked
    if not script.isascii():
        offsets = _offsets(script)
        starts = {offsets[start] for start in starts}
        masked = [(offsets[start], offsets[end]) for start, end in masked]
    for node in QueryCursor(query).captures(root).get("name", []):
        at = node.start_byte
        if at not in starts and not any(start <= at < end for start, end in masked):
            return "the two parsers disagree about its commands"
    return ""


def _masked(script: str, ours: DollarReader) -> str:
    """Return the script with blanks for what the grammar may not support, so that positions stay the same."""
    characters = list(script)
    for start, end in ours.masked:
        for at in range(start, end):
            if characters[at] != "\n" or at + 1 < end:
                characters[at] = " "
    for start, end in ours.filled:
        characters[start:end] = "x" * (end - start)
    return "".join(characters)


def _offsets(script: str) -> list[int]:
    """Return the byte offset of each character, and of the end."""
    offsets = [0]
    for character in script:
        offsets.append(offsets[-1] + len(character.encode()))
    return offsets
