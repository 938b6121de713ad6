"""The usual approver: it judges calls by layered rules and by grants.

A call is judged once for each session from the root down to its own, each with the rules of
its agent. The strictest verdict counts, so a sub-agent can do nothing that its parents could
not. A grant applies to the whole tree of sessions; it answers an "ask" and never lifts a deny.
"""

from __future__ import annotations

import itertools
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import attrs
import trio

from engine.config.rule_layers import RuleLayers
from engine.core.errors import ConfigError
from engine.core.events import Offer, Right
from engine.core.ids import SessionId, TurnId
from engine.core.permission_types import (
    CONFINEMENTS,
    Allowance,
    Confinement,
    Judgement,
    PermissionQuery,
    PermissionScope,
    RequiredRight,
    Rule,
)
from engine.core.threads import to_thread
from engine.core.value_base import Value
from engine.files.real_path import followed, is_within
from engine.permission.grants.grant_file import GrantFile
from engine.permission.grants.grants import Grant, GrantOrigin, Grants
from engine.permission.project_root import find_project_root
from engine.permission.requested_rights import granted_rights, is_any_file, right_to_judge, would_grant
from engine.permission.rules.path_pattern import PathPattern
from engine.permission.rules.profiles import DEFAULT, defaults, require_liftable, require_profile
from engine.permission.rules.project_file import load_project_rules
from engine.permission.rules.rules import PATH_PERMISSIONS, READING, Layer, Ruleset, RuleVerdict, strictest
from engine.permission.rules.run_later import is_configuration
from engine.permission.rules.wildcard import Wildcard
from engine.permission.turn_taint import TurnTaint
from engine.permission.verdict_adjustments import (
    OPAQUE,
    SANDBOXED,
    UNSANDBOXED,
    allow_consequence,
    confine_reading,
    judge_any_file,
    judge_opaque_script,
    relax_for_sandbox,
)

# Stands for the project where there is none: no path lies in it.
_NOWHERE: Final = "/\ufdd0"
# Compiled rulesets, by project and agent. Beyond that all are dropped: compiling them again is cheap.
_MAX_RULESETS: Final = 100


@attrs.frozen(eq=False, repr=False)
class Project(Value):
    """A project and its rules.

    Attributes:
        root: the project's folder, absolute and real; empty if there is none, and then every path is outside.
        rules: the rules of its own file that apply.
    """

    root: str
    rules: tuple[Rule, ...] = ()


