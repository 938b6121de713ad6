"""The image of the Dockerfile: what it names exists, and its server runs as its user in a root that is read-only.

No image is built. bubblewrap makes the root: this machine's programs, this tree, and what the Dockerfile mounts.
"""

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import attrs
import pytest

from tests.conftest import REPOSITORY

pytestmark = pytest.mark.os
_SECONDS = 60
BWRAP = shutil.which("bwrap")


@attrs.frozen
class Image:
    """The last stage of the Dockerfile, and everything that it copies from the tree."""

    sources: tuple[str, ...]
    settings: Mapping[str, str]

    @classmethod
    def read(cls) -> "Image":
        text = (REPOSITORY / "Dockerfile").read_text(encoding="utf-8")
        lines = [line.partition(" ") for line in re.sub(r"\\\n", "", text).splitlines() if re.match(r"[A-Z]", line)]
        copied = [shlex.split(rest)[:-1] for name, _, rest in lines if name == "COPY" and not rest.startswith("--from")]
        begin = max(number for number, (name, _, _) in enumerate(lines) if name == "FROM")
        return cls(
            tuple(source for sources in copied for source in sources),
            {name: rest for name, _, rest in lines[begin:]},
        )

    def command(self, name: str) -> list[str]:
        words = self.settings[name]
        return [str(word) for word in json.loads(words[words.index("[") :])]

    @property
    def environment(self) -> dict[str, str]:
        return dict(word.split("=", 1) for word in shlex.split(self.settings["ENV"]))


def test_dockerfile_names_what_exists() -> None:
    image = Image.read()
    assert image.sources
    allowed = {line[1:] for line in (REPOSITORY / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    for source in image.sources:
        assert (REPOSITORY / source).exists(), source
        assert any(source == each or source.startswith(f"{each}/") for each in allowed), f".dockerignore hides {source}"
    # All that the build backend packs.
    packed = re.findall(r'^"([^"]+)" = "share/', (REPOSITORY / "pyproject.toml").read_text(), flags=re.MULTILINE)
    assert packed
    for path in ("README.md", "LICENSE", *packed):
        assert any(path == each or path.startswith(f"{each}/") for each in image.sources), f"the image lacks {path}"


def test_image_user_is_not_root() -> None:
    image = Image.read()
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", image.settings["USER"])
    assert image.environment["HOME"] in image.command("VOLUME")
    assert image.settings["WORKDIR"] in image.command("VOLUME")


@pytest.mark.skipif(BWRAP is None, reason="bubblewrap makes the root")
def test_server_runs_in_a_read_only_root(tmp_path: Path) -> None:
    image = Image.read()
    user, group = image.settings["USER"].split(":")
    mounts = image.command("VOLUME")
    for mount in mounts:
        (tmp_path / mount[1:]).mkdir()
    port = _free_port()
    words = [*image.command("ENTRYPOINT"), *(word.replace("7433", port) for word in image.command("CMD"))]
    assert words[0] == "engine"
    tree = {str(REPOSITORY), sys.prefix, sys.base_prefix, "/usr", "/etc"}
    links = [path for path in (Path("/lib"), Path("/lib64"), Path("/bin")) if path.is_symlink()]
    root = [
        *(word for path in sorted(tree) for word in ("--ro-bind", path, path)),
        *(word for path in links for word in ("--symlink", str(path.readlink()), str(path))),
        *("--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"),
        *(word for mount in mounts for word in ("--bind", str(tmp_path / mount[1:]), mount)),
        *("--remount-ro", "/", "--unshare-user", "--unshare-pid", "--uid", user, "--gid", group, "--die-with-parent"),
        *("--chdir", image.settings["WORKDIR"], "--clearenv"),
    ]
    own = {**image.environment, "PATH": os.environ["PATH"], "PYTHONPATH": str(REPOSITORY), "ANTHROPIC_API_KEY": "any"}
    settings = [word for name, value in own.items() for word in ("--setenv", name, value)]
    command = [str(BWRAP), *root, *settings, sys.executable, "-m", *words]
    log = tmp_path / "log"
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as server:
        try:
            _await_health(image, port, server, log)
            assert f"http://127.0.0.1:{port}/" in log.read_text()
            (token,) = (tmp_path / "data").rglob("token")
            assert token.stat().st_mode & 0o077 == 0
            assert [path.name for path in (tmp_path / "project").iterdir()] == []
        finally:
            server.terminate()
    # 128 + SIGTERM: bubblewrap itself was ended, and the server with it.
    assert server.returncode in {-15, 0, 143}, log.read_text()


def _await_health(image: Image, port: str, server: "subprocess.Popen[bytes]", log: Path) -> None:
    """Run the image's health check until it succeeds."""
    check = [word.replace("7433", port) for word in image.command("HEALTHCHECK")]
    assert check[0] == "python"
    deadline = time.monotonic() + _SECONDS
    while subprocess.run([sys.executable, *check[1:]], capture_output=True, check=False).returncode:
        assert server.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.1)


def _free_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return str(listener.getsockname()[1])
