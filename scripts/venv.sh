#!/usr/bin/env bash
# Make .venv, or bring it up to date: the pins of requirements/<set>.txt and this project, editable.
#
#   scripts/venv.sh core    what `make demo` needs: the runtime dependencies
#   scripts/venv.sh dev     that, and the tools of `make test` and `make check`
#   scripts/venv.sh bench   that, and the official SDKs that `make bench` measures beside us
#
# A stamp in .venv holds a checksum of what was installed, so a second run does nothing. Pins that changed, another
# Python, or a tree that was moved make the environment anew. VENV names another folder than .venv. Needs `python3 -m venv` and pip; uses uv where it is present.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

wanted=${1:-}
case $wanted in
core | dev | bench) ;;
*) echo "usage: scripts/venv.sh core|dev|bench" >&2 && exit 2 ;;
esac
venv=${VENV:-.venv}

pins_key() { { echo "$PWD" && cat requirements/core.txt "$@"; } | cksum; }
core_key=$(pins_key)
dev_key=$(pins_key requirements/dev.txt)
bench_key=$(pins_key requirements/dev.txt requirements/bench.txt)
project_key=$(cat pyproject.toml engine/core/version.py | cksum)

holds() { [ "$(cat "$venv/.$1" 2>/dev/null)" = "$2" ]; }
runs() { "$venv/bin/python" -c '' 2>/dev/null; }
has_pins() {
  holds core "$core_key" && { [ "$wanted" = core ] || holds dev "$dev_key"; } &&
    { [ "$wanted" != bench ] || holds bench "$bench_key"; }
}
is_fresh() { has_pins && holds project "$project_key" && runs; }

is_fresh && exit 0

# Two makes at once: the second waits, then finds nothing to do.
if command -v flock >/dev/null; then
  exec 9>.venv.lock
  flock 9
  is_fresh && exit 0
fi

find_python() {
  local candidate
  for candidate in ${PYTHON:-python3 python3.14 python3.13 python3.12 python3.11}; do
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      echo "$candidate"
      return
    fi
  done
  echo "engine needs Python 3.11 or newer; name one with: make PYTHON=/path/to/python3.11" >&2
  return 1
}

uv=$(command -v uv || true)
install() {
  if [ -n "$uv" ]; then
    "$uv" pip install --quiet --python "$venv/bin/python" "$@"
  else
    "$venv/bin/python" -m pip install --quiet --quiet --disable-pip-version-check --no-input "$@"
  fi
}

# Packages are added to an environment, never exchanged in it: what is there must be of these pins.
is_usable() {
  runs && holds core "$core_key" && { [ ! -e "$venv/.dev" ] || holds dev "$dev_key"; } &&
    { [ ! -e "$venv/.bench" ] || holds bench "$bench_key"; }
}

if ! is_usable; then
  python=$(find_python)
  echo "making $venv with $("$python" --version) ..." >&2
  if [ -n "$uv" ]; then
    "$uv" venv --quiet --clear --seed --python "$python" "$venv"
  else
    "$python" -m venv --clear "$venv"
  fi
fi
if ! has_pins; then
  echo "installing requirements/$wanted.txt ..." >&2
  install --requirement "requirements/$wanted.txt"
  echo "$core_key" >"$venv/.core"
  [ "$wanted" = core ] || echo "$dev_key" >"$venv/.dev"
  [ "$wanted" != bench ] || echo "$bench_key" >"$venv/.bench"
fi
if ! holds project "$project_key"; then
  install --no-deps --no-build-isolation --editable .
  echo "$project_key" >"$venv/.project"
fi
