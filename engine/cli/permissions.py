"""`engine permissions`: show, explain and check the rules; revoke grants; trust projects."""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path

import trio

from engine.cli.command_table.find_command import parse_arguments
from engine.cli.flags.completion_names import keep_names
from engine.cli.flags.config_flags import load_user_config
from engine.cli.terminal.exit_codes import FAILED, run_command
from engine.cli.terminal.standard_streams import print_text
from engine.cli.terminal.terminal_text import escape_control_chars
from engine.config.config import Config
from engine.core.ids import CallId, SessionId, TurnId
from engine.core.permission_types import PermissionQuery, PermissionScope, RequiredRight
from engine.files.real_path import followed
from engine.permission.grants.grants import Grant
from engine.permission.policy import Policy
from engine.permission.project_root import find_project_root
from engine.permission.requested_rights import rights_to_judge
from engine.permission.rules.explain import explain
from engine.permission.rules.lint import lint
from engine.permission.rules.project_file import project_files
from engine.permission.rules.rules import PATH_PERMISSIONS, Ruleset
from engine.permission.user_policy import UserFiles, user_policy
from engine.permission.verdict_adjustments import OPAQUE
from engine.sandbox.backends import BackendChoice, choose_backend
from engine.sandbox.seccomp import machine


def list_main(arguments: list[str]) -> int:
    """Run `list`; return the exit code."""
    return _run("list", arguments)


def explain_main(arguments: list[str]) -> int:
    """Run `explain`; return the exit code."""
    return _run("explain", arguments)


def revoke_main(arguments: list[str]) -> int:
    """Run `revoke`; return the exit code."""
    return _run("revoke", arguments)


def unasked_main(arguments: list[str]) -> int:
    """Run `unasked`; return the exit code."""
    return _run("unasked", arguments)


def lint_main(arguments: list[str]) -> int:
    """Run `lint`; return the exit code."""
    return _run("lint", arguments)


def trust_main(arguments: list[str]) -> int:
    """Run `trust`; return the exit code."""
    return _run("trust", arguments)


def distrust_main(arguments: list[str]) -> int:
    """Run `distrust`; return the exit code."""
    return _run("distrust", arguments)


def _run(name: str, arguments: list[str]) -> int:
    return run_command("permissions", lambda: _do(name, parse_arguments(f"permissions {name}", arguments)))


def _do(name: str, args: argparse.Namespace) -> int:
    files = UserFiles.default()
    cwd = followed(Path(args.cwd))
    # These change files of the user and need no rules, so a broken configuration does not prevent them.
    match name:
        case "unasked":
            return _unasked(load_user_config(args))
        case "revoke":
            files.grants.revoke(args.id)
            return print_text(f"{args.id} is revoked\n")
        case "trust":
            return print_text(
                f"{escape_control_chars(files.trust.trust(_folder(args.folder, cwd, files)))} is trusted\n"
            )
        case "distrust":
            return print_text(
                f"{escape_control_chars(files.trust.distrust(_folder(args.folder, cwd, files)))} is trusted no longer\n"
            )
        case _:
            return _show(name, args, files, cwd)


def _show(name: str, args: argparse.Namespace, files: UserFiles, cwd: str) -> int:
    config = load_user_config(args)
    policy = user_policy(config, files, profile=args.profile)
    choice = trio.run(choose_backend, config.sandbox.backend if config.sandbox is not None else "auto")
    has_box = choice.backend is not None
    # Resolves links and reads the project's file, as at the start of a session.
    trio.run(policy.prepare, cwd)
    match name:
        case "explain":
            return print_text(_explain(policy, cwd, args.permission, args.pattern, config, has_box=has_box))
        case "lint":
            return _lint(policy, policy.ruleset(cwd))
        case _:
            grants = _project_grants(policy, cwd)
            keep_names("grants", ((grant.id, f"{grant.permission} {grant.pattern}") for grant in grants))
            document = _as_json(policy, cwd, choice) if args.json else _as_text(policy, cwd, files, config, choice)
            return print_text(document)


def _folder(named: str | None, cwd: str, files: UserFiles) -> str:
    """Return the folder to trust: by default, the project's."""
    return named or find_project_root(cwd, home=str(files.home)) or cwd


def _explain(policy: Policy, cwd: str, permission: str, pattern: str, config: Config, *, has_box: bool) -> str:
    """Return which rules decide about a right, and the verdict. A command line is parsed, links are followed."""
    if permission == "bash":
        # Imported here: they load a grammar, and the tools.
        from engine.cli.default_tools import knowledge_for
        from engine.tools.builtin.bash_permissions import need_of

        need = need_of(pattern, cwd, policy.home, knowledge_for(config), has_box=has_box)
        rights, opaque = need.needed, need.opaque
    elif permission in PATH_PERMISSIONS:
        path = Path(cwd, Path(pattern).expanduser())
        real = followed(path)
        # The path as written counts as well, unless `..` makes its meaning depend on links.
        spellings = () if str(path) == real or ".." in path.parts else (str(path),)
        rights, opaque = (RequiredRight(permission=permission, pattern=real, spellings=spellings),), ""
    else:
        rights, opaque = (RequiredRight(permission=permission, pattern=pattern),), ""
    ruleset = policy.ruleset(cwd)
    rights_to_explain = [
        *rights_to_judge(rights, cwd, find_project_root(cwd, home=policy.home)),
        *([RequiredRight(OPAQUE, pattern)] if opaque else []),
    ]
    lines = [escape_control_chars(explain(ruleset, right)) for right in rights_to_explain]
    if opaque:
        lines.append(f"  because it cannot be analysed: {escape_control_chars(opaque)}")
    # The explanation covers single rights; the verdict combines them, as for a real call.
    verdict = policy.judge(_query(cwd, permission, pattern, rights, opaque))
    return "\n".join([*lines, f"verdict: {verdict.verdict}, from {escape_control_chars(verdict.source)}"]) + "\n"


