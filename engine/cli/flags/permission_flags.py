"""The flags for permissions and the sandbox."""

from __future__ import annotations

import argparse
from typing import Literal, cast

import attrs

from engine.config.config import Config
from engine.config.sandbox_config import BackendSetting, Sandbox
from engine.core.errors import ConfigError
from engine.core.permission_types import Rule
from engine.core.value_base import Value
from engine.permission.policy import Policy
from engine.permission.rules.path_pattern import exact
from engine.permission.rules.rule_file import parse_rule
from engine.permission.user_policy import UserFiles, user_policy

Unattended = Literal["deny", "rules"]


@attrs.frozen(kw_only=True, eq=False, repr=False)
class PermissionChoice(Value):
    """The permissions that the command line sets.

    Attributes:
        profile: the profile; None: the configuration's.
        rules: for this run.
        trusts: the project counts as trusted in this run.
        unattended: how questions are answered when there is no user.
        sandbox: whether commands run in one; None: as configured.
        network: whether the sandbox of `--sandbox bwrap` has network access.
        folders: further folders to work in.
    """

    profile: str | None = None
    rules: tuple[Rule, ...] = ()
    trusts: bool = False
    unattended: Unattended = "deny"
    sandbox: BackendSetting | None = None
    network: bool = False
    folders: tuple[str, ...] = ()

    def box(self, config: Config) -> Sandbox | None:
        """Return how commands are confined; None: as is usual. Raises `ConfigError` for what the administrator has fixed."""
        box = config.sandbox
        if self.sandbox is not None:
            _check_fixed(config, "backend", self.sandbox)
            _check_fixed(config, "network", self.network)
            box = attrs.evolve(box or Sandbox(), backend=self.sandbox, network=self.network)
        return box and attrs.evolve(box, writable=(*box.writable, *self.folders))

    def policy(self, config: Config) -> Policy:
        """Return the policy for this run. Raises `ConfigError`."""
        # First, so that a rule may still forbid a part of such a folder.
        inside = (
            Rule(action="allow", permission="outside", pattern=exact(folder), origin="--add-dir")
            for folder in self.folders
        )
        return user_policy(
            config, UserFiles.default(), profile=self.profile, rules=(*inside, *self.rules), trust_all=self.trusts
        )


def _check_fixed(config: Config, name: str, value: object) -> None:
    """Raise `ConfigError` if the administrator has fixed a key of the sandbox to another value."""
    fixed = getattr(config.sandbox, name, None)
    if f"sandbox.{name}" in config.rule_layers.fixed and value != fixed:
        raise ConfigError(f"/etc/engine/required.toml fixes sandbox.{name} to {fixed!r}\nNext: leave out the flag")


def permission_choice(args: argparse.Namespace) -> PermissionChoice:
    """Return the values of these flags. Raises `ConfigError`."""
    if args.network and args.sandbox != "bwrap":
        raise ConfigError("--network needs --sandbox bwrap\nNext: add --sandbox bwrap")
    return PermissionChoice(
        # --yes is not "allow everything": rules that deny or ask still count.
        profile="full" if args.yes else args.profile,
        rules=tuple(map(_rule, args.rule)),
        trusts=args.trust,
        unattended=cast("Unattended", args.unattended),
        sandbox=cast("BackendSetting | None", args.sandbox),
        network=args.network,
        folders=tuple(map(str, args.add_dir)),
    )


def _rule(text: str) -> Rule:
    try:
        return parse_rule(text, "--rule")
    except ConfigError as error:
        raise ConfigError(f"--rule {text!r}: {error}") from error
