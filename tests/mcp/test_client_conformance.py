"""Our client against the servers of the conformance suite: every scenario that needs no login."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.mcp.conformance import checks_of, needs_suite

SCENARIOS = (
    "initialize",
    "tools_call",
    "elicitation-sep1034-client-defaults",
    "sse-retry",
    "request-metadata",
    "sep-2322-client-request-state",
    "http-standard-headers",
    "http-custom-headers",
    "http-invalid-tool-headers",
    "json-schema-ref-no-deref",
    "json-schema-2020-12-preservation",
)

pytestmark = [pytest.mark.os, pytest.mark.slow, needs_suite]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_client_passes(tmp_path: Path, scenario: str, is_full: bool) -> None:  # a fixture
    if not is_full and scenario not in {"tools_call", "http-invalid-tool-headers"}:
        pytest.skip("a sample: all of them in make full")
    command = f"{sys.executable} -m tests.mcp.conformance_client"
    checks = checks_of(tmp_path, "client", "--command", command, "--scenario", scenario)
    assert not {name: status for name, status in checks.items() if status in {"FAILURE", "WARNING"}}
