"""`skill`: which skills are found, what the model reads of one, and the tricks that lead nowhere."""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable
from pathlib import Path

import pytest

from engine.core.arguments import parse
from engine.core.errors import InvalidArguments, ToolError
from engine.prompt.skills import MAX_BYTES, MAX_FILES, MAX_SKILLS, Skill, SkillFolder, Skills, find_skills
from engine.tools.builtin.skill import MAX_LISTED_CHARS, LoadSkill, skill_tool
from engine.tools.call_values import Need, ToolOutput
from engine.tools.tool import Tool
from engine.tools.tool_context import ToolContext
from tests.support.needs import need_of

BODY = "Do it so."


def make(root: Path, name: str, text: str | bytes | None = None) -> Path:
    folder = root / name
    folder.mkdir(parents=True)
    data = f"---\nname: {name}\ndescription: How to {name}.\n---\n\n{BODY}\n" if text is None else text
    (folder / "SKILL.md").write_bytes(data if isinstance(data, bytes) else data.encode())
    return folder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "skills"
    folder.mkdir()
    return folder


async def load(ctx: ToolContext, tool: Tool, name: str) -> ToolOutput:
    output = await tool.body(LoadSkill(name), ctx)
    assert isinstance(output, ToolOutput)
    return output


async def test_skill_text(ctx: ToolContext, root: Path) -> None:
    folder = make(root, "bake-bread")
    for name in ("z.md", "scripts/a.py", "scripts/.hidden", "a/b/c/too-deep", "od\nd"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    (folder / "link").symlink_to("/etc/passwd")
    output = await load(ctx, skill_tool([root]), "bake-bread")
    assert output.text == (
        f"(The skill bake-bread, from {folder.resolve()}. It comes with: scripts/a.py, z.md.)\n\n{BODY}"
    )
    assert json.loads(output.metadata) == {"summary": "bake-bread"}


def test_list_is_sorted_and_stable(root: Path) -> None:
    for name in ("b", "a", "c2"):
        make(root, name)
    make(root, "d", "---\nname: d\ndescription: >\n  Two\n  lines.\n---\nx")
    tool = skill_tool([root, root / "missing", root / "a" / "SKILL.md"])
    assert tool.description.endswith("The skills:\n- a: How to a.\n- b: How to b.\n- c2: How to c2.\n- d: Two lines.")
    assert skill_tool(find_skills([str(root)])).description == tool.description
    assert skill_tool([]).description.endswith("(there are none)")


def test_long_list_ends_with_names_only(root: Path) -> None:
    for n in range(30):
        make(root, f"s{n:02}", f"---\nname: s{n:02}\ndescription: {'x' * 1_000}\n---\nx")
    listed = skill_tool([root]).description.partition("The skills:\n")[2].split("\n")
    assert listed[0] == "- s00: " + "x" * 1_000
    assert listed[-1] == "- s29"
    assert sum(map(len, listed)) < MAX_LISTED_CHARS + 300


def test_of_two_of_one_name_the_first_counts(tmp_path: Path) -> None:
    one, other = make(tmp_path / "one", "x"), make(tmp_path / "other", "x")
    found = find_skills([tmp_path / "one", tmp_path / "other"])
    assert found.available == (Skill(name="x", description="How to x.", folder=one.resolve()),)
    assert found.problems == ((str(other), f"{one.resolve()} has the same name"),)


GOOD = "---\nname: x\ndescription: y\n---\nz"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "does not begin with a line ---"),
        ("# Title", "does not begin with a line ---"),
        ("---\nname: x\ndescription: y", "has no end"),
        (
            "---\ndescription: y\n---\nz",
            "its name must be at most 64 lower-case letters, digits and single dashes, not ''",
        ),
        ("---\nname: [x]\ndescription: y\n---\nz", "its name must be"),
        ("---\nname: ../x\ndescription: y\n---\nz", "its name must be"),
        ("---\nname: X\ndescription: y\n---\nz", "its name must be"),
        ("---\nname: x\n---\nz", "its description must have 1 to 1,024 characters"),
        ("---\nname: x\ndescription:\n  a: b\n---\nz", "its description must have"),
        (f"---\nname: x\ndescription: {'y' * 1_025}\n---\nz", "its description must have"),
        ("---\nname: x\nname: x\n---\nz", "line 3 of its front matter names name again"),
        (GOOD + " " * MAX_BYTES, "is larger than 100,000 bytes"),
        (GOOD.encode() + b"\xff", "is not UTF-8 (byte 32)"),
    ],
)
async def test_unusable_skill_is_reported_alone(ctx: ToolContext, root: Path, text: str | bytes, reason: str) -> None:
    make(root, "good")
    folder = make(root, "x", text)
    found = find_skills([root])
    assert [skill.name for skill in found.available] == ["good"]
    ((path, why),) = found.problems
    assert path == str(folder)
    assert reason in why
    with pytest.raises(ToolError, match=r"The skill x can't be used: "):
        await load(ctx, skill_tool(found), "x")


