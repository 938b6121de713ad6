"""`engine trace`: the lanes of a session, as one page."""

from __future__ import annotations

import argparse
import time

from engine.cli.flags.arg_types import command_parser
from engine.cli.flags.store_flags import add_store_flag
from engine.cli.sessions.session_command import CODES, add_session_argument, run_subcommand
from engine.cli.sessions.show import session_title
from engine.cli.sessions.write_document import Journals, write_document
from engine.core.version import __version__
from engine.export.history import render_history
from engine.export.trace_page import render_trace


def main(arguments: list[str]) -> int:
    """Run the command; return the exit code."""
    parser = command_parser(
        "trace",
        "Draw what ran when in a session: every turn, request, tool call and sub-agent as a bar, every question, and "
        "what a cancel did. The page is one file that needs no network. It holds the beginnings of arguments and results.",
        epilog=CODES,
    )
    add_session_argument(parser)
    parser.add_argument(
        "--html", dest="output", metavar="FILE", required=True, help="the page to write; - is standard output"
    )
    parser.add_argument("--force", action="store_true", help="overwrite an existing file")
    add_store_flag(parser)
    return run_subcommand("trace", parser, arguments, _trace)


def _trace(args: argparse.Namespace) -> int:
    return write_document(args, _page, is_private=True)


def _page(journals: Journals) -> str:
    title = session_title(render_history(journals[0]))
    return render_trace(journals, title, engine=__version__, at=time.time())
