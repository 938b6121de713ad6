"""Build the source archive, the wheel from it, install that in an empty environment, and use it there.

The environment holds the wheel and exactly its core dependencies, so that a file the wheel forgot, or a tool of the
developers that the engine has come to need, shows here and not at a user's. The home directory is empty. Works offline:
the dependencies are linked from the environment this script runs in.

    python scripts/wheel_smoke.py            build and test
    python scripts/wheel_smoke.py DIRECTORY  test the archive and the wheel that are there
"""

import importlib.metadata
import json
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
import venv
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from packaging.requirements import Requirement

REPOSITORY = Path(__file__).resolve().parent.parent

USE = """
import importlib, pathlib, pkgutil, sys
import engine

assert pathlib.Path(engine.__file__).is_relative_to(sys.prefix), engine.__file__
for name in engine.__all__:
    getattr(engine, name)
optional = set(sys.argv[1:])
for module in pkgutil.walk_packages(engine.__path__, "engine."):
    if module.name.endswith("__main__"):
        continue
    try:
        importlib.import_module(module.name)
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in optional:
            raise SystemExit(f"{module.name} needs {missing.name}, which is no core dependency")
        print(f"{module.name}: left out, it needs the extra with {missing.name}")
"""


def main() -> None:
    """Run every step; the first that fails ends the script with an error."""
    with tempfile.TemporaryDirectory(prefix="engine-wheel-") as folder:
        dist = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else _build(Path(folder) / "dist")
        (archive,), (wheel,) = dist.glob("*.tar.gz"), dist.glob("*.whl")
        _compare_with_the_tree(wheel)
        _compare_archive(archive)
        python = _install(wheel, Path(folder) / "venv")
        _run(python, "-W", "error", "-c", USE, *_optional_modules(wheel))
        version = _run(python.with_name("engine"), "--version").strip()
        assert _run(python, "-m", "engine", "--version").strip() == version
        assert wheel.name.split("-")[1] in version, f"{wheel.name} says it is {version}"
        _use_installed_texts(python)
        _use_in_empty_home(python.with_name("engine"), Path(folder) / "home")
        ratio = _start_ratio(python)
        assert ratio <= MOST_START_RATIO, f"engine --version takes {ratio:.1f} times as long as an empty program"
        print(
            f"{wheel.name}, from {archive.name}: {version}; it starts in {ratio:.1f} times the time of an empty program"
        )


# `engine --version`, compared with a Python that does nothing.
MOST_START_RATIO = 4.0
_STARTS = 15

# What the wheel puts where `man` and shells look.
SHARED = (
    "man/man1/engine.1",
    "man/man1/engine-run.1",
    "man/man5/engine-config.5",
    "bash-completion/completions/engine",
    "zsh/site-functions/_engine",
    "fish/vendor_completions.d/engine.fish",
)


def _use_installed_texts(python: Path) -> None:
    """Read the help, the completion scripts and the man pages as a user does."""
    engine = python.with_name("engine")
    record = json.loads(_run(engine, "--version", "--json"))
    assert record["version"] in _run(engine, "--version"), record
    assert "usage: engine run" in _run(engine, "help", "run")
    for name in ("result", "events", "config"):
        assert "$schema" in json.loads(_run(engine, "schema", name)), f"engine schema {name} is no JSON Schema"
    for name in SHARED:
        installed = python.parent.parent / "share" / name
        assert installed.is_file(), f"the wheel installs no share/{name}"
    for shell, name in (("bash", SHARED[3]), ("zsh", SHARED[4]), ("fish", SHARED[5])):
        script = (python.parent.parent / "share" / name).read_text("utf-8")
        assert _run(engine, "completion", shell) == script, f"engine completion {shell} is not share/{name}"


def _use_in_empty_home(engine: Path, home: Path) -> None:
    """Run what a new user runs first, as one who has nothing: no files, no key, no network."""
    home.mkdir()
    # The discard port: what is not on this machine fails at once.
    nowhere = "http://127.0.0.1:9"
    alone = {"HOME": str(home), "HTTP_PROXY": nowhere, "HTTPS_PROXY": nowhere, "PATH": os.environ["PATH"]}
    assert "processes left          0\n" in _run(engine, "demo", env=alone)
    checks = {check["name"]: check for check in json.loads(_run(engine, "doctor", "--json", env=alone))}
    assert checks["version"]["state"] == checks["store"]["state"] == checks["rg"]["state"] == "ok", checks
    refused = subprocess.run(
        [engine, "run", "hello"], check=False, cwd=home, env=alone, stdin=subprocess.DEVNULL, capture_output=True
    )
    assert (refused.returncode, refused.stdout) == (6, b""), refused
    assert b"Next: " in refused.stderr, refused
    assert "read" in _run(engine, "tools", env=alone)


