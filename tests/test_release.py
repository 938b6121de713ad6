"""What a release needs: tags that are checked, a bill of materials from the lock, a workflow that names what exists."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from engine.core.version import __version__
from scripts import sbom
from tests.conftest import REPOSITORY

WORKFLOW = REPOSITORY / ".github" / "workflows" / "release.yml"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A repository with what the check looks at, and a maintainer's key."""
    for name in ("scripts/check_tag.sh", "engine/core/version.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPOSITORY / name, tmp_path / name)
    (tmp_path / "CHANGELOG.md").write_text(f"# Changelog\n\n## {__version__} (2026-11-20)\n\n## 0.0.1 (2026-01-01)\n")
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "key"], check=True)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "stranger"], check=True)
    (tmp_path / ".github").mkdir()
    (tmp_path / ".github/allowed_signers").write_text(f"a@localhost {(tmp_path / 'key.pub').read_text()}")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "CHANGELOG.md")
    git(tmp_path, "commit", "-qm", "release")
    return tmp_path


def git(tree: Path, *words: str) -> None:
    settings = ("user.name=a", "user.email=a@localhost", "gpg.format=ssh", f"user.signingkey={tree}/key.pub")
    options = [word for setting in settings for word in ("-c", setting)]
    subprocess.run(["git", *options, *words], cwd=tree, check=True, capture_output=True)


def check(tree: Path, tag: str) -> tuple[int, str]:
    command = [str(tree / "scripts/check_tag.sh"), tag]
    env = {"PATH": os.environ["PATH"], "HOME": str(tree)}
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    return result.returncode, result.stderr


needs_keys = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="keys are made by ssh-keygen")


@needs_keys
@pytest.mark.os
def test_signed_tags_of_the_version_pass(tree: Path) -> None:
    git(tree, "tag", "--sign", f"v{__version__}", "-m", "release")
    code, errors = check(tree, f"v{__version__}")
    assert (code, errors[:18]) == (0, 'Good "git" signatu')


@needs_keys
@pytest.mark.os
def test_other_tags_are_refused(tree: Path) -> None:
    tag = f"v{__version__}"
    git(tree, "tag", tag)
    assert "is no signed tag" in check(tree, tag)[1]
    git(tree, "tag", "--delete", tag)
    git(tree, "-c", f"user.signingkey={tree}/stranger.pub", "tag", "--sign", tag, "-m", "release")
    code, errors = check(tree, tag)
    assert code == 1
    assert "is not signed by a key of" in errors
    assert f"the version in engine/core/version.py is {__version__}" in check(tree, "v99.0.0")[1]
    (tree / "CHANGELOG.md").write_text("## 0.0.1 (2026-01-01)\n")
    assert "CHANGELOG.md begins with 0.0.1" in check(tree, tag)[1]


def test_bill_has_each_runtime_package() -> None:
    document: dict[str, Any] = json.loads(json.dumps(sbom.bill()))
    names = {component["name"]: component["version"] for component in document["components"]}
    needed = re.findall(r'^    "([\w.-]+)[\[<>=;]', (REPOSITORY / "pyproject.toml").read_text(), flags=re.MULTILINE)
    runtime = {name.lower().replace("_", "-") for name in needed[: needed.index("wsproto") + 1]}
    assert "trio" in runtime
    assert runtime <= set(names)
    assert not {"pytest", "hatchling"} & set(names)
    assert document["metadata"]["component"]["version"] == __version__
    assert document["dependencies"][0]["dependsOn"] == [component["purl"] for component in document["components"]]
    assert sbom.bill() == document


def test_workflow_names_what_exists() -> None:
    text = WORKFLOW.read_text(encoding="utf-8")
    workflow: dict[Any, Any] = yaml.safe_load(text)
    # YAML takes the key `on` for a truth value.
    assert workflow[True] == {"push": {"tags": ["v*"]}}
    for path in re.findall(r"(?:scripts/[\w.]+|\.ci/run)", text):
        assert (REPOSITORY / path).exists(), path
    assert "secrets." not in text
    assert workflow["permissions"] == {}
    for name, job in workflow["jobs"].items():
        assert job["timeout-minutes"], name
        # Only what publishes or attests may speak for this repository; what runs code of the tree may not.
        runs_code = any("run" in step for step in job["steps"])
        assert not (runs_code and "id-token" in job["permissions"]), name
    assert set(workflow["jobs"]["publish"]["permissions"]) == {"id-token"}
    assert workflow["jobs"]["publish"]["needs"] == "attest"


def test_actions_are_commits_with_their_versions() -> None:
    used = re.findall(r"uses: (.*)", WORKFLOW.read_text(encoding="utf-8"))
    assert used
    for action in used:
        assert re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action), action


def test_sbom_script_prints_json() -> None:
    result = subprocess.run(
        [sys.executable, REPOSITORY / "scripts/sbom.py"], capture_output=True, text=True, check=True
    )
    assert json.loads(result.stdout)["bomFormat"] == "CycloneDX"
