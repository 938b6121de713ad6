"""The variables of the environment that the engine reads, in one table.

Those that set a key of the configuration are a source of it, stronger than files. `docs/reference/configuration.md` has
the same table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import attrs

from engine.core.value_base import Value
from engine.settings_file.config_keys import Key
from engine.settings_file.document import ConfigDocument

PREFIX: Final = "ENGINE_"


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Variable(Value):
    """A variable.

    Attributes:
        name: its name.
        help: what it is for.
        key: the key of the configuration that it sets; empty: none.
    """

    name: str
    help: str
    key: Key = ()


VARIABLES: Final = (
    Variable(name="ENGINE_CONFIG", help="the user's configuration file, as `--config`"),
    Variable(name="ENGINE_MODEL", help="the default model", key=("defaults", "model")),
    Variable(name="ENGINE_AGENT", help="the default agent", key=("defaults", "agent")),
    Variable(name="ENGINE_PROFILE", help="the permission profile", key=("permissions", "profile")),
    Variable(name="ENGINE_MAX_COST", help="a limit in dollars, as `--max-cost`"),
    Variable(name="ENGINE_NO_INPUT", help="1: ask nothing, as `--no-input`"),
    Variable(name="ENGINE_COLOR", help="when to use colours, as `--color`"),
    Variable(name="ENGINE_LOG", help="the debug log, as `--debug-log`"),
    Variable(name="ENGINE_STORE", help="where sessions are stored, as `--store`"),
    Variable(name="ENGINE_URL", help="the server of `engine attach` and of clients"),
    Variable(name="ENGINE_TOKEN", help="the token for that server"),
    Variable(name="ENGINE_ACCESSIBLE", help="1: chats print lines and redraw nothing; 0: not even if configured"),
    Variable(name="ENGINE_WEB_SEARCH", help="the program of the tool `web_search`"),
)
# Those that the engine sets for programs that it starts. It does not read them, so a session inside another one is fine.
FOR_CHILDREN: Final = (
    Variable(name="ENGINE_CALL", help="commands: the call that started them"),
    Variable(name="ENGINE_SESSION_ID", help="shell commands as hooks: the session"),
    Variable(name="ENGINE_PROJECT_DIR", help="shell commands as hooks: the project's folder"),
    Variable(name="ENGINE_HOOK_EVENT", help="shell commands as hooks: the event"),
    Variable(name="ENGINE_PLUGIN_ROOT", help="shell commands as hooks: the folder of their plugin"),
    Variable(name="ENGINE_SESSION", help="`--notify`: the session"),
    Variable(name="ENGINE_QUESTION", help="`--notify`: what is asked"),
    Variable(name="ENGINE_REQUEST", help="`--notify`: the question's id"),
    Variable(name="ENGINE_LOCAL_KEY", help="the server of a local model: its key"),
)


def environment_document(env: Mapping[str, str]) -> ConfigDocument | None:
    """Return what variables set; None if they set nothing."""
    values: dict[str, dict[str, object]] = {}
    for variable in VARIABLES:
        text = env.get(variable.name, "").strip()
        if variable.key and text:
            section, name = variable.key
            values.setdefault(section, {})[name] = text
    return _EnvironmentDocument("environment", "the environment", values) if values else None


class _EnvironmentDocument(ConfigDocument):
    def location(self, path: tuple[str | int, ...]) -> str:
        """Return the variable that sets a value."""
        return next((f"${one.name}" for one in VARIABLES if one.key and one.key == path), self.source)


def unknown_variables(env: Mapping[str, str]) -> Iterator[str]:
    """Yield a warning for each variable that looks like one of the engine's, and is none."""
    known = {variable.name for variable in (*VARIABLES, *FOR_CHILDREN)}
    for name in sorted(env):
        if name.startswith(PREFIX) and name not in known:
            yield f"unknown variable {name}: {_hint(name)}"


def _hint(name: str) -> str:
    # Imported here: needed only for a wrong name.
    from difflib import get_close_matches

    # Without the prefix: because of it, each name would be like every other one.
    names = [variable.name.removeprefix(PREFIX) for variable in VARIABLES]
    near = get_close_matches(name.removeprefix(PREFIX), names, n=1)
    return f"did you mean {PREFIX}{near[0]}?" if near else "the engine does not read it"
