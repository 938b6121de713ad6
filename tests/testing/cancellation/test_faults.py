"""Planted faults of many kinds are found; correct programs that look wrong are not accused."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.testing import PromiseBroken, cancel_everywhere
from engine.testing.cancellation.function_run import AsyncFunction
from engine.testing.cancellation.injections import FUNCTION_WAYS
from tests.conftest import CountRuns
from tests.support.cancel_faults import FAULTS, UNUSUAL, forget


@pytest.fixture(autouse=True)
def nothing_kept() -> Iterator[None]:
    yield
    forget()


@pytest.mark.parametrize("name", FAULTS)
def test_planted_fault_is_found(name: str, tmp_path: Path) -> None:
    fault = FAULTS[name]
    with pytest.raises(PromiseBroken) as raised:
        cancel_everywhere(fault.source(tmp_path), folder=tmp_path, **fault.options)  # type: ignore[call-overload]  # by name
    assert fault.says in " ".join(str(raised.value).split())


@pytest.mark.parametrize("function", UNUSUAL)
def test_unusual_program_is_not_accused(function: AsyncFunction, count_runs: CountRuns) -> None:
    count_runs(cancel_everywhere(function, by=FUNCTION_WAYS, schedules=2).runs)
