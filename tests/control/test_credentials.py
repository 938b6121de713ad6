"""Tokens, tickets and keys: who may connect, and for how long."""

import hmac
import itertools
import os
import stat
from base64 import urlsafe_b64encode
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.control.credentials import BrowserProofs, BrowserSecret, ClientCredentials, Login, RateLimit, digest_of
from engine.control.service.private_files import private_folder
from engine.control.token_file import add_token, load_token, load_tokens, revoke_token
from engine.core.errors import ConfigError

OWNER = Login("owner", "full")
READER = Login("reader", "read")
TOKEN = "t" * 43
ORIGIN = "http://127.0.0.1:1"


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def credentials() -> tuple[ClientCredentials, Clock]:
    clock = Clock()
    numbers = itertools.count()
    made = ClientCredentials(now=clock, random=lambda size: next(numbers).to_bytes(size))
    made.set_tokens({digest_of(TOKEN): OWNER, digest_of("r" * 43): READER})
    return made, clock


def test_tokens_log_in() -> None:
    made, _ = credentials()
    assert (made.log_in(TOKEN), made.log_in("r" * 43)) == (OWNER, READER)


@pytest.mark.parametrize(
    "secret", ["", "t", TOKEN[:-1], TOKEN + "t", TOKEN.upper(), "ä" * 43, "\ud800", "t" * 10_000, digest_of(TOKEN)]
)
def test_anything_else_does_not(secret: str) -> None:
    made, _ = credentials()
    assert made.log_in(secret) is None
    assert made.use_link_ticket(secret) is None
    assert made.use_socket_ticket(secret) is None


def test_ticket_of_a_link_is_used_once() -> None:
    made, clock = credentials()
    ticket = made.link_ticket(READER)
    assert ticket is not None
    assert made.log_in(ticket) is None
    clock.now = 599
    assert made.use_link_ticket(ticket) == READER
    assert made.use_link_ticket(ticket) is None
    key = made.new_key(READER)
    clock.now += 12 * 3600 - 1
    assert made.log_in(key) == READER
    clock.now += 1
    assert made.log_in(key) is None


@pytest.mark.parametrize(("kind", "seconds"), [("link", 600), ("socket", 30)])
def test_tickets_expire(kind: str, seconds: int) -> None:
    made, clock = credentials()
    make: Callable[[Login], str | None] = made.link_ticket if kind == "link" else made.socket_ticket
    use: Callable[[str], object] = made.use_link_ticket if kind == "link" else made.use_socket_ticket
    early, late = make(OWNER), make(OWNER)
    assert early is not None
    assert late is not None
    clock.now = seconds - 1
    assert use(early) is not None
    clock.now = seconds
    assert use(late) is None


def test_ticket_of_one_kind_is_not_of_the_other() -> None:
    made, _ = credentials()
    link, socket = made.link_ticket(OWNER), made.socket_ticket(OWNER)
    assert link is not None
    assert socket is not None
    assert made.use_socket_ticket(link) is None
    assert made.use_link_ticket(socket) is None
    assert made.use_socket_ticket(socket) == OWNER


def test_open_tickets_are_bounded_until_they_expire() -> None:
    made, clock = credentials()
    assert [made.socket_ticket(OWNER) is not None for _ in range(33)] == [True] * 32 + [False]
    clock.now = 30
    assert made.socket_ticket(OWNER) is not None


def test_tickets_of_one_token_leave_room_for_others() -> None:
    made, _ = credentials()
    for make in (made.socket_ticket, made.link_ticket):
        assert [make(READER) is not None for _ in range(33)] == [True] * 32 + [False]
        assert make(OWNER) is not None


def test_newest_keys_are_kept() -> None:
    made, _ = credentials()
    others_key = made.new_key(READER)
    keys = [made.new_key(OWNER) for _ in range(1025)]
    assert [made.log_in(key) for key in (keys[0], keys[1], keys[-1])] == [None, OWNER, OWNER]
    assert made.log_in(others_key) == READER


@attrs.frozen
class SignedIn:
    """A page with a secret, and the server that it signs in to again."""

    proofs: BrowserProofs
    kept: BrowserSecret
    clock: Clock

    def message(self, **changes: str) -> dict[str, str]:
        """Return what a page sends."""
        message = {"browser": self.kept.browser, "challenge": self.proofs.challenge(), "nonce": "n", **changes}
        text = f"page\n{message['challenge']}\n{message['nonce']}"
        return {"proof": mac(self.kept.secret, text), **message}


def mac(secret: str, text: str) -> str:
    return urlsafe_b64encode(hmac.digest(secret.encode(), text.encode(), "sha256")).rstrip(b"=").decode()


def signed_in(origin: str = ORIGIN) -> SignedIn:
    made, clock = credentials()
    proofs = BrowserProofs(made, now=clock, random=os.urandom)
    kept = proofs.new_secret(READER, origin)
    assert kept is not None
    return SignedIn(proofs, kept, clock)


def test_proof_signs_in_again_until_its_end() -> None:
    page = signed_in()
    page.clock.now = 12 * 3600 - 100.0
    message = page.message()
    proven = page.proofs.verify(**message, origin=ORIGIN)
    assert proven is not None
    assert (proven.login, proven.seconds) == (READER, 100)
    # The page learns that the server has the secret, too.
    assert proven.proof == mac(page.kept.secret, f"server\n{message['challenge']}\nn")
    page.clock.now += 100
    assert page.proofs.verify(**page.message(), origin=ORIGIN) is None


