"""A small repository, and commands that developers read it with."""

import subprocess
import zipfile
from pathlib import Path
from typing import Final

READING: Final = (
    (Path(__file__).parent.parent / "permission/reading_commands.txt").read_text(encoding="utf-8").splitlines()
)
_FILES: Final = {
    "README.md": "# Project\nfirst line\nsecond line\nTODO x\n",
    "src/main.py": "import os\nimport sys\n\ndef main():\n    pass\n",
    "src/util.py": "import re\n",
    "tests/test_a.py": "def test(): pass\n",
    "package.json": '{"name": "x", "dependencies": {"y": "1"}, "scripts": {}}\n',
    "compose.yml": "services:\n  a: {}\nname: b\n",
    "pyproject.toml": "name = 'x'\n",
    "list.txt": ".env\n",
    ".gitignore": "build\n.env\n",
    ".env": "TOKEN=CANARY\n",
}
_COMMANDS: Final = """
tar czf archive.tar.gz src; gzip -k README.md; echo x > cert.crt
git init -q -b main; git add .
git -c user.name=x -c user.email=x@example.org commit -qm first; echo >> src/util.py
git -c user.name=x -c user.email=x@example.org commit -qam second
git remote add origin https://example.org/x.git; git tag v1
"""


def make_reading_project(folder: Path) -> Path:
    """Make the repository in a folder, and return its own."""
    project = folder / "project"
    for name, content in _FILES.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(content)
    with zipfile.ZipFile(project / "archive.zip", "w") as archive:
        archive.writestr("a", "b")
    subprocess.run(["bash", "-ec", _COMMANDS], cwd=project, check=True)
    return project
