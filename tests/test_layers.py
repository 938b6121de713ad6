"""The walls of the engine, held by walking its imports: layers, purity, cycles, and where a shield may stand.

The tables below are the architecture (docs/explanation/structure.md explains it). Every rule is tried on a bad tree as
well, so that none of them can fall silent.
"""

import ast
import functools
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TypeGuard

import attrs
import pytest

ENGINE = Path(__file__).resolve().parent.parent / "engine"

# The folders from the ground up: a module imports from its own folder and from those before it, at any time and for
# any reason, also inside a function or for types only. "" is `engine/` itself.
LAYERS = (
    "core",
    "json_schema",
    "files",
    "journal",
    "jsonrpc",
    "config",
    "process",
    "permission.effects",
    "permission.programs.tables",
    "permission.programs",
    "permission.shell.parser",
    "permission.shell",
    "permission.rules",
    "permission.paths",
    "permission.grants",
    "permission",
    "providers.wire",
    "providers.hosts",
    "providers.models",
    "providers.failures",
    "providers.auth",
    "providers.http",
    "providers.anthropic",
    "providers.bedrock",
    "providers.cohere",
    "providers.gemini",
    "providers.openai_chat",
    "providers.openai_responses",
    "providers.vertex_anthropic",
    "providers.local",
    "providers",
    "sandbox",
    "store",
    "store.sqlite",
    "store.postgres",
    "snapshots",
    "web",
    "prompt",
    "agents",
    "tools.output",
    "tools.descriptions",
    "tools",
    "tools.search",
    "tools.edit",
    "tools.read",
    "tools.claude_hooks",
    "tools.builtin",
    "mcp",
    "language_servers",
    "settings_file",
    "plugins",
    "compaction",
    "sources",
    "pace",
    "nursery",
    "telemetry",
    "session",
    "fleet",
    "batch",
    "ray_cluster",
    "export",
    "control.protocol",
    "testing.cancellation",
    "testing",
    "control.transport",
    "control.service",
    "control",
    "control.opencode",
    "client",
    "acp",
    "mcp_server",
    "cli.terminal",
    "cli.chat.editor",
    "cli.problems",
    "cli.text",
    "cli.flags",
    "cli.task",
    "cli.questions",
    "cli.turn",
    "cli.command_table",
    "cli.completion",
    "cli",
    "cli.sessions",
    "cli.demo",
    "cli.config",
    "cli.auth",
    "cli.mcp",
    "cli.plugins",
    "cli.doctor",
    "cli.fleet",
    "cli.chat.display",
    "cli.chat.machine",
    "cli.chat",
    "cli.batch",
    "",
)
MOST_MODULES = 30
MOST_AT_THE_TOP = 12

# Module names that stand in several folders. Everywhere else a name means one thing.
REPEATED_MODULES = frozenset(
    {"__main__"}
    | {"errors", "events", "hooks"}  # a facade, and the module of core/ that it offers
    | {"wire", "encode", "decode", "content", "blocks"}  # the same part of each wire format
    # the same part of each database
    | {"connections", "error_mapping", "full_text", "integrity", "schema", "store"}
    | {"table_reader", "table_writer", "text_table", "writer_connection"}
    | {"git", "wrappers"}  # programs: their table, and the code that reads it
    | {"context", "list"}  # a tool, and a command: both are called like that
    | {"registry"}  # of models, and of tools
    | {"undo"}  # what a session does, and the command for it
)

