"""The profiles: what is allowed, asked and denied where no rule says otherwise."""

from __future__ import annotations

import pytest

from engine.core.errors import ConfigError
from engine.core.permission_types import Rule
from engine.permission.rules.profiles import PROFILES, defaults
from engine.permission.rules.rules import Layer, Ruleset
from engine.permission.rules.run_later import runs_later
from engine.tools.builtin.builtin_tools import builtin_tools

PROJECT, HOME = "/home/me/app", "/home/me"

# permission, pattern: what `ask`, `auto-edit`, `read-only` and `full` say.
CASES = {
    ("read", "src/a.py"): "allow allow allow allow",
    ("read", "."): "allow allow allow allow",
    ("read", "/etc/passwd"): "allow allow allow allow",  # but it is outside
    ("outside", "/etc/passwd"): "ask ask ask allow",
    ("read", ".env"): "ask ask ask allow",
    ("read", "a/.env.local"): "ask ask ask allow",
    ("read", "a/prod.env"): "ask ask ask allow",
    ("read", "a/.env.example"): "allow allow allow allow",
    ("read", "a/.env.sample"): "allow allow allow allow",
    ("read", "certs/a.pem"): "ask ask ask allow",
    ("read", "/home/me/.ssh/config"): "ask ask ask allow",
    ("read", "/home/me/.aws/credentials"): "ask ask ask allow",
    ("read", "/home/me/.docker/config.json"): "ask ask ask allow",
    ("read", "id_ed25519"): "ask ask ask allow",
    ("read", "id_ed25519.pub"): "allow allow allow allow",
    ("read", "src/environment.py"): "allow allow allow allow",
    ("read", "src/keys.py"): "allow allow allow allow",
    ("read", ".git/config"): "allow allow allow allow",
    ("edit", "src/a.py"): "ask allow deny allow",
    ("edit", ".env"): "ask ask deny allow",
    ("edit", ".env.example"): "ask allow deny allow",
    ("edit", ".git/hooks/pre-commit"): "ask ask deny allow",
    ("edit", "sub/.git/config"): "ask ask deny allow",
    ("edit", ".engine/config.toml"): "ask ask deny allow",
    ("edit", ".vscode/tasks.json"): "ask ask deny allow",
    ("edit", ".husky/pre-commit"): "ask ask deny allow",
    ("edit", ".envrc"): "ask ask deny allow",
    ("edit", ".gitignore"): "ask allow deny allow",
    ("edit", ".github/workflows/ci.yml"): "ask ask deny allow",
    ("edit", ".github/CODEOWNERS"): "ask allow deny allow",
    ("edit", "Makefile"): "ask allow deny allow",
    ("bash", "rm x"): "ask ask deny allow",
    ("bash:read", "ls"): "allow allow ask allow",
    ("opaque", "eval $x"): "ask ask deny allow",
    ("web", "example.org"): "ask ask ask allow",
    ("task", "explore"): "ask allow ask allow",
    ("skill", "pdf"): "allow allow allow allow",
    ("question", "*"): "allow allow allow allow",
    ("todo", "*"): "allow allow allow allow",
    ("bash_output", "job-1"): "allow allow allow allow",
    ("bash_stop", "job-1"): "allow allow allow allow",
    ("mcp_docs_find", "*"): "ask ask deny allow",
    ("mcp_docs_find:read", "*"): "allow allow allow allow",
    ("context:read", "*"): "allow allow allow allow",
}


@pytest.mark.parametrize(("right", "verdicts"), CASES.items(), ids=" ".join)
def test_verdicts_of_each_profile(right: tuple[str, str], verdicts: str) -> None:
    assert [Ruleset([defaults(name)], PROJECT, HOME).judge(*right).verdict for name in PROFILES] == verdicts.split()


