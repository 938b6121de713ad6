"""A value of a wrong type, for every key of the configuration: `config check` and `run` name the key and its line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest

from engine.cli.main import main
from engine.settings_file.config_keys import Key, format_key
from engine.settings_file.config_schema import config_schema

# One value of each type that TOML has.
VALUES: Mapping[str, str] = {
    "string": '"x"',
    "integer": "3",
    "number": "2.5",
    "boolean": "true",
    "array": "[1]",
    "object": "{ x = 1 }",
    "date": "2026-01-01",
}


@attrs.frozen
class Place:
    """A key of the configuration, or an element of the list there."""

    key: Key
    types: frozenset[str]
    is_element: bool = False

    def wrong_values(self) -> Iterator[str]:
        for kind, value in VALUES.items():
            if kind not in self.types and not (kind == "integer" and "number" in self.types):
                yield f"[{value}]" if self.is_element else value


def places(schema: Mapping[str, Any], key: Key = ()) -> Iterator[Place]:
    types = frozenset(choice["type"] for choice in schema.get("anyOf", [schema]) if "type" in choice)
    if key and types:
        yield Place(key, types)
    if items := schema.get("items"):
        yield Place(key, frozenset([items["type"]]), is_element=True)
    for name, below in schema.get("properties", {}).items():
        yield from places(below, (*key, name))
    if isinstance(named := schema.get("additionalProperties"), dict):
        yield from places(named, (*key, "some/name" if key == ("models",) else "name"))


PLACES = list(places(config_schema()))


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "project/.git").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.setenv("ENGINE_CONFIG", str(tmp_path / "config.toml"))
    return tmp_path / "config.toml"


def test_places_are_those_of_the_schema() -> None:
    keys = {format_key(place.key) for place in PLACES}
    assert {"defaults.model", 'models."some/name".prices.input', "mcp.servers.name.tools.name.call_limit"} <= keys
    assert len(keys) > 100


@pytest.mark.parametrize("section", sorted({place.key[0] for place in PLACES}))
@pytest.mark.parametrize(
    ("command", "code"),
    [(("config", "check"), 1), (("run", "--no-input", "--stdin=skip", "--ephemeral", "x"), 2)],
    ids=["check", "run"],
)
def test_wrong_type_is_refused(
    file: Path, capsys: pytest.CaptureFixture[str], section: str, command: tuple[str, ...], code: int
) -> None:
    for place in PLACES:
        if place.key[0] != section:
            continue
        for value in place.wrong_values():
            file.write_text(f"version = 1\n\n{format_key(place.key)} = {value}\n")
            assert main(list(command)) == code, (place, value)
            where, _, about = capsys.readouterr().err.partition(":3")
            assert where == f"engine {command[0]}: {file}", (place, value)
            assert place.key[-1] in about, (place, value)
            assert "\nNext: " in about, (place, value)


@pytest.mark.parametrize(
    ("text", "line", "about"),
    [
        (
            '[defaults]\nmax_steps = 3\nmodel = "nonsense"',
            3,
            "[defaults]: a model's name must have the form host/model",
        ),
        ('[defaults]\nagent = "nope"', 2, "[defaults]: unknown agent 'nope'"),
        ('[models."a/b".prices]\noutput = 1.0\ninput = "x"', 3, "prices.input: expected number, got string"),
        ("[hooks]\nStop = []\nNope = []", 3, "[hooks]: hooks: there is no event 'Nope'"),
        ("[hooks]\nStop = []\nPreToolUse = 3", 3, "PreToolUse must be an array"),
        ("[programs.foo]\nx = 3", 2, "programs.foo.x: there is no such key"),
        ('[environment]\npass_env = ["A B"]', 2, "[environment]: pass_env names variables"),
    ],
)
def test_error_names_the_line_of_its_value(
    file: Path, capsys: pytest.CaptureFixture[str], text: str, line: int, about: str
) -> None:
    file.write_text(f"{text}\n")
    assert main(["config", "check"]) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"engine config: {file}:{line}, ")
    assert about in error
