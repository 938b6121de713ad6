"""Clouds that serve other makers' models, each with its own authentication."""

from __future__ import annotations

import attrs

from engine.providers.hosts.first_party import DOCUMENTS, GEMINI, OPENAI, OPENAI_CHAT
from engine.providers.hosts.host import Host
from engine.providers.wire.quirks import Quirks

_AZURE = attrs.evolve(
    OPENAI,
    name="azure",
    title="Azure OpenAI",
    base_url="https://{AZURE_OPENAI_RESOURCE|AZURE_RESOURCE_NAME}.openai.azure.com/openai/v1",
    base_variables=("AZURE_OPENAI_ENDPOINT",),
    key_variables=("AZURE_OPENAI_API_KEY", "AZURE_API_KEY"),
    token_variables=("AZURE_OPENAI_AD_TOKEN",),
    auth="api-key",
    example="my-deployment",
    note="a model's name is that of your deployment",
)
# OpenAI's own models have another path than the open ones.
_MANTLE = Host(
    name="bedrock-mantle",
    title="AWS Bedrock (OpenAI models)",
    wire="openai_responses",
    base_url="https://bedrock-mantle.{AWS_REGION|AWS_DEFAULT_REGION}.api.aws/openai/v1",
    key_variables=("AWS_BEARER_TOKEN_BEDROCK",),
    auth="aws",
    example="openai.gpt-5.4",
    prices="aws",
    quirks=attrs.evolve(OPENAI.quirks, cache_key_field=""),
)
_LOCATION = "{GOOGLE_CLOUD_LOCATION|GOOGLE_VERTEX_LOCATION|VERTEX_LOCATION|CLOUD_ML_REGION}"
_PROJECT = (
    "/projects/{GOOGLE_CLOUD_PROJECT|GOOGLE_VERTEX_PROJECT|VERTEX_PROJECT|ANTHROPIC_VERTEX_PROJECT_ID}"
    f"/locations/{_LOCATION}"
)
_VERTEX = Host(
    name="vertex",
    title="Google Vertex AI",
    wire="gemini",
    base_url=f"https://{_LOCATION}-aiplatform.googleapis.com",
    regional_urls={
        "global": "https://aiplatform.googleapis.com",
        "us": "https://aiplatform.us.rep.googleapis.com",
        "eu": "https://aiplatform.eu.rep.googleapis.com",
    },
    base_variables=("GOOGLE_VERTEX_BASE_URL",),
    auth="google",
    example="gemini-3.8-flash",
    path=f"/v1beta1{_PROJECT}/publishers/google/models/{{model}}:streamGenerateContent?alt=sse",
    prices="google",
    quirks=GEMINI,
    note="needs the extra vertex, and `gcloud auth application-default login` or a service account",
)

CLOUDS: tuple[Host, ...] = (
    _AZURE,
    attrs.evolve(
        OPENAI_CHAT,
        name="azure-chat",
        title="Azure OpenAI (Chat Completions)",
        base_url=_AZURE.base_url,
        base_variables=_AZURE.base_variables,
        key_variables=_AZURE.key_variables,
        token_variables=_AZURE.token_variables,
        auth="api-key",
        example=_AZURE.example,
        prices="azure",
        note=_AZURE.note,
        quirks=attrs.evolve(OPENAI_CHAT.quirks, user_media=frozenset({"image"})),
    ),
    _VERTEX,
    attrs.evolve(
        _VERTEX,
        name="vertex-express",
        title="Google Vertex AI (express mode)",
        base_url="https://aiplatform.googleapis.com",
        regional_urls={},
        key_variables=("GOOGLE_VERTEX_API_KEY", "GOOGLE_API_KEY"),
        auth="x-goog-api-key",
        path="/v1beta1/publishers/google/models/{model}:streamGenerateContent?alt=sse",
        note="with an API key instead of a project",
    ),
    attrs.evolve(
        _VERTEX,
        name="vertex-anthropic",
        title="Google Vertex AI (Claude)",
        wire="vertex_anthropic",
        example="claude-sonnet-4-5@20250929",
        path=f"/v1{_PROJECT}/publishers/anthropic/models/{{model}}:streamRawPredict",
        quirks=Quirks(
            user_media=DOCUMENTS,
            result_media=DOCUMENTS,
            # By default, a project's policy does not allow answer schemas.
            output="tool",
            marks="anthropic",
            defers_tools=True,
            long_cache=True,
            space_between_reasoning=True,
        ),
    ),
    Host(
        name="bedrock",
        title="AWS Bedrock",
        wire="bedrock",
        base_url="https://bedrock-runtime.{AWS_REGION|AWS_DEFAULT_REGION}.amazonaws.com",
        base_variables=("AWS_ENDPOINT_URL_BEDROCK_RUNTIME",),
        key_variables=("AWS_BEARER_TOKEN_BEDROCK",),
        auth="aws",
        example="us.anthropic.claude-sonnet-4-5-20250929-v1:0",
        prices="aws",
        quirks=Quirks(
            # The rest depends on the model's family. Claude on other hosts wants a text of one space between thoughts;
            # here that is rejected since 2026.
            user_media=DOCUMENTS,
            output="tool",
            forced_tools=False,
            assistant_after_results=True,
        ),
    ),
    _MANTLE,
    attrs.evolve(
        _MANTLE,
        name="bedrock-mantle-oss",
        title="AWS Bedrock (open OpenAI models)",
        base_url="https://bedrock-mantle.{AWS_REGION|AWS_DEFAULT_REGION}.api.aws/v1",
        example="openai.gpt-oss-120b",
    ),
)
