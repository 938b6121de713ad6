"""The session of a command: a new one, a stored one, or a copy of a stored one, with the model that it uses."""

from __future__ import annotations

import os
from pathlib import Path

import attrs

from engine.cli.flags.model_flags import ModelChoice
from engine.cli.flags.store_flags import resolve_session
from engine.cli.terminal.standard_streams import print_note
from engine.cli.terminal.terminal_text import escape_control_chars
from engine.core.errors import ConfigError
from engine.core.value_base import Value
from engine.session.engine import Engine
from engine.session.session import Session
from engine.store.store_protocols import FullStore, SessionRow


@attrs.frozen(kw_only=True, eq=False, repr=False)
class SessionChoice(Value):
    """What flags say about the session.

    Attributes:
        resume: the session to continue; None: a new one.
        forks: continue in a copy.
        cwd: the working directory of a new one.
        model: the models.
        profile: the permission profile that a flag names.
    """

    resume: str | None
    forks: bool
    cwd: Path
    model: ModelChoice
    profile: str | None


async def stored_session(store: FullStore, resume: str | None, cwd: Path) -> SessionRow | None:
    """Return the row of the session to continue; None for a new one. A checkpoint if there is one.

    Raises `SessionNotFound`; `ConfigError` if its folder does not exist here.
    """
    if resume is None:
        return None
    row = await resolve_session(store, resume, str(cwd))
    _check_folder(row)
    return row


def session_models(choice: ModelChoice, row: SessionRow | None) -> tuple[str, ...]:
    """Return the models to use: those that the flags name, else the session's."""
    # A flag counts for more than the session's model; an imported session may have none.
    if row is None or choice.is_explicit or not row.model:
        return choice.models
    # Imported here: providers take long to import, and a new session needs none of this.
    from engine.providers.registry import resolve

    try:
        resolve(row.model, os.environ, choice.config)
    except ConfigError as error:
        print_note(f"the session's model is not available here ({error}); using {choice.models[0]}")
        return choice.models
    return choice.config.chain(row.model, choice.agent)


async def open_session(eng: Engine, row: SessionRow | None, choice: SessionChoice, models: tuple[str, ...]) -> Session:
    """Return the session to use: a new one, a stored one, or a fork of a stored one. A checkpoint."""
    agent = choice.model.agent
    if row is None:
        return await eng.create_session(cwd=choice.cwd, model=models, agent=agent)
    if choice.forks:
        return await eng.fork_session(row.id, model=models, agent=agent)
    session = await eng.open_session(row.id, model=models, agent=agent)
    if session.state.profile and choice.profile is not None:
        # A flag counts for more than what a client has selected at some time.
        await eng.use_profile(session, None)
    elif session.state.profile:
        by = f", set by {escape_control_chars(session.state.profile_by)}" if session.state.profile_by else ""
        print_note(f"this session has the permission profile {session.state.profile!r}{by}; --profile replaces it")
    return session


def _check_folder(row: SessionRow) -> None:
    """Raise `ConfigError` if the session's folder does not exist here: every tool would fail."""
    if not (os.path.isabs(row.cwd) and os.path.isdir(row.cwd)):  # noqa: PTH112, PTH117 - an imported session may hold any text
        raise ConfigError(
            f"the directory of session {row.id} does not exist: {escape_control_chars(row.cwd) or '(none)'}\n"
            f"Next: engine sessions export {row.id} -o FILE\nor: engine sessions import FILE --cwd DIR"
        )
