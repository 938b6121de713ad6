"""The second witness: tree-sitter's grammar of bash.

It has to see no command that our parser did not see. The other way round it may miss some: there
are everyday shapes in which it takes a command for an argument of the one before.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from engine.permission.shell_parser import Parser

if TYPE_CHECKING:
    import tree_sitter

_QUERY: Final = """
[(command_name) @name (declaration_command) @name (unset_command) @name (command_substitution) @inner
 (process_substitution) @inner (ERROR) @error]
"""


@lru_cache(maxsize=1)
def _tools() -> tuple[tree_sitter.Parser, tree_sitter.Query]:
    import tree_sitter_bash
    from tree_sitter import Language, Query
    from tree_sitter import Parser as TreeParser

    language = Language(tree_sitter_bash.language())
    return TreeParser(language), Query(language, _QUERY)


def disagreement(script: str, ours: Parser) -> str:
    """Return what the grammar sees otherwise; empty: nothing that matters."""
    from tree_sitter import QueryCursor

    parser, query = _tools()
    source = script.encode()
    root = parser.parse(source).root_node
    if root.has_error:
        return "the grammar finds an error in it"
    captures = QueryCursor(query).captures(root)
    starts = set(ours.starts)
    if not script.isascii():
        offsets = _offsets(script)
        starts = {offsets[start] for start in starts}
        hidden = [(offsets[start], offsets[end]) for start, end in ours.hidden]
    else:
        hidden = ours.hidden
    for node in captures.get("name", []):
        at = node.start_byte
        if at not in starts and not any(start <= at < end for start, end in hidden):
            return "the two readings of it do not agree"
    return ""


def _offsets(script: str) -> list[int]:
    """Return where each character begins in bytes, and where the last ends."""
    offsets = [0]
    for character in script:
        offsets.append(offsets[-1] + len(character.encode()))
    return offsets
