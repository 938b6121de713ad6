"""Load shell commands as hooks, compatible with Claude Code's settings: `load_hooks(...)` returns `Hooks`.

Only the embedder's source is read, never a file in the folder that the agent works in: such a file comes with a cloned
repository, and its commands would run at once.
"""

from __future__ import annotations

import difflib
import json
import logging
import os
import re
import shlex
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, TypeVar, cast

import attrs

from engine.core.arguments import structure
from engine.core.errors import ConfigError, InvalidArguments
from engine.core.hooks import Hooks, Remark, Subject
from engine.tools.claude_hooks import call_events as calls
from engine.tools.claude_hooks import session_events as events
from engine.tools.claude_hooks.reply import HookPoint
from engine.tools.claude_hooks.run_command import ShellHook

# Claude Code's default.
TIMEOUT: Final = 600.0
# Events of Claude Code without a counterpart here: loading logs a warning, and goes on.
ABSENT: Final = frozenset(
    {"ConfigChange", "CwdChanged", "DirectoryAdded", "Elicitation", "ElicitationResult", "FileChanged"}
    | {"InstructionsLoaded", "MessageDisplay", "PermissionDenied", "PostModelSwitch", "PostToolBatch"}
    | {"PreModelSwitch", "Setup", "StopFailure", "SubagentStart", "TaskCreated", "UserPromptExpansion"}
    | {"WorktreeCreate", "WorktreeRemove"}
)

_log = logging.getLogger(__name__)

S = TypeVar("S", bound=Subject)
D = TypeVar("D", bound=Remark)


@attrs.frozen
class _Handler:
    """The settings of one command."""

    type: str
    command: str
    args: tuple[str, ...] | None = None
    timeout: float = attrs.field(default=TIMEOUT, validator=attrs.validators.gt(0))
    shell: str = "bash"
    once: bool = False
    env: Mapping[str, str] = attrs.field(factory=dict[str, str])
    statusMessage: str = ""  # noqa: N815  # as the protocol calls it


def load_hooks(
    source: Mapping[str, object] | str | os.PathLike[str], *, project: str | os.PathLike[str] | None = None
) -> Hooks:
    """Return the hooks of *source*. Not a checkpoint; a path is read at once.

    Args:
        source: settings like Claude Code's, or only their "hooks", or the path of such a JSON file.
        project: the folder for `CLAUDE_PROJECT_DIR`; by default each session's working directory.

    Raises:
        ConfigError: for unreadable or invalid settings. Hooks of events and types that only Claude Code has are left
            out, with one warning in the log: the other hooks of the file may guard something.
    """
    loaded, problems = _load(source, project)
    if problems:
        _log.warning("%s", "; ".join(problems))
    return loaded


def check_hooks(source: Mapping[str, object]) -> None:
    """Validate settings as `load_hooks` does, without a warning. Not a checkpoint. Raises `ConfigError`."""
    _load(source, None)


def _load(source: object, project: str | os.PathLike[str] | None) -> tuple[Hooks, list[str]]:
    """Return the hooks, and what was left out."""
    where, document = _document(source)
    # A switch of Claude Code's settings.
    if document.get("disableAllHooks") is True:
        return Hooks(), []
    # A settings file has many other sections; a mapping may be the hooks section itself.
    listed = document.get("hooks", document if isinstance(source, Mapping) else {})
    loader = _Loader(where, None if project is None else str(Path(project).absolute()))
    return loader.hooks(_object(where, listed)), loader.left_out


