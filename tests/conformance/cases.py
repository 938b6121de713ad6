"""The recorded cases: every file under `$ENGINE_SHARED/wire`."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import attrs
import pytest

from engine.testing import cassette
from engine.testing.cassette import Exchange

WIRE = Path(os.environ.get("ENGINE_SHARED") or Path(__file__).resolve().parents[3] / "shared") / "wire"
ABSENT = pytest.mark.skip(reason="no recorded traffic: set ENGINE_SHARED to the folder that has it")
_EXPECTED: dict[str, Any] = {
    "text": "",
    "reasoning": "",
    "tool_calls": [],
    "finish_reason_raw": None,
    "usage": None,
    "usage_raw": None,
    "error": None,
    "extra": {},
}


@attrs.frozen
class Case:
    """A recorded exchange, and what an official SDK reads from it."""

    exchange: Exchange = attrs.field(repr=False)
    expected: dict[str, Any] = attrs.field(repr=False)

    @classmethod
    def read(cls, path: Path) -> Case:
        expected = json.loads(path.with_name(path.name.replace(".request.json", ".expected.json")).read_text())
        return cls(cassette.read(path), _EXPECTED | expected)

    @property
    def extra(self) -> dict[str, Any]:
        extra: dict[str, Any] = self.expected["extra"]
        return extra

    @property
    def model(self) -> str:
        """The model's name as it was asked for."""
        if self.exchange.sent and (model := json.loads(self.exchange.sent).get("model")):
            return str(model)
        in_path = re.search(r"/(?:models?|deployments)/([^/:]+)", urlsplit(self.exchange.url).path)
        return unquote(in_path[1]) if in_path else str(self.extra.get("model") or "unknown")


def parameters(accepts: Callable[[Path], bool] = lambda _: True) -> list[Any]:
    """Return a parameter for each recording that *accepts* allows; a skipped one if there are none."""
    paths = sorted(WIRE.glob("*/*.request.json"))
    cases = [pytest.param(path, id=name_of(path)) for path in paths if accepts(path)]
    return cases or [pytest.param(None, marks=ABSENT)]


def name_of(path: Path) -> str:
    """Return a recording's name: its folder and its file, without the ending."""
    return f"{path.parent.name}/{path.name.removesuffix('.request.json')}"


def error_rows() -> list[Any]:
    """A parameter for each row of `errors.json`; a skipped one where there is no such file."""
    try:
        rows = json.loads((WIRE / "errors.json").read_text())["errors"]
    except FileNotFoundError:
        return [pytest.param(None, marks=ABSENT)]
    return [pytest.param(row, id=f"{row['host']}-{row['id']}") for row in rows]
