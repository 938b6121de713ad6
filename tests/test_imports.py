"""What importing costs, as lists of modules: these do not depend on the machine. The milliseconds are in benchmarks/."""

import json
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


# What is loaded when `engine run` connects for its first request. Both numbers are ceilings: lower them when they fall.
# See docs/design/0077-starting-and-leaving.md.
MOST_MODULES = 420
MOST_CLASSES = 600
# Of use later, if at all: while the model thinks, when a call is judged, when something is printed or goes wrong.
NOT_BEFORE_THE_REQUEST = (
    "engine.cli.problems.situations",
    "engine.cli.text",
    "engine.compaction.compactor",
    "engine.json_schema",
    "engine.mcp",
    "engine.permission.effects",
    "engine.permission.paths",
    "engine.permission.programs",
    "engine.permission.shell",
    "engine.plugins.plugin_packages",
    "engine.process.run_tree",
    "engine.providers.anthropic",
    "engine.providers.openai_chat.decode",
    "engine.providers.wire.decoding",
    "engine.sandbox",
    "engine.snapshots.git_backend",
    "engine.telemetry",
)
HEAVY_BEFORE_THE_REQUEST = (HEAVY - {"cattrs", "httpx", "httpcore", "anyio", "sqlite3"}) | {
    "difflib",
    "wcwidth",
    "zipfile",
}
FIRST_REQUEST = """
import gc, json, os, socket, sys
server = socket.create_server(("127.0.0.1", 0))
place = server.getsockname()

def on_event(name, arguments):
    if name == "socket.connect" and arguments[1][:2] == place:
        classes = {
            kind for kind in gc.get_objects()
            if isinstance(kind, type) and "__attrs_attrs__" in vars(kind) and kind.__module__.startswith("engine.")
        }
        print(json.dumps([sorted(sys.modules), sorted(f"{kind.__module__}.{kind.__qualname__}" for kind in classes)]))
        sys.stdout.flush()
        os._exit(0)

sys.addaudithook(on_event)
sys.argv[0] = "engine"
from engine.cli import main
url = "http://{}:{}/v1".format(*place)
main(["run", "-c", f'hosts.lo.base_url="{url}"', "-c", 'hosts.lo.wire="openai_chat"', "-m", "lo/x", "Hello."])
"""


@pytest.fixture(scope="module")
def loaded_at_first_request(tmp_path_factory: pytest.TempPathFactory) -> tuple[frozenset[str], frozenset[str]]:
    """The modules, and the attrs classes of ours, of a process `engine run` that connects for its first request."""
    home = tmp_path_factory.mktemp("home")
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(
        [sys.executable, "-c", FIRST_REQUEST],
        cwd=home,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    modules, classes = json.loads(done.stdout.splitlines()[-1])
    return frozenset(modules), frozenset(classes)


def test_first_request_waits_for_few_modules(
    loaded_at_first_request: tuple[frozenset[str], frozenset[str]],
) -> None:
    modules, classes = loaded_at_first_request
    own = {name for name in modules if name.partition(".")[0] == "engine"}
    assert "engine.providers.openai_chat.encode" in own  # the request was made, not refused
    assert len(own) <= MOST_MODULES
    assert len(classes) <= MOST_CLASSES


def test_first_request_waits_for_nothing_heavy(
    loaded_at_first_request: tuple[frozenset[str], frozenset[str]],
) -> None:
    modules, _ = loaded_at_first_request
    assert HEAVY_BEFORE_THE_REQUEST & roots(modules) == frozenset()
    early = {name for name in modules for each in NOT_BEFORE_THE_REQUEST if f"{name}.".startswith(f"{each}.")}
    assert early <= {"engine.json_schema"}  # the facade, which loads nothing


FIRST_COMMAND = """
import json, os, sys, threading, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

call = {"index": 0, "id": "c", "function": {"name": "bash", "arguments": '{"command": "echo hello"}'}}
answers = [({"tool_calls": [call]}, "tool_calls"), ({"content": "Done."}, "stop")]
loaded = []

def is_preloading():
    return any(thread.name.startswith("engine preload") for thread in threading.enumerate())

class Host(BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        end = time.monotonic() + 60
        while (is_preloading() or "engine.permission.shell.scan" not in sys.modules) and time.monotonic() < end:
            time.sleep(0.01)
        loaded.append({name for name in sys.modules if name.startswith("engine.")})
        delta, reason = answers[len(loaded) - 1]
        event = {"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}
        body = f"data: {json.dumps(event)}\\n\\ndata: [DONE]\\n\\n".encode()
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass

server = ThreadingHTTPServer(("127.0.0.1", 0), Host)
threading.Thread(target=server.serve_forever, daemon=True).start()
sys.argv[0] = "engine"
from engine.cli import main
url = f"http://127.0.0.1:{server.server_port}/v1"
main(["run", "--yes", "-c", f'hosts.lo.base_url="{url}"', "-c", 'hosts.lo.wire="openai_chat"', "-m", "lo/x", "Hello."])
print(json.dumps(sorted(loaded[1] - loaded[0])))
"""
# Of a result, and of the second request.
AFTER_THE_FIRST_COMMAND = ("engine.core.", "engine.journal.", "engine.nursery.", "engine.providers.", "engine.store.")


def test_first_command_finds_the_shell_loaded(tmp_path: Path) -> None:
    """What judges and runs commands is imported while the model thinks."""
    done = subprocess.run(
        [sys.executable, "-c", FIRST_COMMAND],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(REPOSITORY)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    late = json.loads(done.stdout.splitlines()[-1])
    assert [name for name in late if not name.startswith(AFTER_THE_FIRST_COMMAND)] == []
