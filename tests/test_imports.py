"""What importing costs, as lists of modules: these do not depend on the machine. The milliseconds are in benchmarks/."""

import os
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent

# Standard library modules that `import engine` may load beyond what `import trio, attrs` loads.
ALLOWED_BEYOND_TRIO = frozenset[str]()
HEAVY = frozenset(
    {"asyncio", "cattrs", "httpx", "httpcore", "anyio", "sqlite3", "tree_sitter", "tree_sitter_bash", "trio_websocket"}
    | {"yaml", "httpx2", "jsonschema", "mcp", "opentelemetry", "pydantic", "ray"}
)
COMMAND_LINE_LIBRARIES = frozenset({"argparse", "click", "cyclopts", "optparse", "prompt_toolkit", "rich", "typer"})
# Modules that need an extra, and what it is; they are skipped where it is not installed.
EXTRAS = frozenset({"hypothesis", "opentelemetry"})


def _python(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments]
    # a coverage run measures its subprocesses too, and would be among their modules
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COV")}
    return subprocess.run(
        command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=True, timeout=60
    )


def modules_after(code: str) -> frozenset[str]:
    """The names in sys.modules after a fresh interpreter ran `code`."""
    # what the test prints must not be taken for a module: the list is the last line
    out = _python("-c", f"{code}\nimport sys\nprint('\\n' + ' '.join(sorted(sys.modules)))").stdout
    return frozenset(out.splitlines()[-1].split())


def roots(modules: frozenset[str]) -> frozenset[str]:
    return frozenset(name.partition(".")[0] for name in modules)


def test_importing_the_engine_loads_little() -> None:
    beyond = roots(modules_after("import engine") - modules_after("import trio, attrs"))
    assert beyond - ALLOWED_BEYOND_TRIO <= {"engine"}


def test_importing_the_engine_loads_nothing_heavy() -> None:
    assert not HEAVY & roots(modules_after("import engine"))


def test_the_public_names_load_no_wire() -> None:
    """Until a model is used there is no HTTP client, no wire format and no WebSocket."""
    modules = modules_after("import engine\nfor name in engine.__all__: getattr(engine, name)")
    assert not {"asyncio", "httpx", "httpcore", "trio_websocket"} & roots(modules)
    assert not {name for name in modules if re.match(r"engine\.providers\.(anthropic|openai|gemini|bedrock)", name)}


def test_fitting_turn_loads_no_compaction() -> None:
    """What looks through a history is large, and most turns end long before their window is full."""
    code = """
import trio, engine
from engine.testing import ScriptedProvider, done, text

async def main():
    async with engine.open_engine(model=ScriptedProvider([[*text("Hello."), *done()]])) as eng:
        session = await eng.create_session(cwd="/")
        assert (await session.run("Hi")).text == "Hello."

trio.run(main)
"""
    loaded = {name for name in modules_after(code) if name.startswith("engine.compaction.")}
    assert loaded == {
        f"engine.compaction.{name}"
        for name in ("token_counter", "compaction_policy", "media_tokens", "token_estimate", "message_origin")
    }


def test_no_module_of_the_engine_loads_asyncio() -> None:
    import engine  # the other tests must be able to fail without it

    # psycopg and the SDK of MCP load it, for parts of themselves that are not used here; the ban on importing it holds there
    # as well.
    names = [
        m.name
        for m in pkgutil.walk_packages(engine.__path__, "engine.")
        if not m.name.endswith("__main__")
        and not m.name.startswith(("engine.store.postgres.", "engine.mcp.", "engine.mcp_server."))
    ]
    code = f"""
import importlib
for name in {names!r}:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as missing:
        if (missing.name or '').partition('.')[0] not in {sorted(EXTRAS)!r}:
            raise
"""
    assert "asyncio" not in roots(modules_after(code))


@pytest.mark.parametrize("arguments", [("-m", "engine", "--version")], ids=" ".join)
def test_version_needs_no_trio(arguments: tuple[str, ...]) -> None:
    result = _python("-X", "importtime", *arguments)
    loaded = frozenset(
        line.rpartition("|")[2].strip() for line in result.stderr.splitlines() if line.startswith("import time:")
    )
    bare = frozenset(
        line.rpartition("|")[2].strip() for line in _python("-X", "importtime", "-c", "").stderr.splitlines()
    )
    assert "engine.cli" in loaded
    assert not ({"trio"} | HEAVY | COMMAND_LINE_LIBRARIES) & roots(loaded - bare)
    from engine.core.version import __version__

    assert __version__ in result.stdout


def test_console_script_prints_the_version() -> None:
    """The installed script calls `engine.cli:main`; so does this."""
    code = "import sys; sys.argv = ['engine', '--version']\nfrom engine.cli import main\ntry:\n    main()\nexcept SystemExit:\n    pass"
    assert not ({"trio"} | HEAVY | COMMAND_LINE_LIBRARIES) & roots(modules_after(code) - modules_after(""))
