"""The environment section: folder, project, Git branch, machine, date, model name. Everything here blocks."""

from __future__ import annotations

import os
import platform
import stat
import time
from collections.abc import Iterator
from typing import Final

from engine.core.lazy import regex
from engine.core.prompt_section import PromptSection
from engine.files.escaping import shown_path
from engine.prompt.workspace import Workspace

# Not `%A`, whose result depends on the locale: the same prompt must have the same bytes.
_DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MAX_BYTES: Final = 4_096
# Narrower than Git's own rule: the name comes from an untrusted repository and is shown to the model.
_BRANCH: Final = regex(r"ref: refs/heads/([A-Za-z0-9][A-Za-z0-9._/+#=-]{0,99})")
_COMMIT: Final = regex(r"[0-9a-f]{40,64}")


def environment_sections(workspace: Workspace, *, model: str, now: float) -> Iterator[PromptSection]:
    """Yield the sections about the environment; *now* is in seconds since the epoch."""
    lines = ["Where you are", f"- Working folder: {shown_path(workspace.cwd)}"]
    if workspace.project not in {"", workspace.cwd}:
        lines.append(f"- It belongs to the project in {shown_path(workspace.project)}")
    lines += [f"- Machine: {platform.system()} {platform.machine()}", f"- Model of this session: {model}"]
    yield PromptSection(name="environment", text="\n".join(lines), source="this machine")
    # "step": it may change during the session, so it is compared before each step.
    yield PromptSection(
        name="git", text=f"Git: {_git_state(workspace)}.", source="the project's .git", stability="step"
    )
    day = time.localtime(now)
    date = f"Date: {time.strftime('%Y-%m-%d', day)}, a {_DAYS[day.tm_wday]}."
    yield PromptSection(name="date", text=date, source="the clock", stability="step")


def _git_state(workspace: Workspace) -> str:
    """Return the Git branch, read from the repository's files: no program is run here."""
    if not workspace.project or not os.path.lexists(f"{workspace.project}/.git"):
        return "the folder is in no repository"
    head = _read_line(f"{_git_folder(workspace.project)}/HEAD")
    if branch := _BRANCH.fullmatch(head):
        return f"a repository, on the branch {branch[1]}"
    # Neither a branch nor a commit: a name that is not shown, or a broken file.
    return "a repository, on no branch" if _COMMIT.fullmatch(head) else "a repository"


def _git_folder(project: str) -> str:
    """Return the repository's own folder; in a linked working tree, `.git` is a file that names it."""
    path = f"{project}/.git"
    line = _read_line(path) if os.path.isfile(path) else ""  # noqa: PTH113 - a str
    return os.path.join(project, line.removeprefix("gitdir:").strip()) if line.startswith("gitdir:") else path  # noqa: PTH118 - a str


def _read_line(path: str) -> str:
    try:
        # Non-blocking, and only regular files: a repository may contain a pipe called HEAD.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
            return file.read(_MAX_BYTES).decode(errors="replace").strip() if is_file else ""
    except (OSError, ValueError):
        return ""
