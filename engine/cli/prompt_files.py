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
from engine.cli.text import visible
from engine.config import Config
from engine.config_file import usual_path
from engine.errors import ConfigError
from engine.permission.standing import UserFiles
from engine.prompt.command_text import words_of
from engine.prompt.commands import find_commands
from engine.prompt.layers import PromptLayers
from engine.prompt.place import COMMANDS, Place

# Of other harnesses, whose files people have.
_USER_FILES: Final = ("~/.claude/CLAUDE.md",)
_USER_SKILLS: Final = ("~/.claude/skills", "~/.agents/skills")
_USER_COMMANDS: Final = ("~/.claude/commands",)
# `/etc/hosts is wrong` is no command: nothing follows the name but a space.
_CALL: Final = re.compile(r"/([A-Za-z0-9][A-Za-z0-9:_-]*)(?:\s+(.*))?", re.DOTALL)


def usual_layers(config: Config, permissions: PermissionChoice) -> PromptLayers:
    """Return what the prompts of `engine run` are made of."""
    own = usual_path().parent
    trust = UserFiles.usual().trust
    return PromptLayers(
        instructions=config.instructions,
        user_files=(str(own / "AGENTS.md"), *_USER_FILES),
        user_skills=(str(own / "skills"), *config.skills, *_USER_SKILLS),
        is_trusted=(lambda _: True) if permissions.trusts else trust.is_trusted,
        trust=trust.trust,
    )


@attrs.frozen(kw_only=True)
class Task:
    """What is to be done.

    Attributes:
        text: what the model is told.
        agent: the way of working that a command wants; empty: it does not say.
        model: the same of the model.
    """

    text: str
    agent: str = ""
    model: str = ""


def task_of(text: str, words: Sequence[str], cwd: Path, layers: PromptLayers) -> Task:
    """Return what `/name words…` stands for; any other text stands for itself. It blocks. Raises `ConfigError`."""
    called = _CALL.fullmatch(text.strip())
    if called is None:
        if words:
            raise ConfigError(f"put the task into quotes: {visible(' '.join(words)[:60])!r} stands beside it")
        return Task(text=text)
    name, rest = called[1], called[2] or ""
    place = Place.of(str(cwd), layers.home)
    folders = place.own_folders(COMMANDS)
    is_trusted = bool(folders) and layers.is_trusted(place.project)
    commands = find_commands([str(usual_path().parent / "commands"), *_USER_COMMANDS, *(folders if is_trusted else ())])
    for path, why in commands.problems:
        complain(f"the command {visible(path)} can't be used: {visible(why)}")
    command = commands.get(name)
    if command is not None:
        return Task(text=command.render([*words_of(rest), *words]), agent=command.agent, model=command.model)
    if os.path.lexists(f"/{name}"):  # a path, and the task begins with it
        return Task(text=text)
    untrusted = "" if is_trusted or not folders else f"\n{place.project} brings commands along, and is not trusted"
    raise ConfigError(f"there is no command /{name}; there is: {commands.like(name)}{untrusted}")
