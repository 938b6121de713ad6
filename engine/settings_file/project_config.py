"""What a project's own files may set: a short list, once the project is trusted, and nothing that widens.

The files came with a repository. They never name a host, a key or where requests go; they start no hooks; they only make
the profile and the sandbox stricter. What they set besides is ignored, and the user reads which keys and why.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, cast

import attrs

from engine.config.builtin_agents import BUILT_IN
from engine.core.errors import ConfigError
from engine.core.value_base import Value
from engine.permission.rules.profiles import DEFAULT, PROFILES, is_wider
from engine.permission.rules.project_file import project_files, read_project_file
from engine.providers.models.catalog import info_of
from engine.settings_file.config_keys import VERSION_KEY, Key, format_key, leaves, value_at
from engine.settings_file.document import ConfigDocument, parse_document, table_in
from engine.settings_file.mcp_json import read_mcp_json

# Sections that a project may set as it likes.
_FREE: Final = frozenset({VERSION_KEY, "formatters", "checkers"})
_REASONS: Final[Mapping[str, str]] = {
    "hosts": "a project's file can't say where requests and keys go",
    "hooks": "hooks of a project are set in its .claude folder",
    "sandbox": "a project's file can only make the sandbox stricter",
    "environment": "a project's file can't pass variables on to commands",
    "language_servers": "a project's file can't start programs",
    "programs": "a project's file can't say what commands do",
    "telemetry": "a project's file can't say where traces go, or what is in them",
}
_FILES: Final = ("instructions", "files")
_SERVERS: Final = ("mcp", "servers")
_YOURS: Final = "only your own configuration can set it"
# From the widest on; landlock and auto confine the same commands.
_CONFINEMENT: Final = ("off", "auto", "landlock", "bwrap")


@attrs.frozen(kw_only=True, eq=False, repr=False)
class IgnoredKey(Value):
    """A key of a project's file that does not count.

    Attributes:
        key: the key, or what several have in common.
        location: its file and line.
        reason: why.
    """

    key: Key
    location: str
    reason: str


def read_project_documents(
    cwd: str, root: str, below: Mapping[str, object]
) -> tuple[list[ConfigDocument], list[IgnoredKey]]:
    """Return the files of a trusted project, reduced to what they may set, and what is ignored. It blocks.

    Args:
        cwd: the working directory.
        root: the project's folder.
        below: what the user's and the machine's files say.

    Raises:
        ConfigError: a file is invalid.
    """
    documents, ignored = _read_mcp_json(root, below)
    for path in project_files(cwd, root):
        text = read_project_file(path)
        if text is not None:
            document, more = restrict_document(parse_document(text.encode(), path, "project"), below)
            _place_servers(document, root)
            documents.append(document)
            ignored += more
    return documents, ignored


def _read_mcp_json(root: str, below: Mapping[str, object]) -> tuple[list[ConfigDocument], list[IgnoredKey]]:
    """Return the servers in `.mcp.json`, and what of it is ignored."""
    shared = read_mcp_json(root)
    ignored = [
        IgnoredKey(key=(*_SERVERS, *([name] if name else [])), location=shared.path, reason=reason)
        for name, reason in shared.ignored
    ]
    if shared.document is None:
        return [], ignored
    document, more = restrict_document(shared.document, below)
    return [document], [*ignored, *more]


def _place_servers(document: ConfigDocument, root: str) -> None:
    """Let the servers of a project's file run in the project's folder, unless it says where."""
    for server in table_in(table_in(document.values, "mcp"), "servers").values():
        table = cast("dict[str, object]", server)
        if isinstance(server, dict) and "command" in table:
            table.setdefault("folder", root)


def has_more_than_rules(cwd: str, root: str) -> str:
    """Return a file of the project that sets more than rules; empty if there is none. It blocks."""
    shared = read_mcp_json(root)
    if shared.document is not None or shared.ignored:
        return shared.path
    for path in project_files(cwd, root):
        try:
            text = read_project_file(path)
            document = None if text is None else parse_document(text.encode(), path, "project")
        except ConfigError:
            return path
        if document is not None and any(key != ("permissions", "rules") for key, _ in leaves(document.values)):
            return path
    return ""


def restrict_document(document: ConfigDocument, below: Mapping[str, object]) -> tuple[ConfigDocument, list[IgnoredKey]]:
    """Return a project's file with what it may set, and the keys that are ignored."""
    kept: dict[str, object] = {}
    ignored: dict[Key, IgnoredKey] = {}
    for key, value in leaves(document.values):
        reason, allowed = _judge(key, value, below)
        if allowed is not None:
            _put(kept, key, allowed)
        if reason:
            shown = key if key[0] in {"permissions", "sandbox", "agents"} else key[: 3 if key[0] == "mcp" else 2]
            ignored.setdefault(shown, IgnoredKey(key=shown, location=document.location(shown), reason=reason))
    return ConfigDocument("project", document.source, kept, document.text), list(ignored.values())


