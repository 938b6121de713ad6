"""The names of OpenTelemetry's conventions for generative AI, and of our own, in one place.

All of theirs have the status "Development": they are renamed from version to version. By default a span has the names of
`FROZEN`, which only a new major version of this package changes. `OTEL_SEMCONV_STABILITY_OPT_IN`, with
`gen_ai_latest_experimental` among its words, selects `LATEST`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

OPT_IN: Final = "OTEL_SEMCONV_STABILITY_OPT_IN"
LATEST_WORD: Final = "gen_ai_latest_experimental"

# -- attributes that both conventions have -------------------------------------------------------

OPERATION: Final = "gen_ai.operation.name"
PROVIDER: Final = "gen_ai.provider.name"
CONVERSATION: Final = "gen_ai.conversation.id"
AGENT_NAME: Final = "gen_ai.agent.name"
AGENT_ID: Final = "gen_ai.agent.id"
REQUEST_MODEL: Final = "gen_ai.request.model"
MAX_TOKENS: Final = "gen_ai.request.max_tokens"
RESPONSE_ID: Final = "gen_ai.response.id"
RESPONSE_MODEL: Final = "gen_ai.response.model"
FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
FIRST_CHUNK: Final = "gen_ai.response.time_to_first_chunk"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
CACHE_READ: Final = "gen_ai.usage.cache_read.input_tokens"
REASONING_TOKENS: Final = "gen_ai.usage.reasoning.output_tokens"
TOKEN_TYPE: Final = "gen_ai.token.type"  # noqa: S105  # no password
TOOL_NAME: Final = "gen_ai.tool.name"
TOOL_CALL: Final = "gen_ai.tool.call.id"
TOOL_TYPE: Final = "gen_ai.tool.type"
ERROR_TYPE: Final = "error.type"
SESSION: Final = "session.id"
USER: Final = "user.id"

# Content: prompts, answers, arguments, results.
INPUT_MESSAGES: Final = "gen_ai.input.messages"
OUTPUT_MESSAGES: Final = "gen_ai.output.messages"
SYSTEM: Final = "gen_ai.system_instructions"
ARGUMENTS: Final = "gen_ai.tool.call.arguments"
RESULT: Final = "gen_ai.tool.call.result"

# -- ours ------------------------------------------------------------------------------------------

TURN: Final = "engine.turn_id"
PATH: Final = "engine.path"
COST: Final = "engine.cost"
STEPS: Final = "engine.steps"
STOP_REASON: Final = "engine.stop_reason"
ENDING: Final = "engine.ending"
RECOVERED: Final = "engine.recovered"
WAITED: Final = "engine.waited"
WAIT_KIND: Final = "engine.wait.kind"
ANSWER: Final = "engine.answer"
TRIGGER: Final = "engine.compaction.trigger"
TOOL_FAILED: Final = "engine.tool.failed"

INVOKE_AGENT: Final = "invoke_agent"
CHAT: Final = "chat"
EXECUTE_TOOL: Final = "execute_tool"
PERMISSION_WAIT: Final = "engine.permission_wait"
QUESTION_WAIT: Final = "engine.question_wait"
RECOVERY_WAIT: Final = "engine.recovery_wait"
COMPACTION: Final = "engine.compaction"
FLUSH: Final = "engine.store.flush"
RETRY: Final = "engine.retry"
RETRY_ATTEMPT: Final = "engine.retry.attempt"
RETRY_DELAY: Final = "engine.retry.delay"
FALLBACK: Final = "engine.model_fallback"

WAIT_SECONDS: Final = "engine.wait.duration"
CANCEL_SECONDS: Final = "engine.cancel.duration"
RETRIES: Final = "engine.retries"
CACHE_SHARE: Final = "engine.cache.share"
OPEN_SESSIONS: Final = "engine.sessions.open"
RECOVERIES: Final = "engine.recoveries"
FLUSH_SECONDS: Final = "engine.store.flush.duration"
TOOL_SECONDS: Final = "gen_ai.execute_tool.duration"


@attrs.frozen(kw_only=True)
class Convention:
    """A version of the conventions: the names that differ. An empty one does not exist in it.

    Attributes:
        version: of OpenTelemetry's semantic conventions.
        cache_write: prompt tokens written to a cache.
        reasoning_level: the effort that a request asks for.
        compacted: whether the conversation was summarised.
        chat_seconds: the metric of how long requests take.
        first_chunk_seconds: the metric of how long the first chunk takes.
        token_usage: the metric of tokens.
    """

    version: str
    cache_write: str
    reasoning_level: str
    compacted: str
    chat_seconds: str
    first_chunk_seconds: str
    token_usage: str = "gen_ai.client.token.usage"  # noqa: S105  # no password

    @property
    def schema_url(self) -> str:
        """The address that names the version in exported data."""
        return f"https://opentelemetry.io/schemas/{self.version}"


FROZEN: Final = Convention(
    version="1.44.0",
    cache_write="gen_ai.usage.cache_creation.input_tokens",
    reasoning_level="",
    compacted="",
    chat_seconds="gen_ai.client.operation.duration",
    first_chunk_seconds="gen_ai.client.operation.time_to_first_chunk",
)
# As of August 2026, in the conventions' own repository.
LATEST: Final = Convention(
    version="1.44.0",
    cache_write="gen_ai.usage.cache_write.input_tokens",
    reasoning_level="gen_ai.request.reasoning.level",
    compacted="gen_ai.conversation.compacted",
    chat_seconds="gen_ai.client.inference.duration",
    first_chunk_seconds="gen_ai.client.inference.time_to_first_chunk",
)


def convention(environ: Mapping[str, str]) -> Convention:
    """Return the convention that the environment selects."""
    words = {word.strip() for word in environ.get(OPT_IN, "").split(",")}
    return LATEST if LATEST_WORD in words else FROZEN
