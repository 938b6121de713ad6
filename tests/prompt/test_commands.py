"""Custom commands: found, read, and what is given to them put in place."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.prompt.command_text import Command, split_words
from engine.prompt.commands import MAX_BYTES, find_commands


def write(path: Path, said: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(said.encode() if isinstance(said, str) else said)
    return path


@pytest.mark.parametrize(
    ("text", "arguments", "rendered"),
    [
        ("Review.", [], "Review."),
        ("Review $ARGUMENTS.", ["a", "b c"], "Review a b c."),
        ("From $1 to $2.", ["a", "b c"], "From a to b c."),
        ("From $1 to $2.", ["a"], "From a to ."),
        ("$1 $1 $ARGUMENTS", ["x", "y"], "x x x y"),
        # There is no place for them.
        ("Review.", ["main", "loops"], "Review.\n\nmain loops"),
        # What a shell or a price list says is left alone.
        ("$HOME $$ $10 ${1} $ARGUMENTSX", [], "$HOME $$ $10 ${1} $ARGUMENTSX"),
        (r"\$1 and \$ARGUMENTS", ["x"], "$1 and $ARGUMENTS\n\nx"),
        # What is given stands for itself.
        ("$1", ["$2", "$ARGUMENTS"], "$2"),
        ("$ARGUMENTS", ["$1", r"\1"], r"$1 \1"),
    ],
)
def test_arguments_are_substituted(text: str, arguments: list[str], rendered: str) -> None:
    assert Command(name="x", text=text).render(arguments) == rendered


RUN = "Where it says !`command`, run that command first: its output belongs there."
READ = "Where it says @path, read that file first."


@pytest.mark.parametrize(
    ("text", "notes"),
    [
        ("Now: !`git diff`", RUN),
        ("See @src/a.py.", READ),
        ("See @README.md, @$1 and @$ARGUMENTS", READ),
        ("!`git status` of @~/notes.md", f"{RUN} {READ}"),
        ("Ask @octocat, me@example.org! `git diff` is @ work", ""),
    ],
)
def test_foreign_placeholders_become_instructions(text: str, notes: str) -> None:
    plain = text.replace("$1", "").replace("$ARGUMENTS", "")
    assert Command(name="x", text=text).render([]) == (f"{plain}\n\n({notes})" if notes else plain)
    # What the user gives is a text, whatever it looks like.
    assert "Where it says" not in Command(name="x", text="Do").render(["!`rm -rf x`", "@a/b"])


@given(st.text(), st.lists(st.text()))
def test_any_text_and_any_arguments_are_a_prompt(text: str, arguments: list[str]) -> None:
    rendered = Command(name="x", text=text).render(arguments)
    if not set("$@!") & set(text):
        whole = " ".join(arguments)
        assert rendered == (f"{text}\n\n{whole}" if whole else text)


@pytest.mark.parametrize(
    ("line", "words"),
    [("", []), ("a  b", ["a", "b"]), ("a 'b c'", ["a", "b c"]), ("don't split", ["don't", "split"])],
)
def test_words_of_a_line(line: str, words: list[str]) -> None:
    assert split_words(line) == words


def test_first_command_of_a_name_wins(tmp_path: Path) -> None:
    review = write(
        tmp_path / "a/review.md",
        "---\ndescription: Review\n  a change\nagent: reviewer\nmodel: host/model\nargument-hint: '[branch]'\n---\nReview $1.\n",
    )
    write(tmp_path / "b/review.md", "Not this.")
    write(tmp_path / "b/git/tidy.md", "Tidy up.")
    write(tmp_path / "b/notes.txt", "no command")
    write(tmp_path / "b/.hidden.md", "no command")
    found = find_commands([str(tmp_path / "a"), str(tmp_path / "missing"), str(tmp_path / "b")])
    assert found.problems == ()
    assert [command.name for command in found.available] == ["git:tidy", "review"]
    assert found.get("review") == Command(
        name="review",
        text="Review $1.",
        description="Review a change",
        agent="reviewer",
        model="host/model",
        path=str(review),
    )
    assert found.get("nope") is None
    assert found.suggest("reviewer") == "similar: /review"
    assert find_commands([]).suggest("x") == "no commands are defined"


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"\0", "it is binary, not text"),
        (b"\xe9t\xe9", "it is not UTF-8 (byte 1)"),
        (b"", "the file has no text"),
        (b"---\nagent: x\n---\n", "the file has no text"),
        (b"---\nagent: x\n", "its front matter has no end: a second line --- is missing"),
        (b"x" * (MAX_BYTES + 1), "it is larger than 100,000 bytes"),
    ],
)
def test_unusable_command_is_reported_alone(tmp_path: Path, content: bytes, why: str) -> None:
    bad = write(tmp_path / "bad.md", content)
    write(tmp_path / "good.md", "Go.")
    found = find_commands([str(tmp_path)])
    assert [command.name for command in found.available] == ["good"]
    assert found.problems == ((str(bad), why),)


def test_outside_link_is_no_command(tmp_path: Path) -> None:
    write(tmp_path / "secret", "the secret")
    folder = tmp_path / "commands"
    folder.mkdir()
    (folder / "evil.md").symlink_to("../secret")
    (folder / "loop.md").symlink_to("loop.md")
    found = find_commands([str(folder)])
    assert found.available == ()
    assert [why for _, why in found.problems] == [
        f"it is a link to a file outside of {folder}",
        "its links go round in circles, or there are too many of them",
    ]


def test_links_may_lead_to_where_they_are_let(tmp_path: Path) -> None:
    write(tmp_path / "home/dotfiles/tidy.md", "Tidy up.")
    write(tmp_path / "elsewhere.md", "the secret")
    folder = tmp_path / "home/commands"
    folder.mkdir()
    (folder / "tidy.md").symlink_to("../dotfiles/tidy.md")
    (folder / "evil.md").symlink_to("../../elsewhere.md")
    assert find_commands([str(folder)]).available == ()
    found = find_commands([str(folder)], within=str(tmp_path / "home"))
    assert [command.name for command in found.available] == ["tidy"]
    assert [why for _, why in found.problems] == [f"it is a link to a file outside of {tmp_path / 'home'}"]


def test_first_find_of_a_name_counts(tmp_path: Path) -> None:
    write(tmp_path / "a/x.md", "Mine.")
    write(tmp_path / "b/x.md", "Not this.")
    write(tmp_path / "b/c.md", "Too.")
    write(tmp_path / "b/bad.md", b"\0")
    both = find_commands([str(tmp_path / "a")]).merged_with(find_commands([str(tmp_path / "b")]))
    assert [(command.name, command.text) for command in both.available] == [("c", "Too."), ("x", "Mine.")]
    assert len(both.problems) == 1
