"""The settings of the sandbox, and its layout for one command. Values."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, Literal, cast, get_args

import attrs

from engine.core.errors import ConfigError
from engine.core.value_base import Value

# What confines commands: what works here, one of the two, or nothing.
BackendSetting = Literal["auto", "landlock", "bwrap", "off"]

# Keys, passwords, and private data of other programs. `~` is the home folder.
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
    paths = cast("tuple[object, ...]", value) if isinstance(value, tuple) else None
    if paths is None or not all(
        isinstance(one, str) and one.startswith(("/", "~/")) and "\0" not in one for one in paths
    ):
        raise ConfigError(f"sandbox.{field.name} must hold paths that are absolute or begin with ~/, not {value!r}")


def _is_yes_or_no(_: object, field: attrs.Attribute[bool], value: object) -> None:
    if not isinstance(value, bool):
        raise ConfigError(f"sandbox.{field.name} must be True or False, not {value!r}")


def _is_backend(_: object, __: object, value: object) -> None:
    if value not in get_args(BackendSetting):
        raise ConfigError(f"sandbox.backend must be one of {', '.join(get_args(BackendSetting))}, not {value!r}")


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Sandbox(Value):
    """How commands are confined.

    In any case what runs without a question because it only reads runs in a reader box, which can change nothing, has
    no network, and can read little more than the project.

    Attributes:
        backend: "auto": the boxes of what runs without a question are made by whatever works here; "landlock": they are
            made by the kernel's Landlock; "bwrap": every command runs in a sandbox of bubblewrap, in which it can read
            the machine's files, and change only the project and a private `/tmp`; "off": nothing is confined, and only
            a few well-known commands run without a question.
        network: whether commands have network access.
        writable: further folders that commands can change; folders that do not exist are ignored.
        hidden: files and folders that appear empty. They win over `writable` and over the project.
    """

    backend: BackendSetting = attrs.field(default="bwrap", validator=_is_backend)
    network: bool = attrs.field(default=False, validator=_is_yes_or_no)
    writable: tuple[str, ...] = attrs.field(default=(), validator=_are_paths)
    hidden: tuple[str, ...] = attrs.field(default=SECRETS, validator=_are_paths)


# How a path appears in the sandbox.
Kind = Literal["writable", "readable", "private", "empty folder", "empty file"]


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Layout(Value):
    """The sandbox of one command, resolved for this machine and moment.

    Attributes:
        cwd: the working directory of the command.
        network: whether the command has network access.
        is_root: the user is root, who may read and write other users' files.
        places: existing real paths and how each appears; everything else is read-only.
        links: symbolic links to create in empty folders, with their targets.
        nothing: an empty file that is mounted over hidden files.
        private: a folder that is mounted where places are private; empty: there are none.
    """

    cwd: str
    network: bool
    is_root: bool
    places: tuple[tuple[str, Kind], ...]
    links: tuple[tuple[str, str], ...] = ()
    nothing: str
    private: str = ""

    def without(self, paths: Collection[str]) -> Layout:
        """Return the layout without these places."""
        return attrs.evolve(self, places=tuple(place for place in self.places if place[0] not in paths))
