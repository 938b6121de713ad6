"""What a custom command says to the model: its text, with what the user has given it in place. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Final

import attrs

_PLACE: Final = re.compile(r"(\\?)\$(ARGUMENTS\b|[1-9](?!\d))")
# What other harnesses put in place before a model reads it. Here the model does it, with its tools, as the rules allow.
_OUTPUT: Final = re.compile(r"(?<!\S)!`[^`\n]+`")
_FILE: Final = re.compile(r"(?<!\S)@(?:~|[\w.$-]+)?(?:/[\w.$/-]*\w|\.\w+|\$ARGUMENTS|(?<=\$)[1-9])")
_RUN: Final = "Where it says !`command`, run that command first: what it prints belongs there."
_READ: Final = "Where it says @path, read that file first."


@attrs.frozen(kw_only=True)
class Command:
    """A prompt that has a name.

    Attributes:
        name: what it is called by, after a slash; a colon stands for each folder it lies in.
        text: what it says; `$ARGUMENTS` stands for all that is given to it, `$1` to `$9` for one word of it.
        description: what it does, for people.
        agent: the way of working that it wants; empty: whichever is asked for.
        model: the model that it wants; empty: whichever is asked for.
        path: where it is.
    """

    name: str
    text: str
    description: str = ""
    agent: str = ""
    model: str = ""
    path: str = ""

    def render(self, arguments: Sequence[str]) -> str:
        """Return what it says, given *arguments*. What they hold is put in as it is: nothing in it stands for anything."""
        whole = " ".join(arguments)

        def put(found: re.Match[str]) -> str:
            if found[1]:  # `\\$1`: the user means just that
                return f"${found[2]}"
            if found[2] == "ARGUMENTS":
                return whole
            number = int(found[2])
            return arguments[number - 1] if number <= len(arguments) else ""

        text, count = _PLACE.subn(put, self.text)
        is_said = any(not found[1] for found in _PLACE.finditer(self.text)) if count else False
        notes = [note for note, has in ((_RUN, _OUTPUT), (_READ, _FILE)) if has.search(self.text)]
        after = [] if is_said or not whole else [whole]
        return "\n\n".join([text, *after, *([f"({' '.join(notes)})"] if notes else [])])


def words_of(line: str) -> list[str]:
    """Return the words of a line as a shell would part them; where its quotes make no sense, by spaces."""
    try:
        return shlex.split(line)
    except ValueError:
        return line.split()
