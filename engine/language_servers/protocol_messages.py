"""What the client says to a language server, and what it reads of diagnostics. Pure.

Positions count UTF-16 units unless the server agrees to UTF-8; people and models get characters, from 1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Literal, TypeAlias
from urllib.parse import unquote, urlsplit

import attrs

from engine.config.language_server_config import Setting
from engine.core.schema import Json
from engine.core.version import __version__
from engine.mcp.server_text import one_line

JsonObject: TypeAlias = dict[str, Json]
Encoding = Literal["utf-8", "utf-16"]

PUBLISH: Final = "textDocument/publishDiagnostics"
PULL: Final = "textDocument/diagnostic"
_ERROR: Final = 1
# Of one file: few are shown, and reading them takes time in the event loop.
_MOST_ITEMS: Final = 2_000
_MESSAGE_CHARS: Final = 400


@attrs.frozen(order=True)
class Diagnostic:
    """An error that a server reports: where, and its words."""

    line: int
    column: int
    message: str


@attrs.frozen(kw_only=True)
class Abilities:
    """What a server has declared of itself.

    Attributes:
        encoding: what its columns count.
        pulls: the identifiers under which it is asked for diagnostics, by registration; empty: it sends them unasked.
        takes_saves: whether it is notified when a file was saved.
    """

    encoding: Encoding = "utf-16"
    pulls: Mapping[str, str | None] = attrs.field(factory=dict[str, "str | None"])
    takes_saves: bool = False


def initialize_params(root: str, *, pid: int | None, options: Mapping[str, Setting]) -> JsonObject:
    """Return the parameters of `initialize`."""
    uri = Path(root).as_uri()
    return {
        "processId": pid,
        "clientInfo": {"name": "engine", "version": __version__},
        "rootPath": root,
        "rootUri": uri,
        "workspaceFolders": [workspace_folder(root)],
        "initializationOptions": nested(options) or None,
        "capabilities": {
            "general": {"positionEncodings": ["utf-8", "utf-16"]},
            "textDocument": {
                "synchronization": {"didSave": True},
                "publishDiagnostics": {"versionSupport": True},
                "diagnostic": {"dynamicRegistration": True},
            },
            "workspace": {
                "configuration": True,
                "workspaceFolders": True,
                "didChangeConfiguration": {"dynamicRegistration": True},
                "didChangeWatchedFiles": {"dynamicRegistration": True},
                "diagnostics": {"refreshSupport": True},
            },
        },
    }


def abilities_in(result: Json) -> Abilities:
    """Return what the answer to `initialize` says; what makes no sense in it does not count."""
    capabilities = _object(_object(result).get("capabilities"))
    save = _object(capabilities.get("textDocumentSync")).get("save")
    provider = capabilities.get("diagnosticProvider")
    return Abilities(
        encoding="utf-8" if capabilities.get("positionEncoding") == "utf-8" else "utf-16",
        pulls={"": _identifier(provider)} if isinstance(provider, dict) else {},
        takes_saves=isinstance(save, dict) or save is True,
    )


def with_registrations(abilities: Abilities, params: Json) -> Abilities:
    """Return the abilities after `client/registerCapability`."""
    pulls = dict(abilities.pulls)
    for one in _objects(_object(params).get("registrations")):
        if one.get("method") == PULL and isinstance(key := one.get("id"), str):
            # One that is registered takes the place of what it declared at its start.
            pulls.pop("", None)
            pulls[key] = _identifier(one.get("registerOptions"))
    return attrs.evolve(abilities, pulls=pulls)


def without_registrations(abilities: Abilities, params: Json) -> Abilities:
    """Return the abilities after `client/unregisterCapability`."""
    # The protocol has the word misspelt.
    gone = [one.get("id") for one in _objects(_object(params).get("unregisterations"))]
    return attrs.evolve(abilities, pulls={key: name for key, name in abilities.pulls.items() if key not in gone})


def answer_to(method: str, params: Json, *, root: str, settings: Mapping[str, Setting]) -> tuple[Json, bool]:
    """Return the result for a server's request, and whether there is one: what is not known is refused."""
    match method:
        case "workspace/configuration":
            return [_section(settings, one) for one in _objects(_object(params).get("items"))], True
        case "workspace/workspaceFolders":
            return [workspace_folder(root)], True
        case "workspace/applyEdit":
            return {"applied": False, "failureReason": "only the user and the model change files"}, True
        case "window/showDocument":
            return {"success": False}, True
        case "client/registerCapability" | "client/unregisterCapability" | "window/showMessageRequest":
            return None, True
        case "window/workDoneProgress/create" | "workspace/diagnostic/refresh":
            return None, True
        case _:  # what has no use here, such as `workspace/codeLens/refresh`
            return None, False


