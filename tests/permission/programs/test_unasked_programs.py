"""The list of the programs that may run unasked: complete, and short enough to be read."""

import shlex

import pytest

from engine.permission.programs.program_registry import DEFAULT_REGISTRY, extend_registry
from engine.permission.programs.unasked_programs import list_unasked
from tests.permission.programs.test_developer_programs import READING, meaning

LISTED = tuple(list_unasked(DEFAULT_REGISTRY))
NAMES = {name.strip() for line in LISTED for name in line.partition(": ")[0].split(",")}


def test_list_is_short_enough_to_be_read() -> None:
    assert len(LISTED) <= 60
    assert len(NAMES) <= 225


@pytest.mark.parametrize("line", READING)
def test_program_that_only_reads_is_listed(line: str) -> None:
    name = shlex.split(line)[0]
    assert line == f"{name} --version" or name in {words.split()[0] for words in NAMES}


@pytest.mark.parametrize("name", ["npm", "pip", "docker", "kubectl", "cargo", "gh", "make", "python x", "sudo", "tmux"])
def test_program_that_asks_is_not_listed(name: str) -> None:
    assert name not in NAMES
    assert not meaning(name).reads_only


def test_git_commands_are_listed() -> None:
    assert {"git status", "git diff", "git log", "git stash list", "git config"} <= NAMES
    assert not NAMES & {"git push", "git commit", "git fetch", "git stash pop"}


def test_programs_of_the_user_are_listed() -> None:
    lines = tuple(list_unasked(extend_registry({"peek": {"reading": "free", "options": "-o=writes -q"}})))
    assert "peek: not with -o" in lines
