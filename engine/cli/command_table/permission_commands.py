"""`engine permissions` with its subcommands."""

from __future__ import annotations

from typing import Final

from engine.cli.command_table.command_list import summary
from engine.cli.command_table.command_spec import Argument, CommandSpec, Flag, FlagGroup
from engine.cli.command_table.shared_flags import CONFIG_FLAGS, CWD, JSON
from engine.permission.rules.profiles import PROFILES

_PROFILE: Final = Flag(
    names=("--profile",),
    choices=tuple(PROFILES),
    help="use this profile",
    default_text="the configuration's",
    example="--profile read-only",
)
_CODES: Final = {0: "done", 1: "failed", 2: "wrong usage", 74: "a file can't be read or written"}
_RULE_FLAGS: Final = (FlagGroup("flags", (CWD, *CONFIG_FLAGS, _PROFILE)),)
_FOLDER: Final = Argument(
    name="folder",
    count="optional",
    help="the project's folder (default: the one of --cwd)",
    completes="directory",
)

PERMISSIONS: Final = CommandSpec(
    name="permissions",
    help=summary("permissions"),
    description="Show what the agent may do in a project, and revoke what was allowed.",
    default="list",
    subcommands=(
        CommandSpec(
            name="permissions list",
            help="list rules and grants",
            description="List the rules and the grants for a project, with where each comes from.",
            run="engine.cli.permissions:list_main",
            groups=(FlagGroup("flags", (CWD, *CONFIG_FLAGS, _PROFILE, JSON)),),
            exit_codes=_CODES,
            examples=(("permissions", "show the rules of this folder"),),
        ),
        CommandSpec(
            name="permissions explain",
            help="show which rule decides, and why the others don't",
            description="Show which rule decides about a command or a path, why the others don't, and the verdict.",
            run="engine.cli.permissions:explain_main",
            arguments=(
                Argument(name="permission", help="the permission: bash, read, edit, web and others"),
                Argument(name="pattern", help="what it is for: a command line, a path and so on", completes="file"),
            ),
            groups=_RULE_FLAGS,
            exit_codes=_CODES,
            sample='bash "git push"',
            examples=(('permissions explain bash "git push origin main"', "show whether a command would run"),),
        ),
        CommandSpec(
            name="permissions revoke",
            help="revoke a grant",
            description="Revoke what was allowed for longer than once.",
            run="engine.cli.permissions:revoke_main",
            arguments=(Argument(name="id", help="the grant's id, from list", completes="grant"),),
            groups=_RULE_FLAGS,
            exit_codes=_CODES,
            sample="grant_1f2e",
            examples=(("permissions revoke grant_1f2e", "take back what was allowed"),),
        ),
        CommandSpec(
            name="permissions unasked",
            help="list the programs that may run without a question",
            description="List the programs that may run without a question when they only read.",
            run="engine.cli.permissions:unasked_main",
            groups=_RULE_FLAGS,
            exit_codes=_CODES,
            examples=(("permissions unasked", "list them"),),
        ),
        CommandSpec(
            name="permissions lint",
            help="find rules that have no effect, or allow too much",
            description="Find rules that have no effect, or allow more than they seem to.",
            run="engine.cli.permissions:lint_main",
            groups=_RULE_FLAGS,
            exit_codes={0: "no problem", 1: "found something", 2: "wrong usage"},
            examples=(("permissions lint", "check the rules of this folder"),),
        ),
        CommandSpec(
            name="permissions trust",
            help="trust a project: use its rules, agents and commands",
            description="Trust a project: use its rules, agents and commands.",
            run="engine.cli.permissions:trust_main",
            arguments=(_FOLDER,),
            groups=_RULE_FLAGS,
            exit_codes=_CODES,
            examples=(("permissions trust", "trust the project of this folder"),),
        ),
        CommandSpec(
            name="permissions distrust",
            help="stop trusting a project",
            description="Stop trusting a project.",
            run="engine.cli.permissions:distrust_main",
            arguments=(_FOLDER,),
            groups=_RULE_FLAGS,
            exit_codes=_CODES,
            examples=(("permissions distrust", "trust the project of this folder no longer"),),
        ),
    ),
)
