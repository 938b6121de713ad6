#!/usr/bin/env bash
# Pin anew: resolve the dependencies of pyproject.toml in a clean environment and write requirements/*.txt.
# Exact versions only: no hashes and no addresses, so that any index, mirror or cache serves them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"${PYTHON:-python3}" -m venv "$scratch/venv"
pip() { "$scratch/venv/bin/python" -m pip --disable-pip-version-check --no-input "$@"; }

# The requirements named by pyproject.toml: the core and the build backend, or one extra.
requirements() {
  "$scratch/venv/bin/python" - "$1" <<'PYTHON'
import pathlib
import sys
import tomllib

table = tomllib.loads(pathlib.Path("pyproject.toml").read_text())
extra = sys.argv[1]
if extra == "core":
    # hatchling asks for editables when it makes an editable install, which is done without build isolation here
    wanted = [*table["project"]["dependencies"], *table["build-system"]["requires"], "editables"]
else:
    wanted = table["project"]["optional-dependencies"][extra]
print("\n".join(wanted))
PYTHON
}
frozen() { pip freeze --all --exclude pip --exclude setuptools --exclude wheel; }

requirements core >"$scratch/core.in"
pip install --quiet --upgrade --requirement "$scratch/core.in"
frozen >"$scratch/core.txt"
requirements dev >"$scratch/dev.in"
pip install --quiet --requirement "$scratch/dev.in" --constraint "$scratch/core.txt"
frozen >"$scratch/dev.txt"
requirements ray >"$scratch/ray.in"
"${PYTHON:-python3}" -m venv "$scratch/ray-venv"
"$scratch/ray-venv/bin/python" -m pip --disable-pip-version-check --no-input install --quiet --requirement "$scratch/ray.in" \
  --constraint "$scratch/dev.txt"
"$scratch/ray-venv/bin/python" -m pip freeze --all --exclude pip --exclude setuptools --exclude wheel >"$scratch/ray.txt"
requirements bench >"$scratch/bench.in"
pip install --quiet --requirement "$scratch/bench.in" --constraint "$scratch/dev.txt"
frozen >"$scratch/bench.txt"

{
  echo "# What the engine runs on, and the backend of its editable install. Written by \`make pins\`."
  cat "$scratch/core.txt"
} >requirements/core.txt
{
  echo "# The tools of \`make test\` and \`make check\`. Written by \`make pins\`."
  echo "-r core.txt"
  grep -vxF -f "$scratch/core.txt" "$scratch/dev.txt"
} >requirements/dev.txt
{
  echo "# What the tests of batches on Ray need. Written by \`make pins\`."
  grep -vxF -f "$scratch/dev.txt" "$scratch/ray.txt"
} >requirements/ray.txt
{
  echo "# The official SDKs that \`make bench\` measures beside us. Written by \`make pins\`."
  echo "-r dev.txt"
  grep -vxF -f "$scratch/dev.txt" "$scratch/bench.txt"
} >requirements/bench.txt
wc -l requirements/*.txt
