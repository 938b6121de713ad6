"""Texts of strangers take no longer than their length: nobody stops an engine by what a file, a model or a summary says.

Most of this runs where nothing else can meanwhile, since a regular expression keeps the interpreter to itself.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Literal

import attrs
import pytest

from engine.agents.markdown_file import AgentFileError, parse_agent
from engine.cli.terminal.terminal_text import escape_control_chars
from engine.compaction.fallback_summary import extract_summary
from engine.compaction.summary_prompt import TEMPLATE, parse_sections, strip_wrapping
from engine.compaction.verbatim_parts import paths_in, rules_in
from engine.core.errors import JournalCorrupt
from engine.core.messages import Message, Settlement
from engine.export.html_text import render_text
from engine.export.markdown import parse_markdown
from engine.export.sanitize import escape_unsafe_chars
from engine.files.escaping import inert
from engine.files.front_matter import FrontMatterError, parse_document
from engine.prompt.command_text import Command
from engine.prompt.imports import find_imports
from engine.session.structured_output import output_spec
from tests.support.histories import answers, calls, gives, says

LENGTH = 20_000
SECONDS = 2.0


def _agent(text: str) -> object:
    names = text.replace("\n", " ")
    try:
        return parse_agent(f"---\nname: a\ndescription: d\ntools: a{names}\n---\nx", "a", "a.md")
    except AgentFileError:
        return None


def _conversation(text: str) -> object:
    try:
        return parse_markdown(f"## User\n{text}", str)
    except JournalCorrupt:
        return None


def _front_matter(text: str) -> object:
    try:
        document = parse_document(f"---\na: {text}\n---\n")
        return [source.parse() for source in document.others.values()]
    except FrontMatterError:
        return None


def _extracted(text: str) -> object:
    results: list[Message] = []
    statuses: tuple[Literal["completed", "error"], ...] = ("completed", "error")
    for status in statuses:
        call = calls("bash", {"command": text}, id=status)
        results += [answers(text, calls=[call]), gives((call, Settlement(status=status, text=text)))]
    return extract_summary([says(text), *results], text)


@attrs.frozen
class _Answer:
    text: str


READERS: dict[str, Callable[[str], object]] = {
    "agent": _agent,
    "command": lambda text: Command(name="c", text=text).render(["a"]),
    "conversation": _conversation,
    "extracted": _extracted,
    "fitted": output_spec(_Answer).check,
    "front matter": _front_matter,
    "harmless": escape_unsafe_chars,
    "imported": lambda text: find_imports(text, "/a", "/home"),
    "inert": inert,
    "paths": lambda text: paths_in(json.dumps({"patch": f"*** Add File: a{text}b"})),
    "prose": render_text,
    "rules": rules_in,
    "sections": parse_sections,
    "tidied": lambda text: strip_wrapping(text, TEMPLATE),
    "escape_control_chars": escape_control_chars,
}
HEADS = ("", "<", "# a", "```", '"')
REPEATED = (
    " ",
    "\n",
    "\t",
    ",",
    "(",
    "a",
    "`",
    "~",
    "<",
    "< ",
    "*",
    "**a",
    "# ",
    "#\n",
    "a. ",
    "'",
    '"',
    "\\",
    "@a",
    "$1",
    "a:",
    ":",
    "Error",
)


@pytest.mark.parametrize("reader", READERS)
def test_no_text_takes_longer_than_its_length(reader: str) -> None:
    read = READERS[reader]
    for head in HEADS:
        for repeated in REPEATED:
            text = f"{head}{repeated * (LENGTH // len(repeated))}\x01x"
            began = time.process_time()
            read(text)
            assert time.process_time() - began < SECONDS, (head, repeated)
