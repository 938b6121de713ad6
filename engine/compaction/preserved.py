"""What is carried over a summary word for word, outside of its prose: rules of the user, files, open todos (T8).

It stands in parts of its own in the message that holds the summary, so that the next
summary finds it there: nobody's prose decides whether it lives on.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, cast

import attrs

from engine.compaction.roles import is_users
from engine.compaction.token_estimate import text_tokens
from engine.compaction.user_rules import directives_in
from engine.core.messages import AssistantMessage, CallPart, Message, TextPart, UserMessage

RULES: Final = "What the user said about how to work, word for word. It holds until the user says otherwise:"
FILES: Final = "Files of this work:"
TODOS: Final = "What is to be done, as the list has it:"
_AROUND: Final = " \t\r#*_:-"
_HEADINGS: Final = frozenset(heading.strip(_AROUND).casefold() for heading in (RULES, FILES, TODOS))

# Files that were only read are many; those that were changed are all named, as long as there is room.
READ_FILES: Final = 30
# Of one message; a document that somebody pastes is full of words such as "must".
_RULES_OF_ONE: Final = 40
_LONGEST_RULE: Final = 1_000
# Of a message that is longer than twice that, its beginning and its end are looked at.
_LOOKED: Final = 50_000

_FENCE: Final = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
_PATHS: Final = ("path", "file_path", "filepath", "file", "filename", "notebook_path", "target_file")
_PATCHED: Final = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: ([^\n]+)$", re.MULTILINE)
_FILE_LINE: Final = re.compile(r"- (?P<path>.+?) \((?P<how>changed|read)(?:, (?P<digest>[0-9a-f]+))?\)$")


@attrs.frozen
class File:
    """A file that the work is about.

    Attributes:
        is_changed: a tool has changed it, or tried to.
        digest: of its bytes, as the session knows them; empty: it does not.
    """

    path: str
    is_changed: bool = False
    digest: str = ""


@attrs.frozen(kw_only=True)
class Pins:
    """What is carried over word for word.

    Attributes:
        rules: sentences of the user, the oldest first.
        files: the one that was touched last at the end.
        todos: what is open, a line each.
        left_out: so many rules, the oldest, there was no room for.
        gone: the newest of those: a summary has to take them over.
        files_left_out: the same of files.
    """

    rules: tuple[str, ...] = ()
    files: tuple[File, ...] = ()
    todos: tuple[str, ...] = ()
    left_out: int = 0
    gone: tuple[str, ...] = ()
    files_left_out: int = 0

    def texts(self) -> Iterator[str]:
        """Yield a text for each kind of which there is something."""
        if self.rules:
            yield "\n".join([RULES, *(f"- {rule}" for rule in self.rules)])
        if self.files:
            yield "\n".join([FILES, *(_line(file) for file in self.files)])
        if self.todos:
            yield "\n".join([TODOS, *self.todos])


def without_headings(summary: str) -> str:
    """Return a summary without lines that look like the heading of what is carried: only the engine writes those."""
    return "\n".join(line for line in summary.split("\n") if line.strip(_AROUND).casefold() not in _HEADINGS)


def _line(file: File) -> str:
    digest = f", {file.digest}" if file.digest else ""
    return f"- {file.path} ({'changed' if file.is_changed else 'read'}{digest})"


def pins_of(
    messages: Sequence[Message],
    *,
    read_only: frozenset[str] = frozenset(),
    digests: Mapping[str, str] | None = None,
    todos: Sequence[str] = (),
) -> Pins:
    """Return what is to be carried over when *messages* are summarised.

    *digests* are those of the files that the session knows, by path; *todos* what the list says now.
    """
    known = digests or {}
    rules: dict[str, None] = {}
    files: dict[str, File] = {}
    for message in messages:
        if isinstance(message, UserMessage) and message.origin == "summary":
            carried = pins_in(message)
            rules.update(dict.fromkeys(carried.rules))
            files.update({file.path: file for file in carried.files})
        elif isinstance(message, UserMessage) and is_users(message):
            rules.update(dict.fromkeys(rules_in(message.text)))
        elif isinstance(message, AssistantMessage):
            for file in _touched(message.calls, read_only):
                before = files.pop(file.path, file)
                files[file.path] = attrs.evolve(file, is_changed=file.is_changed or before.is_changed)
    noted = tuple(attrs.evolve(file, digest=_digest(file.path, known) or file.digest) for file in files.values())
    return Pins(rules=tuple(rules), files=_kept(noted), todos=tuple(todos))


def _digest(path: str, known: Mapping[str, str]) -> str:
    if path in known:
        return known[path]
    # The session knows real paths, the model may have named a relative one.
    tail = "/" + path.removeprefix("./")
    return next((digest for real, digest in known.items() if real.endswith(tail)), "")


def _kept(files: tuple[File, ...]) -> tuple[File, ...]:
    changed = [file for file in files if file.is_changed]
    read = [file for file in files if not file.is_changed][-READ_FILES:]
    return (*read, *changed)


def within(pins: Pins, room: int) -> Pins:
    """Return what there is room for, in tokens: two thirds of it for the rules, the rest for the files, the newest first."""
    rules = newest(pins.rules, 2 * room // 3)
    files = newest(tuple(map(_line, pins.files)), room - room // 3)
    left_out, files_left_out = len(pins.rules) - len(rules), len(pins.files) - len(files)
    return attrs.evolve(
        pins,
        rules=rules,
        files=pins.files[files_left_out:],
        left_out=left_out,
        gone=newest(pins.rules[:left_out], room // 3),
        files_left_out=files_left_out,
    )


def newest(lines: Sequence[str], room: int) -> tuple[str, ...]:
    """Return the last of some lines of a list, as many as there is room for, in tokens."""
    kept = 0
    for line in reversed(lines):
        room -= line_tokens(line)
        if room < 0:
            break
        kept += 1
    return tuple(lines[len(lines) - kept :])


def line_tokens(line: str) -> int:
    """Return how many tokens a line of a list takes."""
    return text_tokens(line) + 2


def pins_in(summary: UserMessage) -> Pins:
    """Return what a message with a summary carries."""
    rules: list[str] = []
    files: list[File] = []
    for part in summary.parts[1:]:
        lines = part.text.split("\n") if isinstance(part, TextPart) else [""]
        if lines[0] == RULES:
            rules += [line.removeprefix("- ") for line in lines[1:]]
        elif lines[0] == FILES:
            found = (_FILE_LINE.fullmatch(line) for line in lines[1:])
            files += [File(m["path"], m["how"] == "changed", m["digest"] or "") for m in found if m is not None]
    return Pins(rules=tuple(rules), files=tuple(files))


def rules_in(text: str) -> list[str]:
    """Return the sentences of *text* that say how to work, or how not to; code is none.

    Of a text that has more of them than there is room for, the first and the last: what is in its middle was pasted.
    """
    looked = text if len(text) <= 2 * _LOOKED else f"{text[:_LOOKED]}\n{text[-_LOOKED:]}"
    found = list(dict.fromkeys(map(_bounded, directives_in(_FENCE.sub("", looked)))))
    if len(found) <= _RULES_OF_ONE:
        return found
    return [*found[: _RULES_OF_ONE // 2], *found[-_RULES_OF_ONE // 2 :]]


def _bounded(rule: str) -> str:
    return rule if len(rule) <= _LONGEST_RULE else f"{rule[:_LONGEST_RULE]}…"


def _touched(calls: Iterable[CallPart], read_only: frozenset[str]) -> Iterator[File]:
    for call in calls:
        is_changed = call.tool not in read_only
        for path in paths_in(call.arguments):
            yield File(path, is_changed)


def paths_in(arguments: str) -> list[str]:
    """Return the files that a call's arguments name."""
    try:
        given: object = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        return []
    if not isinstance(given, dict):
        return []
    values = cast("dict[str, object]", given)
    named = [value for name in _PATHS if isinstance(value := values.get(name), str)]
    patched = [
        path for value in values.values() if isinstance(value, str) for path in map(str.strip, _PATCHED.findall(value))
    ]
    return [path for path in (*named, *patched) if path.strip() and "\n" not in path and len(path) < 1_000]