# Pure logic: no clock, no randomness, no files, no Trio. They get what they need as arguments.
PURE = (
    "agents.agent_result",
    "agents.compat",
    "agents.markdown_file",
    "batch.batch_progress",
    "cli.batch.progress_lines",
    "cli.questions",
    "compaction.prune",
    "compaction.rebuild_history",
    "compaction.split",
    "compaction.summary_prompt",
    "compaction.token_estimate",
    "compaction.undo_compaction",
    "config",
    "control.protocol",
    "core._event_base",
    "core._history_events",
    "core._message_events",
    "core._question_events",
    "core._session_events",
    "core._turn_events",
    "core.arguments",
    "core.coerce",
    "core.errors",
    "core.events",
    "core.ids",
    "core.llm_types",
    "core.messages",
    "core.permission_types",
    "core.schema",
    "core.settings",
    "core.snapshot_types",
    "core.value_base",
    "export.atif",
    "export.history",
    "export.html_page",
    "export.iso_time",
    "export.markdown",
    "export.sanitize",
    "files.escaping",
    "files.front_matter",
    "files.globs",
    "files.line_diff",
    "json_schema",
    "jsonrpc",
    "journal.closing_events",
    "journal.fold",
    "journal.fold_turn",
    "journal.json_text",
    "journal.open_text",
    "journal.state",
    "mcp.repair_json",
    "mcp.server_environment",
    "mcp.server_text",
    "mcp.tool_definition",
    "mcp.transport_report",
    "mcp_server.elicited_answers",
    "mcp_server.tool_table",
    "mcp_server.turn_report",
    "nursery.stream_parser",
    "nursery.loop_detection",
    "nursery.loop_state",
    "nursery.parkable",
    "nursery.retry",
    "nursery.scheduling",
    "nursery.transition",
    "permission.effects",
    "permission.grants.grants",
    "permission.dangerous_rights",
    "permission.grants.offers",
    "permission.programs",
    "permission.programs.tables",
    "permission.question_text",
    "permission.rules.explain",
    "permission.rules.lint",
    "permission.rules.path_pattern",
    "permission.rules.profiles",
    "permission.rules.rule_file",
    "permission.rules.rules",
    "permission.rules.wildcard",
    "permission.shell",
    "permission.shell.parser",
    "providers.anthropic",
    "providers.auth.aws_sigv4",
    "providers.bedrock",
    "providers.cohere",
    "providers.failures",
    "providers.gemini",
    "providers.hosts",
    "providers.local.probe_parsing",
    "providers.openai_chat",
    "providers.openai_responses",
    "providers.vertex_anthropic",
    "providers.wire",
    "sandbox.bwrap",
    "snapshots.turn_history",
    "tools.edit.match",
    "tools.edit.match_lines",
    "tools.edit.splices",
    "tools.edit.patch_format",
    "tools.edit.patch_match",
    "tools.edit.rivals",
    "tools.edit.source_text",
    "tools.edit.unicode_forms",
    "tools.output.truncate",
    "tools.search.gitignore",
    "web.html_flow",
    "web.html_links",
    "web.html_markdown",
    "web.html_table",
    "web.html_tokens",
)

# What pure logic may import from outside the engine, besides the standard library.
PURE_DEPENDENCIES = frozenset({"attrs", "cattrs", "tree_sitter", "tree_sitter_bash", "rapidfuzz", "wcwidth", "yaml"})
CORE_DEPENDENCIES = frozenset(
    {
        "attrs",
        "cattrs",
        "h11",
        "httpx",
        "platformdirs",
        "rapidfuzz",
        "tree_sitter",
        "tree_sitter_bash",
        "trio",
        "trio_websocket",
        "tomlkit",
        "wcwidth",
        "wsproto",
        "yaml",
    }
)
# Extras, and the only modules that may ask for them.
EXTRAS: Mapping[str, frozenset[str]] = {
    "telemetry.*": frozenset({"opentelemetry"}),
    "mcp.*": frozenset({"anyio", "httpx2", "mcp", "mcp_types", "pydantic"}),
    "mcp_server.*": frozenset({"anyio", "mcp", "mcp_types", "pydantic"}),
    "providers.auth.google": frozenset({"google"}),
    "ray_cluster.ray_api": frozenset({"ray"}),
    "store.postgres.*": frozenset({"psycopg"}),
    "testing.*": frozenset({"hypothesis", "pytest"}),
}

