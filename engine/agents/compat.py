"""Translate fields of other programs' agent files: names of tools, models and permissions.

What has no equivalent here causes a warning and grants nothing: when in doubt, an agent gets fewer rights than its author
intended.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from engine.core.errors import ConfigError
from engine.core.events import Verdict
from engine.core.permission_types import Rule

if TYPE_CHECKING:
    from engine.files.yaml_text import Value

Warnings = list[str]

# Keyed by the name in lower case, without `_` and `-`.
_TOOLS: Final[Mapping[str, tuple[str, ...]]] = {
    "read": ("read",),
    "notebookread": ("read",),
    "write": ("write",),
    "edit": ("edit", "multi_edit", "apply_patch"),
    "multiedit": ("multi_edit",),
    "patch": ("apply_patch",),
    "applypatch": ("apply_patch",),
    # A background command is of no use without the tools that read and stop it.
    "bash": ("bash", "bash_output", "bash_stop"),
    "bashoutput": ("bash_output",),
    "killshell": ("bash_stop",),
    "killbash": ("bash_stop",),
    "bashstop": ("bash_stop",),
    "grep": ("grep",),
    "glob": ("glob",),
    "ls": ("list",),
    "list": ("list",),
    "webfetch": ("web_fetch",),
    "websearch": ("web_search",),
    "todowrite": ("todo_write",),
    "todoread": ("todo_read",),
    # Newer versions of Claude Code call it Agent.
    "task": ("task", "task_output", "task_stop"),
    "agent": ("task", "task_output", "task_stop"),
    "taskoutput": ("task_output",),
    "taskstop": ("task_stop",),
    "skill": ("skill",),
    "question": ("question",),
    "askuserquestion": ("question",),
    "exitplanmode": ("plan_exit",),
    "planexit": ("plan_exit",),
}
# Other programs' permissions, and ours.
_RIGHTS: Final[Mapping[str, str]] = {
    "*": "*",
    "edit": "edit",
    "write": "edit",
    "patch": "edit",
    "read": "read",
    # Searching shows file contents, so it is reading here.
    "glob": "read",
    "grep": "read",
    "list": "read",
    "bash": "bash",
    "task": "task",
    "webfetch": "web",
    "websearch": "web",
    # OpenCode's permission for paths outside of the project.
    "external_directory": "outside",
    "skill": "skill",
    "question": "question",
    "todowrite": "todo",
    "todoread": "todo",
}
_ACTIONS: Final[Mapping[str, Verdict]] = {"allow": "allow", "ask": "ask", "deny": "deny"}
# Claude Code's short names. Which model they mean changes with its releases, so they are not translated.
_ALIASES: Final = frozenset({"sonnet", "opus", "haiku", "sonnet[1m]", "opusplan", "best", "default"})


def translate_tools(names: Iterable[str], warnings: Warnings) -> tuple[str, ...]:
    """Return our names of tools; names of no built-in tool are kept, as a host may have defined them."""
    tools: list[str] = []
    for name in (each.strip() for each in names):
        plain = name.lower().replace("_", "").replace("-", "")
        if plain in _TOOLS:
            tools += _TOOLS[plain]
        # Claude Code's `Bash(git:*)`. Granting all of bash instead would be more than the author allowed.
        elif "(" in name:
            warnings.append(f"the tool {name[:60]!r} is ignored: to allow only some calls of a tool, use `rules`")
        elif name:
            tools.append(name)
    return tuple(dict.fromkeys(tools))


def includes_all(names: Iterable[str]) -> bool:
    """Return whether a list of tools contains `*`, which stands for all of them."""
    return any(name.strip() == "*" for name in names)


def translate_model(name: str, warnings: Warnings) -> str | None:
    """Return our name of a model; None: use the caller's model."""
    name = name.strip()
    if name in {"", "inherit"}:
        return None
    if name.lower() in _ALIASES:
        warnings.append(f"the model {name!r} is a name of another program's: it uses its caller's model")
        return None
    # Without a host the same name may be offered by several, at different prices.
    if "/" not in name.strip("/") and not name.startswith("local:"):
        warnings.append(f"the model {name[:60]!r} is not written host/model: it uses its caller's model")
        return None
    return name


def translate_permissions(permission: Value, origin: str, warnings: Warnings) -> tuple[Rule, ...]:
    """Translate another program's `permission` field into rules."""
    if isinstance(permission, str):
        return tuple(_rules("*", permission, origin, warnings))
    if not isinstance(permission, Mapping):
        warnings.append("`permission` is not a map of permissions, so it is ignored and allows nothing")
        return ()
    return tuple(
        rule for name, setting in permission.items() for rule in _permission_rules(str(name), setting, origin, warnings)
    )


def _permission_rules(name: str, setting: Value, origin: str, warnings: Warnings) -> Iterable[Rule]:
    right = _RIGHTS.get(name)
    if right is None:
        warnings.append(f"the permission {name[:60]!r} is not known here")
        return
    if isinstance(setting, Mapping):
        for pattern, action in setting.items():
            yield from _rules(right, action, origin, warnings, str(pattern))
    else:
        yield from _rules(right, setting, origin, warnings)


def _rules(right: str, action: Value, origin: str, warnings: Warnings, pattern: str = "*") -> Iterable[Rule]:
    # An unreadable action counts as the strictest: a typo must not grant anything.
    word = action.lower() if isinstance(action, str) else ""
    parsed_action = _ACTIONS.get(word)
    effective: Verdict = parsed_action or "deny"
    if parsed_action is None:
        warnings.append(f"the permission {right!r} is allow, ask or deny, not {str(action)[:60]!r}: it counts as deny")
    try:
        yield Rule(action=effective, permission=right, pattern=pattern, origin=origin)
    except ConfigError as error:
        warnings.append(f"the permission {right!r}: {error}")