def test_proof_holds_for_the_next_server_alone_with_the_token() -> None:
    page = signed_in()
    made, _ = credentials()
    successor = attrs.evolve(page, proofs=BrowserProofs(made, now=page.clock, random=os.urandom))
    assert successor.proofs.verify(**successor.message(), origin=ORIGIN) is not None
    # A challenge of the one before is not its own.
    assert successor.proofs.verify(**page.message(), origin=ORIGIN) is None
    made.set_tokens({digest_of("x" * 43): READER})
    assert successor.proofs.verify(**successor.message(), origin=ORIGIN) is None
    made.set_tokens({})
    assert successor.proofs.verify(**successor.message(), origin=ORIGIN) is None
    assert successor.proofs.new_secret(READER, ORIGIN) is None


def test_challenge_is_used_once_and_soon() -> None:
    page = signed_in()
    message = page.message()
    assert page.proofs.verify(**message, origin=ORIGIN) is not None
    assert page.proofs.verify(**message, origin=ORIGIN) is None
    late = page.message()
    page.clock.now = 30
    assert page.proofs.verify(**late, origin=ORIGIN) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"proof": ""},
        {"proof": "\ud800"},
        {"proof": "A" * 10_000},
        {"browser": ""},
        {"browser": "owner.99999." + "A" * 43},
        {"browser": "x" * 10_000},
        {"challenge": ""},
        {"challenge": f"99999.{'A' * 43}.{'A' * 43}"},
        {"challenge": "x" * 10_000},
    ],
)
def test_any_other_proof_is_refused(changes: dict[str, str]) -> None:
    page = signed_in()
    assert page.proofs.verify(**page.message(**changes), origin=ORIGIN) is None


def test_proof_passed_on_from_another_port_is_refused() -> None:
    # A program that has taken the old port asks this server for a challenge, and a page there answers it.
    page = signed_in("http://127.0.0.1:2")
    assert page.proofs.verify(**page.message(), origin=ORIGIN) is None


def test_revoked_token_takes_its_keys_along() -> None:
    made, _ = credentials()
    key, others_key = made.new_key(READER), made.new_key(OWNER)
    left = made.socket_ticket(READER)
    assert left is not None
    assert made.set_tokens({digest_of(TOKEN): OWNER}) == {"reader"}
    assert made.log_in(key) is None
    assert made.use_socket_ticket(left) is None
    assert made.log_in(others_key) == OWNER


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from([0.0, 0.4, 1.0])), max_size=60))
def test_no_name_exceeds_its_rate(uses: list[tuple[str, float]]) -> None:
    clock = Clock()
    limit = RateLimit(3, now=clock, most_names=2)
    served: dict[tuple[str, int], int] = {}
    for name, wait in uses:
        clock.now += wait
        if not limit.is_over(name):
            limit.add(name)
            key = (name, int(clock.now))
            served[key] = served.get(key, 0) + 1
    assert all(count <= 3 for count in served.values())


# ---- files


def test_first_call_makes_the_token(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "engine"
    token = load_token(folder)
    assert load_token(folder) == token
    assert load_tokens(folder) == {digest_of(token): OWNER}
    assert stat.S_IMODE((folder / "token").stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert [path.name for path in folder.iterdir()] == ["token"]


def test_named_tokens_are_kept_as_digests(tmp_path: Path) -> None:
    folder = tmp_path / "engine"
    secret = add_token(folder, "phone", "answer")
    assert load_tokens(folder)[digest_of(secret)] == Login("phone", "answer")
    assert secret not in (folder / "tokens.json").read_text()
    assert (revoke_token(folder, "phone"), revoke_token(folder, "phone")) == (True, False)
    assert digest_of(secret) not in load_tokens(folder)


@pytest.mark.parametrize("name", ["", "owner", "A", "a/b", "..", "a" * 65, "phone"])
def test_bad_names_are_refused(tmp_path: Path, name: str) -> None:
    add_token(tmp_path / "engine", "phone", "read")
    with pytest.raises(ConfigError):
        add_token(tmp_path / "engine", name, "read")


def break_folder_mode(folder: Path) -> None:
    folder.chmod(0o750)


def break_token_mode(folder: Path) -> None:
    (folder / "token").chmod(0o640)


def break_token_link(folder: Path) -> None:
    (folder / "token").rename(folder.parent / "elsewhere")
    (folder / "token").symlink_to(folder.parent / "elsewhere")


def break_token_pipe(folder: Path) -> None:
    (folder / "token").unlink()
    os.mkfifo(folder / "token", 0o600)


def break_token_text(folder: Path) -> None:
    (folder / "token").write_text("short\n")


def break_folder_link(folder: Path) -> None:
    folder.rename(folder.parent / "real")
    folder.symlink_to(folder.parent / "real")


def break_named(folder: Path) -> None:
    (folder / "tokens.json").write_text('{"version": 1, "tokens": [{"name": "x", "role": "god", "digest": "0"}]}')


@pytest.mark.parametrize(
    "damage",
    [
        break_folder_mode,
        break_token_mode,
        break_token_link,
        break_token_pipe,
        break_token_text,
        break_folder_link,
        break_named,
    ],
)
def test_files_that_are_not_ours_alone_are_refused(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    folder = tmp_path / "engine"
    load_token(folder)
    damage(folder)
    with pytest.raises(ConfigError) as caught:
        load_tokens(folder)
    assert "engine" in str(caught.value) or "tokens.json" in str(caught.value)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
@pytest.mark.parametrize("name", ["engine", "engine/token"])
def test_files_of_others_are_refused(tmp_path: Path, name: str) -> None:
    load_token(tmp_path / "engine")
    os.chown(tmp_path / name, 65534, 65534)
    with pytest.raises(ConfigError, match="another user"):
        load_tokens(tmp_path / "engine")


def test_folder_that_can_not_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="file/engine"):
        private_folder(tmp_path / "file" / "engine")
