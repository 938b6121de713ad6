"""The commands that begin with a slash, as a table."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from difflib import get_close_matches
from typing import Final

import attrs

# `/etc/hosts is wrong` is a message: a command's name is followed by a blank or the end.
_COMMAND: Final = re.compile(r"/[a-z][a-z0-9:_-]*(\s.*)?", re.DOTALL | re.IGNORECASE)


@attrs.frozen
class SlashCommand:
    """A command.

    Attributes:
        name: without the slash.
        summary: what it does.
        usage: its arguments.
        needs_idle: it can't run during a turn.
    """

    name: str
    summary: str
    usage: str = ""
    needs_idle: bool = False


COMMANDS: Final = (
    SlashCommand("help", "list the commands and keys"),
    SlashCommand("model", "use another model from the next turn on", "[NAME]"),
    SlashCommand("effort", "choose how much the model thinks, from the next turn on", "[LEVEL]"),
    SlashCommand("agent", "continue in a copy of the session with another agent", "[NAME]", needs_idle=True),
    SlashCommand("permissions", "show what is allowed here, or revoke a grant", "[revoke ID]"),
    SlashCommand("profile", "choose what is allowed where no rule decides", "[NAME]"),
    SlashCommand("status", "show the session, its model and what it has cost"),
    SlashCommand("context", "show what fills the model's context window"),
    SlashCommand("cost", "show the tokens and money spent"),
    SlashCommand("compact", "summarise older messages now", "[INSTRUCTIONS]", needs_idle=True),
    SlashCommand("diff", "show the newest turn's changes of files", needs_idle=True),
    SlashCommand("undo", "undo the newest turn, with its changes of files", "[force]", needs_idle=True),
    SlashCommand("redo", "redo what was undone or rewound last", "[force]", needs_idle=True),
    SlashCommand("rewind", "go back to before a prompt: conversation, files, or both", "[NUMBER]", needs_idle=True),
    SlashCommand("resume", "continue another session", "[ID]", needs_idle=True),
    SlashCommand("sessions", "choose another session", needs_idle=True),
    SlashCommand("new", "begin a new session", needs_idle=True),
    SlashCommand("fork", "continue in a copy of this session", needs_idle=True),
    SlashCommand("rename", "give the session a title", "TITLE"),
    SlashCommand("jobs", "list background commands; stop one, or add its output to the draft", "[stop|add NAME]"),
    SlashCommand("agents", "list sub-agents, or read what one did", "[NUMBER]"),
    SlashCommand("queue", "list the messages that wait; edit, move or remove one", "[edit|up|remove NUMBER]"),
    SlashCommand("export", "write the session to a .md, .html or .json file", "FILE [force]"),
    SlashCommand("share", "write the session as a web page; nothing is uploaded", "FILE.html"),
    SlashCommand("init", "have the model write AGENTS.md for this project", "[WISHES]"),
    SlashCommand("review", "have the model review your changes", "[WHAT]"),
    SlashCommand("mcp", "list the MCP servers, and what is known of them"),
    SlashCommand("config", "show the configuration, or explain a key", "[explain KEY]"),
    SlashCommand("doctor", "examine the installation", "[HOST]"),
    SlashCommand("bug", "say how to report a problem"),
    SlashCommand("add", "put the output of your last !command into the draft"),
    SlashCommand("attach", "attach a file, or the image in the clipboard", "[FILE]"),
    SlashCommand("call", "show the last tool call in full"),
    SlashCommand("keys", "list all keys"),
    SlashCommand("copy", "copy the Nth last answer, its code block N, or the diff", "[N|code N|diff]"),
    SlashCommand("theme", "choose the colours", "[NAME]"),
    SlashCommand("redraw", "print the last N turns again", "[N]"),
    SlashCommand("cancel", "cancel the turn"),
    SlashCommand("later", "send a message after this turn", "TEXT"),
    SlashCommand("answer", "answer the question in words", "TEXT"),
    SlashCommand("editor", "write the draft in $EDITOR"),
    SlashCommand("quit", "leave the chat"),
)

# What other agents call them: a user who comes from there finds ours.
_ELSEWHERE: Final = {
    "clear": "new",
    "exit": "quit",
    "summarize": "compact",
    "usage": "cost",
    "stats": "cost",
    "tasks": "jobs",
    "bashes": "jobs",
    "settings": "config",
    "allowed-tools": "permissions",
    "approvals": "permissions",
    "continue": "resume",
    "checkpoint": "rewind",
    "mention": "attach",
    "feedback": "bug",
}
# These need no session.
HANDLED_BY_THE_CHAT: Final = frozenset(
    {"quit", "add", "attach", "call", "cancel", "later", "answer", "editor", "queue", "redraw"}
)


def is_command_line(text: str) -> bool:
    """Return whether *text* is a command and no message."""
    return _COMMAND.fullmatch(text.strip()) is not None


def is_known_command(text: str, commands: Iterable[SlashCommand]) -> bool:
    """Return whether *text* is one of *commands*, maybe with an argument."""
    return is_command_line(text) and any(text.split(maxsplit=1)[0] == f"/{command.name}" for command in commands)


def find_command(name: str, commands: Iterable[SlashCommand]) -> SlashCommand | str:
    """Return the command of that name, or why there is none."""
    by_name = {command.name: command for command in commands}
    if name in by_name:
        return by_name[name]
    close = get_close_matches(_ELSEWHERE.get(name, name), list(by_name), n=1, cutoff=0.5)
    hint = f": did you mean /{close[0]}?" if close else ". /help lists them"
    return f"Unknown command /{name}{hint}"


def matching_commands(text: str, commands: Collection[SlashCommand]) -> list[SlashCommand]:
    """Return the commands that a draft such as `/mo` may become."""
    if not text.startswith("/") or not _COMMAND.fullmatch(f"{text}x") or " " in text or "\n" in text:
        return []
    return [command for command in commands if command.name.lower().startswith(text[1:].lower())]


def is_no_message(text: str) -> bool:
    """Return whether *text* is for the chat itself: a slash command, or a command of the user's own."""
    return is_command_line(text) or text.startswith("!")
