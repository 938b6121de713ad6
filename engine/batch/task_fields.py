"""From the members of a JSON object to a `BatchTask`: each member is checked, and an unknown one is named."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, cast

import attrs

from engine.batch.batch_task import COMMAND_TIMEOUT, MAX_ATTEMPTS, MAX_ID_CHARS, BatchTask, TaskCommand, short_hash
from engine.core.errors import ConfigError
from engine.core.settings import Limits
from engine.core.value_base import Value
from engine.permission.rules.profiles import PROFILES

_LIMITS: Final = ("steps", "tokens", "cost", "seconds")
_MAX_PROMPT_BYTES: Final = 4_194_304


class BadTask(Exception):
    """A task can't be run as it is written; the message says what is wrong."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class TaskSource(Value):
    """What the fields of a file's tasks are read by.

    Attributes:
        folder: relative paths in tasks begin here.
        trusts: its author may run commands (`setup`, `check`, `env`), and choose a wider profile.
        profile: the profile of the command, which untrusted tasks can only make narrower.
    """

    folder: Path
    trusts: bool = False
    profile: str = "ask"


def parse_task(fields: Mapping[str, object], source: TaskSource, *, line: int = 0, id_text: str = "") -> BatchTask:
    """Return the task of a JSON object. It blocks: folders and the prompt's file are looked at. Raises `BadTask`.

    Args:
        fields: the members of the object.
        source: what they are read by.
        line: where it is in its file.
        id_text: what a task without an id is named by: the hash of this, by default of the fields.
    """
    unknown = [name for name in fields if name not in _PARSERS]
    if unknown:
        raise BadTask(f"unknown field {unknown[0]!r}{_nearest(unknown[0])}")
    values: dict[str, object] = {}
    for name, value in fields.items():
        if value is None:
            continue
        try:
            values[name] = _PARSERS[name](value)
        except (ConfigError, ValueError, TypeError) as error:
            raise BadTask(f"{name}: {error}") from error
    if "id" not in values:
        values["id"] = short_hash(id_text or json.dumps(fields, sort_keys=True))
    values["prompt"] = _prompt(values, source)
    task = BatchTask(**values, line=line)  # type: ignore[arg-type]  # each is checked by its parser
    return _check_trust(_with_folders(task, source), source)


def _prompt(values: dict[str, object], source: TaskSource) -> str:
    """Return the prompt, or what its file holds. Raises `BadTask`."""
    name = cast("str | None", values.pop("prompt_file", None))
    if (name is None) == ("prompt" not in values):
        raise BadTask("it needs either prompt or prompt_file")
    if name is None:
        return cast("str", values["prompt"])
    path = source.folder / name
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_PROMPT_BYTES + 1)
        if len(data) > _MAX_PROMPT_BYTES:
            raise BadTask(f"prompt_file: {path} has more than {_MAX_PROMPT_BYTES:,} bytes")
        return _text(data.decode("utf-8-sig"))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise BadTask(f"prompt_file: {path}: {reason}") from error


def _with_folders(task: BatchTask, source: TaskSource) -> BatchTask:
    """Return the task with whole paths. Raises `BadTask` if there is no such folder."""
    if task.cwd and task.repo:
        raise BadTask("it has cwd and repo: choose one")
    if task.in_place and not task.cwd:
        raise BadTask("in_place needs cwd")
    if task.ref != "HEAD" and not task.repo:
        raise BadTask("ref needs repo")
    return attrs.evolve(
        task, cwd=_existing("cwd", task.cwd, source.folder), repo=_existing("repo", task.repo, source.folder)
    )


def _existing(name: str, text: str, folder: Path) -> str:
    """Return the whole path of a folder; empty for none. Raises `BadTask` if there is no such folder."""
    if not text:
        return ""
    try:
        path = (folder / Path(text).expanduser()).resolve()
        is_there = path.is_dir()
    except (OSError, RuntimeError) as error:  # a name that is too long, `~name` of an unknown user
        raise BadTask(f"{name}: {error}") from error
    if not is_there:
        raise BadTask(f"{name}: {path} is not a directory")
    return str(path)


