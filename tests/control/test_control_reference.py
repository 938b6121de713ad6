"""What describes the control protocol: the reference, the schema, the declarations; and that examples fit the schema."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from engine.control.protocol.method_table import METHODS, SERVER_NOTES
from engine.control.protocol.wire_converter import to_json
from scripts import control_reference
from scripts.control_examples import EXAMPLES, NOTES
from tests.support.control_schema import SCHEMA, wrong


@pytest.mark.parametrize(("path", "text"), control_reference.files().items(), ids=lambda item: Path(item).suffix)
def test_files_are_what_the_classes_say(path: Path, text: str) -> None:
    assert path.read_text("utf-8") == text, "run `make surface`"


@pytest.mark.parametrize("name", METHODS)
def test_examples_fit_the_schema(name: str) -> None:
    params, result = EXAMPLES[name]
    method = SCHEMA["x-methods"][name]
    assert not wrong(to_json(params), method["params"])
    assert not wrong(to_json(result), method["result"])


@pytest.mark.parametrize("name", SERVER_NOTES)
def test_notifications_fit_the_schema(name: str) -> None:
    assert not wrong(to_json(NOTES[name]), SCHEMA["x-notifications"]["server"][name])


@pytest.mark.parametrize(
    "params", [{}, {"session_id": "s", "txt": ""}, {"session_id": "", "text": "a", "key": "k"}, {"session_id": 1}, []]
)
def test_the_schema_refuses_wrong_params(params: object) -> None:
    assert wrong(params, SCHEMA["x-methods"]["prompt"]["params"])


def test_references_lead_somewhere() -> None:
    assert set(re.findall(r'"#/\$defs/(\w+)"', json.dumps(SCHEMA))) == set(SCHEMA["$defs"])
