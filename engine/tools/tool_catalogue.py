"""Search among foreign tools by words: BM25 over their names, descriptions and arguments. Pure, and always the same answer.

No index is kept: a query has a few words, and looking those up in each tool's own counts is quick enough.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Protocol, TypeVar, cast

import attrs

from engine.core.lazy import regex

# The usual constants of BM25.
_SATURATION: Final = 1.2
_LENGTH: Final = 0.75
_WORD: Final = regex(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W\d_A-Za-z]+")
_NAME_WEIGHT: Final = 3
_MAX_QUERY_WORDS: Final = 32
_MAX_WORDS: Final = 2_000


@attrs.frozen(eq=False, repr=False)
class WordCounts:
    """The words of one tool, with how often it has each."""

    counts: Mapping[str, int]
    length: int


class Searchable(Protocol):
    """What can be found: its names, and its words."""

    @property
    def name(self) -> str:
        """Its name for models."""
        ...

    @property
    def own_name(self) -> str:
        """Its name at its server."""
        ...

    @property
    def words(self) -> WordCounts:
        """Its words."""
        ...


S = TypeVar("S", bound=Searchable)


def words_of(text: str) -> Iterator[str]:
    """Yield the words of a text, split at case and `_`, in lower case and without a plural's s."""
    for match in _WORD.finditer(text):
        word = match.group().lower()
        yield word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def count_words(names: Iterable[str], texts: Iterable[str]) -> WordCounts:
    """Return the words of a tool with those *names* and *texts*."""
    counts: Counter[str] = Counter()
    for name in names:
        for word in words_of(name[:_MAX_WORDS]):
            counts[word] += _NAME_WEIGHT
    for text in texts:
        counts.update(word for word, _ in zip(words_of(text), range(_MAX_WORDS), strict=False))
    return WordCounts(dict(counts), sum(counts.values()))


def argument_texts(schema: object, depth: int = 3) -> Iterator[str]:
    """Yield the names and descriptions of the arguments that a schema describes."""
    node = cast("dict[str, object]", schema) if isinstance(schema, dict) else {}
    properties = node.get("properties")
    members = cast("dict[str, object]", properties) if isinstance(properties, dict) else {}
    for name, part in members.items():
        yield name
        inner = cast("dict[str, object]", part) if isinstance(part, dict) else {}
        described = inner.get("description")
        if isinstance(described, str):
            yield described
        if depth:
            yield from argument_texts(inner, depth - 1)


def search_tools(tools: Sequence[S], query: str, limit: int) -> list[S]:
    """Return the tools that fit *query* best, those whose exact name it has first; none for a query without words."""
    named = {*query.replace(",", " ").split()}
    exact = [tool for tool in tools if tool.name in named or tool.own_name in named]
    words = list(dict.fromkeys(words_of(query)))[:_MAX_QUERY_WORDS]
    scores = _scores([tool.words for tool in tools], words)
    # By name where two fit equally well: the same catalogue gives the same answer.
    fitting = ((-score, tools[place].name, place) for place, score in enumerate(scores) if score)
    order = heapq.nsmallest(limit, fitting)
    ranked = [*sorted(exact, key=lambda tool: tool.name), *(tools[place] for _, _, place in order)]
    return list({tool.name: tool for tool in ranked}.values())[:limit]


def _scores(tools: Sequence[WordCounts], words: Sequence[str]) -> list[float]:
    """Return how well each tool fits the words."""
    scores = [0.0] * len(tools)
    mean = sum(tool.length for tool in tools) / len(tools) if tools else 1.0
    for word in words:
        having = [(place, tool) for place, tool in enumerate(tools) if word in tool.counts]
        rarity = math.log(1 + (len(tools) - len(having) + 0.5) / (len(having) + 0.5))
        for place, tool in having:
            count = tool.counts[word]
            damping = _SATURATION * (1 - _LENGTH + _LENGTH * tool.length / (mean or 1.0))
            scores[place] += rarity * count * (_SATURATION + 1) / (count + damping)
    return scores