# Time, randomness, the machine: they enter pure logic as arguments.
IMPURE = frozenset(
    {"os", "time", "random", "secrets", "uuid", "subprocess", "pathlib", "shutil", "tempfile", "io", "glob"}
    | {
        "signal",
        "socket",
        "select",
        "selectors",
        "sqlite3",
        "threading",
        "multiprocessing",
        "concurrent",
        "contextvars",
    }
)
# Names of an impure module that do nothing to the machine.
PURE_NAMES = frozenset({("pathlib", "PurePath"), ("pathlib", "PurePosixPath"), ("io", "StringIO"), ("io", "BytesIO")})
BANNED = frozenset({"asyncio"})

# Every shield has a deadline, and all of them stand here; engine.testing has tools that misbehave on purpose.
SHIELDS = ("nursery.cleanup", "process.run_tree", "store.*")
SHIELDS_OF_FAKES = ("testing.*",)


# ---- reading a tree --------------------------------------------------------------------------------------------------


@attrs.frozen
class Import:
    """One name that one module imports, resolved as far as the tree knows it."""

    line: int
    target: str  # a module inside the engine, relative ("" is engine itself), or the root of a foreign one
    name: str | None  # what is taken out of it, if it is not the module itself
    inside: bool  # of the engine
    typing_only: bool


