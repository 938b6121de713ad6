"""`engine doctor --online`: it asks the user's own package index, and only if it is told to."""

from __future__ import annotations

import json
import os
import threading
import zipfile
from collections.abc import Generator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import attrs
import pytest

from engine.cli.main import main
from engine.core.version import __version__

pytestmark = [pytest.mark.os, pytest.mark.slow]


class Handler(SimpleHTTPRequestHandler):
    """An index in a folder, which counts its requests."""

    def do_GET(self) -> None:
        self.server.asked.append(self.path)  # type: ignore[attr-defined]
        super().do_GET()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # as the base class calls it
        """Print nothing."""


@attrs.frozen
class Index:
    """A package index on the loopback."""

    folder: Path
    asked: list[str]

    def offer(self, version: str) -> None:
        """Have a wheel of that version."""
        project = self.folder / "index/nursery-engine"
        project.mkdir(parents=True)
        name = f"nursery_engine-{version}"
        metadata = f"Metadata-Version: 2.1\nName: nursery-engine\nVersion: {version}\n"
        with zipfile.ZipFile(project / f"{name}-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"{name}.dist-info/METADATA", metadata)
            wheel.writestr(f"{name}.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr(f"{name}.dist-info/RECORD", "")
        (project / "index.html").write_text(f'<a href="{name}-py3-none-any.whl">{name}-py3-none-any.whl</a>')


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Index]:
    folder = tmp_path / "index"
    folder.mkdir()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder)))
    server.asked = []  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    for name in os.environ:
        if name.startswith(("PIP_", "UV_", "ENGINE_")) or name.endswith(("_KEY", "_TOKEN", "_PAT")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{server.server_port}/index")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    yield Index(folder, server.asked)  # type: ignore[attr-defined]
    server.shutdown()
    server.server_close()
    thread.join()


def newest(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, str]]:
    assert main(["doctor", "--json", *words]) == 0
    return [row for row in json.loads(capsys.readouterr().out) if row["name"] == "newest"]


def test_newer_versions_are_named(index: Index, capsys: pytest.CaptureFixture[str]) -> None:
    index.offer("99.1.0")
    (row,) = newest(capsys, "--online")
    assert (row["state"], row["text"]) == ("warn", f"99.1.0 can be installed; this is {__version__}")
    assert row["next"].endswith("install --upgrade nursery-engine")
    assert index.asked


def test_older_versions_are_not_named(index: Index, capsys: pytest.CaptureFixture[str]) -> None:
    index.offer("0.0.1")
    (row,) = newest(capsys, "--online")
    assert (row["state"], row["text"]) == ("ok", f"the package index has nothing newer than {__version__}")


def test_an_index_that_fails_is_a_warning(index: Index, capsys: pytest.CaptureFixture[str]) -> None:
    (row,) = newest(capsys, "--online")
    assert row["state"] == "warn"
    assert row["text"].startswith("the package index can't be asked: ERROR: No matching distribution found")


def test_unasked_nothing_is_asked(index: Index, capsys: pytest.CaptureFixture[str]) -> None:
    index.offer("99.1.0")
    assert newest(capsys) == []
    assert index.asked == []
