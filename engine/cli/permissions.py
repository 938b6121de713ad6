"""`engine permissions`: which rules hold here, what was allowed for longer, and whom the user trusts."""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Final

import trio

from engine.cli import say
from engine.cli.output import complain
from engine.cli.terminal_text import visible
from engine.config.config import Config
from engine.core.errors import EngineError
from engine.core.ids import CallId, SessionId, TurnId
from engine.core.permission_types import PermissionQuery, PermissionScope, RequiredRight
from engine.files.real_path import followed
from engine.permission.grants.grants import Grant
from engine.permission.policy import Policy
from engine.permission.project import find_project_root
from engine.permission.requested_rights import rights_to_judge
from engine.permission.rules.explain import explain
from engine.permission.rules.lint import lint
from engine.permission.rules.profiles import PROFILES
from engine.permission.rules.project_file import NAME, read_project_file
from engine.permission.rules.rules import PATH_PERMISSIONS, Ruleset
from engine.permission.user_policy import UserFiles, user_policy
from engine.permission.verdicts import OPAQUE
from engine.settings_file.config_file import load_config

FOUND: Final = 1
USAGE_ERROR: Final = 2


def main(arguments: list[str]) -> int:
    """Run the command; return the exit code."""
    try:
        given = _parser().parse_args(arguments)
        return _run(given)
    except SystemExit as error:  # argparse has said what is wrong, or has helped
        return error.code if isinstance(error.code, int) else USAGE_ERROR
    except EngineError as error:
        complain(f"engine permissions: {error}")
        return USAGE_ERROR


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="engine permissions",
        allow_abbrev=False,
        description="See what the agent may do in a folder, and take back what was allowed.",
        epilog="Exit codes: 0 done, 1 lint found something, 2 wrong usage.",
    )
    parser.add_argument("--cwd", default=".", help="the folder that the agent would work in; default: this one")
    parser.add_argument("--config", metavar="FILE", help="the configuration; default: the usual one")
    parser.add_argument("--profile", choices=PROFILES, help="instead of the configuration's")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    listing = commands.add_parser("list", help="the rules that hold, and what was allowed (the default)")
    listing.add_argument("--json", action="store_true", help="as JSON")
    explaining = commands.add_parser("explain", help="which rule decides, and why the others don't")
    explaining.add_argument("permission", help="the name of a right: bash, read, edit, web, ...")
    explaining.add_argument("pattern", help="what for: a command line, a path, ...")
    revoking = commands.add_parser("revoke", help="take back what was allowed")
    revoking.add_argument("id", help="the grant's id, from list")
    commands.add_parser("lint", help="rules that have no effect, or allow more than they look")
    for name, what in (("trust", "let a folder's own rules count"), ("distrust", "let them count no longer")):
        trusting = commands.add_parser(name, help=what)
        trusting.add_argument("folder", nargs="?", help="which; default: the project that --cwd belongs to")
    return parser


def _run(given: argparse.Namespace) -> int:
    files = UserFiles.default()
    folder = Path(given.cwd).expanduser()
    if not folder.is_dir():
        complain(f"engine permissions: {given.cwd} is no folder")
        return USAGE_ERROR
    cwd = followed(folder)
    match given.command:
        case "revoke":
            files.grants.revoke(given.id)
            return say(f"{given.id} is revoked\n")
        case "trust":
            return say(f"{visible(files.trust.trust(_folder(given.folder, cwd, files)))} is trusted\n")
        case "distrust":
            return say(f"{visible(files.trust.distrust(_folder(given.folder, cwd, files)))} is trusted no longer\n")
        case _:
            pass
    config = load_config(given.config, os.environ)
    policy = user_policy(config, files, profile=given.profile)
    trio.run(policy.prepare, cwd)
    match given.command:
        case "explain":
            return say(_explained(policy, cwd, given.permission, given.pattern, config))
        case "lint":
            return _linted(policy, policy.ruleset(cwd))
        case _:
            as_json = given.command == "list" and given.json
            return say(_as_json(policy, cwd) if as_json else _as_text(policy, cwd, files, config))


def _folder(named: str | None, cwd: str, files: UserFiles) -> str:
    """Return the folder to trust: where its rules lie, if none is named."""
    return named or find_project_root(cwd, home=str(files.home)) or cwd


