"""Replace a text in a file, or explain why not in a way that helps the model to correct its request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs

from engine.core.errors import ToolError
from engine.files.diff import comparison
from engine.files.text_files import MAX_TEXT_BYTES
from engine.tools.edit.match import Ambiguous, Lines, Matched, Missing, find
from engine.tools.edit.match_lines import Tier
from engine.tools.edit.source_text import SourceText, unix
from engine.tools.edit.unicode_forms import lookalikes

_PLACES_NAMED: Final = 20
# A screen: more would crowd out the rest of the model's window.
_COMPARED_LINES: Final = 60


@attrs.frozen
class Replaced:
    """The text after an edit, the tier that found its place, and the lines concerned."""

    text: str
    tier: Tier
    lines: tuple[Lines, ...]
    count: int = 1

    @property
    def where(self) -> str:
        """The lines, for people."""
        return named(self.lines, self.count)

    @property
    def caution(self) -> str:
        """A note for the model if the place is not an exact match."""
        return "" if self.tier == "exact" else f"not exactly old_string, but alike ({self.tier}): check it"


def replace(shown: str, text: str, old: str, new: str, *, replace_all: bool = False, fuzzy: bool = True) -> Replaced:
    """Return *text*, of the file *shown*, after the edit. Raises `ToolError` if the place is not certain."""
    if not old:
        raise ToolError("old_string is empty. To create a file, or to replace all of it, use the write tool.")
    if unix(old) == unix(new):
        raise ToolError("old_string and new_string are the same: there is nothing to change. (Line endings are kept.)")
    source = SourceText(text)
    # Before it is made: a short text replaced by a long one everywhere could fill the memory.
    if replace_all and len(new) > len(old):
        size = len(text) + source.text.count(unix(old)) * (len(new) - len(old))
        if size > MAX_TEXT_BYTES:
            raise ToolError(
                f"{shown} would have {size:,} characters then; the limit of this tool is {MAX_TEXT_BYTES:,} bytes. Nothing "
                "was changed."
            )
    answer = find(source, old, new, replace_all=replace_all, fuzzy=fuzzy)
    match answer:
        case Matched():
            return Replaced(source.spliced(answer.splices), answer.tier, answer.lines, answer.count)
        case Ambiguous(tier="exact"):
            raise ToolError(
                f"old_string was found {answer.count:,} times in {shown}, on {_lines(answer)}. Add lines around it "
                "so that it fits one place, or set replace_all. Nothing was changed."
            )
        case Ambiguous():
            raise ToolError(
                f"old_string was not found exactly in {shown}, and {answer.count:,} places are like it "
                f"({answer.tier}), on {_lines(answer)}. Give it as it stands in the file, with enough lines around it to "
                f"fit one place. Nothing was changed.{best_place(source, old, answer, 'old_string')}"
            )
        case Missing():
            raise ToolError(
                f"old_string was not found in {shown}; nothing was changed. {_instead(source, old, answer)}"
            )


def named(places: Sequence[Lines], count: int = 0) -> str:
    """Return `line 3`, `lines 3-5` or `lines 3-5, 7 and 9 more`, of *count* places."""
    spans = [str(first) if first == last else f"{first}-{last}" for first, last in places[:_PLACES_NAMED]]
    others = max(count, len(places)) - len(spans)
    more = f" and {others:,} more" if others else ""
    word = "line" if len(places) == 1 and places[0][0] == places[0][1] else "lines"
    return f"{word} {', '.join(spans)}{more}"


def compared(source: SourceText, old: str, lines: Lines) -> str:
    """Return a comparison of the request's text with the given lines of the file."""
    first, last = lines
    request = unix(old).strip("\n")
    differs = comparison(request, "\n".join(source.lines[first - 1 : last]), first=first, limit=_COMPARED_LINES)
    return differs.removesuffix("\n") + lookalikes(source, request.split("\n"), first - 1, last - 1)


def best_place(source: SourceText, old: str, answer: Ambiguous, request: str) -> str:
    """Return a comparison with the place that the request probably means; empty if no place is more probable."""
    if answer.best is None:
        return ""
    differs = compared(source, old, answer.best)
    return f" It probably means {named([answer.best])}. This is what differs (- {request}, + the file):\n{differs}"


def _lines(answer: Ambiguous) -> str:
    return named([(line, line) for line in answer.lines], answer.count)


def _instead(source: SourceText, old: str, answer: Missing) -> str:
    """Return what the file has in the place of the missing text."""
    if answer.why == "long":
        return "In a file that long, only what is exactly there is found."
    if answer.lines is None:
        return "There is nothing like it either. Read the file again."
    where = named([answer.lines])
    if answer.why == "applied":
        return f"But new_string stands there already, on {where}: this edit seems to have been made before."
    hint = f"The most similar place is {where}"
    if answer.why == "lossy":
        hint = f"Much of it is like {where}, but the file has more there, which would be lost"
    differs = compared(source, old, answer.lines)
    return f"{hint}. This is what differs (- old_string, + the file):\n{differs}"
