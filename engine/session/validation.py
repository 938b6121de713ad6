"""Validates what a host passes to an engine. Every function raises `ConfigError`; none is a checkpoint."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast

from engine.config.config import Config
from engine.config.sandbox_config import Sandbox
from engine.core.errors import ConfigError
from engine.core.hooks import Hooks
from engine.core.ids import SessionId
from engine.core.lazy import regex
from engine.core.messages import FilePart, ImagePart, MediaPart
from engine.core.permission_types import Approver, Opinion, Rule
from engine.core.protocols import ContextKeeper, LeavingOut, Model, Snapshots, Store
from engine.core.settings import Settings
from engine.permission.policy import Policy
from engine.permission.rules.profiles import PROFILES
from engine.permission.user_policy import policy_of
from engine.process.secret_names import SecretVariables
from engine.providers.auth.auth_file import stored_key
from engine.session.open_store import DATABASES
from engine.store.memory import MEMORY, MemoryStore
from engine.tools.registry import Registry
from engine.tools.tool import Tool
from engine.tools.tool_context import EditDiagnostics
from engine.tools.tool_source import ToolSource

if TYPE_CHECKING:
    from engine.prompt.layers import PromptLayers
    from engine.session.engine_options import FolderSetup
    from engine.tools.edit.formatters import Diagnose, EditChecks

ModelChoice = str | Model
P = TypeVar("P")
V = TypeVar("V")

_SOURCE_MEMBERS = ("name", "run", "tools", "ready", "notices")
_SESSION_ID = regex(r"[A-Za-z0-9_-]{1,64}")


def require_port(name: str, value: P | None, default: Callable[[], P], *members: str) -> P:
    """Return a port, or its default. Raises `ConfigError` if it lacks a member."""
    if value is None:
        return default()
    # By its members, since a port is a protocol. A class has them too, but is no instance.
    missing = [member for member in members if not hasattr(value, member)]
    if missing or isinstance(value, type):
        raise ConfigError(f"{name} must be an object with {', '.join(members)}, not {value!r}")
    return value


def snapshots_of(snapshots: Snapshots | None, store: Store | str) -> Snapshots | None:
    """Return the snapshots port, which skips the file of the *store*; None: there is none. Raises `ConfigError`."""
    if snapshots is None:
        return None
    if isinstance(store, str) and isinstance(snapshots, LeavingOut):
        snapshots.leave_out(store)
    return require_port("snapshots", snapshots, lambda: snapshots, "take", "about_to_change", "diff", "read", "put")


def require_paths(paths: object) -> tuple[str, ...]:
    """Return *paths* as strings. Raises `ConfigError` if it is empty, or holds something else than paths."""
    # A string is iterable too: as a list of its characters it would name unintended files.
    items = tuple(cast("Iterable[object]", paths)) if isinstance(paths, Iterable) and not isinstance(paths, str) else ()
    named = tuple(os.fsdecode(cast("os.PathLike[str]", path)) for path in items if isinstance(path, (str, os.PathLike)))
    if not items or len(named) < len(items) or not all(named):
        raise ConfigError(f"paths must be a list of one or more, not {paths!r}")
    return named


def require_media(value: object) -> tuple[MediaPart, ...]:
    """Return *value* as attachments."""
    parts = tuple(cast("Sequence[object]", value)) if isinstance(value, (list, tuple)) else None
    if parts is None or not all(isinstance(part, (ImagePart, FilePart)) for part in parts):
        raise ConfigError(f"attachments are what `await engine.attach(...)` returns, in a list, not {value!r}")
    return cast("tuple[MediaPart, ...]", parts)


def require_settings(value: object, default: Settings) -> Settings:
    """Return the settings of a prompt; None: the *default*."""
    if value is None:
        return default
    if not isinstance(value, Settings):
        raise ConfigError(f"settings must be an engine.Settings, not {value!r}")
    return value


def registry_of(tools: Iterable[Tool]) -> Registry:
    """Return a session's tools."""
    try:
        items = tuple(tools)
    except TypeError as error:
        raise ConfigError(f"tools must be a sequence of tools, not {tools!r}") from error
    return Registry.of(items)


