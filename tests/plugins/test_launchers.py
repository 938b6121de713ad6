"""Which commands fetch a package in whatever version there is."""

from __future__ import annotations

import pytest

from engine.plugins.launchers import unpinned

COMMIT = "9fceb02d0ae598e95dc970b74767f19372d61af8"


@pytest.mark.parametrize(
    ("command", "package"),
    [
        ("npx -y @x/files", "@x/files"),
        ("npx -y @x/files@latest .", "@x/files@latest"),
        ("npx -y @x/files@^1.2.0", "@x/files@^1.2.0"),
        ("npx files@1", "files@1"),
        ("/usr/bin/npx --package=files serve", "files"),
        ("npm exec -- files", "files"),
        ("bunx files", "files"),
        ("pnpm dlx files", "files"),
        ("uvx files", "files"),
        ("uvx --python 3.12 files>=1.2.3", "files>=1.2.3"),
        ("uvx --from git+https://x.test/files.git files", "git+https://x.test/files.git"),
        ("uvx --from git+https://x.test/files.git@main files", "git+https://x.test/files.git@main"),
        ("uv tool run files", "files"),
        ("pipx run --spec files==1.* files", "files==1.*"),
        ("docker run -i --rm -e KEY x/files:1.2.3", "x/files:1.2.3"),
    ],
)
def test_unpinned_launchers_are_named(command: str, package: str) -> None:
    assert unpinned(command.split()) == package


@pytest.mark.parametrize(
    "command",
    [
        "npx -y @x/files@1.2.3 .",
        "npx files@1.2.3-beta.1",
        f"npx github:x/files#{COMMIT}",
        "npx ./files",
        "uvx files==1.2.3",
        "uvx --from files==1.2.3 serve",
        f"uvx --from git+https://x.test/files.git@{COMMIT} files",
        f"docker run -i -v a:b x/files@sha256:{'a' * 64}",
        "npm install",
        "python server.py",
        "npx",
        "",
    ],
)
def test_fixed_versions_are_not(command: str) -> None:
    assert unpinned(command.split()) == ""
