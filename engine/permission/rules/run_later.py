"""Files that some program runs or obeys by itself: one table, for the profiles and for the box that commands write in.

They take effect when a user enters the folder, opens it in an editor, uses git, a shell, a package manager or a debugger in it,
starts an agent, or pushes it. What runs because a user builds or tests the project (`Makefile`, `package.json`,
`conftest.py`) is the project's own code, and not listed.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from engine.files.globs import glob_regex
from engine.permission.rules.path_pattern import PathPattern

_VERSION_CONTROL: Final = (
    ".git",
    ".gitmodules",
    ".gitconfig",
    ".hg",
    ".hgrc",
    ".jj",
    ".svn",
    ".husky",
    ".githooks",
    ".git-hooks",
    ".overcommit.yml",
    ".pre-commit-config.y{,a}ml",
    "{,.}lefthook{,-local}.{yml,yaml,toml,json}",
)
_AGENTS: Final = (
    ".engine",
    ".agents",
    ".claude",
    ".claude.json",
    ".codex",
    ".gemini",
    ".opencode",
    "opencode.json{,c}",
    ".qwen",
    ".kiro",
    ".junie",
    ".augment",
    ".amazonq",
    ".goose{,hints}",
    ".crush{,.json}",
    "crush.json",
    ".continue",
    ".aider.conf.yml",
    ".cursor",
    ".cursorrules",
    ".windsurf",
    ".windsurfrules",
    ".clinerules",
    ".roo",
    ".roomodes",
    ".roorules*",
    ".rules",
    "{,.}mcp.json",
    "AGENT{,S}{,.override}.md",
    "CLAUDE{,.local}.md",
    "{GEMINI,QWEN,CRUSH,WARP}.md",
    "**/.github/copilot-instructions.md",
    "**/.github/{instructions,prompts,chatmodes,agents,skills,hooks}",
)
_EDITORS: Final = (
    ".vscode",
    "*.code-workspace",
    ".vs",
    ".idea",
    ".fleet",
    ".zed",
    ".nova",
    ".devcontainer",
    ".devcontainer.json",
    ".vim",
    ".vimrc",
    ".nvim",
    ".nvimrc",
    ".nvim.lua",
    ".lvimrc",
    ".exrc",
    ".dir-locals{,-2}.el",
    ".emacs",
    ".emacs.d",
    ".gdbinit",
    ".gdbearlyinit",
    ".lldbinit",
    "*-gdb.{gdb,py,scm}",
    ".pdbrc",
)
_SHELLS: Final = (
    ".envrc",
    ".direnv",
    ".autoenv{,.zsh}",
    ".{,z}env.zsh",
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".bash_aliases",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".zlogout",
    ".kshrc",
    ".{,t}cshrc",
    ".login",
    ".inputrc",
    ".screenrc",
    ".tmux.conf",
    ".xinitrc",
    ".xprofile",
    ".xsession",
    ".irbrc",
    ".pryrc",
    ".Rprofile",
    "**/.config/{autostart,environment.d,fish,git,mise,nvim,systemd}",
)
# Tools that choose and start programs, and package managers that load code from a folder.
_TOOLS: Final = (
    ".tool-versions",
    "{,.}mise{,.local,.*}.toml",
    ".mise",
    ".rtx{,.local,.*}.toml",
    ".cargo",
    "rust-toolchain{,.toml}",
    ".mvn",
    ".gradle",
    "**/gradle/wrapper",
    ".bazelrc",
    ".pnpmfile.{c,m,}js",
    "pnpmfile.js",
    ".yarn",
    ".yarnrc{,.yml}",
    ".npmrc",
    "{,.}bunfig.toml",
    ".rspec",
    "{site,user}customize.py",
    "*.pth",
)
_SERVICES: Final = (
    "**/.{github,gitea,forgejo}/{workflows,actions}",
    ".github/dependabot.yml",
    "{,.}gitlab-ci.y{,a}ml",
    ".gitlab/ci",
    ".circleci",
    ".buildkite",
    ".woodpecker{,.yml,.yaml}",
    ".drone.y{,a}ml",
    ".travis.yml",
    "{.azure-,azure-,bitbucket-}pipelines.y{,a}ml",
    "Jenkinsfile*",
)

# Patterns of paths: see `path_pattern`.
RUN_LATER: Final = (*_VERSION_CONTROL, *_AGENTS, *_EDITORS, *_SHELLS, *_TOOLS, *_SERVICES)

# Of those, what says which servers, hooks and programs an agent starts, and what it may do.
_CONFIGURATION: Final = (
    ".engine",
    "{,.}mcp.json",
    ".claude.json",
    "**/.claude/settings{,.local}.json",
    "**/.claude/hooks",
    "**/.config/engine",
    "**/.local/{share,state}/engine",
)

# Folders of installed packages: users do not open them, and what builds or tests the project runs their content anyway.
INSTALLED: Final = frozenset({"node_modules", "site-packages", ".venv", "venv"})


def runs_later(path: str) -> bool:
    """Return whether a path, relative to the project, is in the table, or lies in a folder that is; in doubt, True."""
    return any(pattern.may_match(path) for pattern in _patterns())


def is_configuration(path: str) -> bool:
    """Return whether a path, relative to the project or absolute, is an agent's configuration; in doubt, True."""
    return any(pattern.may_match(path) for pattern in _configuration())


def may_run_later(name: str) -> bool:
    """Return whether a path that ends with *name* can be in the table itself: a hundred times faster than `runs_later`."""
    return _last_names().match(name) is not None


@cache
def _patterns() -> tuple[PathPattern, ...]:
    return tuple(PathPattern(one, "/", "/") for one in RUN_LATER)


@cache
def _configuration() -> tuple[PathPattern, ...]:
    return tuple(PathPattern(one, "/", "/") for one in _CONFIGURATION)


@cache
def _last_names() -> re.Pattern[str]:
    globs = sorted({shape.names[-1] for pattern in _patterns() for shape in pattern.shapes})
    return re.compile("|".join(map(glob_regex, globs)), re.DOTALL)
