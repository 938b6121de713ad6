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
            "core.agent_result",
            "core.compaction_types",
            "core.context_report",
            "core.errors",
            "core.events",
            "core.ids",
            "core.llm_types",
            "core.messages",
            "core.permission_types",
            "core.prompt_section",
            "core.settings",
            "core.value_base",
            "core.version",
        ),
    ),
    (
        "pure logic",
        (
            "agents.compat",
            "agents.markdown_file",
            "agents.reports",
            "agents.yaml_subset",
            "compaction.fallback_summary",
            "compaction.media_tokens",
            "compaction.preserved",
            "compaction.prune",
            "compaction.rebuild",
            "compaction.roles",
            "compaction.shorten",
            "compaction.shrink_arguments",
            "compaction.split",
            "compaction.summary_prompt",
            "compaction.token_estimate",
            "compaction.undo",
            "compaction.user_rules",
            "config.agent_config",
            "config.builtin_agents",
            "config.config",
            "config.formatter_config",
            "config.host_values",
            "config.instruction_config",
            "config.sandbox_config",
            "core.arguments",
            "core.coerce",
            "core.fold",
            "core.schema",
            "core.snapshot_types",
            "core.state",
            "export.format_cost",
            "export.history",
            "export.html_page",
            "export.html_style",
            "export.html_text",
            "export.markdown",
            "export.sanitize",
            "export.seed_events",
            "files.escaping",
            "files.front_matter",
            "files.globs",
            "files.line_diff",
            "journal.closing_events",
            "nursery.demux",
            "nursery.loop_detection",
            "nursery.parkable",
            "nursery.retry",
            "nursery.scheduling",
            "nursery.transition",
            "permission.effects.program_effects",
            "permission.effects.scan_result",
            "permission.grants.grants",
            "permission.grants.offers",
            "permission.programs.analysis",
            "permission.programs.analyze",
            "permission.programs.awk",
            "permission.programs.custom_readers",
            "permission.programs.date",
            "permission.programs.environment",
            "permission.programs.find",
            "permission.programs.git",
            "permission.programs.languages",
            "permission.programs.tables.names",
            "permission.programs.tables.option_spec",
            "permission.programs.tables.program_spec",
            "permission.programs.registry",
            "permission.programs.sed",
            "permission.programs.subcommand_depth",
            "permission.programs.tables.all",
            "permission.programs.tables.build",
            "permission.programs.tables.containers",
            "permission.programs.tables.editors",
            "permission.programs.tables.files",
            "permission.programs.tables.git",
            "permission.programs.tables.interpreters",
            "permission.programs.tables.network",
            "permission.programs.tables.packages",
            "permission.programs.tables.text",
            "permission.programs.tables.wrappers",
            "permission.programs.tar",
            "permission.programs.tmux_bwrap",
            "permission.programs.wrappers",
            "permission.rules.explain",
            "permission.rules.lint",
            "permission.rules.path_pattern",
            "permission.rules.profiles",
            "permission.rules.rule_file",
            "permission.rules.rule_index",
            "permission.rules.rules",
            "permission.rules.toml_positions",
            "permission.rules.wildcard",
            "permission.shell.arithmetic",
            "permission.shell.brace_expansion",
            "permission.shell.builtin_args",
            "permission.shell.builtins",
            "permission.shell.change_dir",
            "permission.shell.conditions",
            "permission.shell.findings",
            "permission.shell.interpreter",
            "permission.shell.invoke",
            "permission.shell.loops",
            "permission.shell.parameter_expansion",
            "permission.shell.parser.compound",
            "permission.shell.parser.expansion",
            "permission.shell.parser.lexer",
            "permission.shell.parser.nodes",
            "permission.shell.parser.parser",
            "permission.shell.parser.simple",
            "permission.shell.parser.words",
            "permission.shell.scan",
            "permission.shell.set_shopt",
            "permission.shell.simple_command",
            "permission.shell.simulated_shell",
            "permission.shell.special_variables",
            "permission.shell.state",
            "permission.shell.treesitter_check",
            "permission.shell.trim_expansion",
            "permission.shell.variable_builtins",
            "permission.shell.word_expansion",
            "permission.shell_scan",
            "prompt.command_text",
            "prompt.reminders",
            "providers.anthropic.decode",
            "providers.anthropic.encode",
            "providers.anthropic.wire",
            "providers.auth.auth",
            "providers.auth.aws_sigv4",
            "providers.bedrock.blocks",
            "providers.bedrock.content",
            "providers.bedrock.decode",
            "providers.bedrock.encode",
            "providers.bedrock.eventstream",
            "providers.bedrock.wire",
            "providers.cohere.decode",
            "providers.cohere.encode",
            "providers.cohere.wire",
            "providers.failures.classify",
            "providers.failures.error_body",
            "providers.failures.error_codes",
            "providers.failures.overflow",
            "providers.failures.retry_after",
            "providers.gemini.arguments",
            "providers.gemini.decode",
            "providers.gemini.encode",
            "providers.gemini.framing",
            "providers.gemini.metadata",
            "providers.gemini.wire",
            "providers.hosts.base_url",
            "providers.hosts.clouds",
            "providers.hosts.gateways",
            "providers.hosts.host",
            "providers.hosts.host_config",
            "providers.hosts.local",
            "providers.hosts.makers",
            "providers.hosts.table",
            "providers.local.probe_parsing",
            "providers.models.bedrock_families",
            "providers.models.family",
            "providers.models.family_names",
            "providers.models.limits",
            "providers.models.maker_families",
            "providers.models.quirks_lookup",
            "providers.models.shared_families",
            "providers.openai_chat.blocks",
            "providers.openai_chat.calls",
            "providers.openai_chat.citations",
            "providers.openai_chat.content",
            "providers.openai_chat.decode",
            "providers.openai_chat.encode",
            "providers.openai_chat.reasoning",
            "providers.openai_chat.usage",
            "providers.openai_chat.wire",
            "providers.openai_responses.decode",
            "providers.openai_responses.encode",
            "providers.openai_responses.items",
            "providers.openai_responses.wire",
            "providers.wire.answer_tool",
            "providers.wire.decoding",
            "providers.wire.encoding",
            "providers.wire.extra_body",
            "providers.wire.normalize_transcript",
            "providers.wire.quirks",
            "providers.wire.schema_dialects",
            "providers.wire.schema_keywords",
            "providers.wire.sse",
            "providers.wire.strict_schema",
            "providers.wire.untrusted_json",
            "providers.wire.wire_format",
            "sandbox.bwrap",
            "session.fork",
            "snapshots.turn_history",
            "tools.edit.match",
            "tools.edit.match_lines",
            "tools.edit.match_parts",
            "tools.edit.merge",
            "tools.edit.patch_format",
            "tools.edit.patch_match",
            "tools.edit.similarity",
            "tools.edit.source_text",
            "tools.output.truncate",
            "tools.search.filetypes",
            "tools.search.gitignore",
            "tools.search.result_buffers",
            "tools.search.results",
            "tools.search.rust_classes",
            "tools.search.rust_reader",
            "tools.search.rust_regex",
            "web.html_flow",
            "web.html_markdown",
            "web.html_table",
            "web.html_tokens",
        ),
    ),
    (
        "ports and journal",
        (
            "core.codec",
            "core.deferred",
            "core.exception_groups",
            "core.hooks",
            "core.named_locks",
            "core.null_trace",
            "core.protocols",
            "core.threads",
            "journal.cursors",
            "journal.journal",
            "journal.partial_output",
        ),
    ),
    (
        "input and output",
        (
            "agents.background",
            "agents.discovery",
            "compaction.compactor",
            "compaction.manager",
            "compaction.report",
            "compaction.session_facts",
            "compaction.token_counter",
            "core.system_clock",
            "export.collect",
            "export.json_document",
            "files.cancellable_thread",
            "files.diff",
            "files.read_state",
            "files.real_path",
            "files.safe_open",
            "files.text_files",
            "permission.allow_all",
            "permission.grants.grant_file",
            "permission.grants.state_file",
            "permission.grants.trust",
            "permission.paths.__main__",
            "permission.paths.git_config",
            "permission.paths.link_followers",
            "permission.paths.path_access",
            "permission.paths.path_mutations",
            "permission.paths.secret_search",
            "permission.paths.shell_glob",
            "permission.policy",
            "permission.project",
            "permission.requested_rights",
            "permission.rules.project_file",
            "permission.user_policy",
            "permission.verdicts",
            "process.crash_cleanup",
            "process.orphans",
            "process.process",
            "process.process_tree",
            "process.procfs",
            "process.redact",
            "prompt.commands",
            "prompt.environment",
            "prompt.family_text",
            "prompt.imports",
            "prompt.instruction_file",
            "prompt.instruction_globs",
            "prompt.instruction_urls",
            "prompt.instructions",
            "prompt.layers",
            "prompt.skill_section",
            "prompt.skills",
            "prompt.workspace",
            "providers.auth.aws_credentials",
            "providers.auth.environment",
            "providers.auth.google",
            "providers.http.chunk_buffer",
            "providers.http.client",
            "providers.http.endpoint",
            "providers.http.model",
            "providers.local.llama_server",
            "providers.local.model",
            "providers.local.probe",
            "providers.models.catalog",
            "providers.models.prices",
            "providers.registry",
            "providers.vertex_anthropic.wire",
            "sandbox.mounts",
            "sandbox.sandbox",
            "session.attachments",
            "session.open_store",
            "settings_file.config_file",
            "snapshots.classify",
            "snapshots.copy_backend",
            "snapshots.diff",
            "snapshots.git_backend",
            "snapshots.location",
            "snapshots.project",
            "snapshots.repository",
            "snapshots.restore",
            "snapshots.retention",
            "store.adapter",
            "store.backend",
            "store.batch_writer",
            "store.commands",
            "store.database",
            "store.heartbeat",
            "store.import_command",
            "store.lazy_events",
            "store.leases",
            "store.memory",
            "store.postgres.address",
            "store.postgres.connections",
            "store.postgres.error_mapping",
            "store.postgres.full_text",
            "store.postgres.integrity",
            "store.postgres.listener",
            "store.postgres.open",
            "store.postgres.schema",
            "store.postgres.store",
            "store.projection",
            "store.protocols",
            "store.reader_pool",
            "store.projection_rows",
            "store.search_text",
            "store.session_list",
            "store.session_rows",
            "store.spending_report",
            "store.postgres.table_reader",
            "store.postgres.table_writer",
            "store.postgres.writer_connection",
            "store.sqlite.lease_table",
            "store.sqlite.table_reader",
            "store.sqlite.table_writer",
            "store.sqlite.text_table",
            "store.sqlite.writer_connection",
            "store.sqlite.bulk_insert",
            "store.sqlite.connections",
            "store.sqlite.error_mapping",
            "store.sqlite.filesystem",
            "store.sqlite.full_text",
            "store.sqlite.integrity",
            "store.sqlite.location",
            "store.sqlite.migrate",
            "store.sqlite.open_file",
            "store.sqlite.rebuild",
            "store.sqlite.salvage",
            "store.sqlite.schema",
            "store.sqlite.store",
            "store.writer_thread",
            "tools.background_jobs",
            "tools.builtin.all",
            "tools.builtin.apply_patch",
            "tools.builtin.bash",
            "tools.builtin.bash_output",
            "tools.builtin.bash_permissions",
            "tools.builtin.bash_sandboxed",
            "tools.builtin.bash_stop",
            "tools.builtin.context",
            "tools.builtin.default_agents",
            "tools.builtin.edit",
            "tools.builtin.glob",
            "tools.builtin.grep",
            "tools.builtin.grep_permissions",
            "tools.builtin.grep_report",
            "tools.builtin.list",
            "tools.builtin.long_lines",
            "tools.builtin.multi_edit",
            "tools.builtin.plan_exit",
            "tools.builtin.question",
            "tools.builtin.read",
            "tools.builtin.skill",
            "tools.builtin.task",
            "tools.builtin.task_jobs",
            "tools.builtin.todo",
            "tools.builtin.tools_by_model",
            "tools.builtin.web_fetch",
            "tools.builtin.web_fetch_media",
            "tools.builtin.web_search",
            "tools.builtin.web_search_hosts",
            "tools.builtin.write",
            "tools.claude_hooks.call_events",
            "tools.claude_hooks.load",
            "tools.claude_hooks.reply",
            "tools.claude_hooks.run_command",
            "tools.claude_hooks.session_events",
            "tools.claude_hooks.tool_names",
            "tools.context",
            "tools.edit.atomic_write",
            "tools.edit.checkers",
            "tools.edit.edit_session",
            "tools.edit.formatters",
            "tools.edit.replace",
            "tools.external",
            "tools.hook_runner",
            "tools.output.live_output",
            "tools.output.spill",
            "tools.output.spill_file",
            "tools.output.spill_writer",
            "tools.pipeline",
            "tools.read.folder",
            "tools.read.image",
            "tools.read.line_window",
            "tools.read.media_process",
            "tools.read.media_worker",
            "tools.read.notebook",
            "tools.read.open_file",
            "tools.read.pdf",
            "tools.registry",
            "tools.search.python_lines",
            "tools.search.python_search",
            "tools.search.ripgrep",
            "tools.search.search",
            "tools.search.search_paths",
            "tools.search.walk",
            "tools.shell_environment",
            "tools.call_values",
            "tools.tool",
            "tools.tool_text",
            "web.address_guard",
            "web.content",
            "web.fetch",
        ),
    ),
    (
        "the turn",
        (
            "nursery.batch_check",
            "nursery.budget",
            "nursery.call_ledger",
            "nursery.concluder",
            "nursery.context_window",
            "nursery.draft_writer",
            "nursery.file_changes",
            "nursery.hook_points",
            "nursery.inbox",
            "nursery.loop",
            "nursery.parking",
            "nursery.permission_scope",
            "nursery.questions",
            "nursery.rate_limiter",
            "nursery.request_prefix",
            "nursery.running_turn",
            "nursery.side_request",
            "nursery.snapshots",
            "nursery.step",
            "nursery.stream_reader",
            "nursery.tool_task",
            "nursery.turn_task",
        ),
    ),
    (
        "session and service",
        (
            "session.answers",
            "session.background_tasks",
            "session.crash_notice",
            "session.engine",
            "session.model_cache",
            "session.session",
            "session.session_compaction",
            "session.session_config",
            "session.session_watch",
            "session.structured_output",
            "session.sub_agent_limiter",
            "session.sub_agents",
            "session.titles",
            "session.turn",
            "session.turn_start",
            "session.undo",
            "session.validation",
        ),
    ),
    (
        "the outside",
        (
            "__main__",
            "cli.agent_files",
            "cli.agents",
            "cli.arg_types",
            "cli.compaction_notices",
            "cli.default_tools",
            "cli.demo",
            "cli.demo_script",
            "cli.exit_status",
            "cli.interactive",
            "cli.keyboard",
            "cli.model_flags",
            "cli.models",
            "cli.models_text",
            "cli.output",
            "cli.permission_flags",
            "cli.permissions",
            "cli.prompt_files",
            "cli.render",
            "cli.run",
            "cli.sessions.common",
            "cli.sessions.context",
            "cli.sessions.context_usage",
            "cli.sessions.list",
            "cli.sessions.manage",
            "cli.sessions.repair",
            "cli.sessions.show",
            "cli.sessions.stats",
            "cli.sessions.transfer",
            "cli.sessions.undo",
            "cli.signals",
            "cli.store_flags",
            "cli.terminal",
            "cli.terminal_text",
            "cli.tools",
            "testing.anthropic_writer",
            "testing.cancel",
            "testing.cancel_points",
            "testing.cassette",
            "testing.fake_tools",
            "testing.fakes",
            "testing.harness",
            "testing.http_server",
            "testing.invariants",
            "testing.loopback",
            "testing.record",
            "testing.redact",
            "testing.replay",
            "testing.script",
            "testing.scripted_provider",
            "testing.strategies",
            "testing.transcript_strategies",
        ),
    ),
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
    "providers.auth.google": frozenset({"google"}),
    "store.postgres.*": frozenset({"psycopg"}),
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
SHIELDS = ("nursery.concluder", "process.process", "store.*")
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
    "__init__.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from engine.session.session import run as run\n",
    "core/ids.py": "import attrs\n",
    "core/events.py": "from typing import TYPE_CHECKING\nimport engine.core.ids\nif TYPE_CHECKING:\n    from engine.core.errors import E\n",
    "core/errors.py": "from engine.core.events import x\n",
    "core/fold.py": "from pathlib import PurePosixPath\nfrom engine.core import ids\n",
    "nursery/__init__.py": "",
    "nursery/demux.py": "from engine.core.events import x\n",
    "nursery/concluder.py": "import trio\nwith trio.move_on_after(1, shield=True):\n    pass\n",
    "nursery/loop.py": "import trio\nfrom engine.nursery.demux import x\n",
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
    (unplaced_modules, "utils.py", "", "utils:1: in no layer"),
    (unplaced_modules, "helpers/misc.py", "", "helpers.misc:1: in no layer"),
    (upward_imports, "core/ids.py", "from engine.session.session import run\n", "core.ids:1: values imports session"),
    (
        upward_imports,
        "core/fold.py",
        "def f():\n    import engine.session.session\n",
        "core.fold:2: pure logic imports session",
    ),
    (
        upward_imports,
        "nursery/__init__.py",
        "from engine.nursery.loop import x\n",
        "nursery:1: pure logic imports nursery.loop",
    ),
    (upward_imports, "__init__.py", "import engine.session.session\n", ":1: values imports session"),
    (foreign_imports, "core/ids.py", "import trio\n", "core.ids:1: values imports trio"),
    (foreign_imports, "core/fold.py", "from trio import Event\n", "core.fold:1: pure logic imports trio"),
    (foreign_imports, "core/fold.py", "import os.path\n", "core.fold:1: pure logic imports os"),
    (
        foreign_imports,
        "nursery/demux.py",
        "def f():\n    from time import monotonic\n",
        "nursery.demux:2: pure logic imports time",
    ),
    (foreign_imports, "core/fold.py", "from pathlib import Path\n", "core.fold:1: pure logic imports pathlib"),
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
        import_cycles,
        "core/ids.py",
        "from engine.core.errors import x\n",
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
        "nursery/concluder.py",
        "import trio\ntrio.CancelScope(shield=True)\n",
        "nursery.concluder:2: a shield without",
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
