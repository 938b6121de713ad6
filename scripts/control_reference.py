"""Write what describes the control protocol from its classes: the reference, its JSON Schema, TypeScript declarations, constants for JavaScript.

    python -m scripts.control_reference            print what differs, and exit with 1; nothing otherwise
    python -m scripts.control_reference --write    write the files (`make surface` does)

`tests/control/test_control_reference.py` fails where a file differs.
"""

import sys
import typing
from collections.abc import Iterator
from pathlib import Path

import attrs

from engine.control.protocol.error_kinds import CLOSE_CODES, ERROR_KINDS, RETRIED_CODES
from engine.control.protocol.json_schema import field_notes, protocol_schema, summary_of
from engine.control.protocol.method_table import COMMON_ERRORS, METHODS, SERVER_NOTES, Method
from engine.control.protocol.wire_converter import Params, to_json
from engine.core.schema import Json
from engine.journal.json_text import to_json_text
from engine.jsonrpc.rpc_messages import notification_text, request_text
from scripts.control_examples import CLIENT_NOTES, EXAMPLES, NOTES
from scripts.control_javascript import constants
from scripts.control_typescript import declarations, type_text

REPOSITORY = Path(__file__).resolve().parent.parent
PAGE = REPOSITORY / "docs" / "reference" / "control.md"
SCHEMA = REPOSITORY / "docs" / "reference" / "control.schema.json"
CLIENT = REPOSITORY / "engine" / "control" / "page" / "client"
TYPES = CLIENT / "engine-control.d.ts"
CONSTANTS = CLIENT / "protocol.js"

INTRODUCTION = """\
<!-- Written by scripts/control_reference.py: change the classes of engine/control/protocol, then run `make surface`. -->

# The control protocol

Clients in other processes drive and watch sessions with JSON-RPC 2.0: one message, or a batch of 1 to 32, in each WebSocket
text message, each line of `--stdio`, or the body of `POST /v1/rpc`. There are no requests from the server: a question to
the user is an event, and its answer is an ordinary request of any client.

- The first message is `hello`; only `ping` works before it.
- A request's id is a string of at most 64 characters or a whole number within 2^53.
- Fields that are not known are refused in params, with the nearest name, and to be ignored in results.
- A message of a client has at most 1 MiB and 64 levels of nesting; 64 requests may run at once on a connection.
- Methods have an effect only as requests. Of notifications only `tock` and `rpc.cancel` mean something.
- `key` makes repeating a request safe: the same key and params do nothing twice, and get the first answer again. The key
  of input is its `input_id`, and holds for ever; others hold for an hour.
- Times are seconds since the epoch. Numbers that JSON doesn't have are the strings `"NaN"`, `"Infinity"`, `"-Infinity"`.
- A position is opaque. One that can't be used any more is no error: the server sends `resync`.

[Events](events.md) are the same documents as in the store. The [JSON Schema](control.schema.json) has every class.
Each connection has a role: `read` sees everything, `answer` also answers questions and cancels turns, `full` may do
everything.
"""


def page_text() -> str:
    """Return the reference page."""
    return "\n".join(_page()).rstrip() + "\n"


