"""How each agent is installed and started, and what its tools are called."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs

from benchmarks.peers.model_host import ToolUse, Wire

PROMPT: Final = "Do what is needed."
_PROGRAMS: Final = Path(__file__).parent / "programs"
_ROOT: Final = _PROGRAMS.parents[2]
_NPM: Final = ("opencode-ai", "@openai/codex", "@anthropic-ai/claude-code", "@earendil-works/pi-coding-agent")
_PIP: Final = ("pydantic-ai-slim[openai]", "openai-agents", "langgraph", "langchain-openai", "smolagents[openai]")


@attrs.frozen(kw_only=True)
class Place:
    """Where an agent runs.

    Attributes:
        home: its home folder, empty at first.
        project: the folder that it works in.
        url: the model's host.
        installed: where the peers are installed.
    """

    home: Path
    project: Path
    url: str
    installed: Path

    @property
    def python(self) -> str:
        """The interpreter that has the frameworks."""
        return str(self.installed / "python" / "bin" / "python")

    @property
    def own_python(self) -> str:
        """The interpreter that has this engine and what it needs, and nothing else: httpx imports what it finds."""
        return str(self.installed / "engine" / "bin" / "python")

    def npm(self, name: str) -> str:
        """Return the path of a program that npm has installed."""
        return str(self.installed / "node_modules" / ".bin" / name)


@attrs.frozen(kw_only=True)
class Agent:
    """An agent, or a small program that uses a framework.

    Attributes:
        wire: the format that it speaks.
        command: returns the command line; it may write files of configuration first.
        env: what its environment has besides PATH, HOME and the XDG folders.
        read: returns the call that reads a file.
        run: returns the call that runs a command.
        ending: the call that ends the task; None: an answer without calls does.
        version: the command that prints its version, or of which distribution it is.
    """

    name: str
    wire: Wire
    command: Callable[[Place], Sequence[str]]
    env: Callable[[Place], Mapping[str, str]] = lambda _: {}
    read: Callable[[Path], ToolUse] = lambda path: ToolUse("read", {"path": str(path)})
    run: Callable[[str], ToolUse] = lambda command: ToolUse("bash", {"command": command})
    ending: ToolUse | None = None
    version: Callable[[Place], Sequence[str]]

    def environment(self, place: Place) -> dict[str, str]:
        """Return the whole environment."""
        home = str(place.home)
        return {
            "PATH": os.environ["PATH"],
            "HOME": home,
            "XDG_CONFIG_HOME": f"{home}/.config",
            "XDG_DATA_HOME": f"{home}/.local/share",
            "XDG_STATE_HOME": f"{home}/.local/state",
            "XDG_CACHE_HOME": f"{home}/.cache",
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            **self.env(place),
        }

    def version_in(self, place: Place) -> str:
        """Return its version. Raises `OSError`, `subprocess.SubprocessError` if it can't be started."""
        command = self.version(place)
        out = subprocess.STDOUT
        done = subprocess.run(
            command, env=self.environment(place), stdout=subprocess.PIPE, stderr=out, text=True, timeout=60, check=True
        )
        return done.stdout.strip().splitlines()[-1].removeprefix("codex-cli ").removeprefix("engine ").split(" (")[0]


def install(folder: Path) -> list[str]:
    """Install the peers into *folder*; return what could not be."""
    folder.mkdir(parents=True, exist_ok=True)
    own = ["env", f"VENV={folder / 'engine'}", f"PYTHON={sys.executable}", str(_ROOT / "scripts" / "venv.sh"), "core"]
    failures = _try("engine", own)
    (folder / "package.json").write_text("{}")
    for name in _NPM:
        failures += _try(name, ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(folder), name])
    python = folder / "python"
    if not python.exists():
        failures += _try("python", [sys.executable, "-m", "venv", str(python)])
    for name in _PIP:
        failures += _try(name, [str(python / "bin" / "pip"), "install", "--quiet", "--upgrade", name])
    return failures


def _try(name: str, command: Sequence[str]) -> list[str]:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        return [f"{name}: {error}"]
    return [] if done.returncode == 0 else [f"{name}: {done.stderr.strip().splitlines()[-1:] or done.returncode}"]


# -- ours ---------------------------------------------------------------------------------------------------------------


def _ours(place: Place) -> Sequence[str]:
    return [place.own_python, "-m", "engine", "run", "--yes", "--model", "anthropic/claude-sonnet-5-5", PROMPT]


def _our_env(place: Place) -> Mapping[str, str]:
    return {"ANTHROPIC_API_KEY": "sk-none", "ANTHROPIC_BASE_URL": place.url}


def _our_program(name: str) -> Callable[[Place], Sequence[str]]:
    return lambda place: [place.own_python, str(_PROGRAMS / f"{name}.py"), PROMPT]


# -- the others ---------------------------------------------------------------------------------------------------------