def _query(cwd: str, permission: str, pattern: str, rights: tuple[RequiredRight, ...], opaque: str) -> PermissionQuery:
    """Return the query that a call in a new session would make."""
    return PermissionQuery(
        chain=(PermissionScope(session_id=SessionId(""), turn_id=TurnId("")),),
        call_id=CallId(""),
        cwd=cwd,
        tool="",
        read_only=False,
        permission=permission,
        rights=rights,
        opaque=opaque,
        detail=pattern,
    )


def _unasked(config: Config) -> int:
    # Imported here: few commands need the tables.
    from engine.cli.default_tools import knowledge_for
    from engine.permission.programs.program_registry import DEFAULT_REGISTRY
    from engine.permission.programs.unasked_programs import list_unasked

    lines = list_unasked(knowledge_for(config) or DEFAULT_REGISTRY)
    return print_text("".join(f"{escape_control_chars(line)}\n" for line in lines))


def _lint(policy: Policy, ruleset: Ruleset) -> int:
    findings = lint(ruleset.layers, ruleset.project, policy.home)
    if not findings:
        return print_text("no problems found in the rules\n")
    # A non-zero code, so that a check in CI notices.
    code = print_text("".join(f"{escape_control_chars(str(finding))}\n" for finding in findings))
    return code or FAILED


def _confinement(choice: BackendChoice, config: Config) -> str:
    """Return what confines commands here, for people."""
    why = f" ({'; '.join(choice.problems)})" if choice.problems else ""
    if config.sandbox is not None and config.sandbox.backend == "bwrap":
        if machine() is None:
            return f"every command runs in a sandbox of bubblewrap, where no system call is refused{why}"
        if choice.backend is None:
            return f"no command runs: each needs a sandbox of bubblewrap{why}"
        return "every command runs in a sandbox of bubblewrap"
    if choice.backend is None:
        return f"nothing confines commands: only a few run without a question{why}"
    return f"{choice.backend}: commands that run without a question are confined"


def _as_text(policy: Policy, cwd: str, files: UserFiles, config: Config, choice: BackendChoice) -> str:
    root = find_project_root(cwd, home=policy.home)
    lines = [
        f"project  {escape_control_chars(root) or 'none: every path counts as outside'}",
        f"profile  {policy.profile}",
        f"sandbox  {escape_control_chars(_confinement(choice, config))}",
    ]
    if config.source:
        lines.append(f"yours    {escape_control_chars(config.source)}")
    if root:
        lines += _own_files(cwd, root, files)
    for layer in policy.ruleset(cwd).layers:
        # The defaults are long and the same everywhere; `explain` shows them where they decide.
        if layer.name != "defaults" and layer.rules:
            lines += ["", f"rules of the layer {layer.name} (the last one that matches wins)"]
            lines += [
                f"  {escape_control_chars(str(rule))}{escape_control_chars(rule.location)}" for rule in layer.rules
            ]
    lines += [
        "",
        "grants for this project" if _project_grants(policy, cwd) else "no grants for this project",
    ]
    lines += [
        f"  {grant.id}  {escape_control_chars(grant.permission)} {escape_control_chars(grant.pattern)}  ({_grant_note(grant)})"
        for grant in _project_grants(policy, cwd)
    ]
    return "\n".join(lines) + "\n"


def _own_files(cwd: str, root: str, files: UserFiles) -> list[str]:
    """Return a line for each configuration file of the project."""
    paths = [path for path in project_files(cwd, root) if os.path.lexists(path)]
    how = "trusted" if paths and files.trust.is_trusted(root) else "not trusted: only its deny and ask rules count"
    return [f"its own  {escape_control_chars(path)} ({how})" for path in paths]


def _as_json(policy: Policy, cwd: str, choice: BackendChoice) -> str:
    rules = [
        {"layer": layer.name, "rule": str(rule), "origin": rule.origin}
        for layer in policy.ruleset(cwd).layers
        for rule in layer.rules
    ]
    grants = [
        {
            "id": grant.id,
            "permission": grant.permission,
            "pattern": grant.pattern,
            "until": grant.until,
            "tool": grant.origin.tool,
            "session": grant.origin.session_id,
            "granted": grant.origin.granted,
            "by": grant.origin.by,
        }
        for grant in _project_grants(policy, cwd)
    ]
    document = {
        "project": find_project_root(cwd, home=policy.home),
        "profile": policy.profile,
        "confined_by": choice.backend,
        "rules": rules,
        "grants": grants,
    }
    return json.dumps(document, indent=2, ensure_ascii=True) + "\n"


def _project_grants(policy: Policy, cwd: str) -> list[Grant]:
    return [
        grant
        for grant in policy.grants.current(time.time())
        if grant.project == find_project_root(cwd, home=policy.home)
    ]


def _grant_note(grant: Grant) -> str:
    day = time.strftime("%Y-%m-%d", time.localtime(grant.origin.granted))
    until = "" if grant.until is None else time.strftime(", until %Y-%m-%d %H:%M", time.localtime(grant.until))
    return f"for {escape_control_chars(grant.origin.tool)} on {day}{until}"
