"""Agents in Markdown: what a file says, what other programs' fields mean, and what is told of the rest."""

from __future__ import annotations

import attrs
import pytest

from engine.agents.markdown_file import AgentFile, AgentFileError, parse_agent
from engine.config.agent_config import AgentConfig
from engine.config.builtin_agents import PLANNING
from engine.core.llm_types import ModelOptions
from engine.core.permission_types import Rule
from engine.files.front_matter import FrontMatterError, parse_document
from engine.files.yaml_text import Value


def rule(text: str) -> Rule:
    action, permission, pattern = text.split(" ", 2)
    return Rule(action=action, permission=permission, pattern=pattern, origin="it.md")  # type: ignore[arg-type]


def parsed(front: str, body: str = "You look.") -> AgentFile:
    return parse_agent(f"---\n{front}\n---\n{body}\n", "it", "it.md")


def test_all_of_our_own_fields() -> None:
    found = parsed(
        """\
name: other
description: |
  Looks
  things up.
mode: subagent
hidden: true
model: openai/gpt-5
effort: high
temperature: 0.5
output_cap: 100
tools: [read, "grep"]
without:
  - bash
rules:
  - allow bash git status
  - "deny edit *"
bounds: [deny bash *]
steps: 5
seconds: 1.5
cost: 0.25
color: red"""
    )
    assert found == AgentFile(
        "other",
        AgentConfig(
            description="Looks things up.",
            mode="subagent",
            hidden=True,
            model="openai/gpt-5",
            options=ModelOptions(effort="high", temperature=0.5, output_cap=100),
            system="You look.",
            tools=("read", "grep"),
            without=("bash", "bash_output", "bash_stop"),
            rules=(rule("allow bash git status"), rule("deny edit *")),
            bounds=(rule("deny bash *"),),
            steps=5,
            seconds=1.5,
            cost=0.25,
        ),
    )


def test_missing_fields_inherit_from_the_caller() -> None:
    assert parsed("description: x", "") == AgentFile("it", AgentConfig(description="x"))


CLAUDE = """\
name: code-reviewer
description: Reviews code. Use it after changes, "always".
tools: Read, Grep, Glob, Bash, mcp__files__get
disallowedTools: WebFetch, Task
model: inherit
color: blue
permissionMode: plan
maxTurns: 7
skills: one
"""


def test_an_agent_of_claude_code() -> None:
    found = parsed(CLAUDE)
    assert (found.name, found.warnings) == ("code-reviewer", ("unknown fields, ignored: skills",))
    assert found.config == AgentConfig(
        description='Reviews code. Use it after changes, "always".',
        system="You look.",
        tools=("read", "grep", "glob", "bash", "bash_output", "bash_stop", "mcp__files__get"),
        without=("web_fetch", "task", "task_output", "task_stop"),
        bounds=PLANNING,
        steps=7,
    )


@pytest.mark.parametrize("model", ["sonnet", "opus", "haiku", "gpt-5"])
def test_unknown_models_are_reported(model: str) -> None:
    found = parsed(f"model: {model}")
    assert found.config.model is None
    assert len(found.warnings) == 1
    assert f"the model {model!r}" in found.warnings[0]


def test_partial_tools_and_permissive_modes_give_no_rights() -> None:
    found = parsed("tools: Read, Bash(git log:*, git diff:*), Bash(ls)\npermissionMode: bypassPermissions")
    assert (found.config.tools, found.config.rules, len(found.warnings)) == (("read",), (), 3)
    assert parsed("tools: '*'").config.tools is None
    assert parsed("tools:").config.tools == ()


OPENCODE = """\
description: Plans.
mode: primary
model: anthropic/claude-sonnet-4-5
temperature: 0.1
maxSteps: 4
tools:
  write: false
  edit: false
  bash: true
  "mcp_*": false
permission:
  edit: deny
  bash:
    "*": ask
    "git diff *": allow
    'rm *': deny
  webfetch: allow
  external_directory: frob
  lsp: allow
"""


def test_an_agent_of_opencode() -> None:
    found = parsed(OPENCODE)
    assert found.config == AgentConfig(
        description="Plans.",
        mode="primary",
        model="anthropic/claude-sonnet-4-5",
        options=ModelOptions(temperature=0.1),
        system="You look.",
        without=("write", "edit", "multi_edit", "apply_patch"),
        rules=tuple(
            map(
                rule,
                (
                    "deny edit *",
                    "ask bash *",
                    "allow bash git diff *",
                    "deny bash rm *",
                    "allow web *",
                    "deny outside *",
                    "deny mcp_* *",
                ),
            )
        ),
        steps=4,
    )
    assert found.warnings == (
        "the permission 'outside' is allow, ask or deny, not 'frob': it counts as deny",
        "the permission 'lsp' is not known here",
    )


def test_all_switched_off_but_some() -> None:
    assert parsed('tools: {"*": false, read: true, grep: true}').config.tools == ("read", "grep")
    assert parsed("permission: deny").config.rules == (rule("deny * *"),)
    assert parsed("permission: [a]").warnings == (
        "`permission` is not a map of permissions, so it is ignored and allows nothing",
    )


def test_a_disabled_one_and_one_of_a_project() -> None:
    assert parsed("disable: true").is_disabled
    assert parsed("disabled: true").is_disabled
    assert not parsed("disabled: false").is_disabled
    text = "---\nrules: ['allow! bash *']\n---\n"
    own, project = (parse_agent(text, "it", "it.md", is_project=one) for one in (False, True))
    assert [each.config.rules[0].override for each in (own, project)] == [True, False]
    assert project.warnings == ("the rule 'allow! bash *' lifts no deny: it came with a project",)


