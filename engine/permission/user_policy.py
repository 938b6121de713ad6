"""Build the policy of a user from the configuration and the user's files of grants and trusted folders."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from engine.config.config import Config
from engine.core.permission_types import Rule
from engine.core.value_base import Value
from engine.files.real_path import followed
from engine.permission.grants import grant_file, trust
from engine.permission.grants.grant_file import GrantFile
from engine.permission.policy import Policy
from engine.permission.rules import project_file
from engine.permission.rules.profiles import DEFAULT

if TYPE_CHECKING:
    from engine.permission.grants.trust import Trust


@attrs.frozen(eq=False, repr=False)
class UserFiles(Value):
    """The files that hold a user's decisions.

    Attributes:
        folder: where the files are.
        home: the user's home folder.
    """

    folder: Path
    home: Path = attrs.field(factory=lambda: Path("~").expanduser())

    @classmethod
    def default(cls) -> UserFiles:
        """Return the files in this user's state folder."""
        # Imported here: a caller that names a folder does not need it.
        from platformdirs import user_state_path

        return cls(user_state_path("engine", appauthor=False))

    @property
    def grants(self) -> GrantFile:
        """The grants for projects."""
        return GrantFile(self.folder / grant_file.NAME)

    @property
    def trust(self) -> Trust:
        """The trusted folders."""
        from engine.permission.grants.trust import Trust

        return Trust(self.folder / trust.NAME, self.home)


def user_policy(
    config: Config,
    files: UserFiles,
    *,
    profile: str | None = None,
    rules: tuple[Rule, ...] = (),
    trust_all: bool = False,
) -> Policy:
    """Return the policy of a user. Raises `ConfigError`.

    Args:
        config: the user's configuration.
        files: the user's grants and trusted folders.
        profile: overrides the configuration's.
        rules: rules for this run; they come after the user's.
        trust_all: trust every project during this run.
    """

    def is_trusted(folder: str) -> bool:
        return trust_all or files.trust.is_trusted(folder)

    def load_project_rules(cwd: str, root: str) -> tuple[Rule, ...]:
        return project_file.load_project_rules(cwd, root, is_trusted)

    policy = policy_of(config, profile=profile, rules=rules)
    policy.load_project_rules, policy.file = load_project_rules, files.grants
    places = tuple(followed(place) for place in (str(files.folder), config.source) if place)
    policy.layers = attrs.evolve(policy.layers, own_places=places)
    return policy


def policy_of(config: Config, *, profile: str | None = None, rules: tuple[Rule, ...] = ()) -> Policy:
    """Return the policy of a configuration, without files of its own. Raises `ConfigError`.

    Args:
        config: the configuration.
        profile: overrides the configuration's.
        rules: the rules of the host program, or of flags; they come after the user's.
    """
    return Policy(
        profile=profile or config.profile or DEFAULT, user=config.rules, host=rules, layers=config.rule_layers
    )