@attrs.frozen
class Tree:
    """The modules of a package, parsed."""

    name: str
    modules: Mapping[str, ast.Module]  # by relative dotted name; "" is the package's own __init__
    packages: frozenset[str]
    _imports: dict[str, list[Import]] = attrs.field(factory=dict, init=False, repr=False)

    @classmethod
    def read(cls, root: Path) -> "Tree":
        modules: dict[str, ast.Module] = {}
        packages: set[str] = set()
        for path in sorted(root.rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            if parts[-1] == "__init__":
                parts = parts[:-1]
                packages.add(".".join(parts))
            modules[".".join(parts)] = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
        return cls(root.name, modules, frozenset(packages))

    def imports(self, module: str) -> list[Import]:
        """The imports of *module*, read once for all rules."""
        if module not in self._imports:
            self._imports[module] = [
                imported for node, typing in _statements(self.modules[module]) for imported in self._read(node, typing)
            ]
        return self._imports[module]

    def _read(self, node: ast.stmt, typing_only: bool) -> Iterator[Import]:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield self._resolve(node.lineno, alias.name, None, typing_only)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                # (a relative import is a fault of its own, which ruff names)
                yield self._resolve(node.lineno, node.module or "", alias.name, typing_only)

    def _resolve(self, line: int, dotted: str, name: str | None, typing_only: bool) -> Import:
        root, _, rest = dotted.partition(".")
        if root != self.name:
            return Import(line, root, name, False, typing_only)
        submodule = f"{rest}.{name}".removeprefix(".")
        if name is not None and submodule in self.modules:  # `from engine.nursery import loop` imports the module loop
            return Import(line, submodule, None, True, typing_only)
        return Import(line, rest, name, True, typing_only)

    def defines(self, module: str, name: str) -> bool:
        """Whether `name` is made in `module` itself, rather than passed on by it."""
        for node in self.modules[module].body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.name == name:
                return True
            targets = (
                node.targets
                if isinstance(node, ast.Assign)
                else [node.target]
                if isinstance(node, ast.AnnAssign)
                else []
            )
            if any(isinstance(target, ast.Name) and target.id == name for target in targets):
                return True
        return False


def _statements(tree: ast.Module) -> Iterator[tuple[ast.stmt, bool]]:
    """Every statement, those inside functions included, with whether it is there for types only."""

    def walk(body: Iterable[ast.AST], typing_only: bool) -> Iterator[tuple[ast.stmt, bool]]:
        for node in body:
            if isinstance(node, ast.stmt):
                yield node, typing_only
            if isinstance(node, ast.If) and _is_type_checking(node.test):
                yield from walk(node.body, True)
                yield from walk(node.orelse, typing_only)
            else:
                yield from walk(ast.iter_child_nodes(node), typing_only)

    return walk(tree.body, False)


def _is_type_checking(test: ast.expr) -> bool:
    return ast.unparse(test) in {"TYPE_CHECKING", "typing.TYPE_CHECKING"}


def _fits(module: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(module, pattern) for pattern in patterns)


# ---- the rules: each yields what is wrong, as `module:line: words` ---------------------------------------------------


def folder_of(tree: Tree, module: str) -> str:
    """The folder that a module lies in; of a package, itself."""
    return module if module in tree.packages else module.rpartition(".")[0]


def is_pure(tree: Tree, module: str) -> bool:
    return module not in tree.packages and (module in PURE or folder_of(tree, module) in PURE)


def unknown_folders(tree: Tree) -> Iterator[str]:
    for folder in {folder_of(tree, module) for module in tree.modules} - set(LAYERS):
        yield f"{folder}:1: in no layer: give the folder a row in LAYERS"


def upward_imports(tree: Tree) -> Iterator[str]:
    """A facade (a package's `__init__`) may import from the folders inside its own as well."""
    for module in tree.modules:
        own = folder_of(tree, module)
        if own not in LAYERS:
            continue
        inside = [index for index, folder in enumerate(LAYERS) if folder == own or folder.startswith(f"{own}.")]
        highest = max(inside) if module in tree.packages else LAYERS.index(own)
        for imported in tree.imports(module):
            other = folder_of(tree, imported.target)
            if imported.inside and imported.target in tree.modules and other in LAYERS[highest + 1 :]:
                yield f"{module}:{imported.line}: {own} imports {imported.target}, which lies above it"


def crowded_folders(tree: Tree) -> Iterator[str]:
    counts = Counter(folder_of(tree, module) for module in tree.modules if module not in tree.packages)
    for folder, count in counts.items():
        most = MOST_MODULES if folder else MOST_AT_THE_TOP
        if count > most:
            yield f"{folder or tree.name}: {count} modules lie in one folder, more than {most}"


def repeated_modules(tree: Tree) -> Iterator[str]:
    folders: dict[str, list[str]] = {}
    for module in tree.modules:
        if module not in tree.packages:
            folders.setdefault(module.rpartition(".")[2], []).append(module)
    for name, modules in folders.items():
        if len(modules) > 1 and name not in REPEATED_MODULES:
            yield f"{modules[-1]}:1: there is another module called {name}: {', '.join(modules[:-1])}"


def repeated_classes(tree: Tree) -> Iterator[str]:
    homes: dict[str, str] = {}
    for module, parsed in tree.modules.items():
        for node in parsed.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                if node.name in homes:
                    yield f"{module}:{node.lineno}: there is another class {node.name}, in {homes[node.name]}"
                homes[node.name] = module


def foreign_imports(tree: Tree) -> Iterator[str]:
    for module in tree.modules:
        extras = frozenset[str]().union(
            *(allowed for pattern, allowed in EXTRAS.items() if fnmatchcase(module, pattern))
        )
        pure = is_pure(tree, module)
        for imported in tree.imports(module):
            if imported.inside:
                continue
            where = f"{module}:{imported.line}"
            if imported.target in BANNED:
                yield f"{where}: {imported.target} is banned"
            elif imported.target in sys.stdlib_module_names:
                impure = imported.target in IMPURE and (imported.target, imported.name) not in PURE_NAMES
                if pure and impure and not imported.typing_only:
                    yield f"{where}: pure logic imports {imported.target}"
            elif imported.target not in CORE_DEPENDENCIES | extras:
                yield f"{where}: {imported.target} is neither a core dependency nor an extra of this module"
            elif pure and imported.target not in PURE_DEPENDENCIES and not imported.typing_only:
                yield f"{where}: pure logic imports {imported.target}"


def imports_of_packages(tree: Tree) -> Iterator[str]:
    """Inside the engine, a thing is imported from where it is defined."""
    for module in tree.modules:
        for found in tree.imports(module):
            if not found.inside:
                continue
            if found.target not in tree.modules:
                yield f"{module}:{found.line}: there is no module {found.target}"
            elif found.target in tree.packages and (found.name is None or not tree.defines(found.target, found.name)):
                wanted = f"{found.name} from" if found.name else "a name from"
                yield f"{module}:{found.line}: import {wanted} its defining module, not from the package {found.target!r}"


def imports_of_private_modules(tree: Tree) -> Iterator[str]:
    """A module with an underscore is a part of another one in its folder, which offers its names."""
    for module in tree.modules:
        for found in tree.imports(module):
            folder, _, name = found.target.rpartition(".")
            if found.inside and name.startswith("_") and folder != folder_of(tree, module):
                yield f"{module}:{found.line}: {found.target} is private to the folder {folder}"


def import_cycles(tree: Tree) -> Iterator[str]:
    """Cycles of imports, those for types only and those inside functions included.

    A facade's `__init__` does not count as the modules that it offers: nothing inside the engine imports from it.
    """
    edges = {m: sorted({i.target for i in tree.imports(m) if i.inside} & set(tree.modules) - {m}) for m in tree.modules}
    done: set[str] = set()

    def visit(module: str, path: list[str]) -> Iterator[str]:
        if module in path:
            yield f"{module}:1: import cycle " + " -> ".join([*path[path.index(module) :], module])
        elif module not in done:
            for target in edges[module]:
                yield from visit(target, [*path, module])
            done.add(module)

    for module in sorted(edges):
        yield from visit(module, [])


def async_generators(tree: Tree) -> Iterator[str]:
    """Their clean-up runs when nobody knows; a cursor object, or an `@asynccontextmanager`, does the work."""
    for module, parsed in tree.modules.items():
        for node in ast.walk(parsed):
            if isinstance(node, ast.AsyncFunctionDef) and _yields(node):
                decorators = {ast.unparse(decorator).rpartition(".")[2] for decorator in node.decorator_list}
                if "asynccontextmanager" not in decorators:
                    yield f"{module}:{node.lineno}: {node.name} is an async generator"
            elif isinstance(node, ast.GeneratorExp) and any(
                comprehension.is_async for comprehension in node.generators
            ):
                yield f"{module}:{node.lineno}: an async generator expression"


def _yields(function: ast.AsyncFunctionDef) -> bool:
    todo: list[ast.AST] = list(function.body)
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Yield):
            return True
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            todo.extend(ast.iter_child_nodes(node))
    return False