def _start_ratio(python: Path) -> float:
    """Return how many times as long as an empty program `engine --version` takes: the medians of interleaved starts."""
    engine = python.with_name("engine")
    commands: tuple[tuple[str | Path, ...], ...] = ((python, "-c", "pass"), (engine, "--version"))
    seconds: list[list[float]] = [[], []]
    for _ in range(_STARTS):
        for command, times in zip(commands, seconds, strict=True):
            begin = time.perf_counter()
            _run(*command)
            times.append(time.perf_counter() - begin)
    bare, version = map(statistics.median, seconds)
    return version / bare


def _run(*command: str | Path, env: Mapping[str, str] = os.environ) -> str:
    environment = {name: value for name, value in env.items() if not name.startswith("PYTHON")}
    # from the root folder, or `-c` and `-m` would find the engine of this tree
    result = subprocess.run(command, cwd="/", env=environment, capture_output=True, text=True, check=False)
    if result.returncode:
        raise SystemExit(f"{' '.join(map(str, command[:3]))} failed:\n{result.stdout}{result.stderr}")
    return result.stdout


def _build(folder: Path) -> Path:
    # Both: the wheel is then built from the archive, as when that is installed.
    _run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, REPOSITORY)
    return folder


def _compare_archive(archive: Path) -> None:
    """The source archive has what its users build, test and read, and nothing that was made here."""
    with tarfile.open(archive) as tar:
        packed = {name.partition("/")[2] for name in tar.getnames()}
    for name in (
        "tests/conftest.py",
        "docs/tutorial.md",
        "docs/man/engine.1",
        "requirements/dev.txt",
        "Makefile",
        "LICENSE",
    ):
        assert name in packed, f"the source archive lacks {name}"
    made = sorted(
        name for name in packed if "__pycache__" in name or "node_modules" in name or name.startswith("build/")
    )
    assert not made, f"the source archive holds what was made here: {made[:5]}"


def _compare_with_the_tree(wheel: Path) -> None:
    """Every file below engine/ is in the wheel: data files are easily forgotten."""
    packed = set(zipfile.ZipFile(wheel).namelist())
    there = {
        path.relative_to(REPOSITORY).as_posix()
        for path in (REPOSITORY / "engine").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert "engine/py.typed" in packed, "the wheel has no engine/py.typed"
    assert there <= packed, f"the wheel lacks {sorted(there - packed)}"
    if (REPOSITORY / "README.md").exists():
        assert "# " in _metadata(wheel).partition("\n\n")[2], "the wheel has no README: `readme` in pyproject.toml"


def _install(wheel: Path, folder: Path) -> Path:
    """Make an environment of the wheel and its core dependencies; returns its interpreter."""
    venv.create(folder, with_pip=True, symlinks=True)
    python = folder / "bin" / "python"
    _run(python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", wheel)
    site = Path(_run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    for name in sorted(_closure(_requirements(wheel))):
        distribution = importlib.metadata.distribution(name)
        for top in {file.parts[0] for file in distribution.files or () if file.parts[0] not in {"..", "__pycache__"}}:
            if not (site / top).exists():
                (site / top).symlink_to(Path(str(distribution.locate_file(top))))
        # Programs, such as rg; scripts in Python name the interpreter of this environment, and are left out.
        for file in distribution.files or ():
            program = Path(str(distribution.locate_file(file))).resolve()
            if file.parts[0] == ".." and program.parent.name == "bin" and program.read_bytes()[:2] != b"#!":
                (folder / "bin" / program.name).symlink_to(program)
    return python


def _metadata(wheel: Path) -> str:
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return archive.read(name).decode()


def _requirements(wheel: Path) -> list[Requirement]:
    lines = _metadata(wheel).partition("\n\n")[0].splitlines()
    return [Requirement(line.partition(":")[2]) for line in lines if line.startswith("Requires-Dist:")]


def _needed(requirements: list[Requirement], extras: set[str]) -> Iterator[Requirement]:
    for requirement in requirements:
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in {"", *extras}):
            yield requirement


def _closure(requirements: list[Requirement]) -> set[str]:
    """The distributions that these need, and what those need."""
    found: set[str] = set()
    todo = list(_needed(requirements, set()))
    while todo:
        requirement = todo.pop()
        distribution = importlib.metadata.distribution(requirement.name)
        assert requirement.specifier.contains(distribution.version, prereleases=True), f"the pins break {requirement}"
        if requirement.name not in found:
            found.add(requirement.name)
            todo += _needed([Requirement(text) for text in distribution.requires or ()], requirement.extras)
    return found


def _optional_modules(wheel: Path) -> list[str]:
    """The import names of what only an extra for users brings, with what that needs, as far as they are installed here."""
    requirements = _requirements(wheel)
    named = [r for r in requirements if r.marker is not None and not r.marker.evaluate({"extra": "dev"})]
    installed = {distribution.name for distribution in importlib.metadata.distributions()}
    here = [Requirement(f"{r.name}{r.specifier}") for r in named if r.name in installed]
    brought = _closure(here) - _closure(requirements)
    provided = importlib.metadata.packages_distributions()
    return [module for module, distributions in provided.items() if brought.intersection(distributions)]


if __name__ == "__main__":
    main()
