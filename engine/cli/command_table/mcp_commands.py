"""`engine mcp` with its subcommands."""

from __future__ import annotations

from typing import Final

import attrs

from engine.cli.command_table.command_list import summary
from engine.cli.command_table.command_spec import Argument, CommandSpec, Flag, FlagGroup
from engine.cli.command_table.shared_flags import CONFIG, CONFIG_FLAGS, CWD, JSON, PORT, QUESTION_TIMEOUT, STORE
from engine.cli.command_table.turn_flags import MODEL_FLAGS, PERMISSION_FLAGS, SANDBOX_FLAGS
from engine.cli.flags.arg_types import directory

_CODES: Final = {0: "done", 1: "failed", 2: "wrong usage or configuration", 74: "a file can't be read or written"}
_NAME: Final = Argument(name="name", help="its name in the configuration")
_FLAGS: Final = FlagGroup("flags", (CWD, *CONFIG_FLAGS))
_YES: Final = Flag(names=("--yes",), help="approve without asking")

MCP: Final = CommandSpec(
    name="mcp",
    help=summary("mcp"),
    description="Add MCP servers, try them, and approve their tools. A tool is used only once you have approved its definition. "
    "Or be one.",
    default="list",
    subcommands=(
        CommandSpec(
            name="mcp add",
            help="add a server to your configuration",
            description="Add a server to your configuration file: a program, or a URL. Nothing is started.",
            run="engine.cli.mcp.manage_servers:add_main",
            arguments=(
                Argument(name="name", help="how you want to call it, such as files"),
                Argument(
                    name="command",
                    count="any",
                    help="the program and its arguments",
                    detail="Write -- before it if one of its arguments begins with a dash.",
                ),
            ),
            groups=(
                FlagGroup(
                    "flags",
                    (
                        Flag(
                            names=("--url",),
                            value="URL",
                            help="connect to this URL instead of starting a program",
                            example="--url https://mcp.example.com/mcp",
                        ),
                        Flag(
                            names=("--env",),
                            value="NAME",
                            help="pass this variable on to the program, or NAME=VALUE",
                            detail="The program gets no others but HOME, LOGNAME, PATH, SHELL, TERM and USER.",
                            example="--env GITHUB_TOKEN",
                            is_repeated=True,
                        ),
                        Flag(
                            names=("--header",),
                            value="NAME=VALUE",
                            help="send this header; ${VAR} stands for a variable",
                            example="--header 'Authorization=Bearer ${TOKEN}'",
                            is_repeated=True,
                        ),
                        CONFIG,
                    ),
                ),
            ),
            exit_codes=_CODES,
            sample="files",
            examples=(
                ("mcp add files -- npx -y @modelcontextprotocol/server-filesystem .", "add a server that is a program"),
                ("mcp add docs --url https://mcp.example.com/mcp", "add a server behind a URL"),
            ),
        ),
        CommandSpec(
            name="mcp list",
            help="list the servers, and what is known of them",
            description="List the servers of your configuration and of a trusted project, with what is known of them from the "
            "last time. Nothing is started.",
            run="engine.cli.mcp.manage_servers:list_main",
            groups=(attrs.evolve(_FLAGS, flags=(*_FLAGS.flags, JSON)),),
            exit_codes=_CODES,
            examples=(("mcp list", "list the servers"),),
        ),
        CommandSpec(
            name="mcp test",
            help="start a server, and show what it offers",
            description="Start a server, or connect to it, and show its protocol, its tools, those that are refused, and those "
            "that wait for your approval.",
            run="engine.cli.mcp.try_servers:test_main",
            arguments=(_NAME,),
            groups=(_FLAGS,),
            exit_codes=_CODES,
            sample="files",
            examples=(("mcp test files", "see whether it works"),),
        ),
        CommandSpec(
            name="mcp approve",
            help="show a server's tools, and approve them",
            description="Show what a server would run, the tools that are new, and what has changed in the others since you "
            "approved them; ask whether to approve all of it.",
            run="engine.cli.mcp.try_servers:approve_main",
            arguments=(_NAME,),
            groups=(attrs.evolve(_FLAGS, flags=(*_FLAGS.flags, _YES)),),
            exit_codes=_CODES,
            sample="files",
            examples=(("mcp approve files", "approve its tools as they are"),),
        ),
        CommandSpec(
            name="mcp login",
            help="log in to a server behind a URL",
            description="Log in to a server with OAuth: a page of its provider is named, and the answer is awaited on a port of "
            "this machine. The tokens are stored in a file that only you can read.",
            run="engine.cli.mcp.try_servers:login_main",
            arguments=(_NAME,),
            groups=(_FLAGS,),
            exit_codes=_CODES,
            sample="docs",
            examples=(("mcp login docs", "log in"),),
        ),
        CommandSpec(
            name="mcp remove",
            help="delete a server from your configuration",
            description="Remove a server from your configuration file, and what was approved of it.",
            run="engine.cli.mcp.manage_servers:remove_main",
            arguments=(_NAME,),
            groups=(FlagGroup("flags", (CONFIG,)),),
            exit_codes=_CODES,
            sample="files",
            examples=(("mcp remove files", "remove it"),),
        ),
        CommandSpec(
            name="mcp serve",
            help="serve other agents, as an MCP server",
            description="Be an MCP server on standard input and output: another agent starts this command, gives it coding tasks "
            "with the tool run, and asks its user what needs permission.",
            run="engine.cli.mcp.serve_engine:main",
            groups=(
                FlagGroup(
                    "address",
                    (
                        Flag(
                            names=("--http",),
                            help="serve the agents of this machine over HTTP instead",
                            detail="At 127.0.0.1 only. Each request needs the token, which is in a file that only you can read.",
                        ),
                        PORT,
                    ),
                ),
                FlagGroup(
                    "sessions",
                    (
                        CWD,
                        Flag(
                            names=("--root",),
                            value="DIR",
                            help="work only in this folder and below it",
                            parse=directory,
                            default_text="--cwd",
                            example="--root ..",
                            completes="directory",
                        ),
                        STORE,
                        QUESTION_TIMEOUT,
                    ),
                ),
                PERMISSION_FLAGS,
                SANDBOX_FLAGS,
                MODEL_FLAGS,
            ),
            notes=(
                "When the client closes its end, running turns are cancelled and saved. With --http that is the end of the "
                "request, and the server ends at Ctrl-C.",
            ),
            exit_codes={0: "the client has gone, or a signal came", 1: "failed", 2: "wrong usage or configuration"},
            examples=(
                ("mcp serve --root .", "serve the agent that starts it, in this folder"),
                ("mcp serve --http --port 8422", "serve agents of this machine over HTTP"),
            ),
        ),
    ),
)