def configure_of(configure: Callable[[str], FolderSetup | None] | None) -> Callable[[str], FolderSetup | None] | None:
    """Return the function that sets sessions up by folder. Raises `ConfigError`."""
    if configure is not None and not callable(configure):
        raise ConfigError(f"configure must be a function of a folder, not {configure!r}")
    return configure


def sources_of(sources: Iterable[ToolSource]) -> tuple[ToolSource, ...]:
    """Return sources of tools."""
    try:
        several = tuple(sources)
    except TypeError as error:
        raise ConfigError(f"sources must be a sequence of tool sources, not {sources!r}") from error
    return tuple(require_port("a source of tools", source, _no_source, *_SOURCE_MEMBERS) for source in several)


def _no_source() -> ToolSource:
    raise ConfigError("a source of tools is None")


def require_type(value: V | None, kind: type[V]) -> V:
    """Return *value*, which must be of that class; for None, an instance with all defaults."""
    if value is None:
        return kind()
    instance = cast("object", value)
    if not isinstance(instance, kind):
        raise ConfigError(f"expected {kind.__name__}, got {instance!r}")
    return value


def absolute(path: str | os.PathLike[str], name: str = "cwd") -> str:
    """Return a folder's path, absolute; `~` is the home folder."""
    try:
        return str(Path(path).expanduser().absolute())
    except (TypeError, RuntimeError) as error:
        raise ConfigError(f"{name} must be the path of a directory, not {path!r}: {error}") from error


def require_session_id(value: object) -> SessionId | None:
    """Return *value* as the id of a new session, if it is one or None. Raises `ConfigError`."""
    # It becomes a part of file names.
    if value is not None and not (isinstance(value, str) and _SESSION_ID.fullmatch(value)):
        raise ConfigError(f"a session id has 1 to 64 of the characters a-z, A-Z, 0-9, _ and -, unlike {value!r}")
    return None if value is None else SessionId(value)


def existing_folder(path: str | os.PathLike[str]) -> str:
    """Return the absolute path of a folder. Raises `ConfigError` if there is none."""
    folder = absolute(path)
    if not Path(folder).is_dir():
        raise ConfigError(f"cwd must be a directory that exists, and {folder} is none", field="cwd")
    return folder


def store_of(store: Store | str | os.PathLike[str] | None) -> Store | str:
    """Return a store, or where to open one."""
    if isinstance(store, (str, os.PathLike)):
        place = os.fspath(store)
        # `fspath` may return bytes; SQLite takes an empty path for a temporary database.
        if not isinstance(cast("object", place), str) or not place.strip():
            raise ConfigError(f"store must be a path, the URL of a database or a store, not {store!r}")
        return place if place == MEMORY or place.startswith(DATABASES) else absolute(place, "store")
    return require_port("store", store, MemoryStore, "epoch", "put", "flushed", "load", "aclose")


def hooks_of(config: Config) -> Hooks:
    """Return the hooks of a configuration. Raises `ConfigError`."""
    if not config.hooks:
        return Hooks()
    # Imported here: most configurations have none.
    from engine.tools.claude_hooks.load import load_hooks

    return load_hooks(config.hooks)


def secrets_of(config: Config) -> SecretVariables:
    """Return the variables that processes of tools do not get. It reads the stored keys, which they don't show either."""
    with suppress(ConfigError):  # a file that can't be used is reported where a key is needed
        stored_key(config.auth_file, "")
    return SecretVariables(passed=config.pass_env, keys=config.key_variables)


def around_of(config: Config, diagnostics: Diagnose | EditDiagnostics | None) -> EditChecks | None:
    """Return the formatters and checkers of changed files; None: there are none. Raises `ConfigError`."""
    members = ("run", "has_checks", "check")
    if (
        diagnostics is not None
        and not callable(diagnostics)
        and not all(hasattr(diagnostics, name) for name in members)
    ):
        raise ConfigError(
            f"diagnostics must be an async function of a path, or an object with {', '.join(members)}, not {diagnostics!r}"
        )
    if diagnostics is None and not config.formatters and not config.checkers:
        return None
    # Imported here: most engines have none.
    from engine.sandbox.sandbox import SandboxLauncher
    from engine.tools.edit.formatters import EditChecks

    sandbox = config.sandbox or Sandbox(backend="auto")
    return EditChecks(
        formatters=tuple(config.formatters.values()),
        checkers=tuple(config.checkers.values()),
        diagnostics=diagnostics,
        launcher=SandboxLauncher(sandbox) if sandbox.backend in {"auto", "bwrap"} else None,
    )


