"""The subcommands of `engine sessions` that write: sessions, files of the project, or documents."""

from __future__ import annotations

import argparse
import re
from typing import Final, Literal, get_args

import attrs

from engine.cli.command_table.command_spec import Argument, CommandSpec, Flag
from engine.cli.command_table.session_flags import (
    CODES,
    FORCE_FILE,
    MODEL,
    OUTPUT,
    SESSION,
    STORE_FLAGS,
    TURN,
    session_flags,
)
from engine.cli.command_table.shared_flags import CONFIG_FLAGS
from engine.cli.flags.arg_types import whole

ExportFormat = Literal["json", "markdown", "html", "atif"]

_AGE: Final = re.compile(r"(\d{1,6})([hdw])\Z")
_SECONDS: Final = {"h": 3_600, "d": 86_400, "w": 7 * 86_400}
_FORCE_TURN: Final = Flag(
    names=("--force",),
    help="overwrite files that were changed since",
    detail="Files that can't be restored are left as they are.",
)


def age(text: str) -> float:
    """Parse a time such as 30d, 12h or 8w; return seconds. For `parse=`."""
    match = _AGE.match(text)
    if match is None:
        raise argparse.ArgumentTypeError("must be a number and h, d or w, such as 30d")
    return float(int(match[1]) * _SECONDS[match[2]])


_FILES: Final = (
    CommandSpec(
        name="sessions undo",
        help="undo the newest turn: its messages and its file changes",
        description="Undo the newest turn of a session: its messages and its file changes. With --to, all turns from a prompt "
        "on, which one redo brings back.",
        run="engine.cli.sessions.undo:undo_main",
        arguments=(SESSION,),
        groups=session_flags(
            Flag(
                names=("--to",),
                value="PROMPT",
                help="undo all turns from this prompt on",
                detail="1 is the newest prompt, 2 the one before; or the id of a turn or message, or the end of that, from "
                "`engine sessions show`. --list lists the prompts.",
                default_text="1",
                example="--to 3",
            ),
            Flag(
                names=("--only",),
                choices=("conversation", "files"),
                help="undo only the messages, or only the file changes",
                example="--only files",
            ),
            Flag(
                names=("--list",),
                help="list the prompts with their files, undo nothing",
                example="--list",
                excludes="action",
            ),
            Flag(
                names=("--show",),
                help="show how files would change, undo nothing",
                example="--show",
                excludes="action",
            ),
            _FORCE_TURN,
        ),
        exit_codes=CODES,
        sample="last",
        examples=(
            ("sessions undo last", "undo what the agent did last here"),
            ("sessions undo last --to 3 --only files", "restore the files from before the third newest prompt"),
        ),
    ),
    CommandSpec(
        name="sessions redo",
        help="redo what was undone last",
        description="Redo what was undone last: a turn with its file changes, or all that one `undo --to` has undone.",
        run="engine.cli.sessions.undo:redo_main",
        arguments=(SESSION,),
        groups=session_flags(_FORCE_TURN),
        exit_codes=CODES,
        sample="last",
        examples=(("sessions redo last", "take back the last undo"),),
    ),
    CommandSpec(
        name="sessions restore",
        help="restore files as they were before a turn",
        description="Restore files or whole folders as they were before a turn.",
        run="engine.cli.sessions.undo:restore_main",
        arguments=(
            SESSION,
            Argument(
                name="paths",
                label="PATH",
                count="some",
                help="files or folders, relative to the session's folder",
                completes="file",
            ),
        ),
        groups=session_flags(
            TURN,
            Flag(
                names=("--version",),
                value="ID",
                help="restore a single file as it was then",
                detail="The id, or its beginning, from `engine sessions versions`.",
                example="--version 1c9f03",
            ),
            attrs.evolve(_FORCE_TURN, detail=""),
        ),
        exit_codes=CODES,
        sample="last src",
        examples=(("sessions restore last src", "restore a folder as it was before the newest turn"),),
    ),
)

_HISTORY: Final = (
    CommandSpec(
        name="sessions compact",
        help="summarise old messages, so that requests are smaller",
        description="Summarise a session's old messages, so that its next request is smaller. The messages stay in the store: "
        "`engine sessions uncompact` undoes the summary. Ctrl-C leaves the history unchanged.",
        run="engine.cli.sessions.context:compact_main",
        arguments=(SESSION,),
        groups=session_flags(
            Flag(
                names=("--heed",),
                value="TEXT",
                default="",
                help="add instructions for the summary",
                example='--heed "keep the names of all files"',
            ),
            attrs.evolve(
                MODEL,
                help="write the summary with this model",
                default_text="the configured one for summaries, or the session's",
            ),
            *CONFIG_FLAGS,
        ),
        exit_codes=CODES,
        sample="last",
        examples=(("sessions compact last", "summarise the newest session of this folder"),),
    ),
    CommandSpec(
        name="sessions uncompact",
        help="undo the newest summary",
        description="Undo the newest summary of a session: the messages that it replaced are back.",
        run="engine.cli.sessions.context:uncompact_main",
        arguments=(SESSION,),
        groups=STORE_FLAGS,
        exit_codes=CODES,
        sample="last",
        examples=(("sessions uncompact last", "take back the last summary"),),
    ),
    CommandSpec(
        name="sessions rename",
        help="change a session's title",
        description="Give a session a title. It stays until you change it.",
        run="engine.cli.sessions.manage:rename_main",
        arguments=(SESSION, Argument(name="title", label="TITLE", count="some", help="the new title")),
        groups=STORE_FLAGS,
        exit_codes=CODES,
        sample="last 'Fix the parser'",
        examples=(("sessions rename last 'Fix the parser'", "name the newest session"),),
    ),
    CommandSpec(
        name="sessions fork",
        help="start a new session with another one's history",
        description="Start a new session with the history of another one, which stays unchanged. Prints the new session's id.",
        run="engine.cli.sessions.manage:fork_main",
        arguments=(SESSION,),
        groups=session_flags(
            Flag(
                names=("--at",),
                value="MESSAGE",
                help="copy messages up to this one",
                default_text="all",
                detail="Its id or the end of its id, from `engine sessions show`.",
                example="--at 7d31",
            )
        ),
        exit_codes=CODES,
        sample="last",
        examples=(("sessions fork last", "copy the newest session of this folder"),),
    ),
)