@pytest.mark.parametrize(
    ("front", "why"),
    [
        ("description", "not of the form"),
        ("mode: both", "primary, subagent or all, not 'both'"),
        ("steps: many", "steps must be a number, not 'many'"),
        ("steps: 0", "steps must be at least 1"),
        ("seconds: nan", "seconds must be above 0"),
        ("cost: -1", "at least 0"),
        ("effort: big", "effort"),
        ("hidden: perhaps", "hidden must be true or false"),
        ("description: [a, b]", "description must be a text"),
        ("tools: [a, [b]]", "tools must be names of tools"),
        ("rules: allow bash *", "rules must be a list of rules"),
        ("rules: [allow bash]", "a rule is written"),
        ("tools: [read", "expected ',' or ']'"),
        ("tools: &x [read]", "more YAML than can be read"),
        ("permission: !!python/object:os.system x", "more YAML than can be read"),
        ("tools:\n\t- read", "indented by a tab"),
    ],
)
def test_files_that_hold_no_agent(front: str, why: str) -> None:
    with pytest.raises(AgentFileError, match=r".*") as raised:
        parsed(front)
    assert why in str(raised.value)


@pytest.mark.parametrize("name", ["a b", "../x", "Prüfer", "1st", "[a]"])
def test_invalid_name_falls_back_to_the_file_name(name: str) -> None:
    found = parse_agent(f"---\nname: '{name}'\n---\n", "frontend-developer", "it.md")
    assert found.name == "frontend-developer"
    assert found.warnings == (
        f"the name {name!r} is more than letters, digits, - and _: it is called frontend-developer",
    )
    with pytest.raises(AgentFileError, match="an agent's name is up to 64 letters"):
        parse_agent(f"---\nname: '{name}'\n---\n", "no name", "it.md")


def test_unknown_fields_are_ignored() -> None:
    """Hooks and servers of another program: no YAML of theirs keeps the agent from working, and none of it counts."""
    found = parsed(
        """\
description: Looks.
tools: Read
hooks:
  PreToolUse:
    - matcher: "Bash"
      hooks:
        - type: command
          command: |
            ./check.sh
mcpServers:
  - slack
  - own: &it
      command: [npx, "-y", x]
skills: [a, b
"""
    )
    assert found.config == AgentConfig(description="Looks.", tools=("read",), system="You look.")
    assert found.warnings == ("unknown fields, ignored: hooks, mcpServers, skills",)


@pytest.mark.parametrize("field", ["disallowedTools", "permission", "rules", "bounds", "without", "tools", "model"])
def test_invalid_instructions_make_the_agent_unusable(field: str) -> None:
    with pytest.raises(AgentFileError):
        parsed(f"{field}: &x [a")


def test_a_file_without_front_matter() -> None:
    with pytest.raises(AgentFileError, match="does not begin with a line ---"):
        parse_agent("# Readme", "README", "README.md")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("[]", ()),
        ("{}", {}),
        ('[a, \'b c\', "d\\"e", {f: g}, ]', ("a", "b c", 'd"e', {"f": "g"})),
        ("{a: b, 'c d': [e], \"f\": g}", {"a": "b", "c d": ("e",), "f": "g"}),
        ("\n  - a # said\n  - 'b # c'\n  # no\n  - [d]", ("a", "b # c", ("d",))),
        (
            "\n  a: b\n  c:\n    d: e\n    f:\n      - g\n  h:\n  i: j",
            {"a": "b", "c": {"d": "e", "f": ("g",)}, "h": "", "i": "j"},
        ),
        ("\n- a\n- b", ("a", "b")),
        ("\n  a: # said\n    - b\n  'c': \"d # e\" # f", {"a": ("b",), "c": "d # e"}),
        ('\n  "*": ask\n  it\'s: x', {"*": "ask", "it's": "x"}),
        ("{a}", {"a": ""}),
        ("\n  a: |\n    b\n    c", {"a": "b\nc"}),
        ("\n  git *: allow\n  **/*.ts: deny", {"git *": "allow", "**/*.ts": "deny"}),
        ("[**/*.ts, on]", ("**/*.ts", "on")),
    ],
)
def test_lists_and_maps(text: str, value: Value) -> None:
    document = parse_document(f"---\nkey: {text}\n---\n")
    assert document.others["key"].parse() == value


@pytest.mark.parametrize(
    "text",
    [
        "[a",
        "[a b] c",
        "[a [b]]",
        "{'a' b}",
        "*alias",
        "\n  a: b\n    c: d",
        "\n  - a\n  b: c",
        "\n  a: b\n  a: c",
        "[" * 50 + "]" * 50,
        "".join(f"\n{'  ' * n}  k:" for n in range(20)) + " v",
    ],
)
def test_only_lists_and_maps_are_accepted(text: str) -> None:
    with pytest.raises(FrontMatterError):
        parse_document(f"---\nkey: {text}\n---\n").others["key"].parse()


def test_file_overrides_builtin_agent() -> None:
    base = AgentConfig(
        description="a", tools=("read",), rules=(rule("deny edit *"),), options=ModelOptions(effort="low")
    )
    own = AgentConfig(model="h/m", rules=(rule("allow bash ls"),), options=ModelOptions(temperature=0.5))
    assert own.over(base) == attrs.evolve(
        base,
        model="h/m",
        rules=(rule("deny edit *"), rule("allow bash ls")),
        options=ModelOptions(effort="low", temperature=0.5),
    )