def _explained(policy: Policy, cwd: str, permission: str, pattern: str, config: Config) -> str:
    """Return which rules decide about a right, and what becomes of it; a command line is taken apart, links are followed."""
    if permission == "bash":
        # Imported here: they load a grammar, and the tools.
        from engine.cli.default_tools import knowledge_for
        from engine.tools.builtin.bash_permissions import need_of

        need = need_of(pattern, cwd, policy.home, knowledge_for(config))
        rights, opaque = need.needed, need.opaque
    elif permission in PATH_PERMISSIONS:
        called = Path(cwd, Path(pattern).expanduser())
        real = followed(called)
        # What it is called counts as well, but behind `..` nobody can tell what that is.
        spellings = () if str(called) == real or ".." in called.parts else (str(called),)
        rights, opaque = (RequiredRight(permission=permission, pattern=real, spellings=spellings),), ""
    else:
        rights, opaque = (RequiredRight(permission=permission, pattern=pattern),), ""
    ruleset = policy.ruleset(cwd)
    wanted = [*rights_to_judge(rights, cwd, policy.root(cwd)), *([RequiredRight(OPAQUE, pattern)] if opaque else [])]
    told = [visible(explain(ruleset, right)) for right in wanted]
    if opaque:
        told.append(f"  because nobody can tell what it does before it runs: {visible(opaque)}")
    judged = policy.judge(_query(cwd, permission, pattern, rights, opaque))
    return "\n".join([*told, f"so the call: {judged.verdict}, says {visible(judged.source)}"]) + "\n"


def _query(cwd: str, permission: str, pattern: str, rights: tuple[RequiredRight, ...], opaque: str) -> PermissionQuery:
    """Return what a call would ask of the rules, in a session that has just begun."""
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


def _linted(policy: Policy, ruleset: Ruleset) -> int:
    findings = lint(ruleset.layers, ruleset.project, policy.home)
    if not findings:
        return say("nothing to say about the rules\n")
    code = say("".join(f"{visible(str(finding))}\n" for finding in findings))
    return code or FOUND


def _as_text(policy: Policy, cwd: str, files: UserFiles, config: Config) -> str:
    root = policy.root(cwd)
    lines = [f"project  {visible(root) or 'none: whatever is touched lies outside'}", f"profile  {policy.profile}"]
    if config.source:
        lines.append(f"yours    {visible(config.source)}")
    if root and read_project_file(root):
        how = "trusted" if files.trust.is_trusted(root) else "not trusted: only what forbids or asks counts"
        lines.append(f"its own  {visible(f'{root}/{NAME}')} ({how})")
    for layer in policy.ruleset(cwd).layers:
        if layer.name != "defaults" and layer.rules:
            lines += ["", f"rules of the layer {layer.name}, the last one that matches wins"]
            lines += [f"  {visible(str(rule))}{visible(rule.location)}" for rule in layer.rules]
    lines += ["", "allowed for this project" if _kept(policy, cwd) else "nothing was allowed for this project"]
    lines += [
        f"  {grant.id}  {visible(grant.permission)} {visible(grant.pattern)}  ({_told(grant)})"
        for grant in _kept(policy, cwd)
    ]
    return "\n".join(lines) + "\n"


def _as_json(policy: Policy, cwd: str) -> str:
    rules = [
        {"layer": layer.name, "rule": str(rule), "origin": rule.origin}
        for layer in policy.ruleset(cwd).layers
        for rule in layer.rules
    ]
    grants = [
        {"id": grant.id, "permission": grant.permission, "pattern": grant.pattern, "until": grant.until}
        for grant in _kept(policy, cwd)
    ]
    document = {"project": policy.root(cwd), "profile": policy.profile, "rules": rules, "grants": grants}
    return json.dumps(document, indent=2, ensure_ascii=True) + "\n"


def _kept(policy: Policy, cwd: str) -> list[Grant]:
    return [grant for grant in policy.grants.current(time.time()) if grant.project == policy.root(cwd)]


def _told(grant: Grant) -> str:
    day = time.strftime("%Y-%m-%d", time.localtime(grant.origin.granted))
    until = "" if grant.until is None else time.strftime(", until %Y-%m-%d %H:%M", time.localtime(grant.until))
    return f"for {visible(grant.origin.tool)} on {day}{until}"
