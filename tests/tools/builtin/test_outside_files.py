"""Whether a file outside of the project exists is told by no tool before the user has allowed to access it."""

from __future__ import annotations

from pathlib import Path

import pytest

import engine
from engine.core.events import CallSettled
from engine.core.settings import Headless, Settings
from engine.permission.policy import Policy
from engine.session.engine_options import PermissionOptions
from engine.testing.script import call, done
from engine.testing.scripted_provider import ScriptedProvider
from engine.tools.builtin.builtin_tools import builtin_tools

CALLS: dict[str, tuple[str, dict[str, object]]] = {
    "delete": ("apply_patch", {"patch": "*** Begin Patch\n*** Delete File: {path}\n*** End Patch\n"}),
    "add": ("apply_patch", {"patch": "*** Begin Patch\n*** Add File: {path}\n+x\n*** End Patch\n"}),
    "update": ("apply_patch", {"patch": "*** Begin Patch\n*** Update File: {path}\n@@\n-a\n+b\n*** End Patch\n"}),
    "move": (
        "apply_patch",
        {"patch": "*** Begin Patch\n*** Update File: own\n*** Move to: {path}\n@@\n-own\n+b\n*** End Patch\n"},
    ),
    "edit": ("edit", {"path": "{path}", "old_string": "a", "new_string": "b"}),
    "multi_edit": ("multi_edit", {"path": "{path}", "edits": [{"old_string": "a", "new_string": "b"}]}),
    "write": ("write", {"path": "{path}", "content": "x"}),
    "read": ("read", {"path": "{path}"}),
    "list": ("list", {"path": "{path}"}),
    "grep": ("grep", {"path": "{path}", "pattern": "x"}),
    "glob": ("glob", {"path": "{path}", "pattern": "*"}),
    "glob in it": ("glob", {"pattern": "{path}/*"}),
    "bash": ("bash", {"command": "cat {path}"}),
    "cd": ("bash", {"command": "cd {path} && ls"}),
}


async def result(folder: Path, name: str, path: str, headless: Headless) -> str:
    """What the model reads of the call about *path*."""
    tool, arguments = CALLS[name]
    filled = {
        key: value.replace("{path}", path) if isinstance(value, str) else value for key, value in arguments.items()
    }
    model = ScriptedProvider(
        [
            [*call("read", {"path": "own"}, id="0"), *done("calls")],
            [*call(tool, filled, id="1"), *done("calls")],
            [*done()],
        ]
    )
    async with engine.open_engine(
        model=model,
        tools=builtin_tools({}),
        settings=Settings(headless=headless),
        permissions=PermissionOptions(approver=Policy()),
    ) as eng:
        session = await eng.create_session(cwd=folder)
        await session.run("go")
        settled = [event for event in session.events() if isinstance(event, CallSettled)]
    return settled[-1].settlement.text.replace(path, "PATH")


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("kind", ["file", "folder", "link"])
async def test_nothing_tells_whether_an_outside_file_exists(tmp_path: Path, name: str, kind: str) -> None:
    project, outside = tmp_path / "project", tmp_path / "outside"
    project.mkdir()
    outside.mkdir()
    (project / "own").write_text("own\n")
    there = outside / "there"
    if kind == "file":
        there.write_text("a secret\n")
    elif kind == "folder":
        there.mkdir()
    else:
        there.symlink_to(outside / "target")
    seen = [await result(project, name, str(outside / path), "deny") for path in ("there", "gone")]
    assert seen[0] == seen[1]
    assert seen[0].startswith("Denied")


async def test_a_file_that_may_be_read_is_told_about(tmp_path: Path) -> None:
    (tmp_path / "own").write_text("own\n")
    assert await result(tmp_path, "delete", "gone", "deny") == "PATH does not exist.\nNothing was changed."
