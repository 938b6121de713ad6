"""The defaults: the rules that apply where no other rule does, in four profiles that a user picks by name.

- `ask`: reading inside the project is free, changes are asked about;
- `auto-edit`: the project's files may be edited without asking, and sandboxed commands run without asking;
- `read-only`: nothing may be changed;
- `full`: everything is allowed.

All but the last ask about files that look like secrets, and about writing files that some
program runs later by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final, Literal, cast, get_args

from engine.config.config import nearest_name, suggest_names
from engine.core.errors import ConfigError
from engine.core.events import Verdict
from engine.core.permission_types import Rule
from engine.permission.rules.rules import Layer
from engine.permission.rules.run_later import RUN_LATER

ProfileName = Literal["ask", "auto-edit", "read-only", "full"]
PROFILES: Final[tuple[ProfileName, ...]] = get_args(ProfileName)
DEFAULT: Final[ProfileName] = "ask"
# From the strictest on.
_BY_WIDTH: Final[tuple[ProfileName, ...]] = ("read-only", "ask", "auto-edit", "full")

# Path patterns of files that hold keys and passwords.
SECRETS: Final = (
    "*.env",
    "*.env.*",
    ".envrc",
    "*.pem",
    "*.key",
    "*.p8",
    "*.p12",
    "*.pfx",
    "*.jks",
    "*.keystore",
    "*.kdbx",
    "*.ppk",
    "id_rsa*",
    "id_dsa*",
    "id_ecdsa*",
    "id_ed25519*",
    ".netrc",
    "_netrc",
    ".pgpass",
    ".my.cnf",
    ".npmrc",
    ".yarnrc.yml",
    ".pypirc",
    ".git-credentials",
    ".htpasswd",
    ".vault-token",
    ".terraformrc",
    ".dockercfg",
    ".credentials*",
    "credentials.*",
    "secrets.*",
    "client_secret*.json",
    "service[-_]account*.json",
    "application_default_credentials.json",
    "**/.docker/config.json",
    "**/.cargo/credentials",
    "**/.config/gh/hosts.yml",
    "**/.config/gcloud",
    "**/.local/share/keyrings",
    ".ssh",
    ".aws",
    ".azure",
    ".gnupg",
    ".kube",
    ".password-store",
)
# They look like those above, but are meant to be read.
NO_SECRETS: Final = ("*.env.example", "*.env.sample", "*.env.template", "*.env.dist", "id_*.pub")

# Never asked about: these ask by themselves, or touch only the session's own state. A `skill` was installed by the user.
_OWN: Final = ("question", "todo", "bash_output", "bash_stop", "skill", "task_output", "task_stop")


@cache
def defaults(profile: str = DEFAULT) -> Layer:
    """Return the lowest layer: the rules of a profile. Raises `ConfigError` if there is none of that name."""
    if profile not in PROFILES:
        raise ConfigError(
            f"there is no profile {profile!r}: {suggest_names(profile, PROFILES)}",
            field="profile",
            nearest=nearest_name(profile, PROFILES),
        )
    rules = [
        Rule(action=action, permission=permission, pattern=pattern, origin=f"profile {profile}")
        for action, permission, pattern in _OF_PROFILE[profile]
    ]
    return Layer("defaults", tuple(rules))


_Line = tuple[Verdict, str, str]


def _each(action: Verdict, permission: str, patterns: tuple[str, ...]) -> tuple[_Line, ...]:
    return tuple((action, permission, pattern) for pattern in patterns)


_FREE: Final[tuple[_Line, ...]] = tuple(("allow", name, "*") for name in _OWN)
_READING: Final[tuple[_Line, ...]] = (
    ("allow", "*:read", "*"),
    ("allow", "read", "*"),
    ("ask", "outside", "*"),
    # What tells about the machine: `requested_rights`.
    ("allow", "outside:read", "*"),
    *_each("ask", "read", SECRETS),
    *_each("allow", "read", NO_SECRETS),
)
_ASK: Final[tuple[_Line, ...]] = (("ask", "*", "*"), *_FREE, *_READING)
# The others run later as well.
_SECRETS_TO_EDIT: Final = tuple(
    one for one in SECRETS if one not in {".envrc", ".npmrc", ".yarnrc.yml", "**/.cargo/credentials"}
)
# What is asked about by name, so that an "always" about a command does not go for it too.
_CAREFUL: Final[tuple[_Line, ...]] = (*_each("ask", "edit", _SECRETS_TO_EDIT), *_each("ask", "edit", RUN_LATER))
_OF_PROFILE: Final[Mapping[ProfileName, tuple[_Line, ...]]] = {
    "ask": (*_ASK, *_CAREFUL),
    "auto-edit": (
        *_ASK,
        ("allow", "task", "*"),
        ("allow", "edit", "*"),
        ("allow", "sandboxed", "*"),
        *_each("ask", "edit", _SECRETS_TO_EDIT),
        *_each("allow", "edit", NO_SECRETS),
        *_each("ask", "edit", RUN_LATER),
    ),
    # A deny of the defaults stays as well: only a rule that says "override" lifts it.
    "read-only": (
        ("deny", "*", "*"),
        *_FREE,
        *_READING,
        ("ask", "bash:read", "*"),
        ("ask", "web", "*"),
        ("ask", "task", "*"),
    ),
    "full": (("allow", "*", "*"),),
}


def is_wider(profile: str, other: str) -> bool:
    """Return whether *profile* allows more than *other*."""
    return (*_BY_WIDTH, profile).index(profile) > (*_BY_WIDTH, other).index(other)


def require_liftable(configured: str, profile: str) -> None:
    """Raise `ConfigError` unless a session may use *profile* instead of the one that is configured for it.

    What is denied is lifted by its user only, and by no client of a session.
    """
    defaults(profile)
    if profile != configured and any(action == "deny" for action, _, _ in _OF_PROFILE[cast("ProfileName", configured)]):
        raise ConfigError(f"the configured profile {configured!r} denies, so no session may use {profile!r}")


def require_profile(profile: str, widest: str) -> None:
    """Raise `ConfigError` if *profile* allows more than *widest*, the widest one that may be used; empty: any may."""
    if widest and is_wider(profile, widest):
        raise ConfigError(
            f"the profile {profile!r} is not allowed here: /etc/engine/required.toml allows {widest!r} at most"
        )
