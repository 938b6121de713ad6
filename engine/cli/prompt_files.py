"""Where the user's instructions, skills and custom commands are, and how `/name` becomes a task."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs

from engine.cli.flags.permission_flags import PermissionChoice
from engine.cli.terminal.standard_streams import print_note
from engine.cli.terminal.terminal_text import escape_control_chars
from engine.config.config import Config
from engine.core.errors import ConfigError
from engine.core.lazy import regex
from engine.core.value_base import Value
from engine.permission.user_policy import UserFiles
from engine.prompt.layers import PromptLayers
from engine.prompt.workspace import COMMANDS, Workspace
from engine.settings_file.config_file import usual_path

if TYPE_CHECKING:
    from engine.prompt.command_text import Command
    from engine.prompt.commands import Commands

# Files of other agents that users already have.
_USER_FILES: Final = ("~/.claude/CLAUDE.md",)
_USER_SKILLS: Final = (
    "~/.claude/skills",
    "~/.agents/skills",
    "~/.config/opencode/skills",
    "~/.config/opencode/skill",
)
_USER_COMMANDS: Final = ("~/.claude/commands", "~/.config/opencode/commands", "~/.config/opencode/command")
# `/etc/hosts is wrong` is not a command: the name must be followed by a space.
_COMMAND_CALL: Final = regex(r"/([A-Za-z0-9][A-Za-z0-9:_-]*)(?:\s+(.*))?", re.DOTALL)


def user_prompt_layers(config: Config, permissions: PermissionChoice) -> PromptLayers:
    """Return the prompt layers of `engine run`."""
    own = usual_path().parent
    trust = UserFiles.default().trust
    folders = "\n".join(f"- {folder}" for folder in permissions.folders)
    return PromptLayers(
        instructions=config.instructions,
        user_files=(str(own / "AGENTS.md"), *_USER_FILES),
        user_skills=(str(own / "skills"), *config.skills, *_USER_SKILLS),
        plugins=config.plugins,
        is_trusted=(lambda _: True) if permissions.trusts else trust.is_trusted,
        trust=trust.trust,
        sources={"folders": lambda _: f"Further directories of this task:\n{folders}"} if folders else {},
    )


@attrs.frozen(kw_only=True, eq=False, repr=False)
class TaskFlags(Value):
    """Flags that override what a custom command sets.

    Attributes:
        config: the configuration.
        agent: the agent that a flag names.
        model: the model that a flag names.
    """

    config: Config
    agent: str | None = None
    model: str | None = None


@attrs.frozen(kw_only=True, eq=False, repr=False)
class PromptTask(Value):
    """A task for the agent.

    Attributes:
        text: the prompt.
        agent: the agent that a flag or the command names; empty: none.
        model: the model that a flag or the command names; empty: none.
    """

    text: str
    agent: str = ""
    model: str = ""


def expand_task(text: str, words: Sequence[str], cwd: Path, layers: PromptLayers, flags: TaskFlags) -> PromptTask:
    """Expand `/name words…` to the text of that command; return any other text unchanged. It blocks. Raises `ConfigError`."""
    from engine.prompt.command_text import split_words

    unchanged = PromptTask(text=text, agent=flags.agent or "", model=flags.model or "")
    match = _COMMAND_CALL.fullmatch(text.strip())
    if match is None:
        if words:
            raise ConfigError(
                f"too many arguments: {escape_control_chars(' '.join(words)[:60])!r} is a separate argument\nNext: quote the task"
            )
        return unchanged
    name, rest = match[1], match[2] or ""
    commands, untrusted_project = custom_commands(cwd, layers)
    command = commands.get(name)
    if command is not None:
        text = command.render([*split_words(rest), *words])
        return PromptTask(text=text, agent=_select_agent(command, flags), model=_select_model(command, flags))
    if os.path.lexists(f"/{name}"):  # the task begins with a path
        return unchanged
    unknown = f"unknown command /{name}; {commands.suggest(name)}"
    if untrusted_project:
        raise ConfigError(
            f"{unknown}\n{untrusted_project} defines commands, but is not trusted\nNext: engine permissions trust"
        )
    raise ConfigError(f"{unknown}\nNext: begin the task with a word, or define the command")


def custom_commands(cwd: Path, layers: PromptLayers) -> tuple[Commands, str]:
    """Return the commands that can be used in a folder, and its project if that has more but is not trusted. It blocks."""
    workspace = Workspace.of(str(cwd), layers.home)
    folders = workspace.own_folders(COMMANDS)
    # A project's commands are prompts by strangers: only a trusted project may define any.
    is_trusted = bool(folders) and layers.is_trusted(workspace.project)
    commands = _load_commands(workspace, layers, folders if is_trusted else [])
    return commands, workspace.project if folders and not is_trusted else ""


def _load_commands(workspace: Workspace, layers: PromptLayers, project_folders: Sequence[str]) -> Commands:
    """Return the user's commands and those of the project's folders; report files that can't be used."""
    from engine.prompt.commands import find_commands

    # The user's commands come first: a project can't replace one of them.
    own = find_commands([str(usual_path().parent / "commands"), *_USER_COMMANDS], within=layers.home)
    for plugin in layers.plugins:
        own = own.merged_with(find_commands(plugin.commands, plugin=plugin))
    commands = own.merged_with(find_commands(project_folders, within=workspace.project))
    for path, why in commands.problems:
        print_note(f"command {escape_control_chars(path)} can't be used: {escape_control_chars(why)}")
    return commands


def _select_agent(command: Command, flags: TaskFlags) -> str:
    """Return the agent of the flag or the command. Raises `ConfigError` if it is unknown: another one may be allowed more."""
    if flags.agent:
        return flags.agent
    try:
        flags.config.check_primary(command.agent or None)
    except ConfigError as error:
        raise ConfigError(f"/{command.name} ({escape_control_chars(command.path)}): {error}") from error
    return command.agent


def _select_model(command: Command, flags: TaskFlags) -> str:
    """Return the model of the flag or the command; empty if there is none. An unknown model is reported and ignored."""
    if flags.model or not command.model:
        return flags.model or ""
    # Imported here: few commands name a model, and providers take long to import.
    from engine.agents.compat import translate_model
    from engine.providers.registry import split_name

    warnings: list[str] = []
    model = translate_model(command.model, warnings) or ""
    try:
        if model and not model.startswith("local:"):
            split_name(model, flags.config)
    except ConfigError as error:
        warnings, model = [f"{error}: using the default model"], ""
    for warning in warnings:
        print_note(f"/{command.name}: {escape_control_chars(warning)}")
    return model