@attrs.define(eq=False, repr=False, kw_only=True)
class Policy:
    """An approver: rules in layers, and grants.

    Attributes:
        profile: the defaults.
        user: the rules of the user's configuration.
        host: the rules of the program that embeds the engine; they come after the user's.
        layers: the rules of further files, and the administrator's limits.
        home: the user's home folder.
        grants: what was allowed for longer than one call.
        load_project_rules: reads the rules of a project's own files for a folder and the project's root; of an untrusted
            project only those that deny or ask. It blocks.
        file: stores the grants for projects; None: they end with the engine.
        now: the time, in seconds since the epoch.
    """

    profile: str = DEFAULT
    user: tuple[Rule, ...] = ()
    host: tuple[Rule, ...] = ()
    layers: RuleLayers = RuleLayers()
    home: str = attrs.field(factory=lambda: followed(str(Path("~").expanduser())))
    grants: Grants = attrs.Factory(lambda self: Grants(self.home), takes_self=True)
    load_project_rules: Callable[[str, str], tuple[Rule, ...]] = load_project_rules
    file: GrantFile | None = None
    now: Callable[[], float] = time.time
    _taint: TurnTaint = attrs.field(init=False)
    _defaults: Layer = attrs.field(init=False)
    _projects: dict[str, Project] = attrs.field(factory=dict[str, Project], init=False)
    # By root session, where it is not `profile`.
    _session_profiles: dict[SessionId, str] = attrs.field(factory=dict[SessionId, str], init=False)
    _rulesets: dict[tuple[Project, tuple[Rule, ...], str], Ruleset] = attrs.field(
        factory=dict[tuple[Project, tuple[Rule, ...], str], Ruleset], init=False
    )
    _grant_ids: Iterator[str] = attrs.field(init=False)
    _unsaved: list[Grant] = attrs.field(factory=list[Grant], init=False)
    # The grants known to be in the file. When the file is read again, others must be kept.
    _saved: frozenset[str] = attrs.field(default=frozenset(), init=False)

    def __attrs_post_init__(self) -> None:
        require_profile(self.profile, self.layers.widest_profile)
        self._defaults = defaults(self.profile)
        self._taint = TurnTaint(self.layers.ask_after)
        self._grant_ids = map(f"grant_{secrets.token_hex(4)}{{}}".format, itertools.count(1))
        # Report an invalid rule now, not at the first call.
        self._compiled(Project(""))

    async def prepare(self, cwd: str) -> None:
        """Load the project of *cwd* and the stored grants. A checkpoint. Raises `ConfigError`."""
        saved = self._saved
        project, kept = await to_thread(
            lambda: (self._find_project(cwd), None if self.file is None else self.file.load())
        )
        self._compiled(project)
        if kept is not None:
            # Grants of this engine that are not in the file yet; one that was in it and is gone was revoked elsewhere.
            own = (one for one in self.grants.current(self.now()) if one.scope == "project" and one.id not in saved)
            ids = frozenset(grant.id for grant in kept)
            self.grants.replace_project_grants([*kept, *(one for one in own if one.id not in ids)])
            self._saved |= ids
        self._projects[cwd] = project

    async def save(self) -> None:
        """Write the new grants for projects. A checkpoint if there are any. Raises `EngineError`; the grants still apply.

        If cancelled, a write that has begun is finished.
        """
        while self._unsaved and self.file is not None:
            # All grants of one answer at once: half of them would not answer the question, but allow something.
            grants, self._unsaved = self._unsaved, []
            try:
                await to_thread(self.file.add_all, grants, self.now(), abandon_on_cancel=False)
            except trio.Cancelled:  # only before the thread starts: a running one is waited for
                self._unsaved = [*grants, *self._unsaved]
                raise
            self._saved |= {grant.id for grant in grants}

    async def revoke(self, name: str) -> bool:
        """Take back a grant, also in the file; return whether there was one. A checkpoint. Raises `EngineError`.

        If cancelled, a write that has begun is finished; the grant no longer applies in this engine.
        """
        found = next((grant for grant in self.grants.current(self.now()) if grant.id == name), None)
        if found is None:
            return False
        self.grants.revoke(name)
        self._unsaved = [grant for grant in self._unsaved if grant.id != name]
        if name in self._saved and self.file is not None:
            self._saved -= {name}
            await to_thread(_revoke_stored, self.file, name, abandon_on_cancel=False)
        return True

    def judge(self, query: PermissionQuery) -> Judgement:
        """Return the verdict on a call. Quick, except in a folder that was not prepared."""
        try:
            project = self._project_at(query.cwd)
        except ConfigError as error:
            # The session has moved to a project with an invalid rule file: what it denies is unknown.
            return Judgement(verdict="deny", source=f"the rules here, which can't be read: {error}")
        verdicts = [verdict for scope in query.chain for verdict in self._judge_scope(query, project, scope)]
        if not verdicts:
            return Judgement(verdict="ask", source="the tool does not say which permission it needs")
        decisive = strictest(verdicts)
        reasons = [one for one in verdicts if one.verdict == decisive.verdict]
        # A call is asked about by default only if all its reasons are defaults, and allowed by default if one of them is.
        is_default = (any if decisive.verdict == "allow" else all)(one.is_default for one in reasons)
        confinements: list[Confinement] = [verdict.confinement for verdict in verdicts]
        judgement = Judgement(
            verdict=decisive.verdict,
            source=decisive.source,
            is_default=is_default,
            # A sandbox is for more than reading.
            confinement=max(confinements, key=CONFINEMENTS.index),
        )
        if decisive.verdict != "ask":
            return self._taint.judge(query, judgement)
        missing = _rights_of(reasons)
        judgement = attrs.evolve(judgement, missing_rights=missing, offers=self._offers(query, missing, project.root))
        return self._taint.judge(query, judgement)

    def grant(self, query: PermissionQuery, allowance: Allowance) -> None:
        """Add the grants of an "always" for the whole tree of sessions. Not a checkpoint.

        Raises `ConfigError`, and adds none, for an invalid grant.
        """
        root, now, project = query.chain[0], self.now(), self._project_at(query.cwd).root
        if allowance.scope == "project" and not project:
            raise ConfigError(f"{query.cwd} belongs to no project: allow it for this session, or once")
        origin = GrantOrigin(
            session_id=query.session_id, call_id=query.call_id, tool=query.tool, granted=now, by="the user"
        )
        grants = [
            Grant(
                id=next(self._grant_ids),
                permission=permission,
                pattern=pattern,
                scope=allowance.scope,
                project=project or _NOWHERE,
                session_id=None if allowance.scope == "project" else root.session_id,
                turn_id=root.turn_id if allowance.scope == "turn" else None,
                until=None if allowance.seconds is None else now + allowance.seconds,
                origin=origin,
            )
            for permission, pattern in granted_rights(allowance.rights, query.cwd, project)
        ]
        # A host's approver may delegate to this one without telling it that a turn has ended.
        self.grants.drop_expired(now)
        self.grants.drop_other_turns(root.session_id, root.turn_id)
        self.grants.add_all(grants)
        if allowance.scope == "project" and self.file is not None:
            self._unsaved += grants

    def use_profile(self, session_id: SessionId, profile: str) -> None:
        """Judge by that profile what no rule matches in a root session and its sub-agents; empty: by the policy's own.

        Not a checkpoint. Raises `ConfigError` if there is none of that name, or if the policy's own one denies: what is
        denied is lifted by its user only, and by no client of a session.
        """
        if not profile:
            self._session_profiles.pop(session_id, None)
            return
        require_liftable(self.profile, profile)
        require_profile(profile, self.layers.widest_profile)
        # Also the policy's own: it may replace that of the session's folder.
        self._session_profiles[session_id] = profile

    def note_use(self, query: PermissionQuery) -> None:
        """Note that a call runs, for `permissions.ask_after`. Not a checkpoint."""
        self._taint.note(query)

    def end_turn(self, turn_id: TurnId) -> None:
        """Forget the grants for a turn that has ended. Not a checkpoint."""
        self.grants.end_turn(turn_id)

    def end_session(self, session_id: SessionId) -> None:
        """Forget the grants and the profile of a session that is closed. Not a checkpoint."""
        self.grants.end_session(session_id)
        self._taint.end_session(session_id)
        self._session_profiles.pop(session_id, None)

    def hides(self, chain: Sequence[PermissionScope], cwd: str, permission: str) -> bool:
        """Return whether a session of *chain* is denied *permission* for every pattern. As quick as `judge`."""
        try:
            project = self._project_at(cwd)
        except ConfigError:  # each call reports it
            return False
        names = (permission,) if permission in PATH_PERMISSIONS else (permission, permission + READING)
        profile = self._profile_of(chain)
        rulesets = (self._compiled(project, link.rules, profile) for link in chain)
        return any(all(ruleset.hides(name) for name in names) for ruleset in rulesets)

    def ruleset(self, cwd: str) -> Ruleset:
        """Return the rules that apply in a folder."""
        return self._compiled(self._project_at(cwd))

    def _compiled(self, project: Project, rules: tuple[Rule, ...] = (), profile: str = "") -> Ruleset:
        """Return the compiled rules of a project, an agent and a profile. Raises `ConfigError`. Not a checkpoint."""
        key = project, rules, profile or self.profile
        ruleset = self._rulesets.get(key)
        if ruleset is None:
            layers = (
                self._defaults if key[2] == self.profile else defaults(profile),
                Layer("project", project.rules),
                Layer("system", self.layers.system),
                Layer("user", self.user),
                Layer("profile file", self.layers.profile_file),
                Layer("host", (*self.layers.command_line, *self.host)),
                Layer("agent", rules),
                Layer("required", self.layers.required),
            )
            ruleset = Ruleset(layers, project.root or _NOWHERE, self.home)
            if len(self._rulesets) >= _MAX_RULESETS:
                self._rulesets.clear()
            self._rulesets[key] = ruleset
        return ruleset

    def _offers(self, query: PermissionQuery, missing: Sequence[Right], project: str) -> tuple[Offer, ...]:
        # An opaque script can be allowed only once: the same text may do something else the next time.
        # And the agent's own configuration starts programs: each change of it is looked at.
        changes = not query.read_only
        if any(
            one.permission == OPAQUE or (changes and _is_configuration(one, project, self.layers.own_places))
            for one in missing
        ):
            return ()
        return tuple(self._matching_offers(query, missing, project))

    def _matching_offers(self, query: PermissionQuery, missing: Sequence[Right], project: str) -> Iterator[Offer]:
        """Yield the offers that cover all of *missing*, reduced to the rights that are needed."""
        offers: dict[Offer, None] = {}
        for offer in query.offers:
            rights: list[Right] = []
            covered: set[Right] = set()
            for right in offer.rights:
                written = list(granted_rights([right], query.cwd, project))
                more = self._covered(written, missing, project)
                if more:
                    # In the project's own folder the relative form means the same and reads better.
                    is_shorter = query.cwd == project and written[0][1].startswith("./")
                    rights.append(attrs.evolve(right, pattern=written[0][1]) if is_shorter else right)
                    covered |= more
            if covered.issuperset(missing):
                offers[Offer(rights=tuple(dict.fromkeys(rights)))] = None
        yield from offers

    def _covered(self, granted: Sequence[tuple[str, str]], missing: Sequence[Right], project: str) -> set[Right]:
        """Return those of *missing* that grants of these permissions and patterns would cover."""
        patterns = [(permission, _pattern(permission, text, project, self.home)) for permission, text in granted]
        return {one for one in missing if any(would_grant(name, pattern, one) for name, pattern in patterns)}

    def _project_at(self, cwd: str) -> Project:
        """Return the prepared project; for a folder that a session has moved to, load it now, which blocks."""
        project = self._projects.get(cwd)
        if project is None:
            project = self._find_project(cwd)
            self._compiled(project)
            self._projects[cwd] = project
        return project

    def _find_project(self, cwd: str) -> Project:
        root = find_project_root(cwd, home=self.home)
        return Project(root, self.load_project_rules(cwd, root) if root else ())

    def _profile_of(self, chain: Sequence[PermissionScope]) -> str:
        """Return the profile that was selected for the root session, or else its folder's, or the policy's own."""
        return (self._session_profiles.get(chain[0].session_id) or chain[0].profile if chain else "") or self.profile

    # -- one session ----------------------------------------------------------------------

    def _judge_scope(self, query: PermissionQuery, project: Project, scope: PermissionScope) -> Iterator[RuleVerdict]:
        ruleset = self._compiled(project, scope.rules, self._profile_of(query.chain))
        verdicts = self._judge_rights(query, project, ruleset)
        # A tool that declares it is trusted with it: there is nothing to put in a box.
        if not query.read_only:
            verdicts = confine_reading(verdicts, lambda: ruleset.judge(UNSANDBOXED, query.detail))
        return relax_for_sandbox(verdicts, ruleset.judge(SANDBOXED, query.detail)) if query.sandboxed else verdicts

    def _judge_rights(self, query: PermissionQuery, project: Project, ruleset: Ruleset) -> Iterator[RuleVerdict]:
        earlier: dict[str, RuleVerdict] = {}
        for required in query.rights:
            for right in right_to_judge(required, query.cwd, project.root, read_only=query.read_only):
                if is_any_file(required):
                    yield judge_any_file(right, ruleset)
                    continue
                verdict = ruleset.judge(right.permission, right.pattern, right.spellings)
                if verdict.verdict == "ask" and verdict.layer != "required":
                    verdict = self._apply_grants(verdict, right, query, project)
                if verdict.verdict == "ask" and verdict.is_default and required.follows:
                    verdict = allow_consequence(verdict, [earlier.get(pattern) for pattern in required.follows])
                # `follows` means the right itself; "outside", which comes second, must be allowed by itself.
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


def _pattern(permission: str, pattern: str, project: str, home: str) -> Wildcard | PathPattern | None:
    try:
        return PathPattern(pattern, project or _NOWHERE, home) if permission in PATH_PERMISSIONS else Wildcard(pattern)
    except ConfigError:  # it matches nothing
        return None


def _rights_of(verdicts: Iterable[RuleVerdict]) -> tuple[Right, ...]:
    """Return the rights that verdicts are about, each once."""
    rights = (verdict.right for verdict in verdicts if verdict.right is not None)
    return tuple(dict.fromkeys(Right(permission=right.permission, pattern=right.pattern) for right in rights))


def _is_configuration(right: Right, project: str, places: Iterable[str]) -> bool:
    """Return whether a right is about an agent's configuration, or about one of the *places*."""
    # Where edits are allowed, only that it lies outside is asked about.
    if right.permission not in {"edit", "outside"}:
        return False
    path = right.pattern if right.pattern.startswith("/") else f"{project}/{right.pattern}"
    return is_configuration(right.pattern) or any(is_within(path, place) for place in places)


def _revoke_stored(file: GrantFile, name: str) -> None:
    if any(grant.id == name for grant in file.load()):
        file.revoke(name)