def shields(tree: Tree) -> Iterator[str]:
    for module, parsed in tree.modules.items():
        if _fits(module, SHIELDS_OF_FAKES):
            continue
        for node in ast.walk(parsed):
            if _raises_a_shield(node) and not _fits(module, SHIELDS):
                yield f"{module}:{node.lineno}: a shield outside {', '.join(SHIELDS)}"
            elif _raises_a_shield(node) and not _has_deadline(node):
                yield f"{module}:{node.lineno}: a shield without a deadline"


def _raises_a_shield(node: ast.AST) -> TypeGuard[ast.Call | ast.Assign]:
    """A call with `shield=`, or an assignment to `.shield`, unless it is False."""
    if isinstance(node, ast.Assign):
        given = [node.value for target in node.targets if isinstance(target, ast.Attribute) and target.attr == "shield"]
    elif isinstance(node, ast.Call):
        given = [keyword.value for keyword in node.keywords if keyword.arg == "shield"]
    else:
        return False
    return any(not (isinstance(value, ast.Constant) and value.value is False) for value in given)


def _has_deadline(node: ast.Call | ast.Assign) -> bool:
    if isinstance(node, ast.Assign) or ast.unparse(node.func).rpartition(".")[2] != "CancelScope":
        return True  # move_on_after and its like have nothing else; of a scope that is assigned to, we cannot say
    return any(keyword.arg in {"deadline", "relative_deadline"} for keyword in node.keywords)


