"""`engine schema`: the JSON Schema of what `engine run` prints, and of the configuration file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from engine.cli.command_table.find_command import parse_arguments
from engine.cli.terminal.exit_codes import run_command
from engine.cli.terminal.standard_streams import print_text

if TYPE_CHECKING:
    from engine.core.schema import Json

DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"


def main(arguments: list[str]) -> int:
    """Run the command; return the exit code."""

    def run() -> int:
        # Imported here: reading events and tables takes long, and --help needs neither.
        from engine.journal.json_text import to_json_text

        return print_text(f"{to_json_text(schema_named(parse_arguments('schema', arguments).name))}\n")

    return run_command("schema", run)


def schema_named(name: str) -> dict[str, Json]:
    """Return a schema: `result`, `events` or `config`."""
    if name == "config":
        from engine.settings_file.config_schema import config_schema

        return config_schema()
    return result_schema() if name == "result" else line_schema()


def result_schema() -> dict[str, Json]:
    """Return the schema of the object of `--output json`."""
    from engine.cli.turn.record_types import RunResult

    return _document("result", "The object of engine run --output json", [RunResult])


def line_schema() -> dict[str, Json]:
    """Return the schema of each line of `--output stream-json`."""
    from engine.cli.turn.record_types import InitRecord, RunResult
    from engine.core.events import DURABLE_TYPES, LIVE_TYPES
    from engine.journal.state import Resync

    kinds = [InitRecord, RunResult, *DURABLE_TYPES, *LIVE_TYPES, Resync]
    return _document("events", "A line of engine run --output stream-json", kinds)


def _document(name: str, title: str, kinds: list[type]) -> dict[str, Json]:
    from engine.cli.turn.record_types import SCHEMA
    from engine.control.protocol.json_schema import SchemaMaker

    maker = SchemaMaker()
    choices = [cast("Json", maker.of(kind)) for kind in kinds]
    root: dict[str, Json] = {"anyOf": choices} if len(choices) > 1 else cast("dict[str, Json]", choices[0])
    return {
        "$schema": DRAFT,
        "$id": f"urn:engine:run-{name}:{SCHEMA}",
        "title": title,
        **root,
        "$defs": cast("Json", dict(sorted(maker.defs.items()))),
    }
