"""`cd`, `pushd` and `popd`: the folder of the shell afterwards. They may fail unless `is_folder` says that the folder exists."""

from __future__ import annotations

import posixpath

from engine.permission.shell.shell_state import Field, Folders, ShellState, join_folders
from engine.permission.shell.simulated_shell import CommandCall, Outcome, SimulatedShell


def change_folder(shell: SimulatedShell, call: CommandCall) -> Outcome:
    """Simulate `cd`: on success the shell is in the new folder, on failure in the old one."""
    operands = _operands(call)
    # Without an operand it goes home.
    if not operands:
        return _move_to(shell, call, None if call.arguments or shell.home is None else (shell.home,))
    target = operands[0].exact_text
    if len(operands) == 1 and target == "-":
        return _move_to(shell, call, call.state.previous_folders)
    if None in [field.exact_text for field in operands]:
        shell.findings.mark_opaque("an unknown folder")
    # Two operands are an error; options such as `-P` resolve links.
    if len(operands) > 1 or target is None or target.startswith("-"):
        return _move_to(shell, call, None)
    # Entering a folder counts as reading it.
    shell.programs.add_file(target, "read", "cd", call.state.folders)
    return _move_to(shell, call, _resolve_target(call.state.folders, target))


def _operands(call: CommandCall) -> list[Field]:
    return [field for field in call.arguments if field.exact_text not in ("-L", "-e", "--")]


def push_folder(shell: SimulatedShell, call: CommandCall) -> Outcome:
    """Simulate `pushd`."""
    state = call.state
    target = call.arguments[0].exact_text if len(call.arguments) == 1 else None
    if target is None or target[:1] in ("-", "+"):
        if any(field.exact_text is None for field in call.arguments):
            shell.findings.mark_opaque("an unknown folder")
        state.folder_stack = None
        return _move_to(shell, call, None)
    shell.programs.add_file(target, "read", "pushd", state.folders)
    before = state.folders
    outcome = _move_to(shell, call, _resolve_target(before, target))
    if outcome[0] is not None:
        outcome[0].folder_stack = None if state.folder_stack is None else (before, *state.folder_stack)
    return outcome


def pop_folder(shell: SimulatedShell, call: CommandCall) -> Outcome:
    """Simulate `popd`."""
    stack = call.state.folder_stack
    if call.arguments or not stack:
        call.state.folder_stack = None
        return _move_to(shell, call, None)
    outcome = _move_to(shell, call, stack[0])
    if outcome[0] is not None:
        outcome[0].folder_stack = stack[1:]
    return outcome


def _resolve_target(folders: Folders, target: str) -> Folders:
    """Return where `cd target` leads; `..` removes a name from the path, and does not resolve links."""
    if target.startswith("/"):
        return (_normalize(target),)
    if folders is None:
        return None
    result: Folders = ()
    for folder in folders:
        result = join_folders(result, (_normalize(f"{folder}/{target}"),))
    return result


# A path may begin with two slashes in POSIX, which `normpath` keeps.
def _normalize(path: str) -> str:
    return "/" + posixpath.normpath(path).lstrip("/")


def _move_to(shell: SimulatedShell, call: CommandCall, folders: Folders) -> Outcome:
    shell.changes_folder = True
    moved: ShellState = call.state.copy()
    moved.folders = folders
    moved.previous_folders = call.state.folders
    is_ours = folders is not None and not shell.programs.remote
    # If the folder certainly exists, `cd` can't fail, and the rest runs nowhere else.
    is_certain = is_ours and all(map(shell.findings.is_certain_folder, folders or ()))
    return (moved, None if is_certain else call.state)
