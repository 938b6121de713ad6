"""`engine plugins` with its subcommands."""

from __future__ import annotations

from typing import Final

from engine.cli.command_table.command_list import summary
from engine.cli.command_table.command_spec import Argument, CommandSpec, Flag, FlagGroup
from engine.cli.command_table.shared_flags import JSON

_CODES: Final = {0: "done", 1: "failed", 2: "wrong usage or configuration", 74: "a file can't be read or written"}
_NAME: Final = Argument(name="name", help="its name, as `engine plugins` lists it")
_YES: Final = Flag(names=("--yes",), help="approve without asking")
_SAMPLE: Final = "shop"

PLUGINS: Final = CommandSpec(
    name="plugins",
    help=summary("plugins"),
    description="List plugins, add, update and remove them. A plugin that is added is a folder with skills, commands, agents, MCP "
    "servers and hooks. It is copied, and used only as long as its files are those that you have added. Packages with an entry "
    "point `engine.plugins` and tool files are plugins, too; the list shows them.",
    default="list",
    subcommands=(
        CommandSpec(
            name="plugins list",
            help="list the plugins, and why others were not loaded",
            description="List the plugins with what they have, what of them can't be used here, and why others were not loaded. "
            "Packages and tool files are loaded for it.",
            run="engine.cli.plugins.manage_plugins:list_main",
            groups=(FlagGroup("flags", (JSON,)),),
            exit_codes=_CODES,
            examples=(("plugins list", "list the plugins"),),
        ),
        CommandSpec(
            name="plugins add",
            help="show what a plugin has, and add it",
            description="Show what a plugin would add, ask, and add it. It comes from a folder, or from a git repository at "
            "one commit. Its MCP servers start only after `engine mcp approve`; its hooks run from then on.",
            run="engine.cli.plugins.manage_plugins:add_main",
            arguments=(
                Argument(
                    name="source",
                    help="a folder, or URL@COMMIT",
                    detail="COMMIT is the whole hash of a commit. A branch or a tag would be something else tomorrow.",
                ),
            ),
            groups=(
                FlagGroup(
                    "flags",
                    (
                        Flag(
                            names=("--folder",),
                            value="DIR",
                            help="read this directory of the source",
                            example="--folder plugins/shop",
                        ),
                        _YES,
                    ),
                ),
            ),
            exit_codes=_CODES,
            sample="./shop",
            examples=(
                ("plugins add ./shop", "add the plugin in a folder"),
                (
                    "plugins add https://example.com/shop.git@9fceb02d0ae598e95dc970b74767f19372d61af8",
                    "add it from a git repository",
                ),
            ),
        ),
        CommandSpec(
            name="plugins update",
            help="show what has changed in a plugin, and update it",
            description="Read a plugin again from where it came from, show what is different, and ask. One from a git repository "
            "needs the new commit.",
            run="engine.cli.plugins.manage_plugins:update_main",
            arguments=(_NAME, Argument(name="commit", count="optional", help="the commit, of a git repository")),
            groups=(FlagGroup("flags", (_YES,)),),
            exit_codes=_CODES,
            sample=_SAMPLE,
            examples=(("plugins update shop", "take over the changes of its folder"),),
        ),
        CommandSpec(
            name="plugins remove",
            help="delete a plugin and its files",
            description="Remove a plugin, its files, and so its servers and hooks. The folder it came from stays.",
            run="engine.cli.plugins.manage_plugins:remove_main",
            arguments=(_NAME,),
            exit_codes=_CODES,
            sample=_SAMPLE,
            examples=(("plugins remove shop", "remove it"),),
        ),
        CommandSpec(
            name="plugins approve",
            help="show a tool file, and approve its content",
            description="Show a tool file of a project, or what has changed in it, ask, and approve it with this content. It is "
            "used only as long as it has that content and the project is trusted.",
            run="engine.cli.plugins.manage_plugins:approve_main",
            arguments=(Argument(name="file", help="the tool file"),),
            groups=(FlagGroup("flags", (_YES,)),),
            exit_codes=_CODES,
            sample=".engine/tools/shop.py",
            examples=(("plugins approve .engine/tools/shop.py", "approve it as it is now"),),
        ),
    ),
)