def skill_with(root: Path, fields: str, body: str = "z") -> Skill:
    make(root, "x", f"---\nname: x\ndescription: y\n{fields}\n---\n{body}")
    (skill,) = find_skills([root]).available
    return skill


def test_optional_fields_are_read_and_unknown_ones_kept(root: Path) -> None:
    skill = skill_with(
        root,
        "license: MIT\ncompatibility: Needs git\nmetadata:\n  author: me\n  version: 1.0\n"
        "allowed-tools: Bash(git add:*) Read, Bash(git add:*)\nmodel: opus\nhooks:\n  Stop: []",
    )
    assert skill == Skill(
        name="x",
        description="y",
        folder=(root / "x").resolve(),
        license="MIT",
        compatibility="Needs git",
        metadata={"author": "me", "version": "1.0"},
        allowed_tools=("Bash(git add:*)", "Read"),
        others={"model": "opus", "hooks": "hooks:\n  Stop: []"},
    )


@pytest.mark.parametrize(
    ("fields", "warning"),
    [
        (f"compatibility: {'c' * 501}", "its compatibility is longer than 500 characters, so it is ignored"),
        ("compatibility: [a]", "its compatibility is no text, so it is ignored"),
        ("license:\n  a: b", "its license is no text, so it is ignored"),
        ("metadata: me", "its metadata is no map of texts, so it is ignored"),
        ("metadata:\n  a: [b]", "its metadata is no map of texts, so it is ignored"),
        ("metadata:\n  a: *b\n  c: &d e", "its metadata is no map of texts, so it is ignored"),
        ("allowed-tools:\n  a: b", "its allowed-tools is no text, so it is ignored"),
    ],
)
def test_mistake_in_optional_field_costs_only_it(root: Path, fields: str, warning: str) -> None:
    skill = skill_with(root, fields)
    assert skill == Skill(name="x", description="y", folder=(root / "x").resolve(), warnings=(warning,))


def test_allowed_tools_may_be_a_list(root: Path) -> None:
    assert skill_with(root, "allowed-tools:\n  - Read\n  - Bash(a b)").allowed_tools == ("Read", "Bash(a b)")
    (root / "x" / "SKILL.md").write_text(f"---\nname: x\ndescription: y\ncompatibility: {'c' * 500}\n---\nz")
    assert len(find_skills([root]).available[0].compatibility) == 500


async def test_skill_in_folder_of_other_name_is_used(ctx: ToolContext, root: Path) -> None:
    make(root, "copied", "---\nname: original\ndescription: y\n---\nz")
    (skill,) = find_skills([root]).available
    assert (skill.name, skill.warnings) == ("original", ("its name is original, but the name of its folder differs",))
    assert (await load(ctx, skill_tool([root]), "original")).text.endswith("z")


