"""Citations in a chat response.

They come as annotations of the message, before or after the text they belong to, or as lists of URLs: Perplexity repeats its
whole list in each event. A listed source that an annotation has named is not repeated.
"""

from __future__ import annotations

import attrs

from engine.core.llm_types import Cited, StreamEvent
from engine.core.messages import Citation
from engine.providers.wire.untrusted_json import Json, as_list, as_object, dumps, is_object, text

# Longer members, such as a page's text, are not kept with each citation.
_LONGEST_FACT = 200


@attrs.define(eq=False, repr=False)
class CitationCollector:
    """The citations of one response."""

    _waiting: list[Citation] = attrs.field(factory=list[Citation], init=False)
    _named: set[str] = attrs.field(factory=set[str], init=False)
    _listed: list[object] = attrs.field(factory=list[object], init=False)
    _search_results: list[object] = attrs.field(factory=list[object], init=False)

    def annotate(self, annotations: list[object], block: str | None, out: list[StreamEvent]) -> None:
        """Add annotations; *block* is the open text."""
        for annotation in map(as_object, annotations):
            facts = as_object(annotation.get("url_citation")) or annotation
            if text(facts, "url"):
                self._waiting.append(_citation(facts, annotation))
                self._named.add(text(facts, "url"))
        if block is not None:
            self.flush(block, out)

    def read_lists(self, event: Json) -> None:
        """Read the lists of an event; the last ones count."""
        self._listed = as_list(event.get("citations")) or self._listed
        self._search_results = as_list(event.get("search_results")) or self._search_results

    def flush(self, block: str, out: list[StreamEvent]) -> None:
        """Emit pending citations."""
        out += [Cited(block, citation) for citation in self._waiting]
        self._waiting.clear()

    def finish(self, block: str | None, out: list[StreamEvent]) -> int:
        """Emit the rest; return how many have no text."""
        results = {text(facts, "url"): facts for facts in map(as_object, self._search_results)}
        listed = [{"url": each} if isinstance(each, str) else as_object(each) for each in self._listed]
        # Perplexity's newer list has titles, the older one only URLs.
        for facts in listed or [as_object(each) for each in self._search_results]:
            url = text(facts, "url")
            if url and url not in self._named:
                self._waiting.append(_citation(results.get(url, facts), results.get(url, facts)))
        if block is None:
            return len(self._waiting)
        self.flush(block, out)
        return 0


def _citation(facts: Json, raw: Json) -> Citation:
    return Citation(url=text(facts, "url"), title=text(facts, "title"), raw=dumps(_short(raw)))


def _short(facts: Json) -> Json:
    return {
        name: _short(value) if is_object(value) else value
        for name, value in facts.items()
        if not isinstance(value, str) or len(value) <= _LONGEST_FACT or name == "url"
    }
