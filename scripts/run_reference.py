"""Write what describes the output of `engine run` from its classes: the reference of the records, and the JSON Schemas.

    python -m scripts.run_reference            print what differs, and exit with 1; nothing otherwise
    python -m scripts.run_reference --write    write the files (`make surface` does)

`tests/cli/test_print_schema.py` fails where a file differs.
"""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import attrs

from engine.cli.print_schema import schema_named
from engine.cli.turn import record_types
from engine.control.protocol.json_schema import SchemaMaker, field_notes, summary_of
from engine.core.schema import hints_of
from engine.journal.json_text import to_json_text
from scripts.control_typescript import type_text

REFERENCE = Path(__file__).resolve().parent.parent / "docs" / "reference"
KINDS = (
    record_types.RunResult,
    record_types.UsageRecord,
    record_types.CostRecord,
    record_types.CallCounts,
    record_types.ChangedFile,
    record_types.DeniedCall,
    record_types.StdinRecord,
    record_types.AttachmentRecord,
    record_types.ErrorRecord,
    record_types.InitRecord,
)

INTRODUCTION = """\
<!-- Written by scripts/run_reference.py: change engine/cli/turn/record_types.py, then run `make surface`. -->

# What `engine run` prints as JSON

`--output json` prints one `RunResult`. `--output stream-json` prints an `InitRecord`, then [each event](events.md) as a line,
and the `RunResult` last. Wrong usage prints a `RunResult`, too. What is unknown is null.

`engine schema result`, `engine schema events` (any line of the stream) and `engine schema config` (the configuration file)
print JSON Schema, draft 2020-12: [result](run-result.schema.json), [events](run-events.schema.json),
[configuration](config.schema.json). While the number in `schema` stays the same, fields are only added: ignore those that
you do not know.
"""


def files() -> Mapping[Path, str]:
    """Return the content of each file."""
    return {
        REFERENCE / "run-record.md": "\n".join([INTRODUCTION, *map("\n".join, map(_section, KINDS))]).rstrip() + "\n",
        REFERENCE / "run-result.schema.json": to_json_text(schema_named("result")) + "\n",
        REFERENCE / "run-events.schema.json": to_json_text(schema_named("events")) + "\n",
        REFERENCE / "config.schema.json": to_json_text(schema_named("config")) + "\n",
    }


def _section(kind: type[attrs.AttrsInstance]) -> Iterator[str]:
    yield f"## {kind.__name__}\n\n{summary_of(kind)}\n\n| field | type | meaning |\n| --- | --- | --- |"
    notes, hints, maker = field_notes(kind), hints_of(kind), SchemaMaker()
    for field in attrs.fields(kind):
        # A record holds no NaN.
        shown = type_text(maker.of(hints[field.name])).replace("Float", "number").replace("|", "\\|")
        yield f"| `{field.name}` | `{shown}` | {notes.get(field.name, '').rstrip('.')} |"
    yield ""


def main() -> int:
    """Write the files, or name those that differ."""
    stale = {path: text for path, text in files().items() if not path.exists() or path.read_text("utf-8") != text}
    for path, text in stale.items():
        if "--write" in sys.argv:
            path.write_text(text, "utf-8")
        else:
            print(f"{path.name} differs from the classes: make surface")
    return int(bool(stale) and "--write" not in sys.argv)


if __name__ == "__main__":
    sys.exit(main())