async def test_allowed_tools_are_shown_and_grant_nothing(ctx: ToolContext, root: Path) -> None:
    skill_with(root, "allowed-tools: Bash(rm:*) Read\ncompatibility: Needs rm.")
    tool = skill_tool([root])
    need = need_of(tool, LoadSkill("x"))
    assert need.needed == Need(permission="skill", patterns=("x",)).needed
    assert need.offered == Need(permission="skill", patterns=("x",)).offered
    assert need.detail == "It expects to use: Bash(rm:*), Read. This allows none of them."
    output = await load(ctx, tool, "x")
    assert output.modify is None
    assert "It needs: Needs rm. It expects to use: Bash(rm:*), Read. That allows none of them.)" in output.text


@pytest.mark.parametrize(("body", "is_long"), [("l\n" * 499 + "l", False), ("l\n" * 501, True), ("w" * 20_004, True)])
async def test_long_text_is_loaded_with_a_note(ctx: ToolContext, root: Path, body: str, is_long: bool) -> None:
    skill_with(root, "", body)
    text = (await load(ctx, skill_tool([root]), "x")).text
    assert text.endswith(f"\n\n{body.strip()}")
    assert ("Its text is long" in text) == is_long


def test_skills_of_a_plugin_bear_its_name(root: Path) -> None:
    make(root / "own", "x")
    make(root / "plugin", "x")
    found = find_skills([root / "own", SkillFolder(root / "plugin", plugin="shop")])
    assert [skill.name for skill in found.available] == ["shop:x", "x"]
    assert not found.problems


def test_tricks_with_links(tmp_path: Path, root: Path) -> None:
    outside = make(tmp_path / "outside", "linked")
    (root / "linked").symlink_to(outside)
    (root / "file").mkdir()
    (root / "file" / "SKILL.md").symlink_to(outside / "SKILL.md")
    (root / "nowhere").mkdir()
    (root / "nowhere" / "SKILL.md").symlink_to("nothing")
    (root / "circle").symlink_to("circle")
    (root / "pipe").mkdir()
    os.mkfifo(root / "pipe" / "SKILL.md")
    (root / "folder" / "SKILL.md").mkdir(parents=True)
    found = find_skills([root])
    assert found.available == ()
    assert {Path(path).name: why for path, why in found.problems} == {
        "linked": "it is a link to another folder: configure the folder that it is really in",
        "file": "it is a link to another folder: configure the folder that it is really in",
        "nowhere": "it is a link to another folder: configure the folder that it is really in",
        "pipe": "its SKILL.md is not a regular file",
        "folder": "its SKILL.md is not a regular file",
    }
    # The folder itself may be reached by a link: whoever named it meant it.
    (tmp_path / "by-link").symlink_to(tmp_path / "outside")
    assert [skill.name for skill in find_skills([tmp_path / "by-link"]).available] == ["linked"]


