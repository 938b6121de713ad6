"""`engine config` with its subcommands."""

from __future__ import annotations

from typing import Final

import attrs

from engine.cli.command_table.command_list import summary
from engine.cli.command_table.command_spec import Argument, CommandSpec, Flag, FlagGroup
from engine.cli.command_table.shared_flags import CONFIG, CONFIG_FLAGS, CWD, JSON

_CODES: Final = {
    0: "done",
    1: "failed, or a file has an error",
    2: "wrong usage or configuration",
    74: "a file can't be read or written",
}
_KEY: Final = Argument(name="key", help='such as defaults.model or models."host/model".context')
_TRUST: Final = Flag(names=("--trust",), help="read the project's files, as if it were trusted")
_READ: Final = FlagGroup("flags", (CWD, _TRUST, *CONFIG_FLAGS))
_PROJECT: Final = Flag(names=("--project",), help="change the project's .engine/config.toml instead")
_CHANGE: Final = FlagGroup("flags", (_PROJECT, CWD, CONFIG))

CONFIG_COMMANDS: Final = CommandSpec(
    name="config",
    help=summary("config"),
    description="Show, explain and change the configuration.",
    default="list",
    subcommands=(
        CommandSpec(
            name="config list",
            help="list what differs from the defaults",
            description="List each key that differs from its default, where its value comes from, and what it overrides.",
            run="engine.cli.config.show_config:list_main",
            groups=(attrs.evolve(_READ, flags=(*_READ.flags, JSON)),),
            exit_codes=_CODES,
            examples=(("config", "show what you have configured"),),
        ),
        CommandSpec(
            name="config explain",
            help="show what a key does, and where its value comes from",
            description="Show the value of a key, where it comes from, what it overrides, its default and what it does.",
            run="engine.cli.config.show_config:explain_main",
            arguments=(_KEY,),
            groups=(_READ,),
            exit_codes=_CODES,
            sample="defaults.model",
            examples=(("config explain defaults.model", "show which file sets the model"),),
        ),
        CommandSpec(
            name="config get",
            help="print the value of a key",
            description="Print the value of a key: that of the files, flags and variables, or its default.",
            run="engine.cli.config.show_config:get_main",
            arguments=(_KEY,),
            groups=(attrs.evolve(_READ, flags=(*_READ.flags, JSON)),),
            exit_codes={0: "printed", 1: "the key has no value", 2: "wrong usage or configuration"},
            sample="defaults.model",
            examples=(("config get defaults.model", "print the model"),),
        ),
        CommandSpec(
            name="config set",
            help="set a key in your configuration file",
            description="Set a key in your configuration file. Comments and the order of the file stay.",
            run="engine.cli.config.change_config:set_main",
            arguments=(_KEY, Argument(name="value", help="a TOML value; anything else is a text")),
            groups=(_CHANGE,),
            exit_codes=_CODES,
            sample="defaults.model openai/gpt-5.6",
            examples=(("config set defaults.model openai/gpt-5.6", "use this model from now on"),),
        ),
        CommandSpec(
            name="config unset",
            help="delete a key from your configuration file",
            description="Remove a key from your configuration file, so that its default counts again.",
            run="engine.cli.config.change_config:unset_main",
            arguments=(_KEY,),
            groups=(_CHANGE,),
            exit_codes=_CODES,
            sample="defaults.model",
            examples=(("config unset defaults.model", "go back to the default model"),),
        ),
        CommandSpec(
            name="config edit",
            help="open the file in your editor, and check it",
            description="Open your configuration file in $VISUAL or $EDITOR. A file with an error is not saved: you may "
            "edit it again, or go back to the file as it was.",
            run="engine.cli.config.change_config:edit_main",
            groups=(_CHANGE,),
            exit_codes=_CODES,
            examples=(("config edit", "edit your configuration"),),
        ),
        CommandSpec(
            name="config check",
            help="check all files that count",
            description="Check each configuration file that counts here, and all of them together.",
            run="engine.cli.config.show_config:check_main",
            groups=(_READ,),
            exit_codes={0: "all is well", 1: "a file has an error", 2: "wrong usage"},
            examples=(("config check", "check your configuration"),),
        ),
        CommandSpec(
            name="config path",
            help="show which files are read, the strongest first",
            description="Show which files are read here, the strongest first, and which of them exist.",
            run="engine.cli.config.show_config:path_main",
            groups=(_READ,),
            exit_codes=_CODES,
            examples=(("config path", "show where your configuration is"),),
        ),
        CommandSpec(
            name="config migrate",
            help="change your file to the newest format",
            description="Rewrite your configuration file in the newest format. A copy of the old one is kept.",
            run="engine.cli.config.change_config:migrate_main",
            groups=(_CHANGE,),
            exit_codes=_CODES,
            examples=(("config migrate", "bring your configuration up to date"),),
        ),
    ),
)
