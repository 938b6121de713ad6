"""Stored keys: where a host's credential comes from, in which order, and who sees it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.config.config import Config, HostConfig
from engine.core.errors import ConfigError, MissingKey
from engine.process.redact import Mask, secrets_in
from engine.process.secret_names import SecretVariables
from engine.providers.auth.auth import KeyAuth, NoAuth
from engine.providers.auth.auth_file import AuthFile
from engine.providers.auth.key_variables import auth_of, credential_of
from engine.providers.hosts.host_config import host_named
from engine.providers.hosts.host_table import BY_NAME
from engine.providers.registry import unusable_reason, usable_hosts

pytestmark = pytest.mark.os

KEY = "sk-stored-4242424242424242"
OPENAI = BY_NAME["openai"]


@pytest.fixture
def file(tmp_path: Path) -> AuthFile:
    return AuthFile(tmp_path / "data" / "auth.json")


def test_variable_before_stored_key(file: AuthFile) -> None:
    file.add("openai", KEY)
    assert auth_of(OPENAI, {}, str(file.path)) == KeyAuth("authorization", KEY, "Bearer")
    assert auth_of(OPENAI, {"OPENAI_API_KEY": "k"}, str(file.path)) == KeyAuth("authorization", "k", "Bearer")


def test_stored_key_before_keyring_before_command(file: AuthFile) -> None:
    host = host_named("lab", Config(hosts={"lab": HostConfig(like="openai", key_command=("pass", "lab"))}))
    assert host is not None
    assert credential_of(host, {}, str(file.path)).source == "key command"
    file.add("lab", "")
    assert credential_of(host, {}, str(file.path)).source == "keyring"
    file.add("lab", KEY)
    found = credential_of(host, {}, str(file.path))
    assert (found.source, found.name, found.key) == ("auth file", str(file.path), KEY)
    assert KEY not in repr(found)


def test_stored_key_only_for_its_host(file: AuthFile) -> None:
    file.add("openai", KEY)
    config = Config(
        hosts={"copy": HostConfig(like="openai", base_url="https://other.example/v1")}, auth_file=str(file.path)
    )
    assert set(usable_hosts({}, config)) >= {"openai"}
    assert "copy" not in usable_hosts({}, config)


def test_usable_hosts_in_order_with_sources(file: AuthFile) -> None:
    file.add("mistral", KEY)
    found = usable_hosts({"XAI_API_KEY": "k"}, Config(auth_file=str(file.path)))
    with_keys = {name: one.source for name, one in found.items() if one.source != "none"}
    assert with_keys == {"xai": "variable", "xai-chat": "variable", "mistral": "auth file"}
    assert list(with_keys) == [name for name in BY_NAME if name in with_keys]
    assert unusable_reason(OPENAI, {}, Config(auth_file=str(file.path)))


def test_no_credential(file: AuthFile) -> None:
    with pytest.raises(MissingKey, match="OPENAI_API_KEY"):
        credential_of(OPENAI, {}, str(file.path))
    assert auth_of(BY_NAME["ollama"], {}, str(file.path)) == NoAuth()


def test_file_that_others_can_read_is_refused(file: AuthFile) -> None:
    file.add("openai", KEY)
    assert file.path.stat().st_mode & 0o777 == 0o600
    file.path.chmod(0o640)
    with pytest.raises(ConfigError, match=r"0640.*\nNext: chmod 600 ") as caught:
        auth_of(OPENAI, {}, str(file.path))
    assert KEY not in str(caught.value)


def test_invalid_entry_is_not_quoted(file: AuthFile) -> None:
    file.add("openai", KEY)
    document = json.loads(file.path.read_text())
    document["keys"][0]["host"] = 3
    file.path.write_text(json.dumps(document))
    with pytest.raises(ConfigError, match="invalid") as caught:
        file.keys()
    assert KEY not in str(caught.value)


def test_remove(file: AuthFile) -> None:
    file.add("openai", KEY)
    file.add("openai", f"{KEY}-new")
    file.add("xai", KEY)
    file.remove("openai")
    assert list(file.keys()) == ["xai"]
    with pytest.raises(ConfigError, match="no key of openai"):
        file.remove("openai")


def test_stored_keys_are_hidden_in_output_and_copies(file: AuthFile) -> None:
    secret = "sk-shown-777777777777"
    file.add("openai", secret)
    file.keys()
    shown: list[bytes] = []
    mask = Mask(shown.append, secrets_in({}))
    mask.feed(f"key: {secret}\n".encode())
    mask.finish()
    assert b"".join(shown) == b"key: [the key of openai]\n"
    assert SecretVariables().without({"COPY": f"x{secret}", "HOME": "/h"}) == {"HOME": "/h"}
