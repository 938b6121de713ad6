"""The rules at work: what a call may do, in whichever session, and what was allowed to it for longer.

A call is judged once for each session from the root down to its own, each with the rules
of its agent: the strictest word counts, so a sub-agent can do nothing that its parents
could not. What somebody allowed for longer counts for all of them, and lifts no deny.
"""

from __future__ import annotations

import itertools
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import attrs
import trio

from engine.core.errors import ConfigError
from engine.core.events import Offer, Right
from engine.core.permission_types import Allowance, Judgement, PermissionQuery, PermissionScope, RequiredRight, Rule
from engine.core.threads import to_thread
from engine.files.real_path import followed
from engine.permission.grants.grant_file import GrantFile
from engine.permission.grants.grants import Grant, Grants, Origin
from engine.permission.project import project_of
from engine.permission.requested_rights import granted_rights, right_to_judge, would_grant
from engine.permission.rules.path_pattern import PathPattern
from engine.permission.rules.profiles import DEFAULT, defaults
from engine.permission.rules.project_file import rules_of
from engine.permission.rules.rules import PATH_PERMISSIONS, READING, Layer, Ruleset, RuleVerdict, strictest
from engine.permission.rules.wildcard import Wildcard
from engine.permission.verdicts import OPAQUE, SANDBOXED, allow_consequence, judge_opaque_script, relax_for_sandbox

