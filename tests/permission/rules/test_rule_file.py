"""Rules as people write them: read whole, or refused with every line that is wrong."""

from __future__ import annotations

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.errors import ConfigError
from engine.core.permission_types import Rule
from engine.permission.rules.rule_file import Permissions, parse_rule, read_permissions
from engine.permission.rules.toml_positions import value_lines


def read(text: str, *, has_profile: bool = True) -> Permissions:
    return read_permissions(tomllib.loads(text)["permissions"], text, "c.toml", has_profile=has_profile)


def problems(text: str, *, has_profile: bool = True) -> list[str]:
    with pytest.raises(ConfigError) as error:
        read(text, has_profile=has_profile)
    return str(error.value).splitlines()


def test_a_section_is_read() -> None:
    text = """\
[defaults]
model = "x/y"

[permissions]
profile = "auto-edit" # a word
rules = [
    "allow bash git  status",
    'deny   read   *.pem ', # another
    "allow! bash:read *",
]
"""
    assert read(text) == Permissions(
        profile="auto-edit",
        rules=(
            Rule(action="allow", permission="bash", pattern="git  status", origin="c.toml:7"),
            Rule(action="deny", permission="read", pattern="*.pem", origin="c.toml:8"),
            Rule(action="allow", permission="bash:read", pattern="*", override=True, origin="c.toml:9"),
        ),
    )


def test_empty_section_adds_nothing() -> None:
    assert read("[permissions]") == Permissions()


def test_all_problems_are_listed_with_lines() -> None:
    text = '''\
permissions.profile = "auto"
permissions.rule = 1
permissions.rules = [ "allow bash ls *", "allw bash ls", """deny
bash""",
  "deny! bash rm *", "Allow bash x",

  "allow bash", "deny read a/../b", 7, "", "ask a:b c", ["allow bash x"],
  "deny read !a",
]
'''
    assert problems(text) == [
        "c.toml:2: there is no key 'rule': did you mean rules?",
        "c.toml:1: there is no profile 'auto': did you mean auto-edit?",
        "c.toml:3: the rule 'allw bash ls': there is no action 'allw': did you mean allow?; "
        "a rule is written 'ACTION PERMISSION PATTERN', for example 'allow bash git status'",
        "c.toml:3: the rule 'deny\\nbash': a rule is written 'ACTION PERMISSION PATTERN', for example "
        "'allow bash git status'; to match everything, 'deny bash *'",
        "c.toml:5: the rule 'deny! bash rm *': a deny needs no override: only denies of lower layers can be lifted",
        "c.toml:5: the rule 'Allow bash x': there is no action 'Allow': did you mean allow?; "
        "a rule is written 'ACTION PERMISSION PATTERN', for example 'allow bash git status'",
        "c.toml:7: the rule 'allow bash': a rule is written 'ACTION PERMISSION PATTERN', for example "
        "'allow bash git status'; to match everything, 'allow bash *'",
        "c.toml:7: the rule 'deny read a/../b': the path pattern 'a/../b' matches nothing: paths never contain '..'",
        "c.toml:7: permissions.rules must be a text, not a number: a rule is written 'ACTION PERMISSION PATTERN', "
        "for example 'allow bash git status'",
        "c.toml:7: the rule '': a rule is written 'ACTION PERMISSION PATTERN', for example 'allow bash git status'",
        "c.toml:7: the rule 'ask a:b c': 'a:b' is not the name of a permission, nor a wildcard for several",
        "c.toml:7: permissions.rules must be a text, not an array: a rule is written 'ACTION PERMISSION PATTERN', "
        "for example 'allow bash git status'",
        "c.toml:8: the rule 'deny read !a': the path pattern '!a': rules have actions instead of a '!'; a "
        "literal '!' at the beginning is written '\\!'",
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("permissions = 1", "c.toml:1: permissions must be a table, not a number: [permissions]"),
        ("\npermissions = []", "c.toml:2: permissions must be a table, not an array: [permissions]"),
        (
            '[permissions]\n\nrules = "deny bash *"',
            'c.toml:3: permissions.rules must be an array of texts, not a text: rules = ["allow bash git status"]',
        ),
        ("[permissions]\nprofile = 1", "c.toml:2: there is no profile 1: known: ask, auto-edit, full, read-only"),
        (
            "permissions = { rules = [\n1979-05-27 07:32:00] }",
            "c.toml:2: permissions.rules must be a text, not a date or a time: a rule is written 'ACTION PERMISSION "
            "PATTERN', for example 'allow bash git status'",
        ),
    ],
)
def test_a_section_of_another_shape(text: str, words: str) -> None:
    assert problems(text) == [words]


def test_where_no_profile_may_be_picked() -> None:
    assert problems('[permissions]\nprofile = "full"', has_profile=False) == [
        "c.toml:2: there is no key 'profile': known: rules"
    ]


def test_the_section_of_an_agent() -> None:
    text = '[agents."my plan"]\npermissions = { rules = ["deny edit *", "x"] }\n'
    section = tomllib.loads(text)["agents"]["my plan"]["permissions"]
    with pytest.raises(ConfigError, match=r"^c\.toml:2: the rule 'x'"):
        read_permissions(section, text, "c.toml", table=("agents", "my plan", "permissions"))


def test_rule_is_printed_as_written() -> None:
    for text in ("allow! bash git push *", "deny read a b", "ask mcp_* *"):
        assert str(parse_rule(text)) == text


def test_lines_of_all_kinds_of_values() -> None:
    text = """\
a = 1.5
"b c".d = 'x'
[t]
e = [1, [2,
3], {f = 4, g.h = "# no"}] # "comment
[[list]]
i = 1979-05-27 07:32:00
[[list]]
i = '''
two
lines'''
j = \"\"\"a \\\" b\"\"\"
"""
    assert value_lines(text) == {
        ("a",): 1,
        ("b c", "d"): 2,
        ("t",): 3,
        ("t", "e"): 4,
        ("t", "e", 0): 4,
        ("t", "e", 1): 4,
        ("t", "e", 1, 0): 4,
        ("t", "e", 1, 1): 5,
        ("t", "e", 2): 5,
        ("t", "e", 2, "f"): 5,
        ("t", "e", 2, "g", "h"): 5,
        ("list", 0): 6,
        ("list", 0, "i"): 7,
        ("list", 1): 8,
        ("list", 1, "i"): 9,
        ("list", 1, "j"): 12,
    }
    assert value_lines(text.replace("\n", "\r\n")) == value_lines(text)


@given(st.text("[]{}=,.\n\"'#a1 \\", max_size=30))
def test_lines_of_what_is_no_document(text: str) -> None:
    assert all(line >= 1 for line in value_lines(text).values())


@given(st.lists(st.text("ab [],#\"'\\\n*=", max_size=6), max_size=4), st.booleans())
def test_every_rule_is_parsed(texts: list[str], is_inline: bool) -> None:
    written = [text if "'" in text or "\n" in text else "\n" for text in texts]
    quoted = ['"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"' for text in written]
    values = ",\n".join(quoted)
    text = f"permissions = {{ rules = [{values}] }}" if is_inline else f"[permissions]\nrules = [\n{values}]\n"
    assert tomllib.loads(text)["permissions"]["rules"] == written
    lines = value_lines(text)
    first = 1 if is_inline else 3
    assert [lines["permissions", "rules", at] for at in range(len(written))] == [
        first + at for at in range(len(written))
    ]
