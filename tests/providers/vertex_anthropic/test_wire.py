"""The address of Claude on Vertex, from project and location under their several names."""

from __future__ import annotations

import pytest

from engine.core.errors import ConfigError
from engine.providers.auth.auth import KeyAuth
from engine.providers.auth.google import KEY_FILE, GoogleAuth
from engine.providers.auth.key_variables import auth_of
from engine.providers.hosts.base_url import base_url_of, path_of
from engine.providers.hosts.host_table import BY_NAME
from engine.providers.registry import unusable_reason

pytest.importorskip("google.auth", reason="the extra vertex is not installed")

VERTEX, CLAUDE, EXPRESS = BY_NAME["vertex"], BY_NAME["vertex-anthropic"], BY_NAME["vertex-express"]
PROJECT = {"GOOGLE_CLOUD_PROJECT": "example.com:my-project"}


@pytest.mark.parametrize(
    ("location", "url"),
    [
        ("us-central1", "https://us-central1-aiplatform.googleapis.com"),
        ("global", "https://aiplatform.googleapis.com"),
        ("us", "https://aiplatform.us.rep.googleapis.com"),
        ("eu", "https://aiplatform.eu.rep.googleapis.com"),
    ],
)
@pytest.mark.parametrize("variable", ["GOOGLE_CLOUD_LOCATION", "VERTEX_LOCATION", "CLOUD_ML_REGION"])
def test_location_is_in_host_and_path(variable: str, location: str, url: str) -> None:
    env = PROJECT | {variable: f" {location} "}
    place = f"projects/example.com:my-project/locations/{location}"
    assert (base_url_of(VERTEX, env), base_url_of(CLAUDE, env)) == (url, url)
    assert path_of(VERTEX, env) == (
        f"/v1beta1/{place}/publishers/google/models/{{model}}:streamGenerateContent?alt=sse"
    )
    assert path_of(CLAUDE, env) == f"/v1/{place}/publishers/anthropic/models/{{model}}:streamRawPredict"
    assert unusable_reason(VERTEX, env) == ""


def test_another_address_keeps_project_and_location() -> None:
    env = PROJECT | {"GOOGLE_VERTEX_BASE_URL": "https://proxy.example/vertex/", "GOOGLE_CLOUD_LOCATION": "global"}
    assert base_url_of(VERTEX, env) == "https://proxy.example/vertex"
    assert "/locations/global/" in path_of(VERTEX, env)


@pytest.mark.parametrize(
    ("env", "missing"),
    [({}, "GOOGLE_CLOUD_LOCATION"), ({"GOOGLE_CLOUD_LOCATION": "global"}, "GOOGLE_CLOUD_PROJECT")],
)
def test_missing_settings_are_named(env: dict[str, str], missing: str) -> None:
    assert missing in unusable_reason(VERTEX, env)


@pytest.mark.parametrize(
    "env",
    [
        {"GOOGLE_CLOUD_LOCATION": "evil.example/x?"} | PROJECT,
        {"GOOGLE_CLOUD_LOCATION": "global", "GOOGLE_CLOUD_PROJECT": "../../x"},
        {"GOOGLE_CLOUD_LOCATION": "global", "GOOGLE_CLOUD_PROJECT": "a/b"},
    ],
)
def test_redirecting_values_are_refused(env: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="holds characters that an address cannot contain"):
        _ = base_url_of(VERTEX, env), path_of(VERTEX, env)


def test_auth_of_each_service() -> None:
    google = auth_of(VERTEX, {KEY_FILE: "/keys/account.json"})
    assert isinstance(google, GoogleAuth)
    assert google.key_file == "/keys/account.json"
    assert auth_of(EXPRESS, {"GOOGLE_API_KEY": "k"}) == KeyAuth("x-goog-api-key", "k")
    assert path_of(EXPRESS, {}) == "/v1beta1/publishers/google/models/{model}:streamGenerateContent?alt=sse"
