"""What is offered for "always": it matches the command that it came from, and nothing that it should not."""

import shlex

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.permission.effects.program_effects import WordPrefix
from engine.permission.effects.scan_result import Argument
from engine.permission.grants.offers import (
    bare_command_line,
    command_line,
    command_prefix,
    full_command_line,
    offers_for,
)
from engine.permission.programs.program_registry import DEFAULT_REGISTRY, extend_registry
from engine.permission.rules.wildcard import Wildcard


def words(line: str) -> tuple[Argument, ...]:
    return tuple(
        None if word == "?" else WordPrefix(word[:-1]) if word.endswith("?") else word for word in shlex.split(line)
    )


OFFERED = (
    ("npm run dev --watch", "npm run dev *"),
    ("npm test", "npm test *"),
    ("npm run", None),
    ("docker compose up -d", "docker compose up *"),
    ("docker compose -f x.yml up -d", "docker compose -f x.yml up *"),
    ("git log -5", "git log *"),
    ("git push origin main", "git push *"),
    ("git -C /x push", "git -C /x push *"),
    ("git stash", None),
    ("git stash pop", "git stash pop *"),
    ("git config user.name x", "git config user.name *"),
    ("git", None),
    ("kubectl -n x get pods", "kubectl -n x get *"),
    ("aws s3 ls x", "aws s3 ls *"),
    ("cargo test -- --nocapture", "cargo test *"),
    ("go test ./...", "go test *"),
    ("make test", "make test *"),
    ("make", None),
    ("ls -la", "ls *"),
    ("grep -rn x .", "grep *"),
    ("jq . f", "jq *"),
    ("pytest -q", "pytest *"),
    ("mkdir -p x", "mkdir *"),
    ("yarn workspace a build", "yarn workspace a build *"),
    ("./gradlew build", "./gradlew build *"),
    # What starts others: its words are part of the prefix, and the prefix is that of its command.
    ("sudo npm install x", "sudo npm install *"),
    ("sudo -u bob npm install x", "sudo -u bob npm install *"),
    ("sudo rm -rf x", None),
    ("env A=1 npm test", "env A=1 npm test *"),
    ("env rm x", None),
    ("timeout 5 npm test", "timeout 5 npm test *"),
    ("nohup nice -n 5 make test", "nohup nice -n 5 make test *"),
    ("poetry run pytest -q", "poetry run pytest *"),
    ("uv run pytest -q", "uv run pytest *"),
    ("uv run python -c x", None),
    ("xargs rm", None),
    ("xargs -n1 sh -c x", None),
    ("sudo sudo bash -c x", None),
    # What runs what it is given.
    ("sudo", None),
    ("env", None),
    ("bash -c x", None),
    ("bash", None),
    ("sh -s", None),
    ("bash scripts/x.sh a", "bash scripts/x.sh *"),
    ("python -c x", None),
    ("python", None),
    ("python x.py a", "python x.py *"),
    ("python -m pytest -q", "python -m pytest *"),
    ("python -m timeit x", None),
    ("node -e x", None),
    ("node --test", None),
    ("node a.js b", "node a.js *"),
    ("perl -ne x f", None),
    ("npx prettier --check .", "npx prettier *"),
    ("npx node x", None),
    ("npx sh x", None),
    ("npx", None),
    ("npx -c ls", None),
    ("npm exec node x", None),
    ("find . -name x", None),
    ("find . -exec ls {} ;", None),
    ("ssh h ls", None),
    ("watch ls", None),
    ("git bisect run npm test", "git bisect run npm test *"),
    ("git rebase -x ls main", None),
    ("docker run img sh -c x", None),
    ("parallel ls ::: a", None),
    ("awk 1 f", None),
    ("sed -i s/a/b/ f", None),
    ("eval x", None),
    # What destroys, and what nobody knows.
    ("rm -rf x", None),
    ("dd if=x", None),
    ("kill 1", None),
    ("chmod 777 x", None),
    ("curl http://h", None),
    ("frobnicate x", None),
    ("git frobnicate", None),
)


@pytest.mark.parametrize(("line", "broad"), OFFERED, ids=[line for line, _ in OFFERED])
def test_the_command_itself_and_then_its_prefix(line: str, broad: str | None) -> None:
    assert offers_for(words(line)) == ((command_line(words(line)), broad) if broad else (command_line(words(line)),))


