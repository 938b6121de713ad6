"""The walls of the engine, held by walking its imports: layers, purity, cycles, and where a shield may stand.

The tables below are the architecture (docs/design names the reasons). A module that no row names fails the test: say
which layer it belongs to. Every rule is tried on a bad tree as well, so that none of them can fall silent.
"""

import ast
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TypeGuard

import attrs
import pytest

ENGINE = Path(__file__).resolve().parent.parent / "engine"

# From the ground up. A module imports from its own layer and from those before it; the first row that fits decides.
# Names are relative to `engine`. The `__init__` of a package belongs to the lowest layer of its modules, because
# importing any of these runs it first.
LAYERS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "values",
        (
            "_version",
            "errors",
            "ids",
            "settings",
            "values",
            "messages",
            "model",
            "events",
            "keeping",
            "agents.result",
            "prompt.section",
        ),
    ),
    (
        "pure logic",
        (
            "agents.agent",
            "agents.builtin",
            "agents.foreign",
            "agents.markdown",
            "agents.nested",
            "agents.telling",
            "config",
            "fold",
            "state",
            "archive.fork",
            "archive.harmless",
            "archive.history",
            "archive.markdown",
            "archive.money",
            "archive.opening",
            "archive.web_*",
            "nursery.admission",
            "nursery.demux",
            "nursery.doom",
            "nursery.moves",
            "nursery.parked",
            "nursery.recover",
            "nursery.retry",
            "compaction.arguments",
            "compaction.directives",
            "compaction.extract",
            "compaction.media",
            "compaction.overflow",
            "compaction.pins",
            "compaction.prune",
            "compaction.resume",
            "compaction.select",
            "compaction.speakers",
            "compaction.summary",
            "compaction.texts",
            "compaction.undo",
            "permission.arity",
            "permission.glob*",
            "permission.grants",
            "permission.lint",
            "permission.path_pattern",
            "permission.profiles",
            "permission.program*",
            "permission.rule_*",
            "permission.rules",
            "permission.scanned",
            "permission.shell_*",
            "permission.wildcard",
            "prompt.command_text",
            "prompt.quoting",
            "prompt.reminders",
            "prompt.wanted",
            "providers.addresses",
            "providers.anthropic*",
            "providers.auth",
            "providers.aws_eventstream",
            "providers.aws_signature",
            "providers.bedrock*",
            "providers.cohere*",
            "providers.complaints",
            "providers.decoding",
            "providers.encoding",
            "providers.failures",
            "providers.extra_body",
            "providers.families",
            "providers.family*",
            "providers.gemini*",
            "providers.host_*",
            "providers.hosts",
            "providers.items",
            "providers.jsonvalue",
            "providers.limits",
            "providers.local_limits",
            "providers.openai_*",
            "providers.overflow",
            "providers.quirks",
            "providers.schema*",
            "providers.sse",
            "providers.structured",
            "providers.waits",
            "providers.wire",
            "providers.words",
            "sandbox.box",
            "sandbox.bwrap",
            "snapshots.past",
            "snapshots.trees",
            "tools.arguments",
            "tools.coerce",
            "tools.edit_*",
            "tools.file_programs",
            "tools.filetypes",
            "tools.front_matter",
            "tools.gitignore",
            "tools.globs",
            "tools.hits",
            "tools.html_*",
            "tools.line_diff",
            "tools.patch_*",
            "tools.piles",
            "tools.rust_*",
            "tools.schema",
            "tools.truncate",
        ),
    ),
    (
        "ports and journal",
        (
            "exceptions",
            "ports",
            "drafts",
            "cursors",
            "journal",
            "deferred",
            "codec",
            "hooks",
            "trace",
            "otel",
            "threads",
            "locks",
        ),
    ),
    (
        "input and output",
        (
            "agents.find",
            "agents.jobs",
            "archive.*",
            "attachments",
            "config_file",
            "machine",
            "store.*",
            "tools.*",
            "permission.*",
            "sandbox.*",
            "snapshots.*",
            "providers.*",
            "prompt.*",
            "compaction.*",
        ),
    ),
    ("the turn", ("nursery.*",)),
    (
        "session and service",
        (
            "agents.*",
            "answers",
            "beginning",
            "beside",
            "given",
            "resolved",
            "titles",
            "turn",
            "watching",
            "ways",
            "session",
            "session_context",
            "structured",
            "service",
            "undo",
        ),
    ),
    ("the outside", ("control.*", "cli.*", "testing.*", "__main__")),
)