# One of each kind that the table lists, where it lies in a project.
RUN_LATER = [
    ".agents/skills/x/SKILL.md",
    ".claude/settings.json",
    ".codex/config.toml",
    ".cursor/rules/a.mdc",
    ".cursorrules",
    ".windsurfrules",
    ".clinerules",
    "AGENTS.md",
    "sub/AGENTS.md",
    "AGENTS.override.md",
    "CLAUDE.md",
    "CLAUDE.local.md",
    "GEMINI.md",
    ".github/copilot-instructions.md",
    ".mcp.json",
    "opencode.json",
    ".zed/settings.json",
    ".vscode/tasks.json",
    "app.code-workspace",
    ".idea/workspace.xml",
    ".devcontainer/devcontainer.json",
    ".devcontainer.json",
    ".nvim.lua",
    ".nvimrc",
    ".exrc",
    ".dir-locals.el",
    ".gdbinit",
    "sub/.gdbinit",
    ".lldbinit",
    "lefthook.yml",
    ".lefthook-local.yaml",
    "lefthook.toml",
    ".pre-commit-config.yaml",
    ".husky/pre-push",
    ".git/hooks/pre-commit",
    ".gitmodules",
    "mise.toml",
    ".mise.local.toml",
    "mise.local.toml",
    ".mise/tasks/a",
    ".config/mise/config.toml",
    ".tool-versions",
    ".envrc",
    ".cargo/config.toml",
    "rust-toolchain.toml",
    ".pnpmfile.cjs",
    ".yarnrc",
    ".yarnrc.yml",
    ".yarn/releases/yarn.cjs",
    ".npmrc",
    "bunfig.toml",
    ".mvn/extensions.xml",
    "sitecustomize.py",
    "a.pth",
    "gradle/wrapper/gradle-wrapper.properties",
    ".github/workflows/ci.yml",
    ".gitlab-ci.yml",
    ".circleci/config.yml",
    "Jenkinsfile",
    ".buildkite/pipeline.yml",
    "azure-pipelines.yml",
    ".bash_aliases",
    ".zlogout",
    ".config/systemd/user/a.service",
    ".Rprofile",
    ".pryrc",
    ".rspec",
]
# These look alike.
ORDINARY = [
    "Makefile",
    "package.json",
    "agents.py",
    "docs/AGENTS.rst",
    "claude.md.txt",
    "cargo/config.toml",
    "github/workflows/a.yml",
    "src/gdbinit.c",
    "lefthook/main.go",
    "tool-versions.txt",
    ".gitignore",
    ".editorconfig",
    ".github/CODEOWNERS",
    "yarn.lock",
    "rust/toolchain.rs",
]


@pytest.mark.parametrize("path", RUN_LATER)
def test_files_that_run_later_are_asked_about(path: str) -> None:
    rules = Ruleset([defaults("auto-edit")], PROJECT, HOME)
    assert rules.judge("edit", path).verdict == "ask"
    assert rules.judge("read", path).verdict in {"allow", "ask"}


@pytest.mark.parametrize("path", ORDINARY)
def test_ordinary_files_are_edited_without_a_question(path: str) -> None:
    assert Ruleset([defaults("auto-edit")], PROJECT, HOME).judge("edit", path).verdict == "allow"


@pytest.mark.parametrize("path", RUN_LATER)
def test_files_that_run_later_are_in_the_table(path: str) -> None:
    assert runs_later(path)


def test_profile_rules_are_defaults() -> None:
    for name in PROFILES:
        decision = Ruleset([defaults(name)], PROJECT, HOME).judge("bash", "rm x")
        assert decision.is_default
        assert decision.rule is not None
        assert decision.rule.origin == f"profile {name}"


def test_read_only_hides_changing_tools() -> None:
    rules = Ruleset([defaults("read-only")], PROJECT, HOME)
    names = ("read", "edit", "bash", "bash:read", "web", "mcp_docs_find", "todo")
    assert [name for name in names if rules.hides(name)] == ["edit", "bash", "mcp_docs_find"]


def test_only_an_override_lifts_a_profiles_deny() -> None:
    rule = Rule(permission="bash", pattern="make *", action="allow")
    lifted = Rule(permission="bash", pattern="make *", action="allow", override=True)
    for given, action in ((rule, "deny"), (lifted, "allow")):
        rules = Ruleset([defaults("read-only"), Layer("user", (given,))], PROJECT, HOME)
        assert rules.judge("bash", "make test").verdict == action


def test_a_profile_that_is_not_there() -> None:
    with pytest.raises(ConfigError, match=r"^there is no profile 'auto': did you mean auto-edit\?$"):
        defaults("auto")


def test_profile_ask_covers_every_built_in_tool() -> None:
    """A tool's name is the name of its permission unless it says otherwise: none may fall through unseen."""
    expected = {
        "read",
        "edit",
        "bash",
        "web",
        "task",
        "skill",
        "question",
        "todo",
        "bash_output",
        "bash_stop",
        "context",
    }
    named = {"read", "grep", "glob", "list", "edit", "multi_edit", "write", "apply_patch", "bash", "bash_output"}
    named |= {
        "bash_stop",
        "context",
        "todo_read",
        "todo_write",
        "question",
        "web_fetch",
        "web_search",
        "task",
        "skill",
        "plan_exit",
    }
    assert {tool.name for tool in builtin_tools()} <= named
    assert expected == {permission.removesuffix(":read") for permission, _ in CASES} - {
        "outside",
        "opaque",
        "mcp_docs_find",
    }
