"""What a summary preserves word for word, outside of its prose: rules of the user, files, open todos (T8).

These are separate parts of the summary's message, where the next compaction finds
them again: they do not depend on what a summariser writes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, cast

import attrs

from engine.compaction.message_origin import is_user_message
from engine.compaction.token_estimate import text_tokens
from engine.core.messages import AssistantMessage, CallPart, Message, ResultsMessage, TextPart, UserMessage

if TYPE_CHECKING:
    from engine.compaction.user_rules import Directive

RULES: Final = "What the user said about how to work, word for word. It applies until the user says otherwise:"
STATEMENTS: Final = (
    "What else the user said, word for word. It still holds, unless it was about something that is settled by now:"
)
FILES: Final = "Files of this work:"
TODOS: Final = "Open items of the todo list:"
TOOLS: Final = "Tools that were found with tool_search:"
_AROUND: Final = " \t\r#*_:-"
_HEADINGS: Final = frozenset(heading.strip(_AROUND).casefold() for heading in (RULES, STATEMENTS, FILES, TODOS, TOOLS))

# Files that were only read are limited to this number; changed files are all listed, as long as there is room.
MAX_READ_FILES: Final = 30
MAX_TOOLS: Final = 50
# Per message: a pasted document may be full of words such as "must".
_MAX_RULES_PER_MESSAGE: Final = 40
_MAX_RULE_CHARS: Final = 1_000
_MAX_STATEMENTS_PER_MESSAGE: Final = 20
# What statements may take, in tokens: those of two hundred prompts, as developers type them.
MOST_STATEMENT_TOKENS: Final = 2_000
# Of a message that is more than twice as long, only the beginning and the end are scanned.
_SCANNED_CHARS: Final = 50_000

_FENCE: Final = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
_PATHS: Final = ("path", "file_path", "filepath", "file", "filename", "notebook_path", "target_file")
_PATCHED: Final = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: ([^\n]+)$", re.MULTILINE)
_FILE_LINE: Final = re.compile(r"- (?P<path>.+?) \((?P<how>changed|read)(?:, (?P<digest>[0-9a-f]+))?\)$")


@attrs.frozen
class PinnedFile:
    """A file that the work is about.

    Attributes:
        is_changed: a tool has changed it, or tried to.
        digest: the digest of its content that the session has recorded; empty: none.
    """

    path: str
    is_changed: bool = False
    digest: str = ""


@attrs.frozen(kw_only=True)
class Pins:
    """What is preserved word for word.

    Attributes:
        rules: rules of the user, the oldest first.
        statements: other sentences of the user that may still hold, the oldest first.
        files: files, the one that was touched last at the end.
        todos: open items, one line each.
        tools: the names of tools that a search has shown to the model.
        dropped_rule_count: the number of old rules that did not fit.
        dropped_rules: the newest of these: the summary has to include them.
        dropped_file_count: the number of files that did not fit.
    """

    rules: tuple[str, ...] = ()
    statements: tuple[str, ...] = ()
    files: tuple[PinnedFile, ...] = ()
    todos: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    dropped_rule_count: int = 0
    dropped_rules: tuple[str, ...] = ()
    dropped_file_count: int = 0

    def texts(self) -> Iterator[str]:
        """Yield a text for each kind that is not empty."""
        if self.rules:
            yield "\n".join([RULES, *(f"- {rule}" for rule in self.rules)])
        if self.statements:
            yield "\n".join([STATEMENTS, *(f"- {statement}" for statement in self.statements)])
        if self.files:
            yield "\n".join([FILES, *(_line(file) for file in self.files)])
        if self.todos:
            yield "\n".join([TODOS, *self.todos])
        if self.tools:
            yield "\n".join([TOOLS, *(f"- {name}" for name in self.tools)])


def without_headings(summary: str) -> str:
    """Return a summary without lines that look like the engine's own headings."""
    return "\n".join(line for line in summary.split("\n") if line.strip(_AROUND).casefold() not in _HEADINGS)


def _line(file: PinnedFile) -> str:
    digest = f", {file.digest}" if file.digest else ""
    return f"- {file.path} ({'changed' if file.is_changed else 'read'}{digest})"


def collect_pins(
    messages: Sequence[Message],
    *,
    read_only: frozenset[str] = frozenset(),
    digests: Mapping[str, str] | None = None,
    todos: Sequence[str] = (),
) -> Pins:
    """Return what to preserve when *messages* are summarised.

    *digests* are those that the session has recorded, by path; *todos* are the open items of the list.
    """
    rules: dict[str, None] = {}
    statements: dict[str, None] = {}
    files: dict[str, PinnedFile] = {}
    for message in messages:
        if isinstance(message, UserMessage) and message.origin == "summary":
            carried = parse_pins(message)
            rules.update(dict.fromkeys(carried.rules))
            statements.update(dict.fromkeys(carried.statements))
            files.update({file.path: file for file in carried.files})
        elif isinstance(message, UserMessage) and is_user_message(message):
            directives = _directives(message.text)
            rules.update(dict.fromkeys(_rules(directives)))
            statements.update(dict.fromkeys(_statements(directives)))
        elif isinstance(message, AssistantMessage):
            for file in _touched(message.calls, read_only):
                before = files.pop(file.path, file)
                files[file.path] = attrs.evolve(file, is_changed=file.is_changed or before.is_changed)
    with_digests = _with_digests(files.values(), digests or {})
    return Pins(
        rules=tuple(rules),
        statements=tuple(statements),
        files=_listed_files(with_digests),
        todos=tuple(todos),
        tools=tuple(dict.fromkeys(revealed_tools(messages)))[-MAX_TOOLS:],
    )


