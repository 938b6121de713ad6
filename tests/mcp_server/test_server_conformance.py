"""The conformance suite against our server behind HTTP: the scenarios that need no tool, resource or prompt of the suite's.

What the others need, the server does not offer: fixed tools such as `test_simple_text`, resources, prompts, completion,
logging and tasks.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import trio

from engine.testing.scripted_provider import ScriptedProvider
from tests.mcp.conformance import checks_of, needs_suite
from tests.support.mcp_client import http_server_of, scripted_engine
from tests.support.token_proxy import token_proxy

LEGACY = ("server-initialize", "server-session-lifecycle", "ping", "tools-list", "server-sse-polling")
BOTH = ("server-sse-multiple-streams", "dns-rebinding-protection")
MODERN = (
    "tools-list",
    "http-header-validation",
    "sep-2164-resource-not-found",
    "input-required-result-missing-input-response",
    "input-required-result-unsupported-methods",
    "input-required-result-ignore-extra-params",
    "input-required-result-validate-input",
    "server-stateless",
)
# Of `server-stateless`: they call tools that the suite expects.
OF_ITS_TOOLS = {
    "sep-2575-server-rejects-undeclared-capability",
    "sep-2575-missing-capability-http-400",
    "sep-2575-http-server-no-independent-requests-on-stream",
    "sep-2575-server-no-log-without-loglevel",
}
SCENARIOS = [
    *(("2025-11-25", name) for name in (*LEGACY, *BOTH)),
    *(("2026-07-28", name) for name in (*BOTH, *MODERN)),
]
SAMPLE = {("2025-11-25", "dns-rebinding-protection"), ("2026-07-28", "server-stateless")}

pytestmark = [pytest.mark.os, pytest.mark.slow, needs_suite]


@pytest.mark.parametrize(("version", "scenario"), SCENARIOS)
async def test_server_passes(tmp_path: Path, version: str, scenario: str, is_full: bool) -> None:  # a fixture
    if not is_full and (version, scenario) not in SAMPLE:
        pytest.skip("a sample: all of them in make full")
    async with scripted_engine(ScriptedProvider([])) as engine, http_server_of(engine, tmp_path) as server:
        target = urlsplit(server.url).port
        assert target is not None
        async with token_proxy(target, server.token) as port:
            url = f"http://localhost:{port}/mcp"
            arguments = ("server", "--url", url, "--scenario", scenario, "--spec-version", version)
            checks = await trio.to_thread.run_sync(partial(checks_of, tmp_path, *arguments))
    failed = {name for name, status in checks.items() if status == "FAILURE"}
    assert failed <= (OF_ITS_TOOLS if scenario == "server-stateless" else set())
