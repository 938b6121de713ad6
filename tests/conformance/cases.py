"""The recorded cases: whatever lies under `$ENGINE_SHARED/wire`. None is named here, none is counted."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import attrs
import pytest

from engine.testing import cassette
from engine.testing.cassette import Exchange

WIRE = Path(os.environ.get("ENGINE_SHARED") or Path(__file__).resolve().parents[3] / "shared") / "wire"
_ABSENT = pytest.mark.skip(reason="no recorded traffic: set ENGINE_SHARED to the folder that has it")
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


def parameters() -> list[Any]:
    """A parameter for each case, by its path without what follows the name; a skipped one if there are none."""
    found = sorted(WIRE.glob("*/*.request.json"))
    cases = [pytest.param(path, id=f"{path.parent.name}/{path.name.removesuffix('.request.json')}") for path in found]
    return cases or [pytest.param(None, marks=_ABSENT)]


def error_rows() -> list[Any]:
    """A parameter for each row of `errors.json`; a skipped one where there is no such file."""
    try:
        rows = json.loads((WIRE / "errors.json").read_text())["errors"]
    except FileNotFoundError:
        return [pytest.param(None, marks=_ABSENT)]
    return [pytest.param(row, id=f"{row['host']}-{row['id']}") for row in rows]
