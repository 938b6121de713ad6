"""Custom commands: a prompt template and its rendering. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Final

import attrs

from engine.core.lazy import regex
from engine.core.value_base import Value

_PLACEHOLDER: Final = regex(r"(\\?)\$(ARGUMENTS\b|[1-9](?!\d))")
# Other agents expand these before the model sees the text. Here the model does it with its tools, under the rules.
_OUTPUT: Final = regex(r"(?<!\S)!`[^`\n]+`")
_FILE: Final = regex(r"(?<!\S)@(?:~|[\w.$-]+)?(?:/[\w.$/-]*\w|\.\w+|\$ARGUMENTS|(?<=\$)[1-9])")
_RUN: Final = "Where it says !`command`, run that command first: its output belongs there."
_READ: Final = "Where it says @path, read that file first."


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Command(Value):
    """A named prompt.

    Attributes:
        name: the name that the user types after a slash; each subfolder is a part before a colon.
        text: the template; `$ARGUMENTS` is replaced by all arguments, `$1` to `$9` by one of them.
        description: what it does, for the user.
        agent: the agent to use; empty: no preference.
        model: the model to use; empty: no preference.
        path: the file.
    """

    name: str
    text: str
    description: str = ""
    agent: str = ""
    model: str = ""
    path: str = ""

    def render(self, arguments: Sequence[str]) -> str:
        """Return the text with *arguments* substituted. Placeholders within arguments are not expanded."""
        whole = " ".join(arguments)

        def substitute(match: re.Match[str]) -> str:
            if match[1]:  # `\\$1` is an escaped placeholder
                return f"${match[2]}"
            if match[2] == "ARGUMENTS":
                return whole
            number = int(match[2])
            return arguments[number - 1] if number <= len(arguments) else ""

        # In one pass, so that `$1` inside an argument stays as the user typed it.
        text, count = _PLACEHOLDER.subn(substitute, self.text)
        has_placeholder = any(not match[1] for match in _PLACEHOLDER.finditer(self.text)) if count else False
        notes = [note for note, has in ((_RUN, _OUTPUT), (_READ, _FILE)) if has.search(self.text)]
        # As other agents do: arguments that the template has no place for follow it.
        after = [] if has_placeholder or not whole else [whole]
        return "\n\n".join([text, *after, *([f"({' '.join(notes)})"] if notes else [])])


def split_words(line: str) -> list[str]:
    """Split a line like a shell; if its quotes are unbalanced, at spaces."""
    try:
        return shlex.split(line)
    except ValueError:
        return line.split()