def _judge(key: Key, value: object, below: Mapping[str, object]) -> tuple[str, object | None]:
    """Return why a value, or a part of it, does not count (empty: it does), and what counts of it; None: nothing."""
    if _is_free(key):
        return "", value
    match key:
        case ("permissions", "profile"):
            return _stricter_profile(value, below)
        case ("sandbox", "backend" | "network"):
            return _stricter_sandbox(key[1], value, below)
        case ("instructions", *_):
            return _files_inside(value)
        case ("models", name, "same_as"):
            has_name = name in table_in(below, "models") or info_of(name).is_known
            return _unless(
                has_name, "a project's file can give a name of its own to a model, but not change one", value
            )
        case ("mcp", "servers", name, *_):
            has_name = name in table_in(table_in(below, "mcp"), "servers")
            return _unless(has_name, "your own configuration has a server of this name", value)
        case ("agents", name, *rest):
            return _judge_agent(name, rest[0] if rest else "", value, below)
        case _:
            return _REASONS.get(key[0], _YOURS), None


def _unless(has_name: bool, reason: str, value: object) -> tuple[str, object | None]:  # noqa: FBT001  # private
    return (reason, None) if has_name else ("", value)


def _is_free(key: Key) -> bool:
    """Return whether a project may set a key as it likes; the policy sees to it that its rules widen nothing."""
    return key[0] in _FREE or key == ("permissions", "rules") or (key[0] == "instructions" and key != _FILES)


def _stricter_profile(value: object, below: Mapping[str, object]) -> tuple[str, object | None]:
    current = value_at(below, ("permissions", "profile")) or DEFAULT
    if value in PROFILES and value != "full" and not is_wider(str(value), str(current)):
        return "", value
    return f"a project's file can only select a stricter profile than {current!r}", None


def _stricter_sandbox(name: str, value: object, below: Mapping[str, object]) -> tuple[str, object | None]:
    configured = value_at(below, ("sandbox",))
    sandbox = cast("dict[str, object]", configured) if isinstance(configured, dict) else {}
    if name == "network":
        is_stricter = value is False
    else:
        current = sandbox.get("backend", "bwrap" if configured is not None else "auto")
        order = (*_CONFINEMENT, value)
        is_stricter = value in _CONFINEMENT and value != "off" and order.index(value) >= order.index(current)
    return ("", value) if is_stricter else (_REASONS["sandbox"], None)


def _files_inside(value: object) -> tuple[str, object | None]:
    """Keep the patterns that lead to no file outside of the project."""
    if not isinstance(value, list):
        return "", value  # reported as what it is
    items = cast("list[object]", value)
    kept = [
        item
        for item in items
        if isinstance(item, str) and not item.startswith(("/", "~")) and ".." not in item.split("/")
    ]
    reason = "" if len(kept) == len(items) else "a project's file can only name files of the project"
    return reason, kept


def _judge_agent(name: str, field: str, value: object, below: Mapping[str, object]) -> tuple[str, object | None]:
    if name in BUILT_IN or name in table_in(below, "agents"):
        return f"the agent {name!r} is not the project's own", None
    if field not in {"rules", "bounds"} or not isinstance(value, list):
        return "", value
    rules = [rule for rule in cast("list[object]", value) if isinstance(rule, str)]
    # An agent's rules are above the user's.
    kept = [
        _without_override(rule) for rule in rules if not rule.split()[:1] or not rule.split()[0].startswith("allow")
    ]
    reason = "" if kept == rules else "rules of a project's agent can deny and ask, and lift nothing"
    return reason, kept


def _without_override(rule: str) -> str:
    action, blank, rest = rule.strip().partition(" ")
    return f"{action.removesuffix('!')}{blank}{rest}"


def _put(table: dict[str, object], key: Key, value: object) -> None:
    for part in key[:-1]:
        table = cast("dict[str, object]", table.setdefault(part, {}))
    table[key[-1]] = value


def report_ignored(ignored: list[IgnoredKey]) -> Iterator[str]:
    """Yield a line for each key that is ignored."""
    for one in ignored:
        yield f"Ignored {format_key(one.key)} ({one.location}): {one.reason}"
