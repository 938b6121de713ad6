"""Print the bill of materials of a release, CycloneDX 1.6: the packages that it was tested with, from the lock.

    python scripts/sbom.py > dist/nursery-engine.cdx.json

It is the same for the same tree: no time and no random number is in it.
"""

import json
import re
import tomllib
import uuid
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
# In the lock for the editable installation only.
_BUILD = frozenset({"hatchling", "editables", "packaging", "pathspec", "pluggy", "trove-classifiers"})


def locked(path: Path) -> dict[str, str]:
    """Return the version of each package of a lock."""
    pins = re.findall(r"^([\w.-]+)==(\S+)$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {_normalised(name): version for name, version in pins}


def bill() -> dict[str, object]:
    """Return the document."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    source = (REPOSITORY / "engine" / "core" / "version.py").read_text(encoding="utf-8")
    match = re.search(r'^__version__(?::[^=]*)? = "(.+)"$', source, flags=re.MULTILINE)
    assert match is not None, "engine/core/version.py has no version"
    own = _component(project["name"], match[1])
    packages = [
        _component(name, version)
        for name, version in sorted(locked(REPOSITORY / "requirements" / "core.txt").items())
        if name not in _BUILD
    ]
    number = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps([own, packages], sort_keys=True))
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{number}",
        "version": 1,
        "metadata": {"component": {**own, "licenses": [{"license": {"id": project["license"]}}]}},
        "components": packages,
        "dependencies": [{"ref": own["bom-ref"], "dependsOn": [package["bom-ref"] for package in packages]}],
    }


def _component(name: str, version: str) -> dict[str, object]:
    address = f"pkg:pypi/{_normalised(name)}@{version}"
    return {"type": "library", "bom-ref": address, "name": name, "version": version, "purl": address}


def _normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    print(json.dumps(bill(), indent=2))