def _document(source: object) -> tuple[str, Mapping[str, object]]:
    if isinstance(source, Mapping):
        return "hooks", cast("Mapping[str, object]", source)
    if not isinstance(source, (str, os.PathLike)):
        raise ConfigError(f"hooks are loaded from a mapping or a path, not from {source!r}")
    path = Path(cast("str | os.PathLike[str]", source))
    try:
        value: object = json.loads(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"can't read the hooks of {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is no valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise ConfigError(f"{path} must hold an object, not {value!r}")
    return str(path), cast("Mapping[str, object]", value)


@attrs.frozen
class _Listed:
    """A command with its place in the settings, its matcher and its options."""

    place: str
    matcher: str
    handler: _Handler
    is_async: bool


@attrs.frozen
class _Loader:
    where: str
    project: str | None
    left_out: list[str] = attrs.field(factory=list[str], init=False)

    def hooks(self, document: Mapping[str, object]) -> Hooks:
        """Return the hooks of *document*, each at its point."""
        listed = {event: list(self._listed(event, groups)) for event, groups in document.items()}

        def at(point: HookPoint[S, D]) -> tuple[ShellHook[S, D], ...]:
            return tuple(self._hook(point, one) for one in listed.get(point.event, ()))

        return Hooks(
            session_start=at(events.SESSION_START),
            user_prompt=at(events.USER_PROMPT_SUBMIT),
            request=at(events.REQUEST),
            before_tool=at(calls.PRE_TOOL_USE),
            permission_request=at(calls.PERMISSION_REQUEST),
            after_tool=at(calls.POST_TOOL_USE),
            tool_failed=at(calls.POST_TOOL_USE_FAILURE),
            stop=at(events.STOP),
            sub_agent_stop=at(events.SUBAGENT_STOP),
            task_completed=at(events.TASK_COMPLETED),
            before_compaction=at(events.PRE_COMPACT),
            after_compaction=(*at(events.POST_COMPACT), *at(events.SESSION_START_AGAIN)),
            notification=at(events.NOTIFICATION),
            idle=(*at(events.NOTIFICATION_IDLE), *at(events.TEAMMATE_IDLE)),
            session_end=at(events.SESSION_END),
        )

    def _listed(self, event: str, groups: object) -> Iterator[_Listed]:
        if event in ABSENT:
            self.left_out.append(f"{self.where}: there is no event {event} here; its hooks are left out")
            return
        if event not in HOOK_EVENTS:
            close = difflib.get_close_matches(event, HOOK_EVENTS, n=1)
            hint = f"did you mean {close[0]}?" if close else f"there are: {', '.join(sorted(HOOK_EVENTS))}"
            raise ConfigError(f"{self.where}: there is no event {event!r}; {hint}")
        for number, raw in enumerate(_array(f"{self.where}: {event}", groups)):
            place = f"{self.where}: {event}[{number}]"
            group = _object(place, raw)
            if unknown := group.keys() - {"matcher", "hooks"}:
                raise ConfigError(f"{place}: there is no {', '.join(sorted(unknown))} here, only matcher and hooks")
            matcher = group.get("matcher", "")
            if not isinstance(matcher, str):
                raise ConfigError(f"{place}: the matcher must be a text, not {matcher!r}")
            for index, handler in enumerate(_array(f"{place}.hooks", group.get("hooks"))):
                at = f"{place}.hooks[{index}]"
                fields = _object(at, handler)
                kind = fields.get("type")
                if isinstance(kind, str) and kind != "command":
                    self.left_out.append(f"{at}: there is no hook of the type {kind!r} here, so it is left out")
                else:
                    yield _handler(at, matcher, fields)

    def _hook(self, point: HookPoint[S, D], listed: _Listed) -> ShellHook[S, D]:
        handler = listed.handler
        line = (handler.command, *handler.args) if handler.args is not None else (SHELL, "-c", "--", handler.command)
        return ShellHook(
            name=f"{point.event} ({_program(handler)})",
            timeout=handler.timeout,
            point=point,
            matches=_matcher(listed.place, listed.matcher),
            argv=line,
            is_blocking=not listed.is_async,
            project=self.project,
            env=handler.env,
        )


def _array(place: str, value: object) -> list[object] | tuple[object, ...]:
    if not isinstance(value, (list, tuple)):
        raise ConfigError(f"{place} must be an array, not {value!r}")
    return cast("list[object] | tuple[object, ...]", value)


def _object(place: str, value: object) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{place} must be an object, not {value!r}")
    return cast("Mapping[str, object]", value)


def _handler(place: str, matcher: str, raw: Mapping[str, object]) -> _Listed:
    fields = dict(raw)
    kind, is_async = fields.get("type"), fields.pop("async", False)
    if kind != "command":
        raise ConfigError(f"{place}: a hook's type must be 'command' here, not {kind!r}")
    if not isinstance(is_async, bool):
        raise ConfigError(f"{place}: async must be true or false, not {is_async!r}")
    try:
        handler = structure(_Handler, fields)
    except InvalidArguments as error:
        raise ConfigError(f"{place}: {error}") from error
    # Claude Code also knows PowerShell.
    if handler.shell != "bash":
        raise ConfigError(f"{place}: the shell must be 'bash' here, not {handler.shell!r}")
    return _Listed(place, matcher, handler, is_async)


def _program(handler: _Handler) -> str:
    """Return the command's program, for messages. The rest of the line may contain secrets."""
    try:
        words = [handler.command] if handler.args is not None else shlex.split(handler.command)
    except ValueError:
        words = handler.command.split()
    return Path(words[0]).name[:40] if words else "nothing"


def _matcher(place: str, pattern: str) -> Callable[[tuple[str, ...]], bool]:
    """Return the test of a matcher: all names, those in a list, or those that a regular expression finds."""
    if pattern in {"", "*"}:
        return lambda _: True
    if _NAMES.fullmatch(pattern):
        listed = frozenset(name.strip() for name in re.split(r"[|,]", pattern))
        # An event without names has nothing to compare, so all its hooks run.
        return lambda names: not names or not listed.isdisjoint(names)
    try:
        regex = re.compile(pattern)
    except re.error as error:
        raise ConfigError(f"{place}: the matcher {pattern!r} is no regular expression: {error}") from error
    return lambda names: not names or any(regex.search(name) for name in names)


# A list of names; anything else is a regular expression.
_NAMES: Final = re.compile(r"[\w\-, |]+")
HOOK_EVENTS: Final = frozenset(
    thing.event for module in (calls, events) for thing in vars(module).values() if isinstance(thing, HookPoint)
)
# Most hooks are written for bash; POSIX guarantees only sh.
SHELL: Final = "bash" if shutil.which("bash") else "sh"
