"""`cd`, `pushd` and `popd`: where the shell is afterwards. Only who can look at the folders knows that it does not fail."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from engine.permission.shell.state import Folders, ShellState, join_folders

if TYPE_CHECKING:
    from engine.permission.shell.builtin_args import Call
    from engine.permission.shell.interpreter import Walk
    from engine.permission.shell.loops import Outcome


def change_folder(walk: Walk, call: Call) -> Outcome:
    """Follow `cd`: after success it is there, after a failure it is here."""
    operands = [field for field in call.arguments if field.exact_text not in ("-L", "-e", "--")]
    if not operands:
        return _moved(walk, call, (walk.home,) if call.arguments == [] and walk.home is not None else None)
    if [field.exact_text for field in operands] == ["-"]:
        return _moved(walk, call, call.state.previous_folders)
    if len(operands) > 1 or operands[0].exact_text is None or operands[0].exact_text.startswith("-"):
        if any(field.exact_text is None for field in operands):
            walk.findings.mark_opaque("a folder that is not known")
        return _moved(walk, call, None)
    target = operands[0].exact_text
    walk.commands.programs.touch(target, "read", "cd", call.state.folders)
    return _moved(walk, call, _targets(call.state.folders, target))


def push_folder(walk: Walk, call: Call) -> Outcome:
    """Follow `pushd`."""
    state = call.state
    target = call.arguments[0].exact_text if len(call.arguments) == 1 else None
    if target is None or target[:1] in ("-", "+"):
        if any(field.exact_text is None for field in call.arguments):
            walk.findings.mark_opaque("a folder that is not known")
        state.folder_stack = None
        return _moved(walk, call, None)
    walk.commands.programs.touch(target, "read", "pushd", state.folders)
    before = state.folders
    outcome = _moved(walk, call, _targets(before, target))
    if outcome[0] is not None:
        outcome[0].folder_stack = None if state.folder_stack is None else (before, *state.folder_stack)
    return outcome


def pop_folder(walk: Walk, call: Call) -> Outcome:
    """Follow `popd`."""
    stack = call.state.folder_stack
    if call.arguments or not stack:
        call.state.folder_stack = None
        return _moved(walk, call, None)
    outcome = _moved(walk, call, stack[0])
    if outcome[0] is not None:
        outcome[0].folder_stack = stack[1:]
    return outcome


def _targets(folders: Folders, target: str) -> Folders:
    """Return where `cd target` leads; it goes back by the name of a folder, not by its real place."""
    if target.startswith("/"):
        return (_normal(target),)
    if folders is None:
        return None
    result: Folders = ()
    for folder in folders:
        result = join_folders(result, (_normal(f"{folder}/{target}"),))
    return result


def _normal(path: str) -> str:
    return "/" + posixpath.normpath(path).lstrip("/")


def _moved(walk: Walk, call: Call, folders: Folders) -> Outcome:
    walk.moves = True
    moved: ShellState = call.state.copy()
    moved.folders = folders
    moved.previous_folders = call.state.folders
    is_ours = folders is not None and not walk.commands.programs.remote
    is_certain = is_ours and all(map(walk.findings.is_certain_folder, folders or ()))
    return (moved, None if is_certain else call.state)
