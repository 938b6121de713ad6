"""Search among foreign tools: exact names first, then what fits best, and the same answer each time."""

from __future__ import annotations

import random
import time

import attrs
import pytest

from engine.tools.tool_catalogue import WordCounts, argument_texts, count_words, search_tools, words_of


@attrs.frozen
class Entry:
    name: str
    own_name: str
    words: WordCounts


def entry(server: str, own_name: str, *texts: str) -> Entry:
    return Entry(f"{server}_{own_name}", own_name, count_words([server, own_name], texts))


TOOLS = [
    entry("github", "create_issue", "Create an issue in a repository.", "title", "body"),
    entry("github", "listPullRequests", "List pull requests.", "state"),
    entry("jira", "create_ticket", "Create a ticket, which others call an issue.", "project"),
    entry("files", "read_file", "Read a file from the disk.", "path"),
]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("create_issue", ["create", "issue"]),
        ("listPullRequests", ["list", "pull", "request"]),
        ("HTTPServer2", ["http", "server", "2"]),
        ("Größe, 表", ["gr", "öß", "e", "表"]),
        ("class", ["class"]),
    ],
)
def test_words(text: str, words: list[str]) -> None:
    assert list(words_of(text)) == words


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("pull requests", ["github_listPullRequests"]),
        ("issue", ["github_create_issue", "jira_create_ticket"]),
        ("jira_create_ticket", ["jira_create_ticket", "github_create_issue"]),
        ("read_file, create_ticket", ["files_read_file", "jira_create_ticket", "github_create_issue"]),
        ("path", ["files_read_file"]),
        ("xyzzy", []),
        ("", []),
        ("?!", []),
    ],
)
def test_best_fit_comes_first(query: str, names: list[str]) -> None:
    assert [one.name for one in search_tools(TOOLS, query, 5)] == names


def test_order_of_the_catalogue_is_irrelevant() -> None:
    shuffled = random.Random(1).sample(TOOLS, len(TOOLS))
    for query in ("create", "issue file", "list"):
        assert search_tools(TOOLS, query, 5) == search_tools(shuffled, query, 5)


def test_limit_is_kept() -> None:
    assert len(search_tools(TOOLS, "create issue list read", 2)) == 2


def test_arguments_are_found_by_name_and_description() -> None:
    schema = {"properties": {"a": {"description": "first", "properties": {"b": {}}}, "c": True}}
    assert list(argument_texts(schema)) == ["a", "first", "b", "c"]


def test_work_grows_with_the_query_only() -> None:
    """2,000 tools within 5 ms is what a user should see; here only that no index is built at each search."""
    many = [entry("server", f"do_thing_{n}", f"Do the thing {n} for everybody.") for n in range(2_000)]
    began = time.perf_counter()
    assert search_tools(many, "do_thing_77 for everybody", 5)[0].own_name == "do_thing_77"
    assert time.perf_counter() - began < 10
