"""`[language_servers]`: what the user's file says, what is refused, and that a project's file says nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.config.language_server_config import LanguageServer
from engine.core.errors import ConfigError
from engine.settings_file.config_file import load_config
from engine.settings_file.document import parse_document
from engine.settings_file.project_config import restrict_document

WHOLE = """
[language_servers.liar]
command = ["~/bin/liar", "--stdio"]
patterns = ["*.py"]
language = "python"
root_files = ["pyproject.toml"]
env = { LEVEL = "1" }
initialization_options = { "a.b" = true }
settings = { "c.d" = ["x", "y"], "e" = 7 }
memory = 512
"""


def configured(tmp_path: Path, text: str) -> LanguageServer:
    file = tmp_path / "config.toml"
    file.write_text(text)
    return load_config(file, {}).language_servers["liar"]


def test_every_key_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    server = configured(tmp_path, WHOLE)
    assert server.command == ("/home/somebody/bin/liar", "--stdio")
    assert (server.patterns, server.language, server.root_files) == (("*.py",), "python", ("pyproject.toml",))
    assert (dict(server.env), dict(server.initialization_options), server.memory) == (
        {"LEVEL": "1"},
        {"a.b": True},
        512,
    )
    assert dict(server.settings) == {"c.d": ("x", "y"), "e": 7}


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ('command = ["liar"]', "patterns: is required"),
        ('patterns = ["*.py"]', "command: is required"),
        ('command = []\npatterns = ["*.py"]', "command must hold at least one string"),
        ('command = ["node_modules/.bin/liar"]\npatterns = ["*.py"]', "command must name a program in PATH"),
        ('command = ["liar"]\npatterns = ["*.py"]\nmemory = 0', "memory must be a whole number of megabytes above 0"),
        ('command = ["liar"]\npatterns = ["*.py"]\nroot_files = ["a/b"]', "root_files must be names of files"),
        ('command = ["liar"]\npatterns = ["*.py"]\nenv = { "A-B" = "1" }', "env.A-B has an invalid name"),
        ('command = ["liar"]\npatterns = ["*.py"]\nunknown = 1', "unknown"),
        ('command = ["liar"]\npatterns = ["*.py"]\n[language_servers.liar.settings.a]\nb = 1', "settings"),
    ],
)
def test_values_that_can_not_work_are_refused(tmp_path: Path, lines: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=r"config\.toml") as raised:
        configured(tmp_path, f"[language_servers.liar]\n{lines}")
    assert problem in str(raised.value)


def test_a_project_starts_no_language_server() -> None:
    document = parse_document(WHOLE.encode(), "/p/.engine/config.toml", "project")
    kept, ignored = restrict_document(document, {})
    assert kept.values == {}
    assert [(one.key, one.reason) for one in ignored] == [
        (("language_servers", "liar"), "a project's file can't start programs")
    ]


@pytest.mark.parametrize(
    ("name", "language"),
    [("a.py", "python"), ("a.TSX", "typescriptreact"), ("a.zig", "zig"), ("Makefile", "plaintext")],
)
def test_language_of_a_file(name: str, language: str) -> None:
    assert LanguageServer(command=("liar",), patterns=("*",)).language_of(name) == language
    assert LanguageServer(command=("liar",), patterns=("*",), language="own").language_of(name) == "own"
