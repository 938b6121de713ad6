"""`engine trace`: the lanes of a session, as one page."""

from __future__ import annotations

import argparse
import time

from engine.cli.sessions.session_command import run_subcommand
from engine.cli.sessions.show import session_title
from engine.cli.sessions.write_document import Journals, write_document
from engine.core.version import __version__
from engine.export.history import render_history
from engine.export.trace_page import render_trace


def main(arguments: list[str]) -> int:
    """Run the command; return the exit code."""
    return run_subcommand("trace", arguments, _trace)


def _trace(args: argparse.Namespace) -> int:
    return write_document(args, _page, is_private=True)


def _page(journals: Journals) -> str:
    title = session_title(render_history(journals[0]))
    return render_trace(journals, title, engine=__version__, at=time.time())