# What a layer may import from outside the engine, besides the standard library (None: any core dependency).
DEPENDENCIES_OF: Mapping[str, frozenset[str] | None] = {
    "values": frozenset({"attrs"}),
    "pure logic": frozenset({"attrs", "cattrs", "tree_sitter", "tree_sitter_bash", "rapidfuzz"}),
}
CORE_DEPENDENCIES = frozenset(
    {
        "attrs",
        "cattrs",
        "httpx",
        "platformdirs",
        "rapidfuzz",
        "tree_sitter",
        "tree_sitter_bash",
        "trio",
        "trio_websocket",
    }
)
# Extras, and the only modules that may ask for them.
EXTRAS: Mapping[str, frozenset[str]] = {
    "otel": frozenset({"opentelemetry"}),
    "providers.google_auth": frozenset({"google"}),
    "store.postgres_*": frozenset({"psycopg"}),
    "testing.*": frozenset({"hypothesis"}),
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
SHIELDS = ("nursery.cleanup", "tools.process", "store.*")
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
    at_import: bool  # runs when the module is imported: neither in a function nor for types only


@attrs.frozen
class Tree:
    """The modules of a package, parsed."""

    name: str
    modules: Mapping[str, ast.Module]  # by relative dotted name; "" is the package's own __init__
    packages: frozenset[str]

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
        return [
            found
            for node, typing, lazy in _statements(self.modules[module])
            for found in self._read(node, typing, lazy)
        ]

    def _read(self, node: ast.stmt, typing_only: bool, lazy: bool) -> Iterator[Import]:
        at_import = not (typing_only or lazy)
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield self._resolve(node.lineno, alias.name, None, typing_only, at_import)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                # (a relative import is a fault of its own, which ruff names)
                yield self._resolve(node.lineno, node.module or "", alias.name, typing_only, at_import)

    def _resolve(self, line: int, dotted: str, name: str | None, typing_only: bool, at_import: bool) -> Import:
        root, _, rest = dotted.partition(".")
        if root != self.name:
            return Import(line, root, name, False, typing_only, at_import)
        submodule = f"{rest}.{name}".removeprefix(".")
        if name is not None and submodule in self.modules:  # `from engine.nursery import loop` imports the module loop
            return Import(line, submodule, None, True, typing_only, at_import)
        return Import(line, rest, name, True, typing_only, at_import)

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


def _statements(tree: ast.Module) -> Iterator[tuple[ast.stmt, bool, bool]]:
    """Every statement, with whether it is there for types only, and whether it waits for a function to be called."""

    def walk(body: Iterable[ast.AST], typing_only: bool, lazy: bool) -> Iterator[tuple[ast.stmt, bool, bool]]:
        for node in body:
            if isinstance(node, ast.stmt):
                yield node, typing_only, lazy
            if isinstance(node, ast.If) and _is_type_checking(node.test):
                yield from walk(node.body, True, lazy)
                yield from walk(node.orelse, typing_only, lazy)
            else:
                deferred = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
                yield from walk(ast.iter_child_nodes(node), typing_only, lazy or deferred)

    return walk(tree.body, False, False)


def _is_type_checking(test: ast.expr) -> bool:
    return ast.unparse(test) in {"TYPE_CHECKING", "typing.TYPE_CHECKING"}


def _fits(module: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(module, pattern) for pattern in patterns)


# ---- the rules: each yields what is wrong, as `module:line: words` ---------------------------------------------------


def layer_of(tree: Tree, module: str) -> int | None:
    """The index of the module's layer; None if no row names it."""
    if module in tree.packages:
        prefix = f"{module}." if module else ""
        members = [
            layer_of(tree, m) for m in tree.modules if m != module and m.startswith(prefix) and m not in tree.packages
        ]
        return min((layer for layer in members if layer is not None), default=0)
    return next((index for index, (_, patterns) in enumerate(LAYERS) if _fits(module, patterns)), None)


def unplaced_modules(tree: Tree) -> Iterator[str]:
    for module in tree.modules:
        if layer_of(tree, module) is None:
            yield f"{module}:1: in no layer: give it a row in LAYERS"


def upward_imports(tree: Tree) -> Iterator[str]:
    for module in tree.modules:
        own = layer_of(tree, module)
        for found in tree.imports(module):
            if not found.inside or found.target not in tree.modules:
                continue
            if module in tree.packages and not found.at_import:
                continue  # a shop window names what stands above it, for types and on demand
            other = layer_of(tree, found.target)
            if own is not None and other is not None and other > own:
                yield f"{module}:{found.line}: {LAYERS[own][0]} imports {found.target} of {LAYERS[other][0]}"


def foreign_imports(tree: Tree) -> Iterator[str]:
    for module in tree.modules:
        layer = layer_of(tree, module)
        name = LAYERS[layer][0] if layer is not None else ""
        extras = frozenset[str]().union(
            *(allowed for pattern, allowed in EXTRAS.items() if fnmatchcase(module, pattern))
        )
        allowed = DEPENDENCIES_OF.get(name) if module not in tree.packages else None
        for found in tree.imports(module):
            if found.inside:
                continue
            where = f"{module}:{found.line}"
            if found.target in BANNED:
                yield f"{where}: {found.target} is banned"
            elif found.target in sys.stdlib_module_names:
                impure = found.target in IMPURE and (found.target, found.name) not in PURE_NAMES
                if name == "pure logic" and impure and not found.typing_only and module not in tree.packages:
                    yield f"{where}: {name} imports {found.target}"
            elif found.target not in CORE_DEPENDENCIES | extras:
                yield f"{where}: {found.target} is neither a core dependency nor an extra of this module"
            elif allowed is not None and found.target not in allowed and not found.typing_only:
                yield f"{where}: {name} imports {found.target}"


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


def import_cycles(tree: Tree) -> Iterator[str]:
    """Cycles of the imports that run when a module is imported."""
    edges = {
        m: sorted({i.target for i in tree.imports(m) if i.inside and i.at_import} & set(tree.modules) - {m})
        for m in tree.modules
    }
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
    unplaced_modules,
    upward_imports,
    foreign_imports,
    imports_of_packages,
    import_cycles,
    async_generators,
    shields,
)


