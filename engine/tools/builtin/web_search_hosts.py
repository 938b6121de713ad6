"""Web search services as data: what to send, and where the results are in the answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol
from urllib.parse import quote, urlencode, urlsplit

import attrs

from engine.core.errors import ConfigError, ToolError
from engine.core.value_base import Value
from engine.providers.wire.untrusted_json import Json, as_list, as_object, dumps, loads, text

if TYPE_CHECKING:
    from engine.web.fetch import FetchReply

# Services answer with some kilobytes; some include whole pages if asked to.
MAX_REPLY_BYTES: Final = 4 * 1024 * 1024
MAX_TITLE_CHARS: Final = 200
MAX_SNIPPET_CHARS: Final = 600
_MAX_URL_CHARS: Final = 2_000
_MAX_MESSAGE_CHARS: Final = 200
# Selects a service if the environment has keys of several.
CHOICE: Final = "ENGINE_WEB_SEARCH"


@attrs.frozen(kw_only=True, eq=False, repr=False)
class SearchResult(Value):
    """A search result."""

    title: str
    url: str
    snippet: str = ""


class SearchProvider(Protocol):
    """A service that can search the web."""

    @property
    def host(self) -> str:
        """The service's host: rules are matched against it, and people see it."""
        ...

    async def __call__(self, query: str, count: int) -> Sequence[SearchResult]:
        """Return at most *count* results, best first. Raises `ToolError` with a text for the model."""
        ...


@attrs.frozen(kw_only=True, eq=False, repr=False)
class _Question(Value):
    """A request: its path and headers, and a body if it is a POST."""

    path: str
    headers: Mapping[str, str] = attrs.field(factory=dict[str, str], repr=False)
    body: Json | None = None


@attrs.frozen(kw_only=True, eq=False, repr=False)
class _Kind(Value):
    """A kind of service.

    Attributes:
        name: its name in the environment.
        base_url: its URL; empty: the user sets it.
        variable: the environment variable with its key or, if it needs none, with its base URL.
        needs_key: whether it needs a key.
        question: makes a request from a key, a query and a count.
        results: returns the results in an answer.
        snippet: returns the text of a result.
    """

    name: str
    base_url: str
    variable: str
    needs_key: bool
    question: Callable[[str, str, int], _Question]
    results: Callable[[Json], list[object]]
    snippet: Callable[[Json], str]


_KINDS: Final = (
    _Kind(
        name="brave",
        base_url="https://api.search.brave.com",
        variable="BRAVE_API_KEY",
        needs_key=True,
        question=lambda key, query, count: _Question(
            path=f"/res/v1/web/search?{urlencode({'q': query, 'count': count})}",
            headers={"x-subscription-token": key},
        ),
        results=lambda answer: as_list(as_object(answer.get("web")).get("results")),
        snippet=lambda found: text(found, "description"),
    ),
    _Kind(
        name="tavily",
        base_url="https://api.tavily.com",
        variable="TAVILY_API_KEY",
        needs_key=True,
        question=lambda key, query, count: _Question(
            path="/search", headers={"authorization": f"Bearer {key}"}, body={"query": query, "max_results": count}
        ),
        results=lambda answer: as_list(answer.get("results")),
        snippet=lambda found: text(found, "content"),
    ),
    _Kind(
        name="exa",
        base_url="https://api.exa.ai",
        variable="EXA_API_KEY",
        needs_key=True,
        question=lambda key, query, count: _Question(
            path="/search",
            headers={"x-api-key": key},
            body={"query": query, "numResults": count, "contents": {"highlights": True}},
        ),
        results=lambda answer: as_list(answer.get("results")),
        snippet=lambda found: " … ".join(str(part) for part in as_list(found.get("highlights"))) or text(found, "text"),
    ),
    _Kind(
        name="searxng",
        base_url="",
        variable="SEARXNG_URL",
        needs_key=False,
        question=lambda _, query, __: _Question(path=f"/search?{urlencode({'q': query, 'format': 'json'})}"),
        results=lambda answer: as_list(answer.get("results")),
        snippet=lambda found: text(found, "content"),
    ),
)


def brave(key: str, *, base_url: str = "") -> SearchProvider:
    """Return Brave's search. Raises `ConfigError` for an invalid key or URL."""
    return _service("brave", key, base_url)


def tavily(key: str, *, base_url: str = "") -> SearchProvider:
    """Return Tavily's search. Raises `ConfigError` for an invalid key or URL."""
    return _service("tavily", key, base_url)


def exa(key: str, *, base_url: str = "") -> SearchProvider:
    """Return Exa's search. Raises `ConfigError` for an invalid key or URL."""
    return _service("exa", key, base_url)


def searxng(base_url: str) -> SearchProvider:
    """Return a SearXNG's search; its settings must allow the format JSON. Raises `ConfigError` for an invalid URL."""
    return _service("searxng", "", base_url)


