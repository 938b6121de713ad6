"""`make bench-peers`: its host speaks the three wire formats, a scenario measures, and a regression is named."""

from __future__ import annotations

import sys
from contextlib import aclosing
from pathlib import Path

import attrs
import pytest

import engine
from benchmarks.peers.__main__ import Entry, regressions, table
from benchmarks.peers.agents import AGENTS
from benchmarks.peers.model_host import ModelHost, Reply, ToolUse, Wire
from benchmarks.peers.scenarios import SCENARIOS
from engine.config import Config, HostConfig
from engine.options import PermissionOptions
from engine.permission.allow_all import AllowAll
from engine.providers.registry import resolve


def entry(ours: dict[str, float]) -> Entry:
    figures = {"raw loop": {"first request ms": 30.0, "deltas per s": 100_000.0}, "engine run": ours}
    return Entry("abc", "2026-11-20", "m", {"raw loop": "3", "engine run": "1"}, figures)


def test_regression_is_named() -> None:
    before = entry({"first request ms": 300.0, "deltas per s": 50_000.0})
    assert regressions(None, before) == []
    assert regressions(before, before) == []
    slower = entry({"first request ms": 350.0, "deltas per s": 43_000.0})
    assert [line.partition(":")[0] for line in regressions(before, slower)] == [
        "engine run, first request ms",
        "engine run, deltas per s",
    ]
    assert regressions(before, entry({"first request ms": 340.0, "deltas per s": 90_000.0})) == []


def test_table_has_gaps_where_nothing_was_measured() -> None:
    rows = table(entry({"first request ms": 300.0})).splitlines()
    assert rows[2:] == ["| raw loop 3 | 30 | 100,000 |", "| **engine run** | 300 |  |"]


@attrs.frozen
class ReadArguments:
    path: str


ALLOWED = PermissionOptions(approver=AllowAll())
NAMES: dict[Wire, str] = {"chat": "lab/m", "responses": "openai/gpt-5.4", "anthropic": "anthropic/claude-sonnet-5-5"}


@pytest.mark.parametrize("wire", NAMES)
async def test_host_speaks_the_wire_format(wire: Wire) -> None:
    """What it sends is read as text and calls: an answer that only the peers misread would slow them down."""
    seen: list[str] = []

    async def read(arguments: ReadArguments, context: engine.ToolContext) -> str:
        """Read."""
        del context
        seen.append(arguments.path)
        return "one"

    plan = [Reply(deltas=3, calls=[ToolUse("read", {"path": "a"}), ToolUse("read", {"path": "b"})]), Reply(deltas=2)]
    with ModelHost(plan).serving() as host:
        url = f"{host.url}/v1"
        env = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": url, "ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": host.url}
        config = Config(hosts={"lab": HostConfig(like="vllm", base_url=url)})
        async with aclosing(resolve(NAMES[wire], env, config)) as model:
            async with engine.open_engine(model=model, tools=[engine.tool(read)], permissions=ALLOWED) as eng:
                result = await (await eng.create_session()).run("Go.")
        assert (result.text.split(), sorted(seen)) == (["word0", "word1"], ["a", "b"])
        assert [exchange.began < exchange.answered < exchange.ended for exchange in host.exchanges] == [True, True]


@pytest.mark.os
def test_scenario_measures_a_program(tmp_path: Path) -> None:
    """With this interpreter in the place of the one that is installed for it."""
    (tmp_path / "engine").symlink_to(sys.prefix)
    figures = SCENARIOS["parallel"](AGENTS["raw loop"], tmp_path)
    assert 0 < figures["five sleeps: ms over 1 s"] < 20_000