def workspace_folder(root: str) -> JsonObject:
    """Return a folder as the protocol has it."""
    return {"uri": Path(root).as_uri(), "name": Path(root).name}


def nested(settings: Mapping[str, Setting]) -> JsonObject:
    """Return settings with dots in their names as tables within tables."""
    whole: JsonObject = {}
    for name, value in settings.items():
        *tables, last = name.split(".")
        inner = whole
        for table in tables:
            below = inner.setdefault(table, {})
            if not isinstance(below, dict):  # `a = 1` and `"a.b" = 2`: the later one counts
                below = inner[table] = {}
            inner = below
        inner[last] = list[Json](value) if isinstance(value, tuple) else value
    return whole


def path_of(uri: Json) -> str:
    """Return the path that a URI of a file names; empty if it is none. Servers escape characters differently."""
    if not isinstance(uri, str) or not uri.startswith("file:"):
        return ""
    try:
        return unquote(urlsplit(uri).path)
    except ValueError:
        return ""


def errors_in(items: Json, text: str, encoding: Encoding) -> tuple[Diagnostic, ...]:
    """Return the errors among diagnostics of *text*, in the order of their lines; what is none is left out."""
    lines = text.split("\n")
    several = items[:_MOST_ITEMS] if isinstance(items, list) else []
    errors = (_error_in(item, lines, encoding) for item in several if isinstance(item, dict))
    return tuple(sorted({each for each in errors if each is not None}))


def new_first(now: Sequence[Diagnostic], before: Sequence[Diagnostic]) -> tuple[list[Diagnostic], list[Diagnostic]]:
    """Return the errors that an edit has brought, and those that were there before it.

    An edit moves what follows it to other lines, so errors are compared by their words.
    """
    earlier = Counter(one.message for one in before)
    new: list[Diagnostic] = []
    old: list[Diagnostic] = []
    for one in now:
        earlier[one.message] -= 1
        (old if earlier[one.message] >= 0 else new).append(one)
    return new, old


def _error_in(item: JsonObject, lines: Sequence[str], encoding: Encoding) -> Diagnostic | None:
    message, start = item.get("message"), _object(_object(item.get("range")).get("start"))
    line, unit = start.get("line"), start.get("character")
    if item.get("severity", _ERROR) != _ERROR or not isinstance(message, str):
        return None
    if type(line) is not int or type(unit) is not int or line < 0 or unit < 0:
        return None
    column = _characters(lines[line] if line < len(lines) else "", unit, encoding)
    return Diagnostic(line + 1, column + 1, _words(message, item.get("code")))


def _words(message: str, code: Json) -> str:
    words = one_line(message, _MESSAGE_CHARS)
    return f"{words} [{one_line(str(code), 60)}]" if isinstance(code, (str, int)) and code != "" else words


def _characters(line: str, units: int, encoding: Encoding) -> int:
    """Return how many characters of *line* come before a position."""
    codec, size = ("utf-8", 1) if encoding == "utf-8" else ("utf-16-le", 2)
    # A part of a character at the end counts as none.
    return len(line.encode(codec)[: units * size].decode(codec, "ignore"))


def _section(settings: Mapping[str, Setting], item: JsonObject) -> Json:
    name = item.get("section")
    value: Json = nested(settings)
    for part in name.split(".") if isinstance(name, str) and name else ():
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _identifier(options: Json) -> str | None:
    name = _object(options).get("identifier")
    return name if isinstance(name, str) else None


def _object(value: Json) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _objects(value: Json) -> list[JsonObject]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
