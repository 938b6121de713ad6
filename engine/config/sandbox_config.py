"""What a sandbox is asked to be, and what it is for one command: the values that the others pass on."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, Literal, cast, get_args

import attrs

from engine.core.errors import ConfigError

Backend = Literal["bwrap"]

# Keys, passwords, and what other programs keep for their user alone. `~` is the home folder.
SECRETS: Final = (
    "~/.ssh",
    "~/.gnupg",
    "~/.aws",
    "~/.azure",
    "~/.kube",
    "~/.docker",
    "~/.config/containers",
    "~/.config/gcloud",
    "~/.config/gh",
    "~/.config/glab-cli",
    "~/.config/hub",
    "~/.config/git/credentials",
    "~/.config/op",
    "~/.config/rclone",
    "~/.config/sops",
    "~/.config/doctl",
    "~/.config/engine",
    "~/.local/share/engine",
    "~/.local/state/engine",
    "~/.cache/engine",
    "~/.local/share/keyrings",
    "~/.password-store",
    "~/.netrc",
    "~/.pgpass",
    "~/.my.cnf",
    "~/.npmrc",
    "~/.yarnrc.yml",
    "~/.pypirc",
    "~/.git-credentials",
    "~/.vault-token",
    "~/.terraformrc",
    "~/.terraform.d",
    "~/.cargo/credentials",
    "~/.cargo/credentials.toml",
    "~/.gem/credentials",
    "~/.dockercfg",
    "~/.claude",
    "~/.claude.json",
    "~/.codex",
    "~/.gemini",
    "~/.local/share/opencode",
    "~/.mozilla",
    "~/.thunderbird",
    "~/.config/google-chrome",
    "~/.config/chromium",
    "~/.config/BraveSoftware",
    "~/.config/Signal",
    "~/.bash_history",
    "~/.zsh_history",
    "~/.python_history",
    "~/.psql_history",
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/ssl/private",
    "/etc/krb5.keytab",
)


def _are_paths(_: object, field: attrs.Attribute[tuple[str, ...]], value: object) -> None:
    given = cast("tuple[object, ...]", value) if isinstance(value, tuple) else None
    if given is None or not all(
        isinstance(one, str) and one.startswith(("/", "~/")) and "\0" not in one for one in given
    ):
        raise ConfigError(
            f"sandbox.{field.name} must be a tuple of paths, each absolute or with ~/ at its beginning, not {value!r}"
        )


def _is_yes_or_no(_: object, field: attrs.Attribute[bool], value: object) -> None:
    if not isinstance(value, bool):
        raise ConfigError(f"sandbox.{field.name} must be True or False, not {value!r}")


def _is_backend(_: object, __: object, value: object) -> None:
    if value not in get_args(Backend):
        raise ConfigError(f"sandbox.backend must be one of {', '.join(get_args(Backend))}, not {value!r}")


@attrs.frozen(kw_only=True)
class Sandbox:
    """Where commands run: they see the machine's files, and change the project and temporary folders only.

    Attributes:
        backend: what makes it: bubblewrap.
        network: whether there is one.
        writable: more folders that may be changed; those that are not there are left out.
        hidden: files and folders that look empty. Stronger than `writable`, and than the project, if they are in it.
    """

    backend: Backend = attrs.field(default="bwrap", validator=_is_backend)
    network: bool = attrs.field(default=False, validator=_is_yes_or_no)
    writable: tuple[str, ...] = attrs.field(default=(), validator=_are_paths)
    hidden: tuple[str, ...] = attrs.field(default=SECRETS, validator=_are_paths)


# What becomes of a path: it can be changed, it can be read only, it is an empty folder, an empty file.
Kind = Literal["writable", "readable", "empty folder", "empty file"]


@attrs.frozen(kw_only=True)
class Layout:
    """A sandbox for one command, on this machine, at this moment.

    Attributes:
        cwd: the folder that the command runs in.
        network: whether there is one.
        is_root: root makes it, who may go on reading and writing files of other users.
        places: real paths that are there, and what becomes of each; all else can be read only.
        links: links to be made in empty folders, and what they say.
        nothing: an empty file, to be put in the place of others.
    """

    cwd: str
    network: bool
    is_root: bool
    places: tuple[tuple[str, Kind], ...]
    links: tuple[tuple[str, str], ...] = ()
    nothing: str

    def without(self, paths: Collection[str]) -> Layout:
        """Return it without places."""
        return attrs.evolve(self, places=tuple(place for place in self.places if place[0] not in paths))