# Where there is no project, nothing lies in it.
_NOWHERE: Final = "/\ufdd0"
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
        home: the user's home folder.
        grants: what was allowed.
        rules_of: reads the rules of a project's own file, as far as the project is trusted. It blocks.
        file: where grants for projects are kept; None: they end with the engine.
        now: the time, in seconds since the epoch.
    """

    profile: str = DEFAULT
    user: tuple[Rule, ...] = ()
    host: tuple[Rule, ...] = ()
    home: str = attrs.field(factory=lambda: followed(str(Path("~").expanduser())))
    grants: Grants = attrs.Factory(lambda self: Grants(self.home), takes_self=True)
    rules_of: Callable[[str], tuple[Rule, ...]] = rules_of
    file: GrantFile | None = None
    now: Callable[[], float] = time.time
    _defaults: Layer = attrs.field(init=False)
    _projects: dict[str, Project] = attrs.field(factory=dict[str, Project], init=False)
    _rulesets: dict[tuple[Project, tuple[Rule, ...]], Ruleset] = attrs.field(
        factory=dict[tuple[Project, tuple[Rule, ...]], Ruleset], init=False
    )
    _names: Iterator[str] = attrs.field(init=False)
    _unsaved: list[Grant] = attrs.field(factory=list[Grant], init=False)
    # Those that are in the file, as far as we know: what is not must not be forgotten when the file is read again.
    _saved: frozenset[str] = attrs.field(default=frozenset(), init=False)

    def __attrs_post_init__(self) -> None:
        self._defaults = defaults(self.profile)
        self._names = map(f"grant_{secrets.token_hex(4)}{{}}".format, itertools.count(1))
        # A rule that can match nothing is told now, not at the first call.
        self.compiled(Project(""))

    async def prepare(self, cwd: str) -> None:
        """Look at the project that *cwd* belongs to, and read the grants that are kept. A checkpoint. Raises `ConfigError`."""
        saved = self._saved
        project, kept = await to_thread(self._look, cwd)
        self.compiled(project)
        if kept is not None:
            own = (one for one in self.grants.current(self.now()) if one.scope == "project" and one.id not in saved)
            ids = frozenset(grant.id for grant in kept)
            self.grants.keep([*kept, *(one for one in own if one.id not in ids)])
            self._saved |= ids
        self._projects[cwd] = project

    async def save(self) -> None:
        """Write the grants that are to be kept. A checkpoint if there are any. Raises `EngineError`; they hold all the same.

        If cancelled, what is being written is written.
        """
        while self._unsaved and self.file is not None:
            # All that one answer gave, at once: half of it would answer nothing, and allow something.
            grants, self._unsaved = self._unsaved, []
            try:
                await to_thread(self.file.add_all, grants, self.now(), abandon_on_cancel=False)
            except trio.Cancelled:  # before the thread was started: once it runs it is waited for
                self._unsaved = [*grants, *self._unsaved]
                raise
            self._saved |= {grant.id for grant in grants}

    def judge(self, query: PermissionQuery) -> Judgement:
        """Return what the rules say. Quick, unless nobody has prepared the folder."""
        try:
            project = self._project(query.cwd)
        except ConfigError as error:
            # A session has moved to a project whose rules make no sense: what they forbid is not known.
            return Judgement(verdict="deny", source=f"the rules here, which can't be read: {error}")
        verdicts = [verdict for scope in query.chain for verdict in self._judge_scope(query, project, scope)]
        if not verdicts:
            return Judgement(verdict="ask", source="the tool does not say which permission it needs")
        decisive = strictest(verdicts)
        by_default = [one.is_default for one in verdicts if one.verdict == decisive.verdict]
        # A call is asked about by default only if all its reasons are defaults, and allowed by default if one of them is.
        is_default = any(by_default) if decisive.verdict == "allow" else all(by_default)
        if decisive.verdict != "ask":
            return Judgement(verdict=decisive.verdict, source=decisive.source, is_default=is_default)
        asking = (one.right for one in verdicts if one.verdict == "ask" and one.right is not None)
        missing = tuple(dict.fromkeys(Right(permission=right.permission, pattern=right.pattern) for right in asking))
        return Judgement(
            verdict="ask",
            source=decisive.source,
            is_default=is_default,
            missing_rights=missing,
            offers=self._offers(query, missing, project.root),
        )

    def grant(self, query: PermissionQuery, allowed: Allowance) -> None:
        """Remember what was allowed, for the whole tree of sessions. Not a checkpoint.

        Raises `ConfigError`, and remembers nothing, for what can't be remembered.
        """
        root, now, project = query.chain[0], self.now(), self._project(query.cwd).root
        if allowed.scope == "project" and not project:
            raise ConfigError(f"{query.cwd} belongs to no project: allow it for this session, or once")
        origin = Origin(session_id=query.session_id, call_id=query.call_id, tool=query.tool, granted=now, by="the user")
        grants = [
            Grant(
                id=next(self._names),
                permission=permission,
                pattern=pattern,
                scope=allowed.scope,
                project=project or _NOWHERE,
                session_id=None if allowed.scope == "project" else root.session_id,
                turn_id=root.turn_id if allowed.scope == "turn" else None,
                until=None if allowed.seconds is None else now + allowed.seconds,
                origin=origin,
            )
            for permission, pattern in granted_rights(allowed.rights, query.cwd, project)
        ]
        self.grants.drop_over(now)
        self.grants.end_other_turns(root.session_id, root.turn_id)
        self.grants.add_all(grants)
        if allowed.scope == "project" and self.file is not None:
            self._unsaved += grants

    def hides(self, chain: Sequence[PermissionScope], cwd: str, permission: str) -> bool:
        """Tell whether one of the sessions of *chain* can never have that right. Quick, as `judge` is."""
        try:
            project = self._project(cwd)
        except ConfigError:  # each call says what is wrong
            return False
        names = (permission,) if permission in PATH_PERMISSIONS else (permission, permission + READING)
        rulesets = (self.compiled(project, link.rules) for link in chain)
        return any(all(ruleset.hides(name) for name in names) for ruleset in rulesets)

    def root(self, cwd: str) -> str:
        """Return the project's folder; empty if there is none."""
        return self._project(cwd).root

    def ruleset(self, cwd: str) -> Ruleset:
        """Return all rules that hold in a folder."""
        return self.compiled(self._project(cwd))

    def compiled(self, project: Project, rules: tuple[Rule, ...] = ()) -> Ruleset:
        """Return all rules that hold in a project, with those of an agent. Raises `ConfigError`. Not a checkpoint."""
        known = self._rulesets.get((project, rules))
        if known is None:
            layers = (
                self._defaults,
                Layer("project", project.rules),
                Layer("user", self.user),
                Layer("host", self.host),
                Layer("agent", rules),
            )
            known = Ruleset(layers, project.root or _NOWHERE, self.home)
            if len(self._rulesets) >= _MAX_RULESETS:
                self._rulesets.clear()
            self._rulesets[project, rules] = known
        return known

    def _offers(self, query: PermissionQuery, asked: Sequence[Right], project: str) -> tuple[Offer, ...]:
        # What nobody can see through is allowed once: the same text may do something else the next time.
        if any(right.permission == OPAQUE for right in asked):
            return ()
        return tuple(self._fitting(query, asked, project))

    def _fitting(self, query: PermissionQuery, asked: Sequence[Right], project: str) -> Iterator[Offer]:
        """Yield the offers that would allow all that is *asked*, and nothing that need not be."""
        found: dict[Offer, None] = {}
        for offer in query.offers:
            rights: list[Right] = []
            open_rights = list(asked)
            for right in offer.rights:
                written = list(granted_rights([right], query.cwd, project))
                granted = [self._pattern(name, text, project) for name, text in written]
                fits = [one for one in asked if any(would_grant(name, pattern, one) for name, pattern in granted)]
                if fits:
                    # From the project's folder it reads better, and it is the same there.
                    is_shorter = query.cwd == project and written[0][1].startswith("./")
                    rights.append(attrs.evolve(right, pattern=written[0][1]) if is_shorter else right)
                    open_rights = [one for one in open_rights if one not in fits]
            if not open_rights:
                found[Offer(rights=tuple(dict.fromkeys(rights)))] = None
        yield from found

    def _pattern(self, permission: str, pattern: str, project: str) -> tuple[str, Wildcard | PathPattern | None]:
        try:
            if permission in PATH_PERMISSIONS:
                return permission, PathPattern(pattern, project or _NOWHERE, self.home)
            return permission, Wildcard(pattern)
        except ConfigError:  # it can match nothing
            return permission, None

    def _project(self, cwd: str) -> Project:
        """Return what was prepared; what was not, a folder that a session has moved to, is looked at now, and that blocks."""
        known = self._projects.get(cwd)
        if known is None:
            known = self._look_around(cwd)
            self.compiled(known)
            self._projects[cwd] = known
        return known

    def _look(self, cwd: str) -> tuple[Project, tuple[Grant, ...] | None]:
        return self._look_around(cwd), None if self.file is None else self.file.load()

    def _look_around(self, cwd: str) -> Project:
        root = project_of(cwd, home=self.home)
        return Project(root, self.rules_of(root) if root else ())

    # -- one session ----------------------------------------------------------------------

    def _judge_scope(self, query: PermissionQuery, project: Project, scope: PermissionScope) -> Iterator[RuleVerdict]:
        ruleset = self.compiled(project, scope.rules)
        verdicts = self._judge_rights(query, project, ruleset)
        return relax_for_sandbox(verdicts, ruleset.judge(SANDBOXED, query.detail)) if query.sandboxed else verdicts

    def _judge_rights(self, query: PermissionQuery, project: Project, ruleset: Ruleset) -> Iterator[RuleVerdict]:
        earlier: dict[str, RuleVerdict] = {}
        for required in query.rights:
            for right in right_to_judge(required, query.cwd, project.root, read_only=query.read_only):
                verdict = ruleset.judge(right.permission, right.pattern, right.spellings)
                if verdict.verdict == "ask":
                    verdict = self._apply_grants(verdict, right, query, project)
                if verdict.verdict == "ask" and verdict.is_default and required.follows:
                    verdict = allow_consequence(verdict, [earlier.get(pattern) for pattern in required.follows])
                earlier.setdefault(required.pattern, verdict)
                yield verdict
        if query.opaque:
            yield judge_opaque_script(query, ruleset)

    def _apply_grants(
        self, verdict: RuleVerdict, right: RequiredRight, query: PermissionQuery, project: Project
    ) -> RuleVerdict:
        grant = self.grants.find(right, query.chain, project.root or _NOWHERE, self.now())
        if grant is None:
            return verdict
        return RuleVerdict(verdict="allow", right=right, reason=f"the user, who allowed {grant}")