def schema_text() -> str:
    """Return the schema with a line for each class and method, so that a difference can be read."""
    parts: list[str] = []
    for name, node in protocol_schema().items():
        if isinstance(node, dict):
            lines = ",\n".join(f"{to_json_text(key)}: {to_json_text(value)}" for key, value in node.items())
            parts.append(f"{to_json_text(name)}: {{\n{lines}\n}}")
        else:
            parts.append(f"{to_json_text(name)}: {to_json_text(node)}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def types_text() -> str:
    """Return the TypeScript declarations."""
    return declarations(protocol_schema())


def files() -> dict[Path, str]:
    """Return what each file should hold."""
    return {PAGE: page_text(), SCHEMA: schema_text(), TYPES: types_text(), CONSTANTS: constants()}


def _page() -> Iterator[str]:
    defs = _defs()
    yield INTRODUCTION
    yield "## Methods\n"
    for method in METHODS.values():
        yield from _method(method, defs)
    yield "## Notifications of the server\n"
    for name, kind in SERVER_NOTES.items():
        yield f"### Notification `{name}`\n"
        yield f"{summary_of(kind)}\n"
        yield from _table(kind, defs)
        yield _example(notification_text(name, to_json_text(to_json(NOTES[name]))))
    yield "## Notifications of the client\n"
    yield "`tock` answers a `tick`. `rpc.cancel` is the method, if its answer does not matter.\n"
    for name, value in CLIENT_NOTES.items():
        yield _example(notification_text(name, to_json_text(to_json(value))))
    yield "## Values\n"
    for kind in _values():
        yield f"### `{kind.__name__}`\n"
        yield f"{summary_of(kind)}\n"
        yield from _table(kind, defs)
    yield "## Errors\n"
    yield (
        "`data` holds the `kind`, whether to `retry` (`no`, `later`, or `same_key`: the same request with the same key), the name\n"
        "of the engine's `error` where there is one, and facts. `message` is for people.\n"
    )
    yield f"Any method may answer: {', '.join(f'`{kind}`' for kind in COMMON_ERRORS)}.\n"
    yield "| kind | code | retry | facts | meaning |"
    yield "| --- | --- | --- | --- | --- |"
    for row in ERROR_KINDS.values():
        facts = ", ".join(f"`{fact}`" for fact in row.facts)
        yield f"| `{row.kind}` | {row.code} | {row.retry} | {facts} | {row.meaning} |"
    yield "\n## Close codes\n"
    yield "| code | meaning | the client |"
    yield "| --- | --- | --- |"
    for code in CLOSE_CODES:
        yield f"| {code.code} | {code.meaning} | {'stops and says why' if code.is_final else 'comes back'} |"
    others = sorted(RETRIED_CODES - {code.code for code in CLOSE_CODES})
    yield f"\nA client also comes back after {', '.join(map(str, others))}, which no server of this engine sends: the connection"
    yield "was lost, or a proxy has ended it. After any other code it stops."


def _method(method: Method, defs: dict[str, Json]) -> Iterator[str]:
    yield f"### `{method.name}`\n"
    role = f"Role: `{method.role}`." if method.role else "Works before `hello` and without a role."
    errors = f" Errors: {', '.join(f'`{kind}`' for kind in method.errors)}." if method.errors else ""
    yield f"{method.summary} {role}{errors}\n"
    yield from _table(method.params, defs)
    yield from _table(method.result, defs, title="result")
    params, result = EXAMPLES[method.name]
    answer = to_json_text({"jsonrpc": "2.0", "id": 1, "result": to_json(result)})
    yield _example(request_text(1, method.name, to_json_text(to_json(params))), answer)


def _table(kind: type, defs: dict[str, Json], title: str = "parameter") -> Iterator[str]:
    fields: list[attrs.Attribute[object]] = list(attrs.fields(kind))
    if not fields:
        return
    node = defs[kind.__name__]
    assert isinstance(node, dict)
    properties, required = node["properties"], node.get("required", [])
    assert isinstance(properties, dict)
    assert isinstance(required, list)
    notes = field_notes(kind)
    yield f"| {title if issubclass(kind, Params) or title == 'result' else 'field'} | type | |"
    yield "| --- | --- | --- |"
    for field in fields:
        shown = type_text(properties[field.name]).replace("|", "\\|")
        optional = "" if field.name in required else "Optional. "
        note = notes.get(field.name, "").replace("|", "\\|")
        yield f"| `{field.name}` | `{shown}` | {optional}{note} |"
    yield ""


def _example(*messages: str) -> str:
    arrows = "→←"
    shown = "\n".join(f"{arrow} {_short(text)}" for arrow, text in zip(arrows, messages, strict=False))
    return f"```text\n{shown}\n```\n"


def _short(text: str) -> str:
    # Rows and heads are long; the whole example is in the tests.
    return text if len(text) <= 600 else f"{text[:600]}…"


def _defs() -> dict[str, Json]:
    defs = protocol_schema()["$defs"]
    assert isinstance(defs, dict)
    return defs


def _values() -> list[type]:
    """Return the classes of the protocol that are parts of params and results."""
    top = {cls for method in METHODS.values() for cls in (method.params, method.result)} | set(SERVER_NOTES.values())
    found: dict[str, type] = {}
    todo: list[type] = [*top]
    while todo:
        for hint in typing.get_type_hints(todo.pop(), include_extras=True).values():
            for cls in _classes_in(hint):
                if cls.__module__.startswith("engine.control") and cls not in top and cls.__name__ not in found:
                    found[cls.__name__] = cls
                    todo.append(cls)
    return [found[name] for name in sorted(found)]


def _classes_in(hint: object) -> Iterator[type]:
    if isinstance(hint, type) and attrs.has(hint):
        yield hint
    for arg in typing.get_args(hint):
        yield from _classes_in(arg)


def main() -> int:
    """Print which files differ, or write them."""
    differing = [path for path, text in files().items() if not path.exists() or path.read_text("utf-8") != text]
    if "--write" in sys.argv[1:]:
        for path, text in files().items():
            path.write_text(text, encoding="utf-8")
        return 0
    for path in differing:
        print(f"{path.relative_to(REPOSITORY)} is not what the classes say: run `make surface`")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