def provider_from(environment: Mapping[str, str]) -> SearchProvider | None:
    """Return the service whose key or URL is in the environment; None if none is.

    Of several, it is the one that `ENGINE_WEB_SEARCH` names, else the first of Brave, Tavily, Exa, SearXNG.
    `TAVILY_BASE_URL` and the like set another address for a service. Raises `ConfigError` for an invalid key, URL or
    choice.
    """
    choice = environment.get(CHOICE, "").strip().lower()
    names = [kind.name for kind in _KINDS]
    if choice and choice not in names:
        raise ConfigError(f"{CHOICE} must be one of {', '.join(names)}, not {choice!r}")
    for kind in _KINDS:
        value = environment.get(kind.variable, "").strip()
        if choice not in {"", kind.name}:
            continue
        if value:
            elsewhere = environment.get(f"{kind.name.upper()}_BASE_URL", "").strip()
            return _service(kind.name, value, elsewhere) if kind.needs_key else _service(kind.name, "", value)
        if choice:
            raise ConfigError(f"{CHOICE} is {choice}, but {kind.variable} is not set")
    return None


def _service(name: str, key: str, base_url: str) -> SearchProvider:
    kind = next(kind for kind in _KINDS if kind.name == name)
    # It becomes a header: a line feed in it would add another one.
    if kind.needs_key and not (key.isascii() and key.isprintable() and key.strip() == key and key):
        raise ConfigError(f"the key of {name} must be printable ASCII without blanks around it")
    url = (base_url or kind.base_url).rstrip("/")
    if not _is_plain_url(url):
        raise ConfigError(f"the URL of {name} must be of the form https://host/path, without a password in it")
    return _Service(kind=kind, key=key, base_url=url)


def _is_plain_url(url: str) -> bool:
    parts = urlsplit(url)
    has_host = parts.scheme in {"http", "https"} and bool(parts.hostname) and "@" not in parts.netloc
    return has_host and not parts.query and not parts.fragment


@attrs.frozen(kw_only=True, eq=False, repr=False)
class _Service(Value):
    """A service with its key."""

    kind: _Kind
    key: str = attrs.field(repr=False)
    base_url: str

    @property
    def host(self) -> str:
        return urlsplit(self.base_url).hostname or ""

    async def __call__(self, query: str, count: int) -> Sequence[SearchResult]:
        """Send a search. A checkpoint; if cancelled, the connection is closed."""
        from engine.web.fetch import ask

        question = self.kind.question(self.key, query, count)
        headers = {"accept": "application/json", **question.headers}
        body = b"" if question.body is None else dumps(question.body).encode(errors="replace")
        if body:
            headers["content-type"] = "application/json"
        try:
            method = "POST" if body else "GET"
            reply = await ask(method, self.base_url + question.path, headers, body, limit=MAX_REPLY_BYTES)
        except ToolError as error:
            raise ToolError(self._hidden(f"The search failed: {error}")) from None
        if not 200 <= reply.status < 300:
            raise ToolError(self._hidden(self._error(reply)))
        try:
            answer = as_object(loads(reply.body))
        except ValueError:
            raise ToolError(f"The search failed: {self.host} answered with what is no JSON.") from None
        found = [_result(as_object(item), self.kind) for item in self.kind.results(answer)]
        return [result for result in found if result is not None][:count]

    def _error(self, reply: FetchReply) -> str:
        """Return the error for a failed request."""
        message = _message(reply.body)
        more = f" It says: {message}" if message else ""
        return f"The search failed: {self.host} {self._advice(reply.status, message)} (HTTP {reply.status}).{more}"

    def _advice(self, status: int, message: str) -> str:
        if status in {401, 403} or (status == 422 and "token" in message.lower()):
            if not self.kind.needs_key:
                return "refuses: do its settings allow the format json?"
            return f"does not accept the key in {self.kind.variable}. Tell the user"
        # 432 and 433 are Tavily's, for a plan's limit and for pay-as-you-go.
        if status in {402, 432, 433}:
            return "says that the account's plan or money is used up. Tell the user"
        if status == 429:
            return "gets too many questions: wait a little before the next one, or do without"
        if status in {400, 413, 414, 422}:
            return "refuses this query: put it in other words, or shorter"
        if status >= 500:
            return "is out of order at the moment"
        return "gave an answer that is no result: is its URL right?"

    def _hidden(self, message: str) -> str:
        """Return *message* without the key, which the service may quote."""
        if not self.key:
            return message
        # Also in the form in which it would be in a URL.
        return message.replace(self.key, "[key]").replace(quote(self.key, safe=""), "[key]")


def _message(body: bytes) -> str:
    """Return the service's own error message, wherever it is in the answer."""
    try:
        value: object = loads(body)
    except ValueError:
        return ""
    # `{"error": {"detail": {"message": …}}}`: each service nests it differently.
    for _ in range(4):
        if isinstance(value, str):
            return _one_line(value, _MAX_MESSAGE_CHARS)
        document = as_object(value)
        value = next((document[name] for name in ("detail", "error", "message", "code") if document.get(name)), None)
    return ""


def _result(item: Json, kind: _Kind) -> SearchResult | None:
    url = text(item, "url")
    # A result is untrusted: other schemes would be dangerous to open.
    if not url.startswith(("http://", "https://")) or len(url) > _MAX_URL_CHARS or not url.isprintable():
        return None
    title = _one_line(text(item, "title"), MAX_TITLE_CHARS)
    return SearchResult(title=title or url, url=url, snippet=_one_line(kind.snippet(item), MAX_SNIPPET_CHARS))


def _one_line(words: str, limit: int) -> str:
    """Return a text as one line, without highlighting tags."""
    from engine.web.html_tokens import HtmlText, tokens

    plain = "".join(token.text for token in tokens(words[: 20 * limit]) if isinstance(token, HtmlText))
    line = "".join(character for character in " ".join(plain.split()) if character.isprintable())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"
