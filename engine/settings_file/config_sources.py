"""All sources of the configuration of one run, from the machine's file to `-c`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import attrs

from engine.config.config import Config, suggest_names
from engine.core.errors import ConfigError
from engine.core.lazy import regex
from engine.core.value_base import Value
from engine.permission.project_root import find_project_root
from engine.permission.user_policy import UserFiles
from engine.settings_file.build_config import build_config
from engine.settings_file.config_file import (
    SYSTEM_FOLDER,
    finish_config,
    required_documents,
    user_documents,
    user_file,
)
from engine.settings_file.config_keys import Key, format_key, nearest_key, parse_key, unknown_part
from engine.settings_file.document import ConfigDocument, read_document
from engine.settings_file.merge import MergedConfig, merge
from engine.settings_file.project_config import IgnoredKey, has_more_than_rules, read_project_documents
from engine.settings_file.variables import environment_document

PROFILES: Final = "profiles"
_NAME: Final = regex(r"[A-Za-z0-9_-]+")


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ConfigSources(Value):
    """Where the configuration of a run comes from.

    Attributes:
        path: the user's file; None: `$ENGINE_CONFIG`, or the default one.
        env: the environment.
        settings: `KEY=VALUE` of the command line.
        profile_file: the name of a further file in the user's folder; empty: none.
        cwd: the working directory, for a project's files; None: they are not read.
        trusts: the project counts as trusted.
        plugins: what plugins add, the weakest of all.
        system: the folder of the administrator's files.
        files: the user's decisions; they say which projects are trusted.
    """

    path: str | Path | None = None
    env: Mapping[str, str]
    settings: tuple[str, ...] = ()
    profile_file: str = ""
    cwd: Path | None = None
    trusts: bool = False
    plugins: tuple[ConfigDocument, ...] = ()
    system: Path = SYSTEM_FOLDER
    files: UserFiles = attrs.field(factory=UserFiles.default)


@attrs.frozen(kw_only=True, eq=False, repr=False)
class LoadedConfig(Value):
    """The sources, read.

    Attributes:
        merged: all of them together.
        ignored: keys of a project's files that do not count.
        untrusted: a file of the project that was not read, because the project is not trusted; empty: none.
        root: the project's folder; empty: none.
    """

    merged: MergedConfig
    ignored: tuple[IgnoredKey, ...] = ()
    untrusted: str = ""
    root: str = ""

    def config(self) -> Config:
        """Return the configuration. Raises `ConfigError`."""
        return finish_config(build_config(self.merged))


def load_sources(sources: ConfigSources) -> LoadedConfig:
    """Read all sources. It blocks. Raises `ConfigError`, and `StoreError` if the list of trusted projects can't be read."""
    documents = [*sources.plugins, *user_documents(sources.path, sources.env, sources.system)]
    root = "" if sources.cwd is None else find_project_root(str(sources.cwd), home=str(sources.files.home))
    ignored: list[IgnoredKey] = []
    untrusted = ""
    if root and (sources.trusts or sources.files.trust.is_trusted(root)):
        own, ignored = read_project_documents(str(sources.cwd), root, merge(documents).values)
        documents += own
    elif root:
        untrusted = has_more_than_rules(str(sources.cwd), root)
    environment = environment_document(sources.env)
    documents += [
        *([profile_document(sources)] if sources.profile_file else []),
        *([] if environment is None else [environment]),
        *map(setting_document, sources.settings),
        *required_documents(sources.system),
    ]
    return LoadedConfig(merged=merge(documents), ignored=tuple(ignored), untrusted=untrusted, root=root)


def profile_document(sources: ConfigSources) -> ConfigDocument:
    """Return the file that `--profile-file` names. It blocks. Raises `ConfigError`."""
    name = sources.profile_file
    folder = user_file(sources.path, sources.env)[0].parent / PROFILES
    if not _NAME.fullmatch(name):
        raise ConfigError(f"--profile-file takes a name of letters, digits, - and _, not {name!r}: a file in {folder}")
    document = read_document(folder / f"{name}.toml", "profile file")
    if document is None:
        names = [path.stem for path in folder.glob("*.toml")] if folder.is_dir() else []
        raise ConfigError(f"there is no {folder / name}.toml: {suggest_names(name, names)}")
    return document


def setting_document(text: str) -> ConfigDocument:
    """Parse `KEY=VALUE`; a value that is no TOML is taken as a text. Raises `ConfigError`."""
    name, sign, value = text.partition("=")
    if not sign:
        raise ConfigError(f"-c takes KEY=VALUE, such as defaults.model=openai/gpt-5.6, not {text!r}")
    key = require_key(name.strip())
    document: dict[str, object] = {key[-1]: parse_value(value)}
    for part in reversed(key[:-1]):
        document = {part: document}
    return ConfigDocument("command line", f"-c {format_key(key)}", document)


def require_key(text: str) -> Key:
    """Parse a key that may be set. Raises `ConfigError` if there is none of that name."""
    key = parse_key(text)
    unknown = unknown_part(key)
    if unknown is not None:
        position, names = unknown
        near = nearest_key(key[: position + 1], names)
        whole = (*near, *key[position + 1 :])
        shown = format_key(whole if near and unknown_part(whole) is None else near)
        hint = f"did you mean {shown}?\nNext: engine config explain {shown}"
        raise ConfigError(f"unknown key {format_key(key)}: {hint if shown else suggest_names(key[position], names)}")
    return key


def parse_value(text: str) -> object:
    """Parse a TOML value; what is none is a text."""
    try:
        # On one line: a second one could be another key.
        document = tomllib.loads(f"value = {text}") if "\n" not in text else {}
    except ValueError:
        document = {}
    return document["value"] if list(document) == ["value"] else text
