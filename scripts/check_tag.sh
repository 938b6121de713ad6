#!/usr/bin/env bash
# Fail unless a tag is signed by a maintainer, names the version of the tree, and the changelog begins with that version.
#
#   scripts/check_tag.sh v0.2.0
#
# Whose signatures count is in .github/allowed_signers, in the format of `ssh-keygen`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tag=${1:?usage: scripts/check_tag.sh TAG}
version=$(sed -n 's/^__version__.* = "\(.*\)"$/\1/p' engine/core/version.py)

[ "$tag" = "v$version" ] || { echo "the tag is $tag, and the version in engine/core/version.py is $version" >&2 && exit 1; }
newest=$(sed -n 's/^## \([0-9][^ ]*\) .*/\1/p' CHANGELOG.md | head -n 1)
[ "$newest" = "$version" ] || { echo "CHANGELOG.md begins with $newest, not with $version" >&2 && exit 1; }
[ "$(git cat-file -t "$tag")" = tag ] || { echo "$tag is no signed tag: git tag --sign $tag" >&2 && exit 1; }
git -c gpg.format=ssh -c gpg.ssh.allowedSignersFile=.github/allowed_signers verify-tag "$tag" ||
	{ echo "$tag is not signed by a key of .github/allowed_signers" >&2 && exit 1; }