def _check_trust(task: BatchTask, source: TaskSource) -> BatchTask:
    """Return the task, if its author may do what it does. Raises `BadTask`."""
    if source.trusts:
        return task
    if task.needs_trust:
        raise BadTask("setup, check and env run commands of the task's author: --trust-tasks allows them")
    if task.profile and _width(task.profile) > _width(source.profile):
        raise BadTask(
            f"profile {task.profile!r} allows more than {source.profile!r}: --trust-tasks lets tasks choose it"
        )
    return task


def _width(profile: str) -> int:
    # From the strictest on.
    return ("read-only", "ask", "auto-edit", "full").index(profile)


def _nearest(name: str) -> str:
    # Imported here: needed only for a wrong name.
    from difflib import get_close_matches

    similar = get_close_matches(name, list(_PARSERS), n=1)
    return f": did you mean {similar[0]!r}?" if similar else ""


# ---- one member ------------------------------------------------------------------------------------------------------


def _text(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"must be a text that is not empty, not {_shown(value)}")
    if "\0" in value:
        raise ValueError("holds a NUL character")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise ValueError("holds half of a surrogate pair, which is no character") from error
    return value


def _id(value: object) -> str:
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else _text(value)
    if len(text) > MAX_ID_CHARS or not text.isprintable():
        raise ValueError(f"must have at most {MAX_ID_CHARS} printable characters, not {_shown(text)}")
    return text


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"must be true or false, not {_shown(value)}")
    return value


def _seconds(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf:
        raise ValueError(f"must be a number of seconds above 0, not {_shown(value)}")
    return float(value)


def _attempts(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_ATTEMPTS:
        raise ValueError(f"must be a whole number from 1 to {MAX_ATTEMPTS}, not {_shown(value)}")
    return value


def _members(value: object, names: tuple[str, ...]) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise TypeError(f"must be an object, not {_shown(value)}")
    members = cast("dict[str, object]", value)
    unknown = [name for name in members if names and name not in names]
    if unknown:
        raise ValueError(f"unknown field {unknown[0]!r}; it may have {', '.join(names)}")
    return members


def _limits(value: object) -> Limits:
    return Limits(**_members(value, _LIMITS))  # type: ignore[arg-type]  # it checks them


def _command(value: object) -> TaskCommand:
    if isinstance(value, str):
        return TaskCommand(command=_text(value))
    members = _members(value, ("command", "timeout"))
    if "command" not in members:
        raise ValueError("command is missing")
    return TaskCommand(command=_text(members["command"]), timeout=_seconds(members.get("timeout", COMMAND_TIMEOUT)))


def _env(value: object) -> tuple[tuple[str, str], ...]:
    members = _members(value, ())
    for name, text in members.items():
        if not name or "=" in name or "\0" in name or not isinstance(text, str) or "\0" in text:
            raise ValueError(f"{name!r} must be the name of a variable, with a text")
    return tuple(sorted(cast("dict[str, str]", members).items()))


def _schema(value: object) -> str:
    # Imported here: few tasks have one.
    from engine.session.structured_output import answer_schema

    text = json.dumps(value)
    answer_schema(text)
    return text


def _metadata(value: object) -> str:
    return json.dumps(_members(value, ()))


def _profile(value: object) -> str:
    if value not in PROFILES:
        raise ValueError(f"must be one of {', '.join(PROFILES)}, not {_shown(value)}")
    return cast("str", value)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"


_PARSERS: Final[Mapping[str, Callable[[object], object]]] = {
    "id": _id,
    "prompt": _text,
    "prompt_file": _text,
    "cwd": _text,
    "in_place": _flag,
    "repo": _text,
    "ref": _text,
    "model": _text,
    "agent": _text,
    "profile": _profile,
    "limits": _limits,
    "timeout": _seconds,
    "attempts": _attempts,
    "setup": _command,
    "check": _command,
    "env": _env,
    "output_schema": _schema,
    "metadata": _metadata,
}