def select_models(model: ModelChoice | Sequence[ModelChoice] | None, config: Config) -> tuple[ModelChoice, ...]:
    """Return the chain of models: the host's, or else the configured one."""
    if model is None:
        model = config.model_for()
    if model is None:
        raise ConfigError("no model was given, and the configuration names none: model='anthropic/claude-sonnet-4-5'")
    return config.chain(model) if isinstance(model, str) else as_model_chain(model)


def as_model_chain(model: ModelChoice | Sequence[ModelChoice]) -> tuple[ModelChoice, ...]:
    """Return a chain of at least one model."""
    choices = tuple(model) if isinstance(model, (list, tuple)) else (model,)
    if not choices:
        raise ConfigError("no model was given")
    for choice in choices:
        if not isinstance(choice, str) and not (hasattr(choice, "open") and hasattr(choice, "info")):
            raise ConfigError(f"a model is a name like 'anthropic/claude-sonnet-4-5' or a Model, not {choice!r}")
    return cast("tuple[ModelChoice, ...]", choices)


def titles_of(model: ModelChoice | None, config: Config) -> ModelChoice | None:
    """Return the model that gives sessions their titles; None: there is none."""
    choice = config.defaults.titles if model is None else model
    return None if choice is None else as_model_chain(choice)[0]


def parse_rules(rules: Iterable[str]) -> tuple[Rule, ...]:
    """Parse a host's rules."""
    several = cast("object", rules)
    texts = (
        tuple(cast("Iterable[object]", several))
        if isinstance(several, Iterable) and not isinstance(several, (str, bytes))
        # a string is iterable, too, so it must fail like any other wrong value
        else (None,)
    )
    if not all(isinstance(rule, str) for rule in texts):
        raise ConfigError(f"rules are a sequence of texts such as 'deny bash git push *', not {rules!r}")
    return tuple(map(_parse_rule, cast("tuple[str, ...]", texts)))


def _parse_rule(text: str) -> Rule:
    # Imported here: most hosts have none, and the parser imports TOML.
    from engine.permission.rules.rule_file import parse_rule

    try:
        return parse_rule(text, "the host's own")
    except ConfigError as error:
        raise ConfigError(f"the rule {text!r}: {error}") from error


def approver_of(approver: Approver | None, config: Config, profile: str | None, rules: Iterable[str]) -> Approver:
    """Return the approver: the host's own, or one for the rules of the configuration and the host."""
    own = parse_rules(rules)
    if approver is not None and (profile is not None or own):
        raise ConfigError("an approver decides instead of a profile and rules: pass one or the other")
    return require_port("approver", approver, lambda: _policy_of(config, profile, own), "judge", "grant")


def _policy_of(config: Config, profile: str | None, rules: tuple[Rule, ...]) -> Policy:
    if profile is not None and profile not in PROFILES:
        raise ConfigError(f"the profile is one of {', '.join(PROFILES)}, not {profile!r}")
    return policy_of(config, profile=profile, rules=rules)


def prompt_of(prompt: PromptLayers | None) -> PromptLayers | None:
    """Return the prompt layers."""
    # Checked without the class: most engines have no layers, and so need no import.
    if prompt is not None and not all(hasattr(prompt, name) for name in ("read", "allow_reading", "instructions")):
        raise ConfigError(f"prompt must be an engine.prompt.layers.PromptLayers, not {prompt!r}")
    return prompt


def keeper_of(keeper: ContextKeeper | None, config: Config) -> ContextKeeper:
    """Return the context keeper: the host's own, or the engine's with the configured options."""
    # Imported here: a host may bring its own.
    from engine.compaction.compaction_policy import Keeper

    options = config.compaction
    usual = partial(Keeper, auto=options.auto, clears=options.clear, reserve=options.reserve, tail=options.tail)
    return require_port("keeper", keeper, usual, "prune", "collapse", "wants_compaction", "compact", "is_blocked")


def opinion_of(opinion: Opinion | None) -> Opinion | None:
    """Return the function that may answer in the user's place."""
    if opinion is not None and not callable(opinion):
        raise ConfigError(f"opinion must be an async function of a query and a judgement, not {opinion!r}")
    return opinion
