"""The values of a tool call: what it needs, and what it returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs

from engine.core.events import Offer, Right, SharedContext
from engine.core.messages import FilePart, ImagePart
from engine.core.permission_types import UNKNOWN, RequiredRight
from engine.permission.rules import path_pattern, wildcard
from engine.permission.rules.rules import PATH_PERMISSIONS

# Seconds that a call may clean up after a cancel.
GRACE: Final = 0.25


@attrs.frozen(kw_only=True)
class ToolOutput:
    """What a tool may return instead of a plain `str`.

    Attributes:
        text: what the model reads.
        images: what it sees beside it.
        files: the same, other than images: a PDF, say.
        failed: the tool worked, but what it ran reports failure (a non-zero exit).
        modify: changes the shared context, in call order once the batch is over (C4).
        metadata: JSON text for clients, never for the model.
        is_cut: the tool has cut the text itself, and says so in it: it is not cut again.
        stop: end the turn after this step, with that reason (C11).
        changed: the absolute paths of the files that it has changed, all of them; None: it does not tell.
    """

    text: str
    images: tuple[ImagePart, ...] = ()
    files: tuple[FilePart, ...] = ()
    failed: bool = False
    modify: Callable[[SharedContext], SharedContext] | None = None
    metadata: str = ""
    is_cut: bool = False
    stop: str | None = None
    changed: tuple[str, ...] | None = None


@attrs.frozen(kw_only=True)
class Need:
    """The rights that a call needs, as its parsed arguments tell.

    Attributes:
        permission: the name of the right that it is about.
        patterns: what exactly it is needed for; rules are matched against each of them. None: whatever it may be for.
        offers: what "always" may cover, the narrowest first; a text is a pattern of the permission.
            None: exactly what is needed; empty: it can be allowed only once.
        detail: what a person reads: the command, the change.
        metadata: the same for clients, as JSON text.
        paths: the real paths of the files and folders that it is for: `ToolContext.approved_paths` are those.
        is_own: it is for what the session itself has made: a rule may deny it, but nobody is asked.
        rights: all that is needed, where that is more than the patterns say: other kinds, other spellings.
        opaque: why nobody can tell what the call would do; then somebody is asked whatever it needs.
        sandboxed: it is done in a sandbox, so what a rule says of those may answer what would be asked by default.
        futile: why the call would fail if it were allowed, for the model: then nobody is asked about it.
    """

    permission: str
    patterns: tuple[str, ...] = ()
    offers: tuple[str | Offer, ...] | None = None
    detail: str = ""
    metadata: str = ""
    paths: tuple[str, ...] = ()
    is_own: bool = False
    rights: tuple[RequiredRight, ...] = ()
    opaque: str = ""
    sandboxed: bool = False
    futile: str = ""

    @property
    def needed(self) -> tuple[RequiredRight, ...]:
        """All the rights that it needs."""
        # Of files, "*" is one with that name: which ones are meant where none is named, nobody knows.
        whole = UNKNOWN if self.permission in PATH_PERMISSIONS else "*"
        return self.rights or tuple(
            RequiredRight(permission=self.permission, pattern=p) for p in self.patterns or (whole,)
        )

    def touched(self, cwd: str) -> list[str]:
        """Return the absolute paths of the files and folders that it is known to be for."""
        named = [n.pattern for n in self.needed if n.permission in {"read", "edit"} and UNKNOWN not in n.pattern]
        # The patterns of a command's files; those of a tool's own are in `paths` already, as real ones.
        return list(self.paths or (each if each.startswith("/") else f"{cwd}/{each}" for each in named))

    @property
    def offered(self) -> tuple[Offer, ...]:
        """What "always" may cover."""
        if self.offers is not None:
            return tuple(self._offer(one) if isinstance(one, str) else one for one in self.offers)
        if any(UNKNOWN in needed.pattern for needed in self.needed):
            return ()
        return (Offer(rights=tuple(Right(permission=w.permission, pattern=exactly(w)) for w in self.needed)),)

    def _offer(self, pattern: str) -> Offer:
        return Offer(rights=(Right(permission=self.permission, pattern=pattern),))


def exactly(needed: RequiredRight) -> str:
    """Return the pattern that matches what is needed, and nothing else."""
    if needed.permission in PATH_PERMISSIONS:
        return path_pattern.exact(needed.pattern)
    return "*" if needed.pattern == "*" else wildcard.exact(needed.pattern)