def test_skill_linked_into_several_folders_is_one(tmp_path: Path) -> None:
    folder = make(tmp_path / "agents", "x")
    for name in ("claude", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x").symlink_to(f"../{'agents' if name == 'claude' else 'claude'}/x")
    found = find_skills([tmp_path / "claude", tmp_path / "agents", tmp_path / "other"])
    assert found == Skills(available=(Skill(name="x", description="How to x.", folder=folder.resolve()),))


def test_links_may_lead_to_where_they_are_let(tmp_path: Path, root: Path) -> None:
    (root / "x").symlink_to(make(tmp_path / "dotfiles", "x"))
    (root / "y").symlink_to(make(tmp_path / "elsewhere", "y"))
    found = find_skills([SkillFolder(root, within=str(tmp_path / "dotfiles"))])
    assert [skill.name for skill in found.available] == ["x"]
    assert [Path(path).name for path, _ in found.problems] == ["y"]


@pytest.mark.usefixtures("not_root")
def test_unreadable_skill(tmp_path: Path) -> None:
    folder = make(tmp_path / "skills", "x")
    (folder / "SKILL.md").chmod(0)
    assert find_skills([tmp_path / "skills"]).problems == ((str(folder), "Permission denied"),)
    (tmp_path / "skills").chmod(0)
    assert find_skills([tmp_path / "skills"]).problems == ((str(tmp_path / "skills"), "Permission denied"),)


def test_there_are_no_more_than_so_many(root: Path) -> None:
    for n in range(MAX_SKILLS + 1):
        make(root, f"s{n:03}")
    found = find_skills([root])
    assert len(found.available) == MAX_SKILLS
    assert found.problems == ((str(root / f"s{MAX_SKILLS}"), "there are more than 200 skills"),)


async def test_many_files_are_not_all_listed(ctx: ToolContext, root: Path) -> None:
    folder = make(root, "x")
    for n in range(MAX_FILES + 1):
        (folder / f"f{n:02}").touch()
    text = (await load(ctx, skill_tool([root]), "x")).text
    assert f"f{MAX_FILES - 1}, and more.)" in text
    assert f"f{MAX_FILES}," not in text


@pytest.mark.parametrize("name", ["y", "", "../x", "/etc", "x/../x", "X", "\0", "x" * 1_000, "\ud800"])
async def test_unknown_name_is_refused(ctx: ToolContext, root: Path, name: str) -> None:
    make(root, "x")
    with pytest.raises(ToolError) as raised:
        await load(ctx, skill_tool([root]), name)
    assert str(raised.value) == f"There is no skill named {name[:64]!r}. There is: x."


async def test_skill_changed_since_discovery(ctx: ToolContext, root: Path, tmp_path: Path) -> None:
    folder = make(root, "x")
    tool = skill_tool([root])
    (folder / "SKILL.md").write_text("---\nname: x\ndescription: y\n---\nNew.")
    assert (await load(ctx, tool, "x")).text.endswith("\n\nNew.")
    (folder / "SKILL.md").write_text("---\nname: x\n---\n")
    with pytest.raises(ToolError, match=r"The skill x can't be used: its SKILL\.md has no text\."):
        await load(ctx, tool, "x")
    (folder / "SKILL.md").unlink()
    with pytest.raises(ToolError, match=r"The skill x can't be used: No such file or directory\."):
        await load(ctx, tool, "x")
    (tmp_path / "secret").write_text(GOOD)
    (folder / "SKILL.md").symlink_to(tmp_path / "secret")
    with pytest.raises(ToolError, match=r"The skill x can't be used: "):
        await load(ctx, tool, "x")


@pytest.mark.parametrize("arguments", ["{}", '{"name": 5}', '{"name": "x", "path": "y"}'])
def test_arguments_that_do_not_fit(arguments: str) -> None:
    with pytest.raises(InvalidArguments):
        parse(LoadSkill, arguments)


def test_the_right_it_needs(root: Path) -> None:
    make(root, "x")
    tool = skill_tool([root])
    assert need_of(tool, LoadSkill("x")) == Need(permission="skill", patterns=("x",))
    assert need_of(tool, LoadSkill("y")).is_own
    assert tool.read_only


async def test_listed_skills_are_loaded_from_session_folder(ctx: ToolContext, root: Path) -> None:
    asked: list[str] = []

    def skills_at(cwd: str) -> Skills:
        asked.append(cwd)
        return find_skills([root])

    tool = skill_tool(skills_at)
    make(root, "late")
    assert "- late" not in tool.description
    assert "They are listed in your instructions" in tool.description
    assert (await load(ctx, tool, "late")).text.endswith(f"\n\n{BODY}")
    with pytest.raises(ToolError, match=r"There is no skill named 'other'\. There is: late\."):
        await load(ctx, tool, "other")
    told = tool.need(LoadSkill("late"), ctx)
    assert isinstance(told, Awaitable)
    assert await told == Need(permission="skill", patterns=("late",))
    assert asked == [ctx.cwd] * 3
