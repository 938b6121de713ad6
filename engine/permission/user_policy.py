"""The rules as a user has them: with the files of what was allowed and of what is trusted, in the user's own folder for such things."""

from __future__ import annotations

from pathlib import Path

import attrs

from engine.config.config import Config
from engine.core.permission_types import Rule
from engine.permission.grants import grant_file, trust
from engine.permission.grants.grant_file import GrantFile
from engine.permission.grants.trust import Trust
from engine.permission.policy import Policy
from engine.permission.rules import project_file
from engine.permission.rules.profiles import DEFAULT


@attrs.frozen
class UserFiles:
    """What a user has decided so far, by file.

    Attributes:
        folder: where the files are.
        home: the user's home folder.
    """

    folder: Path
    home: Path = attrs.field(factory=lambda: Path("~").expanduser())

    @classmethod
    def usual(cls) -> UserFiles:
        """Return those of this user."""
        # Imported here: who names a folder does not need to look for one.
        from platformdirs import user_state_path

        return cls(user_state_path("engine", appauthor=False))

    @property
    def grants(self) -> GrantFile:
        """What was allowed for projects."""
        return GrantFile(self.folder / grant_file.NAME)

    @property
    def trust(self) -> Trust:
        """Which folders are trusted."""
        return Trust(self.folder / trust.NAME, self.home)


def user_policy(
    config: Config,
    files: UserFiles,
    *,
    profile: str | None = None,
    rules: tuple[Rule, ...] = (),
    trusts_all: bool = False,
) -> Policy:
    """Return the rules of a user. Raises `ConfigError`.

    Args:
        config: what the user configures.
        files: what the user has decided.
        profile: instead of the configuration's.
        rules: for this run, after the user's.
        trusts_all: whatever folder is worked in is trusted, for this run.
    """

    def is_trusted(folder: str) -> bool:
        return trusts_all or files.trust.is_trusted(folder)

    def rules_of(root: str) -> tuple[Rule, ...]:
        return project_file.rules_of(root, is_trusted)

    return Policy(
        profile=profile or config.profile or DEFAULT,
        user=config.rules,
        host=rules,
        rules_of=rules_of,
        file=files.grants,
    )