Rule = Callable[[Tree], Iterator[str]]
RULES: tuple[Rule, ...] = (
    unknown_folders,
    upward_imports,
    crowded_folders,
    repeated_modules,
    repeated_classes,
    foreign_imports,
    imports_of_packages,
    imports_of_private_modules,
    import_cycles,
    async_generators,
    shields,
)


@functools.cache
def engine_tree() -> Tree:
    """The engine itself: parsed once."""
    return Tree.read(ENGINE)


# ---- the tests -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_engine_keeps(rule: Rule) -> None:
    assert list(rule(engine_tree())) == []


GOOD = {
    "__init__.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from engine.session.session import run as run\n",
    "core/ids.py": "import attrs\n",
    "core/events.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import engine.core.ids\n",
    "core/errors.py": "from engine.core.events import x\n",
    "core/messages.py": "from pathlib import PurePosixPath\nfrom engine.core import ids\n",
    "nursery/__init__.py": "",
    "nursery/stream_parser.py": "from engine.core.events import x\n",
    "nursery/cleanup.py": "import trio\nwith trio.move_on_after(1, shield=True):\n    pass\n",
    "nursery/loop.py": "import trio\nfrom engine.nursery.stream_parser import x\n",
    "session/session.py": (
        "from contextlib import asynccontextmanager\nfrom engine.nursery import loop\n"
        "@asynccontextmanager\nasync def run():\n    yield 1\n"
    ),
    "cli/__init__.py": "def main():\n    from engine.cli.run import run\n",
    "cli/run.py": "import engine.session.session\n",
    "__main__.py": "from engine.cli import main\n",
    "testing/__init__.py": "",
    "core/__init__.py": "",
    "session/__init__.py": "",
    "testing/strategies.py": "import hypothesis\n",
}