# ---- the tests -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_engine_keeps(rule: Rule) -> None:
    assert list(rule(Tree.read(ENGINE))) == []


GOOD = {
    "__init__.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from engine.session import run as run\n",
    "ids.py": "import attrs\n",
    "events.py": "from typing import TYPE_CHECKING\nimport engine.ids\nif TYPE_CHECKING:\n    from engine.errors import E\n",
    "errors.py": "from engine.events import x\n",
    "fold.py": "from pathlib import PurePosixPath\nfrom engine import ids\n",
    "nursery/__init__.py": "",
    "nursery/demux.py": "from engine.events import x\n",
    "nursery/cleanup.py": "import trio\nwith trio.move_on_after(1, shield=True):\n    pass\n",
    "nursery/loop.py": "import trio\nfrom engine.nursery.demux import x\n",
    "session.py": (
        "from contextlib import asynccontextmanager\nfrom engine.nursery import loop\n"
        "@asynccontextmanager\nasync def run():\n    yield 1\n"
    ),
    "cli/__init__.py": "def main():\n    from engine.cli.run import run\n",
    "cli/run.py": "import engine.session\n",
    "__main__.py": "from engine.cli import main\n",
    "testing/__init__.py": "",
    "testing/strategies.py": "import hypothesis\n",
}

# One planted fault each: the rule that must see it, the file, its text, and words of the complaint.
FAULTS = (
    (unplaced_modules, "utils.py", "", "utils:1: in no layer"),
    (unplaced_modules, "helpers/misc.py", "", "helpers.misc:1: in no layer"),
    (upward_imports, "ids.py", "from engine.session import run\n", "ids:1: values imports session"),
    (upward_imports, "fold.py", "def f():\n    import engine.session\n", "fold:2: pure logic imports session"),
    (
        upward_imports,
        "nursery/__init__.py",
        "from engine.nursery.loop import x\n",
        "nursery:1: pure logic imports nursery.loop",
    ),
    (upward_imports, "__init__.py", "import engine.session\n", ":1: values imports session"),
    (foreign_imports, "ids.py", "import trio\n", "ids:1: values imports trio"),
    (foreign_imports, "fold.py", "from trio import Event\n", "fold:1: pure logic imports trio"),
    (foreign_imports, "fold.py", "import os.path\n", "fold:1: pure logic imports os"),
    (
        foreign_imports,
        "nursery/demux.py",
        "def f():\n    from time import monotonic\n",
        "nursery.demux:2: pure logic imports time",
    ),
    (foreign_imports, "fold.py", "from pathlib import Path\n", "fold:1: pure logic imports pathlib"),
    (foreign_imports, "cli/run.py", "def f():\n    import asyncio.events\n", "cli.run:2: asyncio is banned"),
    (foreign_imports, "session.py", "import requests\n", "session:1: requests is neither"),
    (foreign_imports, "session.py", "import hypothesis\n", "session:1: hypothesis is neither"),
    (imports_of_packages, "session.py", "import engine\n", "session:1: import a name from its defining module"),
    (
        imports_of_packages,
        "session.py",
        "from engine.nursery import x\n",
        "session:1: import x from its defining module",
    ),
    (imports_of_packages, "session.py", "from engine.missing import x\n", "session:1: there is no module missing"),
    (import_cycles, "ids.py", "from engine.errors import x\n", "import cycle events -> ids -> errors -> events"),
    (
        async_generators,
        "session.py",
        "async def f():\n    if 1:\n        yield\n",
        "session:1: f is an async generator",
    ),
    (
        async_generators,
        "session.py",
        "async def f(a):\n    g(x async for x in a)\n",
        "session:2: an async generator expression",
    ),
    (shields, "session.py", "import trio\ntrio.CancelScope(shield=True, deadline=1)\n", "session:2: a shield outside"),
    (shields, "session.py", "def f(scope):\n    scope.shield = True\n", "session:2: a shield outside"),
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


@pytest.mark.parametrize(
    ("rule", "file", "text", "words"), FAULTS, ids=[f"{f[0].__name__}-{f[1]}-{i}" for i, f in enumerate(FAULTS)]
)
def test_a_planted_fault_is_caught(tmp_path: Path, rule: Rule, file: str, text: str, words: str) -> None:
    complaints = list(rule(_plant(tmp_path, GOOD | {file: text})))
    assert any(words in complaint for complaint in complaints), complaints
