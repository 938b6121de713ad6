"""The flags that say what may be done."""

from __future__ import annotations

import argparse
from typing import Literal, cast

import attrs

from engine.config.config import Config
from engine.config.sandbox_config import Sandbox
from engine.core.errors import ConfigError
from engine.core.permission_types import Rule
from engine.permission.policy import Policy
from engine.permission.rules.profiles import PROFILES
from engine.permission.rules.rule_file import parse_rule
from engine.permission.user_policy import UserFiles, user_policy

Unattended = Literal["deny", "rules"]


@attrs.frozen(kw_only=True)
class PermissionChoice:
    """What the command line says of permissions.

    Attributes:
        profile: which one; None: the configuration's.
        rules: for this run.
        trusts: whatever the folder brings along counts.
        unattended: what becomes of what would be asked where nobody is.
        sandbox: whether commands run in one; None: as the configuration says.
        network: with a sandbox of the flag's, whether there is a network in it.
    """

    profile: str | None = None
    rules: tuple[Rule, ...] = ()
    trusts: bool = False
    unattended: Unattended = "deny"
    sandbox: Literal["bwrap", "off"] | None = None
    network: bool = False

    def box(self, config: Config) -> Sandbox | None:
        """Return where commands run; None: in no sandbox."""
        match self.sandbox:
            case "off":
                return None
            case "bwrap":
                return attrs.evolve(config.sandbox or Sandbox(), network=self.network)
            case None:
                return config.sandbox

    def policy(self, config: Config) -> Policy:
        """Return the rules. Raises `ConfigError`."""
        return user_policy(config, UserFiles.default(), profile=self.profile, rules=self.rules, trust_all=self.trusts)


def add_permission_flags(parser: argparse.ArgumentParser) -> None:
    """Add them."""
    parser.add_argument(
        "--profile",
        choices=PROFILES,
        help="what may be done where no rule says otherwise; default: ask, or the configuration's",
    )
    parser.add_argument("--yes", action="store_true", help="--profile full: no question but where a rule asks")
    parser.add_argument(
        "--rule",
        action="append",
        default=[],
        metavar="RULE",
        help="a rule for this run, as 'deny bash git push *'; again for more",
    )
    parser.add_argument("--trust", action="store_true", help="let the folder's own rules count, for this run")
    parser.add_argument(
        "--unattended",
        choices=("deny", "rules"),
        default="deny",
        help="where nobody can be asked: deny what would be asked, or all that no rule allows by name",
    )


def add_sandbox_flags(parser: argparse.ArgumentParser) -> None:
    """Add those of the sandbox."""
    parser.add_argument(
        "--sandbox",
        choices=("bwrap", "off"),
        help="run commands where they can change the project only, or in no sandbox; default: the configuration's, else off",
    )
    parser.add_argument("--network", action="store_true", help="with --sandbox bwrap: let commands use the network")


def permission_choice(given: argparse.Namespace) -> PermissionChoice:
    """Return what they say. Raises `ConfigError`."""
    if given.network and given.sandbox != "bwrap":
        raise ConfigError("--network is about the sandbox of --sandbox bwrap: give both, or neither")
    return PermissionChoice(
        profile="full" if given.yes else given.profile,
        rules=tuple(map(_rule, given.rule)),
        trusts=given.trust,
        unattended=cast("Unattended", given.unattended),
        sandbox=cast('Literal["bwrap", "off"] | None', given.sandbox),
        network=given.network,
    )


def _rule(text: str) -> Rule:
    try:
        return parse_rule(text, "--rule")
    except ConfigError as error:
        raise ConfigError(f"--rule {text!r}: {error}") from error
