"""`engine trace`: what ran when in a session, as lines or as one page."""

from __future__ import annotations

import argparse
import sys
import time
from functools import partial

from engine.cli.flags.config_flags import load_user_config
from engine.cli.sessions.session_command import run_subcommand
from engine.cli.sessions.show import session_title
from engine.cli.sessions.write_document import Journals, write_document
from engine.cli.terminal.standard_streams import print_error
from engine.cli.terminal.terminal_text import UNICODE, stdout_width, symbols_for
from engine.core.version import __version__
from engine.export.history import render_history
from engine.export.trace_page import render_trace
from engine.export.trace_text import ASCII_LANES, LaneSymbols, trace_lines


def main(arguments: list[str]) -> int:
    """Run the command; return the exit code."""
    return run_subcommand("trace", arguments, _trace)


def _trace(args: argparse.Namespace) -> int:
    if args.requests:
        # Imported here: the lanes need no provider.
        from engine.cli.sessions.trace_requests import NOTICE, request_lines

        print_error(NOTICE)
        return write_document(args, partial(request_lines, config=load_user_config(args)), is_private=True)
    return write_document(args, _lines if args.output is None else _page, is_private=True)


def _lines(journals: Journals) -> str:
    title = session_title(render_history(journals[0]))
    encoding = (sys.stdout.encoding if sys.stdout is not None else None) or "utf-8"
    symbols = LaneSymbols() if symbols_for(encoding) is UNICODE else ASCII_LANES
    lines = "".join(f"{line}\n" for line in trace_lines(journals, stdout_width(), symbols))
    return f"{title}\n\n{lines or 'There is no turn yet.'}".rstrip() + "\n"


def _page(journals: Journals) -> str:
    title = session_title(render_history(journals[0]))
    return render_trace(journals, title, engine=__version__, at=time.time())
