"""How many words of a command identify what it does: `git push`, `npm run build`, `docker compose up`.

The numbers don't count options. The longest entry that a command begins with applies. Programs that only read need no
entry: they have one word. A program in no table has none, since it is unknown which of its words matter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from engine.permission.programs.tables.names import words_of

_ONE: Final = """
    cat cd cp echo grep ls mkdir mv ps pwd rmdir sleep tail touch which
    pytest jest vitest mocha eslint prettier stylelint tsc mypy pyright black isort flake8 pylint tox nox ninja ctest
    gofmt shellcheck clang-format clang-tidy biome oxlint vite webpack rollup esbuild
"""
_TWO: Final = """
    bazel brew bun cargo cdk cf cmake composer consul crictl deno docker eksctl firebase flyctl git go gradle helm heroku
    hugo ip kind kubectl kustomize make mc mvn mysql ng npm nvm nx openssl pip pipenv pnpm poetry
    podman psql pulumi pyenv rake rbenv redis-cli rustup serverless skaffold sls sst swift systemctl terraform
    turbo ufw vault vercel volta wp yarn
    uv ruff just pre-commit dotnet bundle rails gradlew mvnw pdm rye mix zig dart flutter nerdctl tofu task
    gem sbt lerna next nuxt astro meson docker-compose npx bunx uvx ansible-lint coverage sam fly wrangler supabase apt
    apt-get dnf yum pacman apk service launchctl journalctl
"""
_THREE: Final = """
    aws az gcloud gh doctl sfdx glab
    bun.run bun.x cargo.add cargo.run consul.kv deno.task docker.builder docker.compose docker.container docker.image
    docker.network docker.volume eksctl.create git.config git.remote git.stash ip.addr ip.link ip.netns ip.route
    kind.create kubectl.kustomize kubectl.rollout mc.admin npm.exec npm.init npm.run npm.view openssl.req openssl.x509
    pnpm.dlx pnpm.exec pnpm.run podman.container podman.image pulumi.stack terraform.workspace vault.auth vault.kv
    yarn.dlx yarn.run
    git.submodule git.worktree git.bisect git.lfs git.notes git.flow uv.pip uv.run uv.tool npm.run-script bundle.exec
    kubectl.config kubectl.create podman.network podman.volume podman.compose docker.buildx docker.system docker.context
    go.mod go.work go.tool cargo.xtask cargo.nextest pip.cache uv.cache poetry.env poetry.self nx.run dotnet.add
    dotnet.ef dotnet.tool composer.run rustup.target rustup.component rustup.toolchain
"""
_FOUR: Final = "yarn.workspace"
# A rule for one of these would always allow too much: it destroys files, ends programs, makes links, changes
# permissions or settings, or starts other programs.
NEVER: Final = words_of(
    """
    rm dd shred kill killall pkill ln chmod chown env export source unset sudo xargs find fd eval exec command builtin
    sh bash zsh . trap alias nice nohup time timeout python awk sed perl ruby node php
    """
)


def _entries() -> Iterator[tuple[tuple[str, ...], int]]:
    for count, text in enumerate((_ONE, _TWO, _THREE, _FOUR), start=1):
        for name in text.split():
            yield tuple(name.split(".")), count


ARITY: Final[Mapping[tuple[str, ...], int]] = dict(_entries())
