"""The values of a tool call: the rights that it needs, and its result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, cast

import attrs

from engine.core.errors import ConfigError
from engine.core.events import Offer, Right, SharedContext
from engine.core.messages import FilePart, ImagePart
from engine.core.permission_types import UNKNOWN, RequiredRight
from engine.core.value_base import Value
from engine.permission.rules import path_pattern, wildcard
from engine.permission.rules.rules import PATH_PERMISSIONS

# Seconds for cleaning up after a cancel. Users notice a longer delay.
GRACE: Final = 0.25

# Background jobs: how many a session may have, how many bytes of each one's newest output are kept in memory, and how
# many lines of it are shown by default.
MAX_JOBS: Final = 8
RECENT_BYTES: Final = 262_144
DEFAULT_JOB_LINES: Final = 300


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ToolOutput(Value):
    """A tool's result, where a plain `str` is not enough.

    Attributes:
        text: for the model.
        images: shown to the model with the text.
        files: other files shown to the model, such as a PDF.
        failed: the tool worked, but what it ran reports failure (a non-zero exit).
        modify: changes the shared context, in call order once the batch is over (C4).
        metadata: JSON text for clients, never for the model.
        is_cut: the tool has truncated the text itself, and the text says so.
        produced: what makes this result the same as another one of the same call, if not the whole text: without
            durations and ids that differ each time. A model that repeats itself is found by it.
        stop: ends the turn after this step, for this reason (C11).
        changed: absolute paths of all files that it has changed; None: unknown.
        tools: the names of foreign tools that it shows to the model, for hosts that then offer them.
    """

    text: str
    images: tuple[ImagePart, ...] = ()
    files: tuple[FilePart, ...] = ()
    failed: bool = False
    modify: Callable[[SharedContext], SharedContext] | None = None
    metadata: str = ""
    is_cut: bool = False
    produced: str | None = None
    stop: str | None = None
    changed: tuple[str, ...] | None = None
    tools: tuple[str, ...] = ()


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Need(Value):
    """The rights that a call needs, derived from its arguments.

    Attributes:
        permission: the right that the call is mainly about.
        patterns: what the right is needed for; rules are matched against each pattern. Empty: anything.
        offers: what "always" may cover, narrowest first; a text is a pattern of the permission.
            None: exactly what is needed; empty: it can be allowed only once.
        detail: the command or the change, for people.
        metadata: the same for clients, as JSON text.
        paths: the real paths of the files and folders concerned; `ToolContext.approved_paths` contains them.
        is_own: it concerns only what the session itself has made: a rule may deny it, but the user is not asked.
        rights: all rights, where the patterns don't express them: other permissions, other spellings.
        opaque: why the effects of the call are unknown; the user is asked in any case.
        sandboxed: it runs in a sandbox, so rules about sandboxed calls may answer what the defaults would ask.
        futile: why the call would fail even if it were allowed, for the model; then the user is not asked.
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
        """All rights that it needs."""
        # As a path pattern, "*" would mean a file of that name. A call that names no file may use any.
        whole = UNKNOWN if self.permission in PATH_PERMISSIONS else "*"
        return self.rights or tuple(
            RequiredRight(permission=self.permission, pattern=p) for p in self.patterns or (whole,)
        )

    def touched(self, cwd: str) -> list[str]:
        """Return the absolute paths of the known files and folders."""
        named = [n.pattern for n in self.needed if n.permission in {"read", "edit"} and UNKNOWN not in n.pattern]
        # A command's files are patterns only; those of file tools are in `paths`, resolved.
        return list(self.paths or (each if each.startswith("/") else f"{cwd}/{each}" for each in named))

    @property
    def offered(self) -> tuple[Offer, ...]:
        """What "always" may cover."""
        if self.offers is not None:
            return tuple(self._offer(one) if isinstance(one, str) else one for one in self.offers)
        # An unknown part can't be granted: the grant would match nothing, or anything.
        if any(UNKNOWN in needed.pattern for needed in self.needed):
            return ()
        return (Offer(rights=tuple(Right(permission=w.permission, pattern=exactly(w)) for w in self.needed)),)

    def _offer(self, pattern: str) -> Offer:
        return Offer(rights=(Right(permission=self.permission, pattern=pattern),))


def exactly(needed: RequiredRight) -> str:
    """Return a pattern that matches only this right."""
    if needed.permission in PATH_PERMISSIONS:
        return path_pattern.exact(needed.pattern)
    return "*" if needed.pattern == "*" else wildcard.exact(needed.pattern)


def check_need(need: object) -> Need:
    """Return *need*. Raises `ConfigError` for a wrong type: the author of a tool may not use a type checker."""
    if not isinstance(need, Need):
        raise ConfigError(f"'need' must return a Need, not {type(need).__name__}")
    texts: tuple[object, ...] = (need.permission, need.detail, need.metadata, need.opaque, need.futile)
    if not all(_is_a(str, text) for text in texts) or not all(map(_is_texts, (need.patterns, need.paths))):
        raise ConfigError(f"a Need holds str, and tuples of str: not {need!r}")
    if need.offers is not None and not _are(need.offers, str, Offer):
        raise ConfigError(f"the offers of a Need are a tuple of str and Offer, or None: not {need!r}")
    if not _are(need.rights, RequiredRight):
        raise ConfigError(f"the rights of a Need are a tuple of RequiredRight: not {need!r}")
    if not _is_a(bool, need.is_own) or not _is_a(bool, need.sandboxed):
        raise ConfigError(f"is_own and sandboxed of a Need are bools: not {need!r}")
    return need


def _is_texts(value: object) -> bool:
    return _are(value, str)


def _are(value: object, *kinds: type) -> bool:
    return isinstance(value, tuple) and all(isinstance(one, kinds) for one in cast("tuple[object, ...]", value))


def find_output_problem(output: ToolOutput) -> str | None:
    """Return which field has the wrong type; None if all are right. A result stays in every later request."""
    fields: tuple[tuple[bool, str], ...] = (
        (_is_a(str, output.text), "text must be a str"),
        (_is_a(str, output.metadata), "metadata must be a str"),
        (
            _is_a(tuple, output.images) and all(_is_a(ImagePart, i) for i in output.images),
            "images must be a tuple of ImagePart",
        ),
        (
            _is_a(tuple, output.files) and all(_is_a(FilePart, f) for f in output.files),
            "files must be a tuple of FilePart",
        ),
        (output.stop is None or _is_a(str, output.stop), "stop must be a str or None"),
        (_is_a(bool, output.is_cut), "is_cut must be a bool"),
        (output.produced is None or _is_a(str, output.produced), "produced must be a str or None"),
        (_is_texts(output.tools), "tools must be a tuple of str"),
        (output.changed is None or _are(output.changed, str), "changed must be a tuple of str, or None"),
    )
    return next((problem for is_right, problem in fields if not is_right), None)


def _is_a(kind: type, value: object) -> bool:
    return isinstance(value, kind)
