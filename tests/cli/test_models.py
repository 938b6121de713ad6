"""`engine models`, as a user runs it: in a process of its own, with servers on the loopback."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
import trio

from engine.cli.models_text import HostReport, _newest_first, _short_reason, _size
from engine.core.llm_types import ModelInfo
from engine.providers.hosts.host_table import BY_NAME, HOSTS
from tests.cli.forked import run_engine
from tests.cli.processes import REPOSITORY
from tests.support.json_server import Hang, JsonServer

pytestmark = pytest.mark.os

NOWHERE = "http://127.0.0.1:9"
CANARY = "sk-canary-1618033988749894"


def bare_environment(folder: Path) -> dict[str, str]:
    """An environment in which no host can be used, and no server is there."""
    named = {name for host in HOSTS for name in (*host.key_variables, *host.token_variables, *host.base_variables)}
    env = {
        name: value
        for name, value in os.environ.items()
        if name not in named and not name.startswith(("AWS_", "GOOGLE_", "AZURE_", "ENGINE_"))
    }
    env |= {host.base_variables[0]: NOWHERE for host in HOSTS if host.is_local}
    return {**env, "HOME": str(folder), "XDG_CONFIG_HOME": str(folder), "AWS_EC2_METADATA_DISABLED": "true"}


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return bare_environment(tmp_path)


async def run(env: Mapping[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    # In a thread: some servers that it asks are tasks of the test.
    return await trio.to_thread.run_sync(partial(run_engine, "models", *arguments, cwd=REPOSITORY, env=env))


async def document(env: Mapping[str, str], *arguments: str) -> dict[str, dict[str, Any]]:
    ran = await run(env, "--json", *arguments)
    assert ran.stderr == ""
    hosts = cast("list[dict[str, Any]]", json.loads(ran.stdout)["hosts"])
    return {host["name"]: host for host in hosts}


async def test_unconfigured_hosts_report_what_they_lack(env: dict[str, str]) -> None:
    ran = await run(env)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith("No provider can be used here yet")
    assert re.search(r"^  anthropic +set ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN$", ran.stdout, re.MULTILINE)
    assert re.search(
        r"^  ollama +no server answers at 127.0.0.1; start it with `ollama serve`$", ran.stdout, re.MULTILINE
    )
    told = re.findall(r"^  ([a-z][\w-]+) ", ran.stdout, re.MULTILINE)
    assert set(told) == set(BY_NAME)


async def test_page_width_without_colours(env: dict[str, str]) -> None:
    ran = await run({**env, "ANTHROPIC_API_KEY": "k"})
    assert "\x1b" not in ran.stdout
    assert max(map(len, ran.stdout.splitlines())) <= 100


async def test_host_with_a_key_lists_newest_models(env: dict[str, str]) -> None:
    ran = await run({**env, "ANTHROPIC_API_KEY": CANARY})
    usable, _, others = ran.stdout.partition("Not usable here:")
    assert re.search(r"^  anthropic/claude-opus-5-5 +1M +128k +4\.00 +20\.00$", usable, re.MULTILINE)
    assert re.search(r"^  and \d+ more: engine models anthropic$", usable, re.MULTILINE)
    assert "claude-3-opus" not in usable
    assert "\n  anthropic " not in others
    assert CANARY not in ran.stdout + ran.stderr


async def test_all_about_one_host(env: dict[str, str]) -> None:
    ran = await run({**env, "ANTHROPIC_API_KEY": "k"}, "anthropic")
    assert ran.returncode == 0
    assert "anthropic/claude-3-opus" in ran.stdout
    assert "openai" not in ran.stdout


async def test_unusable_host_sets_the_exit_code(env: dict[str, str]) -> None:
    ran = await run(env, "openai")
    assert ran.returncode == 1
    assert "set OPENAI_API_KEY" in ran.stdout
    assert "openai/gpt-5.2" in ran.stdout


async def test_every_model_of_every_host(env: dict[str, str]) -> None:
    ran = await run(env, "--all")
    assert ran.returncode == 0
    assert ran.stdout.count("\n") > 1_000
    assert all(f" {host.name}: " in ran.stdout for host in HOSTS)
    assert " more: engine models" not in ran.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["antropic"], "unknown provider 'antropic': did you mean anthropic"),
        (["--fly"], "unknown flag: --fly"),
        (["a", "b"], "too many arguments: b"),
        (["--config", "/nowhere/config.toml"], "the configuration file /nowhere/config.toml does not exist"),
    ],
)
async def test_wrong_usage(arguments: list[str], words: str, env: dict[str, str]) -> None:
    ran = await run(env, *arguments)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert words in ran.stderr
    assert "Traceback" not in ran.stderr


async def test_as_json(env: dict[str, str]) -> None:
    hosts = await document({**env, "ANTHROPIC_API_KEY": CANARY})
    assert set(hosts) == set(BY_NAME)
    assert {name for name, host in hosts.items() if host["usable"]} == {"anthropic"}
    assert hosts["openai"]["why_not"] == "no key for openai: set the environment variable OPENAI_API_KEY"
    models = {model["name"]: model for model in hosts["anthropic"]["models"]}
    assert models["anthropic/claude-sonnet-4-5"] == {
        "name": "anthropic/claude-sonnet-4-5",
        "context": 200_000,
        "output": 64_000,
        "limits_known": True,
        "parallel": None,
        "prices": {"input": 3, "output": 15, "cache_read": 0.3, "cache_write": 3.75},
        "long_prices": [{"above": 200_000, "input": 6, "output": 22.5, "cache_read": 0.6, "cache_write": 7.5}],
    }


async def test_a_server_s_models_are_listed(env: dict[str, str], nursery: trio.Nursery) -> None:
    routes = {
        "GET /v1/models": {"data": [{"id": "qwen3:latest"}, {"id": "gpt-oss:20b"}]},
        "GET /api/ps": {"models": [{"name": "qwen3:latest", "context_length": 16_384}]},
        "POST /api/show": {},
    }
    url = await nursery.start(JsonServer(routes).serve)
    env = {**env, "OLLAMA_BASE_URL": url}
    hosts = await document(env)
    assert hosts["ollama"]["usable"]
    assert {model["name"]: model["limits_known"] for model in hosts["ollama"]["models"]} == {
        "ollama/qwen3:latest": False,
        "ollama/gpt-oss:20b": False,
    }
    # Asked about it alone, there is time to ask it about each model.
    one = (await document(env, "ollama"))["ollama"]
    assert {model["name"]: (model["context"], model["limits_known"]) for model in one["models"]} == {
        "ollama/qwen3:latest": (16_384, True),
        "ollama/gpt-oss:20b": (8_192, False),
    }
    ran = await run(env, "ollama")
    assert re.search(r"^  ollama/qwen3:latest +16k +8\.2k +- +-$", ran.stdout, re.MULTILINE)
    assert re.search(r"^  ollama/gpt-oss:20b +~8\.2k +~2k +- +-$", ran.stdout, re.MULTILINE)


async def test_a_server_that_hangs_is_not_waited_for(env: dict[str, str], nursery: trio.Nursery) -> None:
    url = await nursery.start(JsonServer({"GET /v1/models": Hang()}).serve)
    hanging = {name: url for name in env if env[name] == NOWHERE}
    assert len(hanging) == len([host for host in HOSTS if host.is_local])
    with trio.fail_after(30):
        ran = await run({**env, **hanging})
    assert ran.returncode == 0


async def test_the_configuration_s_hosts_and_models(env: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "engine").mkdir()
    (tmp_path / "engine" / "config.toml").write_text(
        """
        [hosts.lab]
        title = "The lab"
        base_url = "https://models.lab.example/v1"
        wire = "openai_chat"
        key = "LAB_KEY"
        [models."lab/mine"]
        context = 50_000
        prices = { input = 1, output = 2 }
        """
    )
    hosts = await document(env)
    assert next(iter(hosts)) == "lab"
    assert hosts["lab"]["why_not"] == "no key for lab: set the environment variable LAB_KEY"
    lab = (await document({**env, "LAB_KEY": "k"}, "lab"))["lab"]
    assert (lab["usable"], lab["configured"], lab["title"]) == (True, True, "The lab")
    assert [(model["name"], model["context"], model["prices"]["output"]) for model in lab["models"]] == [
        ("lab/mine", 50_000, 2.0)
    ]
    (tmp_path / "other.toml").write_text("[hosts.lab]\nbase_url = 3")
    ran = await run(env, "--config", str(tmp_path / "other.toml"))
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "other.toml:2, [hosts.lab]: base_url: expected string, got integer" in ran.stderr


@pytest.mark.parametrize("columns", [40, 72])
def test_a_narrow_terminal(columns: int, env: dict[str, str]) -> None:
    """A real terminal, by `script`-like means: a pseudo terminal of that width."""
    import fcntl
    import pty
    import struct
    import termios

    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    env = {**env, "OPENROUTER_API_KEY": "k", "TERM": "xterm"}
    env.pop("COLUMNS", None)
    command = [sys.executable, "-m", "engine", "models", "openrouter"]
    told = b""
    with subprocess.Popen(command, env=env, cwd=REPOSITORY, stdout=slave, stderr=slave) as process:
        os.close(slave)
        try:
            while chunk := os.read(master, 65_536):
                told += chunk
        except OSError:  # the other side has gone
            pass
        finally:
            os.close(master)
    assert process.returncode == 0
    lines = told.decode().replace("\r\n", "\n").splitlines()
    assert "\x1b" not in told.decode()
    # Only a name may be longer: cut, it could not be used.
    assert [line for line in lines if len(line) > columns and not re.fullmatch(r"  openrouter/\S+", line)] == []
    assert any(re.fullmatch(r"  openrouter/\S+", line) for line in lines)


@pytest.mark.parametrize(
    ("redirection", "code", "error"),
    [(">&-", 74, "standard output is closed"), (">/dev/full", 74, "No space left on device"), ("| true", 0, "")],
)
def test_nowhere_to_write_to(redirection: str, code: int, error: str, env: dict[str, str]) -> None:
    command = f"set -o pipefail; {sys.executable} -m engine models --all {redirection}"
    ran = subprocess.run(["bash", "-c", command], cwd=REPOSITORY, env=env, capture_output=True, text=True, check=False)
    assert ran.returncode == code
    assert error in ran.stderr
    assert "Traceback" not in ran.stderr


def test_help(env: dict[str, str]) -> None:
    ran = run_engine("models", "--help", cwd=REPOSITORY, env=env)
    assert ran.returncode == 0
    assert "usage: engine models" in ran.stdout


# -- pure --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tokens", "size"),
    [
        (512, "512"),
        (2_048, "2k"),
        (8_192, "8.2k"),
        (9_999, "10k"),
        (131_072, "131k"),
        (999_000, "999k"),
        (1_000_000, "1M"),
        (1_048_576, "1.05M"),
        (2_000_000, "2M"),
    ],
)
def test_sizes(tokens: int, size: str) -> None:
    assert _size(tokens) == size


def test_the_newest_go_first() -> None:
    names = ["gpt-4.1", "gpt-oss-120b", "gpt-5", "gpt-5.6-luna", "gpt-6-astra", "gpt-5-mini-20250807", "o4-mini"]
    infos = sorted((ModelInfo(name=f"openai/{name}") for name in names), key=_newest_first)
    assert [info.name.partition("/")[2] for info in infos] == [
        "gpt-6-astra",
        "gpt-5.6-luna",
        "gpt-5",
        "gpt-5-mini-20250807",
        "gpt-4.1",
        "o4-mini",
        "gpt-oss-120b",
    ]


def test_a_reason_is_brief() -> None:
    report = HostReport(host=BY_NAME["xai"], why_not="no key for xai: set the environment variable XAI_API_KEY")
    assert _short_reason(report) == "set XAI_API_KEY"


async def test_models_that_are_not_for_agents_come_last_with_all(env: dict[str, str]) -> None:
    env["OPENAI_API_KEY"] = CANARY
    short, whole = (await run(env, "openai")).stdout, (await run(env, "openai", "--all")).stdout
    assert "Not for agents" not in short
    assert whole.index("openai/gpt-6.1-terra") < whole.index("Not for agents: ") < whole.index("gpt-4o-transcribe")
