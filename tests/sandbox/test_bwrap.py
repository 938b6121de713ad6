"""A sandbox's settings, and the command line that makes one: values only."""

import pytest

from engine.config.sandbox_config import SECRETS, Layout, Sandbox
from engine.core.errors import ConfigError
from engine.sandbox.bwrap import argv


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"backend": "docker"}, "sandbox.backend must be one of auto, landlock, bwrap, off, not 'docker'"),
        ({"network": 1}, "sandbox.network must be True or False, not 1"),
        ({"writable": ["/a"]}, "sandbox.writable must hold paths that are absolute or begin with ~/"),
        ({"writable": ("a",)}, "sandbox.writable must hold paths"),
        ({"hidden": ("~root/x",)}, "sandbox.hidden must hold paths"),
        ({"hidden": ("/a\0b",)}, "sandbox.hidden must hold paths"),
        ({"hidden": "/a"}, "sandbox.hidden must hold paths"),
        ({"hidden": (1,)}, "sandbox.hidden must hold paths"),
    ],
)
def test_settings_that_make_no_sense(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        Sandbox(**settings)  # type: ignore[arg-type]
    assert str(raised.value).startswith(message)


def test_paths_hidden_by_default() -> None:
    assert Sandbox() == Sandbox(backend="bwrap", network=False, writable=(), hidden=SECRETS)
    assert {"~/.ssh", "~/.aws", "~/.gnupg", "~/.netrc", "~/.config/gh", "~/.config/engine", "/etc/shadow"} <= set(
        SECRETS
    )


def layout(*, network: bool = False, is_root: bool = False) -> Layout:
    return Layout(
        cwd="/p/q",
        network=network,
        is_root=is_root,
        places=(
            ("/p/q/.git/hooks", "readable"),
            ("/p/q", "writable"),
            ("/", "readable"),
            ("/run", "empty folder"),
            ("/run/names", "readable"),
            ("/etc/shadow", "empty file"),
        ),
        links=(("/run/programs", "/store"),),
        nothing="/nothing",
    )


KERNEL = [
    word
    for name in ("acpi", "bus", "fs", "irq", "mtrr", "scsi", "sys", "sysrq-trigger")
    for word in ("--ro-bind-try", f"/proc/{name}", f"/proc/{name}")
]


def test_the_command_line() -> None:
    """Folders come before what is in them; an empty one can't be written to once all is in it that shall be."""
    assert argv("/usr/bin/bwrap", layout(), ["bash", "-c", "x y"]) == [
        "/usr/bin/bwrap", "--unshare-pid", "--unshare-ipc", "--unshare-net", "--cap-drop", "ALL",
        "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/proc/1", "--remount-ro", "/proc/1",
        *KERNEL,
        "--ro-bind", "/", "/",
        "--tmpfs", "/run",
        "--ro-bind", "/nothing", "/etc/shadow",
        "--bind", "/p/q", "/p/q",
        "--ro-bind", "/run/names", "/run/names",
        "--ro-bind", "/p/q/.git/hooks", "/p/q/.git/hooks",
        "--symlink", "/store", "/run/programs",
        "--remount-ro", "/run",
        "--chdir", "/p/q", "--", "bash", "-c", "x y",
    ]  # fmt: skip


def test_optional_mounts() -> None:
    words = argv("bwrap", layout(network=True, is_root=True), ["true"])
    assert "--unshare-net" not in words
    assert words[words.index("--cap-add") + 1] == "CAP_DAC_OVERRIDE"


def test_mounts_can_be_removed() -> None:
    assert layout().without({"/", "/run", "/elsewhere"}).places == (
        ("/p/q/.git/hooks", "readable"),
        ("/p/q", "writable"),
        ("/run/names", "readable"),
        ("/etc/shadow", "empty file"),
    )
