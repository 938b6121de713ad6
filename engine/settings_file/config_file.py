"""Read the user's configuration: TOML files, validated strictly, into a `Config`.

The user's file is the one that `--config` or `$ENGINE_CONFIG` names, or the one in the user's configuration folder. What
a project may add is in `project_config`; nothing else in the working directory is read: it may have come with a
repository, and could send keys to another server.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import attrs

from engine.config.config import Config
from engine.core.errors import ConfigError
from engine.providers.auth.auth_file import AuthFile
from engine.settings_file.build_config import build_config
from engine.settings_file.document import ConfigDocument, parse_document, read_document
from engine.settings_file.merge import merge
from engine.settings_file.variables import environment_document

VARIABLE: Final = "ENGINE_CONFIG"
# The administrator's files.
SYSTEM_FOLDER: Final = Path("/etc/engine")
SYSTEM_FILE: Final = "config.toml"
REQUIRED_FILE: Final = "required.toml"


def load_config(path: str | Path | None, env: Mapping[str, str]) -> Config:
    """Read the configuration of the user and of the machine, and the variables that set a part of it. Not a checkpoint.

    Args:
        path: the user's file; None: the one that `$ENGINE_CONFIG` names, or the default one.
        env: the environment.

    Raises:
        ConfigError: a file that was named can't be read, or the content is invalid.
    """
    documents = [*user_documents(path, env), environment_document(env), *required_documents()]
    return finish_config(build_config(merge([one for one in documents if one is not None])))


def finish_config(config: Config) -> Config:
    """Return *config* with the file of stored keys."""
    return attrs.evolve(config, auth_file=str(AuthFile.default().path))


def user_documents(
    path: str | Path | None, env: Mapping[str, str], system: Path = SYSTEM_FOLDER
) -> list[ConfigDocument]:
    """Return the files of the machine and of the user, the weaker first. It blocks. Raises `ConfigError`."""
    file, is_named = user_file(path, env)
    document = read_document(file, "user")
    if document is None and is_named:
        raise ConfigError(f"the configuration file {file} does not exist")
    return [one for one in (read_document(system / SYSTEM_FILE, "system"), document) if one is not None]


def required_documents(system: Path = SYSTEM_FOLDER) -> list[ConfigDocument]:
    """Return the administrator's limits. It blocks. Raises `ConfigError`."""
    document = read_document(system / REQUIRED_FILE, "required")
    return [] if document is None else [document]


def user_file(path: str | Path | None, env: Mapping[str, str]) -> tuple[Path, bool]:
    """Return the user's file, and whether it was named, so that it must exist. Raises `ConfigError`."""
    named = path or env.get(VARIABLE, "").strip()
    try:
        return (Path(named).expanduser(), True) if named else (usual_path(), False)
    except RuntimeError as error:  # `~name` of an unknown user
        raise ConfigError(f"can't read the configuration file {named}: {error}") from error


def usual_path() -> Path:
    """Return the default path of the user's configuration file."""
    # Imported here: not needed when a file is named.
    from platformdirs import user_config_path

    return user_config_path("engine", appauthor=False) / "config.toml"


def read_config(text: bytes, source: str) -> Config:
    """Parse *text*, a TOML document; *source* names it in errors. Raises `ConfigError`."""
    return build_config(merge([parse_document(text, source)]))
