"""The settings of each session's own folder, for programs whose sessions are in many: a server, an editor's agent, a chat."""

from __future__ import annotations

import argparse
from pathlib import Path

import attrs

from engine.cli.agent_files import config_with_agents
from engine.cli.default_tools import default_tools, knowledge_for
from engine.cli.flags.config_flags import config_sources
from engine.cli.flags.permission_flags import PermissionChoice
from engine.cli.prompt_files import user_prompt_layers
from engine.cli.terminal.standard_streams import print_error
from engine.config.config import Config
from engine.permission.policy import Policy
from engine.permission.rules.profiles import DEFAULT
from engine.prompt.layers import PromptLayers
from engine.session.engine_options import FolderSetup
from engine.settings_file.config_sources import load_sources


@attrs.define(eq=False)
class FolderSettings:
    """Reads, for each session anew, what `engine run` would have in its folder: files and trust change meanwhile.

    Making it blocks, and raises `ConfigError`.

    Attributes:
        policy: the policy of all sessions, with the profile of no project: the one in which the program was started would
            decide about all others.
    """

    _args: argparse.Namespace
    _permissions: PermissionChoice
    policy: Policy = attrs.field(init=False)
    # They keep what they have fetched, so sessions share them.
    _layers: list[PromptLayers] = attrs.field(factory=list[PromptLayers], init=False)
    _printed: set[str] = attrs.field(factory=set[str], init=False)

    def __attrs_post_init__(self) -> None:
        user = load_sources(attrs.evolve(config_sources(self._args), cwd=None))
        self.policy = self._permissions.policy(user.config())

    @property
    def trusts(self) -> bool:
        """Whether every project counts as trusted."""
        return self._permissions.trusts

    def config(self, cwd: Path) -> Config:
        """Return the configuration of a folder, and print once what of it is ignored. It blocks. Raises `ConfigError`."""
        configured = config_with_agents(argparse.Namespace(**{**vars(self._args), "cwd": cwd}), self._report)
        return attrs.evolve(configured, sandbox=self._permissions.box(configured))

    def layers(self, config: Config) -> PromptLayers:
        """Return the prompt layers of a configuration."""
        for layers in self._layers:
            if layers.instructions == config.instructions:
                return layers
        self._layers.append(layers := user_prompt_layers(config, self._permissions))
        return layers

    def setup(self, cwd: str) -> FolderSetup:
        """Return what the sessions of a folder have. It blocks. Raises `ConfigError`, `StoreError`."""
        config = self.config(Path(cwd))
        layers = self.layers(config)
        return FolderSetup(
            config=config,
            tools=default_tools(config.sandbox, knowledge_for(config), layers, Path(cwd), config.all_agents),
            prompt=layers,
            profile=self._permissions.profile or config.profile or DEFAULT,
        )

    def _report(self, line: str) -> None:
        if line not in self._printed:
            self._printed.add(line)
            print_error(line)
