"""`engine auth` with its subcommands."""

from __future__ import annotations

from typing import Final

import attrs

from engine.cli.command_table.command_list import summary
from engine.cli.command_table.command_spec import Argument, CommandSpec, Flag, FlagGroup
from engine.cli.command_table.shared_flags import CONFIG, JSON

_CODES: Final = {0: "done", 1: "failed", 2: "wrong usage or configuration", 74: "a file can't be read or written"}
_HOST: Final = Argument(name="host", help="the provider, such as openai", completes="host")
_FLAGS: Final = FlagGroup("flags", (CONFIG,))

AUTH: Final = CommandSpec(
    name="auth",
    help=summary("auth"),
    description="Store, list, test and remove the keys of providers. A variable such as OPENAI_API_KEY counts before a "
    "stored key.",
    default="list",
    subcommands=(
        CommandSpec(
            name="auth add",
            help="store the key of a provider",
            description="Store the key of a provider in a file that only you can read. The key is typed unseen, or read from "
            "standard input; it is never an argument, which other users could see.",
            run="engine.cli.auth.manage_keys:add_main",
            arguments=(_HOST,),
            groups=(
                FlagGroup(
                    "flags",
                    (Flag(names=("--keyring",), help="store it in the system's keyring instead"), CONFIG),
                ),
            ),
            exit_codes=_CODES,
            sample="openai",
            examples=(("auth add openai", "type or paste the key of OpenAI"),),
        ),
        CommandSpec(
            name="auth list",
            help="list the keys that are used, and where they are",
            description="List the providers for which there is a key: where it comes from, its last 4 characters and its age.",
            run="engine.cli.auth.list_keys:list_main",
            groups=(attrs.evolve(_FLAGS, flags=(JSON, CONFIG)),),
            exit_codes=_CODES,
            examples=(("auth list", "show which keys would be used"),),
        ),
        CommandSpec(
            name="auth test",
            help="check that a provider accepts its key",
            description="Send the smallest free request to a provider, or to all for which there is a key.",
            run="engine.cli.auth.list_keys:test_main",
            arguments=(attrs.evolve(_HOST, count="optional", help="only this provider"),),
            groups=(_FLAGS,),
            exit_codes={
                0: "all keys work",
                1: "a key was rejected, or a provider failed",
                2: "wrong usage",
                6: "no key",
            },
            sample="openai",
            examples=(("auth test openai", "check the key of OpenAI"),),
        ),
        CommandSpec(
            name="auth remove",
            help="delete the stored key of a provider",
            description="Delete the stored key of a provider, also from the keyring. A variable stays.",
            run="engine.cli.auth.manage_keys:remove_main",
            arguments=(_HOST,),
            groups=(_FLAGS,),
            exit_codes=_CODES,
            sample="openai",
            examples=(("auth remove openai", "forget the key of OpenAI"),),
        ),
        CommandSpec(
            name="auth import",
            help="list keys in your shell's files, and copy them",
            description="List the keys of providers that your shell's files set. Nothing is copied without --copy.",
            run="engine.cli.auth.manage_keys:import_main",
            arguments=(attrs.evolve(_HOST, name="hosts", count="any", help="only these providers", label="HOST"),),
            groups=(FlagGroup("flags", (Flag(names=("--copy",), help="store the keys that were listed"), CONFIG)),),
            exit_codes=_CODES,
            examples=(("auth import --copy openai", "store the key that ~/.bashrc sets"),),
        ),
    ),
)
