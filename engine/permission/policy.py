"""The rules at work: what a call may do, in whichever session, and what was allowed to it for longer.

A call is judged once for each session from the root down to its own, each with the rules
of its agent: the strictest word counts, so a sub-agent can do nothing that its parents
could not. What somebody allowed for longer counts for all of them, and lifts no deny.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import attrs

from engine.events import Right
from engine.permission.grants import Grant, Grants, Origin
from engine.permission.profiles import DEFAULT, defaults
from engine.permission.project import project_of
from engine.permission.real_path import is_within
from engine.permission.rules import PATH_PERMISSIONS, READING, Decision, Layer, Rule, Ruleset, holds_for, strictest
from engine.ports import Allowance, Judgement, Link, Needed, PermissionQuery

# The right to do what nobody can tell before it is done.
OPAQUE: Final = "opaque"
OUTSIDE: Final = "outside"
# What a script that can't be seen through might do.
_DONE_BY_SCRIPTS: Final = ("bash", "edit", "read", OUTSIDE)
_MAX_RULESETS: Final = 100


@attrs.frozen
class Project:
    """Where sessions work.

    Attributes:
        root: the project's folder, absolute and real; empty: there is none, and every path is outside.
        rules: what a file of its own says, as far as that counts.
    """

    root: str
    rules: tuple[Rule, ...] = ()


@attrs.define(eq=False, kw_only=True)
class Policy:
    """An approver: rules in layers, and what was allowed for longer.

    Attributes:
        profile: what holds where no rule says otherwise.
        user: the rules of the user's own files.
        host: those of the program that runs the engine; they come after the user's.
        grants: what was allowed.
        home: the user's home folder.
        rules_of: reads the rules of a project's own file, as far as the project is trusted. It blocks.
        now: the time, in seconds since the epoch.
    """

    profile: str = DEFAULT
    user: tuple[Rule, ...] = ()
    host: tuple[Rule, ...] = ()
    grants: Grants = attrs.field(factory=Grants)
    home: str = attrs.field(factory=lambda: str(Path("~").expanduser()))
    rules_of: Callable[[str], tuple[Rule, ...]] = lambda _: ()
    now: Callable[[], float] = time.time
    _defaults: Layer = attrs.field(init=False)
    _projects: dict[str, Project] = attrs.field(factory=dict[str, Project], init=False)
    _rulesets: dict[tuple[Project, tuple[Rule, ...]], Ruleset] = attrs.field(
        factory=dict[tuple[Project, tuple[Rule, ...]], Ruleset], init=False
    )

    def __attrs_post_init__(self) -> None:
        self._defaults = defaults(self.profile)
        # A rule that can match nothing is told now, not at the first call.
        self._compiled(Project("/"), ())

    def prepare(self, cwd: str) -> Project:
        """Look at the project that *cwd* belongs to, once. It blocks: for a thread. Raises `ConfigError` for its rules."""
        known = self._projects.get(cwd)
        if known is None:
            root = project_of(cwd, home=self.home)
            known = Project(root, self.rules_of(root) if root else ())
            self._compiled(known, ())
            self._projects[cwd] = known
        return known

    def forget_projects(self) -> None:
        """Look at each project anew when it is next prepared. Not a checkpoint."""
        self._projects.clear()

    def judge(self, query: PermissionQuery) -> Judgement:
        """Return what the rules say. Quick, unless nobody has prepared the folder."""
        project = self.prepare(query.cwd)
        decided = [one for link in query.chain for one in self._decisions(query, project, link)]
        word = strictest(one.decision for one in decided)
        asked = tuple(dict.fromkeys(one.right for one in decided if one.decision.action == "ask"))
        by_default = [one.decision.is_default for one in decided if one.decision.action == word.action]
        return Judgement(
            verdict=word.action,
            source=word.source,
            # For a question each of the rules must be a default, for a yes one is enough.
            is_default=any(by_default) if word.action == "allow" else all(by_default),
            asked=asked if word.action == "ask" else (),
        )

    def grant(self, query: PermissionQuery, allowed: Allowance) -> None:
        """Remember what was allowed, for the whole tree of sessions. Not a checkpoint."""
        root = query.chain[0]
        now = self.now()
        project = self.prepare(query.cwd)
        for permission, pattern in _granted_rights(allowed.rights, query.cwd, project.root):
            self.grants.add(
                Grant(
                    permission=permission,
                    pattern=pattern,
                    scope=allowed.scope,
                    session_id=root.session_id,
                    turn_id=root.turn_id,
                    project=project.root,
                    until=None if allowed.seconds is None else now + allowed.seconds,
                    origin=Origin(session_id=query.session_id, call_id=query.call_id, tool=query.tool, time=now),
                )
            )

    def ruleset(self, cwd: str, rules: tuple[Rule, ...] = ()) -> Ruleset:
        """Return all rules that hold in a folder, with those of an agent. It blocks."""
        return self._compiled(self.prepare(cwd), rules)

    def hides(self, permission: str, cwd: str, rules: tuple[Rule, ...] = ()) -> bool:
        """Tell whether every right of that name is denied there. It blocks."""
        ruleset = self.ruleset(cwd, rules)
        return ruleset.hides(permission) and ruleset.hides(permission + READING)

    # -- one right ------------------------------------------------------------------------

    def _decisions(self, query: PermissionQuery, project: Project, link: Link) -> Iterator[_Decided]:
        ruleset = self._compiled(project, link.rules)
        ruled: dict[str, Decision] = {}
        for needed in query.rights:
            for right, spellings in self._rights(needed, query, project):
                decision = ruleset.judge(right.permission, right.pattern, spellings)
                decided = self._with_grants(_Decided(right, decision), query, project)
                if decision.is_default and needed.follows and all(_allows(ruled.get(one)) for one in needed.follows):
                    decided = _Decided(right, ruled[needed.follows[0]])
                ruled.setdefault(needed.pattern, decided.decision)
                yield decided
        if query.opaque:
            yield self._opaque(query, ruleset)

    def _rights(
        self, needed: Needed, query: PermissionQuery, project: Project
    ) -> Iterator[tuple[Right, tuple[str, ...]]]:
        """Yield a right as rules know it: paths as seen from the project, with the right to be outside of it."""
        if needed.permission not in PATH_PERMISSIONS:
            reads = needed.reads_only or query.read_only
            name = needed.permission + READING if reads else needed.permission
            yield Right(permission=name, pattern=needed.pattern), needed.spellings
            return
        path = os.path.join(query.cwd, needed.pattern)  # noqa: PTH118 - Path would change it
        spellings = tuple(_seen(os.path.join(query.cwd, other), project.root) for other in needed.spellings)  # noqa: PTH118
        yield Right(permission=needed.permission, pattern=_seen(path, project.root)), spellings
        if needed.permission != OUTSIDE and not is_within(path, project.root):
            yield Right(permission=OUTSIDE, pattern=path), spellings

    def _with_grants(self, decided: _Decided, query: PermissionQuery, project: Project) -> _Decided:
        if decided.decision.action != "ask":
            return decided
        grant = self.grants.covers(
            decided.right.permission,
            decided.right.pattern,
            chain=tuple(link.session_id for link in query.chain),
            turn_id=query.chain[0].turn_id,
            project=project.root,
            now=self.now(),
        )
        return decided if grant is None else _Decided(decided.right, _granted(grant))

    def _opaque(self, query: PermissionQuery, ruleset: Ruleset) -> _Decided:
        text = query.detail or query.opaque
        decision = ruleset.judge(OPAQUE, text)
        if decision.action == "allow" and (rule := _restriction(ruleset)) is not None:
            # It may do what that rule forbids, or asks about.
            decision = attrs.evolve(decision, action="ask", rule=rule)
        return _Decided(Right(permission=OPAQUE, pattern=text), decision)

    # -- all rules ------------------------------------------------------------------------

    def _compiled(self, project: Project, rules: tuple[Rule, ...]) -> Ruleset:
        known = self._rulesets.get((project, rules))
        if known is None:
            layers = (
                self._defaults,
                Layer("project", project.rules),
                Layer("user", self.user),
                Layer("host", self.host),
                Layer("agent", rules),
            )
            known = Ruleset(layers, project.root or "/nowhere", self.home)
            if len(self._rulesets) >= _MAX_RULESETS:
                self._rulesets.clear()
            self._rulesets[project, rules] = known
        return known


@attrs.frozen
class _Decided:
    right: Right
    decision: Decision


def _allows(decision: Decision | None) -> bool:
    """Tell whether a rule, or somebody, has said yes."""
    return decision is not None and decision.action == "allow" and not decision.is_default


def _restriction(ruleset: Ruleset) -> Rule | None:
    """Return a rule of somebody's own that forbids something which a script may do, or asks about it."""
    for layer in ruleset.layers:
        for rule in () if layer.name == "defaults" else layer.rules:
            if rule.action != "allow" and any(holds_for(rule.permission, name) for name in _DONE_BY_SCRIPTS):
                return rule
    return None


def _granted(grant: Grant) -> Decision:
    rule = Rule(permission=grant.permission, pattern=grant.pattern, action="allow", origin=f"for the {grant.scope}")
    return Decision(action="allow", rule=rule, layer="grants")


def _seen(path: str, project: str) -> str:
    """Return an absolute path as it is seen from the project: relative if it lies in there."""
    if not is_within(path, project):
        return path
    return path[len(project.rstrip("/")) + 1 :] or "."


def _granted_rights(rights: Sequence[Right], cwd: str, project: str) -> Iterator[tuple[str, str]]:
    """Yield what is granted, in patterns as rules have them: paths from the project, and the right to be outside of it."""
    for right in rights:
        pattern = right.pattern
        if right.permission in PATH_PERMISSIONS:
            if "/" in pattern and not pattern.startswith(("/", "~/", "$HOME/")):
                pattern = _from_project(os.path.normpath(f"{cwd}/{pattern}"), project)
            if right.permission != OUTSIDE and pattern.startswith(("/", "~/", "$HOME/")):
                yield OUTSIDE, pattern
        yield right.permission, pattern


def _from_project(pattern: str, project: str) -> str:
    return f"./{_seen(pattern, project)}" if is_within(pattern, project) else pattern