def _opencode(place: Place) -> Sequence[str]:
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{place.url}/v1", "apiKey": "none"},
        "models": {"m": {"limit": {"context": 1_000_000, "output": 32_000}, "tool_call": True}},
    }
    settings = {"provider": {"bench": provider}, "permission": {"*": "allow"}, "autoupdate": False, "share": "disabled"}
    folder = place.home / ".config" / "opencode"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "opencode.json").write_text(json.dumps(settings))
    return [place.npm("opencode"), "run", "--model", "bench/m", PROMPT]


def _codex(place: Place) -> Sequence[str]:
    provider = (
        f'model_providers.bench={{name="bench",base_url="{place.url}/v1",wire_api="responses",env_key="BENCH_KEY"}}'
    )
    return [
        *(place.npm("codex"), "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"),
        *("-c", 'model_provider="bench"', "-c", provider, "-m", "gpt-5", PROMPT),
    ]


def _claude(place: Place) -> Sequence[str]:
    return [place.npm("claude"), "--print", "--dangerously-skip-permissions", "--model", "claude-sonnet-4-5", PROMPT]


def _claude_env(place: Place) -> Mapping[str, str]:
    return {
        "ANTHROPIC_API_KEY": "sk-none",
        "ANTHROPIC_BASE_URL": place.url,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "IS_SANDBOX": "1",  # it refuses to skip its questions for root otherwise
    }


def _pi(place: Place) -> Sequence[str]:
    model = {"id": "m", "contextWindow": 1_000_000, "maxTokens": 32_000}
    provider = {"baseUrl": f"{place.url}/v1", "api": "openai-completions", "apiKey": "none", "models": [model]}
    folder = place.home / ".pi" / "agent"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "models.json").write_text(json.dumps({"providers": {"bench": provider}}))
    return [place.npm("pi"), "--print", "--offline", "--provider", "bench", "--model", "m", PROMPT]


def _framework(name: str) -> Callable[[Place], Sequence[str]]:
    return lambda place: [place.python, str(_PROGRAMS / f"{name}.py"), PROMPT]


def _openai_env(place: Place) -> Mapping[str, str]:
    return {"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": f"{place.url}/v1", "OPENAI_AGENTS_DISABLE_TRACING": "1"}


def _version_of(distribution: str) -> Callable[[Place], Sequence[str]]:
    code = f"import importlib.metadata as m; print(m.version({distribution!r}))"
    return lambda place: [place.python, "-c", code]


def _renamed(name: str, argument: str, **more: object) -> Callable[[str], ToolUse]:
    return lambda value: ToolUse(name, {argument: value, **more})


def _path(make: Callable[[str], ToolUse]) -> Callable[[Path], ToolUse]:
    return lambda path: make(str(path))


_exec = _renamed("exec_command", "cmd", yield_time_ms=60_000)

AGENTS: Final[Mapping[str, Agent]] = {
    agent.name: agent
    for agent in (
        Agent(
            name="engine run",
            wire="anthropic",
            command=_ours,
            env=_our_env,
            version=lambda place: [place.own_python, "-m", "engine", "--version"],
        ),
        Agent(
            name="engine (library)",
            wire="anthropic",
            command=_our_program("engine_library"),
            env=_our_env,
            version=lambda place: [place.own_python, "-m", "engine", "--version"],
        ),
        Agent(
            name="opencode",
            wire="chat",
            command=_opencode,
            read=_path(_renamed("read", "filePath")),
            run=_renamed("bash", "command", description="Runs it", timeout=120_000),
            version=lambda place: [place.npm("opencode"), "--version"],
        ),
        Agent(
            name="codex",
            wire="responses",
            command=_codex,
            env=lambda _: {"BENCH_KEY": "none"},
            read=lambda path: _exec(f"cat {path}"),
            run=_exec,
            version=lambda place: [place.npm("codex"), "--version"],
        ),
        Agent(
            name="claude-code",
            wire="anthropic",
            command=_claude,
            env=_claude_env,
            read=_path(_renamed("Read", "file_path")),
            run=_renamed("Bash", "command"),
            version=lambda place: [place.npm("claude"), "--version"],
        ),
        Agent(name="pi", wire="chat", command=_pi, version=lambda place: [place.npm("pi"), "--version"]),
        Agent(
            name="pydantic-ai",
            wire="chat",
            command=_framework("pydantic_ai_agent"),
            env=_openai_env,
            version=_version_of("pydantic-ai-slim"),
        ),
        Agent(
            name="openai-agents",
            wire="responses",
            command=_framework("openai_agents_agent"),
            env=_openai_env,
            version=_version_of("openai-agents"),
        ),
        Agent(
            name="langgraph",
            wire="chat",
            command=_framework("langgraph_agent"),
            env=_openai_env,
            version=_version_of("langgraph"),
        ),
        Agent(
            name="smolagents",
            wire="chat",
            command=_framework("smolagents_agent"),
            env=_openai_env,
            ending=ToolUse("final_answer", {"answer": "Done."}),
            version=_version_of("smolagents"),
        ),
        Agent(
            name="raw loop",
            wire="chat",
            command=_our_program("raw_loop"),
            env=_openai_env,
            version=lambda place: [place.own_python, "-c", "import sys; print(sys.version.split()[0])"],
        ),
    )
}