def revealed_tools(messages: Iterable[Message]) -> Iterator[str]:
    """Yield the names of the tools that a search has shown to the model, also those that a summary preserves."""
    for message in messages:
        if isinstance(message, ResultsMessage):
            for result in message.results:
                yield from result.settlement.tools
        elif isinstance(message, UserMessage) and message.origin == "summary":
            yield from parse_pins(message).tools


def _with_digests(files: Iterable[PinnedFile], digests: Mapping[str, str]) -> tuple[PinnedFile, ...]:
    return tuple(attrs.evolve(file, digest=_digest(file.path, digests) or file.digest) for file in files)


def _digest(path: str, digests: Mapping[str, str]) -> str:
    if path in digests:
        return digests[path]
    # The session records real paths; the model may have used a relative one.
    tail = "/" + path.removeprefix("./")
    return next((digest for real, digest in digests.items() if real.endswith(tail)), "")


def _listed_files(files: tuple[PinnedFile, ...]) -> tuple[PinnedFile, ...]:
    changed = [file for file in files if file.is_changed]
    read = [file for file in files if not file.is_changed][-MAX_READ_FILES:]
    return (*read, *changed)


def fit_pins(pins: Pins, room: int) -> Pins:
    """Drop the oldest entries beyond *room* tokens: two thirds are for rules and then statements, the rest for files."""
    rules = newest_lines(pins.rules, 2 * room // 3)
    free = 2 * room // 3 - sum(map(line_tokens, rules))
    files = newest_lines(tuple(map(_line, pins.files)), room - room // 3)
    left_out, files_left_out = len(pins.rules) - len(rules), len(pins.files) - len(files)
    return attrs.evolve(
        pins,
        rules=rules,
        statements=newest_lines(pins.statements, min(free, MOST_STATEMENT_TOKENS)),
        files=pins.files[files_left_out:],
        dropped_rule_count=left_out,
        dropped_rules=newest_lines(pins.rules[:left_out], room // 3),
        dropped_file_count=files_left_out,
    )


def newest_lines(lines: Sequence[str], room: int) -> tuple[str, ...]:
    """Return as many of the last lines of a list as fit into *room* tokens."""
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


def parse_pins(summary: UserMessage) -> Pins:
    """Return what a message with a summary preserves."""
    plain: dict[str, list[str]] = {RULES: [], STATEMENTS: [], TOOLS: []}
    files: list[PinnedFile] = []
    for part in summary.parts[1:]:
        lines = part.text.split("\n") if isinstance(part, TextPart) else [""]
        if lines[0] in plain:
            plain[lines[0]] += [line.removeprefix("- ") for line in lines[1:]]
        elif lines[0] == FILES:
            matches = (_FILE_LINE.fullmatch(line) for line in lines[1:])
            files += [PinnedFile(m["path"], m["how"] == "changed", m["digest"] or "") for m in matches if m is not None]
    return Pins(
        rules=tuple(plain[RULES]), statements=tuple(plain[STATEMENTS]), files=tuple(files), tools=tuple(plain[TOOLS])
    )


def rules_in(text: str) -> list[str]:
    """Return the rules in *text*: sentences, outside of code, that say how to work or how not to.

    If there are too many, return the first and the last ones: the middle is probably a pasted document.
    """
    return _rules(_directives(text))


def _directives(text: str) -> list[Directive]:
    # Imported here: its patterns take 20 ms to compile, and a session with foreign tools asks for `revealed_tools` first.
    from engine.compaction.user_rules import directives_in

    scanned = text if len(text) <= 2 * _SCANNED_CHARS else f"{text[:_SCANNED_CHARS]}\n{text[-_SCANNED_CHARS:]}"
    return list(directives_in(_FENCE.sub("", scanned)))


def _rules(directives: Iterable[Directive]) -> list[str]:
    rules = [_bounded(directive.text) for directive in directives if directive.is_rule]
    return _both_ends(rules, _MAX_RULES_PER_MESSAGE)


def _statements(directives: Iterable[Directive]) -> list[str]:
    statements = [directive.text for directive in directives if not directive.is_rule]
    return _both_ends(statements, _MAX_STATEMENTS_PER_MESSAGE)


def _both_ends(lines: Iterable[str], most: int) -> list[str]:
    distinct = list(dict.fromkeys(lines))
    return distinct if len(distinct) <= most else [*distinct[: most // 2], *distinct[-most // 2 :]]


def _bounded(rule: str) -> str:
    return rule if len(rule) <= _MAX_RULE_CHARS else f"{rule[:_MAX_RULE_CHARS]}…"


def _touched(calls: Iterable[CallPart], read_only: frozenset[str]) -> Iterator[PinnedFile]:
    for call in calls:
        is_changed = call.tool not in read_only
        for path in paths_in(call.arguments):
            yield PinnedFile(path, is_changed)


def paths_in(arguments: str) -> list[str]:
    """Return the files that a call's arguments name."""
    try:
        parsed: object = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        return []
    if not isinstance(parsed, dict):
        return []
    values = cast("dict[str, object]", parsed)
    texts = [value for value in values.values() if isinstance(value, str)]
    named = [value for name in _PATHS if isinstance(value := values.get(name), str)]
    patched = [path.strip() for text in texts for path in _PATCHED.findall(text)]
    return [path for path in (*named, *patched) if _is_path(path)]


def _is_path(text: str) -> bool:
    return bool(text.strip()) and "\n" not in text and len(text) < 1_000
