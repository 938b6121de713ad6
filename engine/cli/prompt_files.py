"""Where a user of the command line has instructions, skills and commands; and the task that a command stands for."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import attrs

from engine.cli.output import complain
from engine.cli.permission_flags import PermissionChoice
from engine.cli.terminal_text import visible
from engine.config.config import Config
from engine.core.errors import ConfigError
from engine.permission.user_policy import UserFiles
from engine.prompt.command_text import Command, words_of
from engine.prompt.commands import find_commands
from engine.prompt.layers import PromptLayers
from engine.prompt.workspace import COMMANDS, Place
from engine.settings_file.config_file import usual_path

# Of other harnesses, whose files people have.
_USER_FILES: Final = ("~/.claude/CLAUDE.md",)
_USER_SKILLS: Final = (
    "~/.claude/skills",
    "~/.agents/skills",
    "~/.config/opencode/skills",
    "~/.config/opencode/skill",
)
_USER_COMMANDS: Final = ("~/.claude/commands", "~/.config/opencode/commands", "~/.config/opencode/command")
# `/etc/hosts is wrong` is no command: nothing follows the name but a space.
_CALL: Final = re.compile(r"/([A-Za-z0-9][A-Za-z0-9:_-]*)(?:\s+(.*))?", re.DOTALL)


def usual_layers(config: Config, permissions: PermissionChoice) -> PromptLayers:
    """Return what the prompts of `engine run` are made of."""
    own = usual_path().parent
    trust = UserFiles.default().trust
    return PromptLayers(
        instructions=config.instructions,
        user_files=(str(own / "AGENTS.md"), *_USER_FILES),
        user_skills=(str(own / "skills"), *config.skills, *_USER_SKILLS),
        is_trusted=(lambda _: True) if permissions.trusts else trust.is_trusted,
        trust=trust.trust,
    )


@attrs.frozen(kw_only=True)
class Flags:
    """What goes before what a command wants.

    Attributes:
        config: the configuration.
        agent: the way of working that a flag names.
        model: the same of the model.
    """

    config: Config
    agent: str | None = None
    model: str | None = None


@attrs.frozen(kw_only=True)
class Task:
    """What is to be done.

    Attributes:
        text: what the model is told.
        agent: the way of working that a flag or a command wants; empty: none does.
        model: the same of the model.
    """

    text: str
    agent: str = ""
    model: str = ""


def task_of(text: str, words: Sequence[str], cwd: Path, layers: PromptLayers, flags: Flags) -> Task:
    """Return what `/name words…` stands for; any other text stands for itself. It blocks. Raises `ConfigError`."""
    called = _CALL.fullmatch(text.strip())
    if called is None:
        if words:
            raise ConfigError(f"put the task into quotes: {visible(' '.join(words)[:60])!r} stands beside it")
        return Task(text=text, agent=flags.agent or "", model=flags.model or "")
    name, rest = called[1], called[2] or ""
    place = Place.of(str(cwd), layers.home)
    folders = place.own_folders(COMMANDS)
    is_trusted = bool(folders) and layers.is_trusted(place.project)
    own = find_commands([str(usual_path().parent / "commands"), *_USER_COMMANDS], within=layers.home)
    commands = own.and_also(find_commands(folders if is_trusted else (), within=place.project))
    for path, why in commands.problems:
        complain(f"the command {visible(path)} can't be used: {visible(why)}")
    command = commands.get(name)
    if command is not None:
        text = command.render([*words_of(rest), *words])
        return Task(text=text, agent=_agent_of(command, flags), model=_model_of(command, flags))
    if os.path.lexists(f"/{name}"):  # a path, and the task begins with it
        return Task(text=text, agent=flags.agent or "", model=flags.model or "")
    untrusted = "" if is_trusted or not folders else f"\n{place.project} brings commands along, and is not trusted"
    raise ConfigError(f"there is no command /{name}; there is: {commands.like(name)}{untrusted}")


def _agent_of(command: Command, flags: Flags) -> str:
    """Return the way of working that counts. Raises `ConfigError` if it is not there: another one may do more."""
    if flags.agent:
        return flags.agent
    try:
        flags.config.check_primary(command.agent or None)
    except ConfigError as error:
        raise ConfigError(f"/{command.name} ({visible(command.path)}): {error}") from error
    return command.agent


def _model_of(command: Command, flags: Flags) -> str:
    """Return the model that counts; empty if there is none, or one that is not known here, which is told."""
    if flags.model or not command.model:
        return flags.model or ""
    # Imported here: few commands want a model, and providers cost time.
    from engine.agents.compat import translate_model
    from engine.providers.registry import split_name

    warnings: list[str] = []
    model = translate_model(command.model, warnings) or ""
    try:
        if model and not model.startswith("local:"):
            split_name(model, flags.config)
    except ConfigError as error:
        warnings, model = [f"{error}: it uses its caller's model"], ""
    for warning in warnings:
        complain(f"/{command.name}: {visible(warning)}")
    return model