def test_every_entry_of_the_peers_table_is_there() -> None:
    ones = "cat cd cp echo grep ls mkdir mv ps pwd rmdir sleep tail touch which"
    assert {name for name in ones.split() if DEFAULT_REGISTRY.arity_of([name]) != 1} == set()
    threes = (
        "aws,az,gcloud,gh,doctl,sfdx,bun run,bun x,cargo add,cargo run,consul kv,deno task,docker builder,docker compose,docker container,"
        "docker image,docker network,docker volume,eksctl create,git config,git remote,git stash,ip addr,ip link,ip netns,ip route,"
        "kind create,kubectl kustomize,kubectl rollout,mc admin,npm exec,npm init,npm run,npm view,openssl req,openssl x509,pnpm dlx,"
        "pnpm exec,pnpm run,podman container,podman image,pulumi stack,terraform workspace,vault auth,vault kv,yarn dlx,yarn run"
    )
    assert {path for path in threes.split(",") if DEFAULT_REGISTRY.arity_of(path.split()) != 3} == set()


def test_options_that_do_nothing_are_left_out() -> None:
    assert offers_for(words("git --no-pager log -5")) == ("git log -5", "git log *")
    assert command_line(words("git -P --no-optional-locks status")) == "git status"
    assert command_line(words("git commit --no-pager")) == "git commit --no-pager"
    assert full_command_line(words("git --no-pager log")) == "git --no-pager log"


def test_bare_command_lines_ignore_spelling() -> None:
    assert bare_command_line(words("/usr/bin/git -C x --no-pager push -f")) == "git push -f"
    assert bare_command_line(words("./rm -rf x")) == "rm -rf x"
    assert bare_command_line(words("docker --context x run y")) == "docker run y"
    assert bare_command_line(words("? x")) == "\ufffc x"


def test_offers_are_quoted_for_the_shell() -> None:
    assert command_line(("git", "commit", "-m", "a b", "it's", "")) == "git commit -m 'a b' 'it'\"'\"'s' ''"
    assert command_line(("echo", None, WordPrefix("src/"), WordPrefix("./\0"))) == "echo \ufffc src/\ufffc ./\ufffc"


def test_literal_stars_are_escaped_in_patterns() -> None:
    assert offers_for(("grep", "a*b?", "x")) == ("grep 'a[*]b[?]' x", "grep *")


def test_unknown_text_is_not_offered() -> None:
    assert offers_for(words("? x")) == ()
    assert offers_for(words("npm ? x")) == ()
    assert offers_for(words("npm run ?")) == ()
    assert offers_for(words("npm run dev? x")) == ()
    assert offers_for(words("go? test")) == ()
    assert offers_for(words("ls ?")) == ("ls *",)
    assert offers_for(words("git add ?")) == ("git add *",)
    assert offers_for(()) == ()
    assert offers_for(("echo", "\ufffc")) == ("echo *",)


def test_overlong_commands_are_not_offered() -> None:
    assert offers_for(("frobnicate", "x" * 20_000)) == ()
    assert offers_for(("ls", "x" * 20_000)) == ("ls *",)


def test_users_add_programs() -> None:
    registry = extend_registry({"deploy": {"arity": 2}, "mine": {"reading": "free"}})
    assert offers_for(words("deploy prod now"), registry) == ("deploy prod now", "deploy prod *")
    assert offers_for(words("mine x"), registry) == ("mine x", "mine *")


_WORD = st.sampled_from(
    ["-x", "--", "-c", "run", "exec", "push", "*", "?", "a b", "[*]", "'", "A=1", "x.py", ";", "-", "\n"]
) | st.text(max_size=5)
_UNKNOWN = st.none() | st.just(WordPrefix("./")) | st.just(WordPrefix(""))
_NAMES = sorted({*DEFAULT_REGISTRY.programs, "frobnicate"})


@pytest.mark.slow
@settings(max_examples=6 * settings().max_examples)
@given(
    st.lists(st.sampled_from(_NAMES), min_size=1, max_size=3),
    st.lists(_WORD | _UNKNOWN | st.sampled_from(_NAMES), max_size=6),
)
def test_an_offer_matches_the_command_it_came_from(names: list[str], rest: list[Argument]) -> None:
    argv = (*names, *rest)
    line = command_line(argv)
    for offer in offers_for(argv):
        assert Wildcard(offer).matches(line), (offer, line)


@pytest.mark.slow
@settings(max_examples=6 * settings().max_examples)
@given(st.sampled_from(_NAMES), st.lists(_WORD | _UNKNOWN | st.sampled_from(_NAMES), max_size=6))
def test_a_prefix_is_the_beginning_of_the_command(name: str, rest: list[Argument]) -> None:
    prefix = command_prefix((name, *rest))
    if prefix is not None:
        assert command_line((name, *rest)).startswith(command_line(prefix))


@pytest.mark.parametrize(
    "name",
    [
        *(name for name, program in DEFAULT_REGISTRY.programs.items() if program.tail or program.reader == "shell"),
        "xargs",
        "find",
        "rm",
    ],
)
def test_launchers_are_never_offered_with_any_arguments(name: str) -> None:
    for rest in ("", "x", "-x y", "ls", "-c ls", "sh -c ls", "x sh -c ls"):
        for offer in offers_for((name, *rest.split())):
            assert offer != f"{name} *"