# One planted fault each: the rule that must see it, the file, its text, and words of the complaint.
FAULTS = (
    (unknown_folders, "core/deep/misc.py", "", "core.deep:1: in no layer"),
    (unknown_folders, "helpers/misc.py", "", "helpers:1: in no layer"),
    (
        upward_imports,
        "core/ids.py",
        "from engine.session.session import run\n",
        "core.ids:1: core imports session.session, which lies above it",
    ),
    (
        upward_imports,
        "core/messages.py",
        "def f():\n    import engine.session.session\n",
        "core.messages:2: core imports session.session, which lies above it",
    ),
    (
        upward_imports,
        "core/lazy.py",
        "TYPE_CHECKING = False\nif TYPE_CHECKING:\n    from engine.nursery.loop import x\n",
        "core.lazy:3: core imports nursery.loop, which lies above it",
    ),
    (
        upward_imports,
        "nursery/__init__.py",
        "from engine.session.session import run\n",
        "nursery:1: nursery imports session.session, which lies above it",
    ),
    (repeated_modules, "cli/stream_parser.py", "", "there is another module called stream_parser"),
    (
        repeated_classes,
        "cli/run.py",
        "class Run:\n    pass\n\n\nclass Run:\n    pass\n",
        "another class Run, in cli.run",
    ),
    (foreign_imports, "core/ids.py", "import trio\n", "core.ids:1: pure logic imports trio"),
    (foreign_imports, "core/messages.py", "from trio import Event\n", "core.messages:1: pure logic imports trio"),
    (foreign_imports, "core/messages.py", "import os.path\n", "core.messages:1: pure logic imports os"),
    (
        foreign_imports,
        "nursery/stream_parser.py",
        "def f():\n    from time import monotonic\n",
        "nursery.stream_parser:2: pure logic imports time",
    ),
    (foreign_imports, "core/messages.py", "from pathlib import Path\n", "core.messages:1: pure logic imports pathlib"),
    (foreign_imports, "cli/run.py", "def f():\n    import asyncio.events\n", "cli.run:2: asyncio is banned"),
    (foreign_imports, "session/session.py", "import requests\n", "session.session:1: requests is neither"),
    (foreign_imports, "session/session.py", "import hypothesis\n", "session.session:1: hypothesis is neither"),
    (
        imports_of_packages,
        "session/session.py",
        "import engine\n",
        "session.session:1: import a name from its defining module",
    ),
    (
        imports_of_packages,
        "session/session.py",
        "from engine.nursery import x\n",
        "session.session:1: import x from its defining module",
    ),
    (
        imports_of_packages,
        "session/session.py",
        "from engine.missing import x\n",
        "session.session:1: there is no module missing",
    ),
    (
        imports_of_private_modules,
        "session/session.py",
        "from engine.core._turn_events import x\n",
        "session.session:1: core._turn_events is private to the folder core",
    ),
    (
        import_cycles,
        "core/ids.py",
        "from engine.core.errors import x\n",
        "import cycle core.events -> core.ids -> core.errors -> core.events",
    ),
    (
        import_cycles,
        "core/ids.py",
        "TYPE_CHECKING = False\nif TYPE_CHECKING:\n    from engine.core.errors import x\n",
        "import cycle core.events -> core.ids -> core.errors -> core.events",
    ),
    (
        import_cycles,
        "core/ids.py",
        "def f():\n    from engine.core.errors import x\n",
        "import cycle core.events -> core.ids -> core.errors -> core.events",
    ),
    (
        async_generators,
        "session/session.py",
        "async def f():\n    if 1:\n        yield\n",
        "session.session:1: f is an async generator",
    ),
    (
        async_generators,
        "session/session.py",
        "async def f(a):\n    g(x async for x in a)\n",
        "session.session:2: an async generator expression",
    ),
    (
        shields,
        "session/session.py",
        "import trio\ntrio.CancelScope(shield=True, deadline=1)\n",
        "session.session:2: a shield outside",
    ),
    (shields, "session/session.py", "def f(scope):\n    scope.shield = True\n", "session.session:2: a shield outside"),
    (
        shields,
        "nursery/cleanup.py",
        "import trio\ntrio.CancelScope(shield=True)\n",
        "nursery.cleanup:2: a shield without",
    ),
)


def _plant(folder: Path, files: Mapping[str, str]) -> Tree:
    root = folder / "engine"
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return Tree.read(root)


def test_a_good_tree_passes(tmp_path: Path) -> None:
    tree = _plant(tmp_path, GOOD)
    assert [complaint for rule in RULES for complaint in rule(tree)] == []


@pytest.mark.parametrize(("folder", "most"), [("nursery", MOST_MODULES), ("", MOST_AT_THE_TOP)])
def test_a_crowded_folder_is_caught(tmp_path: Path, folder: str, most: int) -> None:
    tree = _plant(tmp_path, {"__init__.py": ""} | {f"{folder}/m{number}.py".lstrip("/"): "" for number in range(most)})
    assert list(crowded_folders(tree)) == []
    _plant(tmp_path, {f"{folder}/one_more.py".lstrip("/"): ""})
    assert len(list(crowded_folders(Tree.read(tmp_path / "engine")))) == 1


def test_the_pure_modules_exist() -> None:
    assert set(PURE) <= set(engine_tree().modules)


@pytest.mark.parametrize(
    ("rule", "file", "text", "words"), FAULTS, ids=[f"{f[0].__name__}-{f[1]}-{i}" for i, f in enumerate(FAULTS)]
)
def test_a_planted_fault_is_caught(tmp_path: Path, rule: Rule, file: str, text: str, words: str) -> None:
    complaints = list(rule(_plant(tmp_path, GOOD | {file: text})))
    assert any(words in complaint for complaint in complaints), complaints