_DOCUMENTS: Final = (
    CommandSpec(
        name="sessions export",
        help="write a session as JSON, Markdown, HTML or ATIF",
        description="Write a session. JSON is complete, with all sub-agents, and `engine sessions import` restores it; Markdown "
        "holds the conversation; HTML is a page; ATIF is a trajectory for Harbor, evaluations and training.",
        run="engine.cli.sessions.export_import:export_main",
        arguments=(SESSION,),
        groups=session_flags(
            Flag(
                names=("--format",),
                choices=get_args(ExportFormat),
                help="write this format",
                default_text="by the file's suffix, else json",
                example="--format markdown",
            ),
            OUTPUT,
            FORCE_FILE,
        ),
        exit_codes=CODES,
        sample="last",
        examples=(
            ("sessions export last -o session.md", "write the conversation as Markdown"),
            ("sessions export last --format atif -o trajectory.json", "write a trajectory, as Harbor reads it"),
        ),
    ),
    CommandSpec(
        name="sessions import",
        help="import an exported session, or Markdown",
        description="Import a session that was exported as JSON, or a conversation in Markdown: all of it or nothing. If its id "
        "exists already, it gets a new one.",
        run="engine.cli.sessions.export_import:import_main",
        arguments=(Argument(name="file", help="the file to import; - reads standard input", completes="file"),),
        groups=session_flags(
            Flag(
                names=("--cwd",),
                value="DIR",
                help="give the session this folder from now on",
                default_text="its old one, or for Markdown this folder",
                example="--cwd ..",
                completes="directory",
            )
        ),
        exit_codes=CODES,
        sample="session.json",
        examples=(("sessions import session.json", "restore an exported session"),),
    ),
    CommandSpec(
        name="sessions share",
        help="write a session as one self-contained web page",
        description="Write a session as one self-contained web page, without scripts or links to other files. It holds everything "
        "that was written and read in the session: review it before you share it.",
        run="engine.cli.sessions.export_import:share_main",
        arguments=(SESSION,),
        groups=session_flags(attrs.evolve(OUTPUT, is_required=True, default_text="", example=""), FORCE_FILE),
        exit_codes=CODES,
        sample="last --output page.html",
        examples=(("sessions share last -o session.html", "write the newest session as a page"),),
    ),
)

_STORE: Final = (
    CommandSpec(
        name="sessions delete",
        help="delete sessions permanently",
        description="Delete sessions permanently, with their sub-agents' sessions and the files kept for them.",
        run="engine.cli.sessions.manage:delete_main",
        arguments=(attrs.evolve(SESSION, name="sessions", count="some", help="the sessions: their ids, or last"),),
        groups=session_flags(Flag(names=("--yes",), help="delete without asking for confirmation")),
        exit_codes=CODES,
        sample="last",
        examples=(("sessions delete last", "delete the newest session of this folder"),),
    ),
    CommandSpec(
        name="sessions prune",
        help="delete sessions that have not been used for long",
        description="Delete permanently all sessions, of all folders, that have not been used for some time. A session that is "
        "open anywhere stays.",
        run="engine.cli.sessions.manage:prune_main",
        groups=session_flags(
            Flag(
                names=("--older-than",),
                value="AGE",
                help="delete what was unused for this long, such as 30d",
                parse=age,
                is_required=True,
                detail="A number and h (hours), d (days) or w (weeks).",
            ),
            Flag(
                names=("--keep",),
                value="N",
                help="keep the newest N sessions, however old",
                parse=whole(0),
                default=0,
                example="--keep 100",
            ),
            Flag(names=("--dry-run",), help="list what would be deleted, and delete nothing"),
        ),
        exit_codes=CODES,
        sample="--older-than 30d",
        examples=(("sessions prune --older-than 30d --dry-run", "list the sessions of no use in a month"),),
    ),
    CommandSpec(
        name="sessions repair",
        help="copy what is readable in a damaged store to a new one",
        description="Copy what is readable in a store's file to a new one. The damaged file is not changed.",
        run="engine.cli.sessions.repair:main",
        arguments=(
            Argument(
                name="file",
                count="optional",
                help="the damaged store (default: the usual store)",
                completes="file",
            ),
        ),
        groups=session_flags(
            attrs.evolve(
                OUTPUT,
                value="NEW",
                help="write the new store to NEW",
                default_text="FILE.repaired",
                example="--output new.db",
            )
        ),
        exit_codes=CODES,
        examples=(("sessions repair", "rescue the usual store"),),
    ),
)

EDITS: Final = (*_FILES, *_HISTORY, *_DOCUMENTS, *_STORE)
