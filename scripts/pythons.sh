#!/usr/bin/env bash
# Print each Python from 3.11 on that this machine has, one line for each version: `3.13 /path/to/python`.
#
# Looked for on PATH and among pyenv's, whose shims fail for versions that are not selected.
set -euo pipefail

candidates() {
  local minor
  for minor in {11..19}; do
    type -ap "python3.$minor" || true
  done
  type -ap python3 || true
  ls -d "${PYENV_ROOT:-$HOME/.pyenv}"/versions/*/bin/python3 2>/dev/null || true
}

candidates | while read -r python; do
  # Only releases with what an environment needs: a distribution may leave `venv` out.
  "$python" -c '
import sys, ensurepip, venv
if sys.version_info >= (3, 11) and sys.version_info.releaselevel == "final":
    print("%d.%d" % sys.version_info[:2], sys.executable)
' 2>/dev/null || true
done | sort -u -t ' ' -k 1,1 | sort -t . -k 2,2n
