"""What the JavaScript client needs of the protocol's classes while it runs, as a module."""

from __future__ import annotations

import attrs

from engine.control.protocol.error_kinds import RETRIED_CODES
from engine.control.protocol.handshake import HIGHEST, LOWEST
from engine.control.protocol.method_table import METHODS, Method
from engine.core.events import DURABLE_TYPES, LIVE_TYPES
from engine.core.schema import Json
from engine.journal.codec import encode_state
from engine.journal.json_converter import TAGS
from engine.journal.json_text import to_json_text
from engine.journal.state import SessionState

_TEXT = """\
// @ts-check
// Written by `make surface` from the classes of engine/control/protocol: change those.

/** @import * as P from "./engine-control.d.ts" */

/** The versions of the protocol that this client speaks. */
export const PROTOCOL = {protocol};

/**
 * Of each method, who may use it (null: everybody), and whether its requests need a key.
 * @type {{{{ [M in keyof P.Methods]: {{ role: P.Role | null, key: boolean }} }}}}
 */
export const METHODS = {{
{methods}}};

/** Types of events that are in the record. @type {{ReadonlySet<string>}} */
export const DURABLE_EVENTS = new Set({durable});

/** Types of events that are for watchers only. @type {{ReadonlySet<string>}} */
export const LIVE_EVENTS = new Set({live});

/** After these a client comes back; after all others it stops, and says why. @type {{readonly number[]}} */
export const RETRIED_CLOSE_CODES = {retried};

/** What a session is before its first event. @type {{P.SessionState}} */
export const EMPTY_STATE = {state};
"""


def constants() -> str:
    """Return the text of the module."""
    return _TEXT.format(
        protocol=to_json_text({"min": LOWEST, "max": HIGHEST}),
        methods="".join(map(_method_line, METHODS.values())),
        durable=_tags(DURABLE_TYPES),
        live=_tags(LIVE_TYPES),
        retried=to_json_text(sorted(RETRIED_CODES)),
        state=encode_state(SessionState()),
    )


def _method_line(method: Method) -> str:
    needs_key = any(field.name == "key" and field.default is attrs.NOTHING for field in attrs.fields(method.params))
    row: dict[str, Json] = {"role": method.role, "key": needs_key}
    return f"  {to_json_text(method.name)}: {to_json_text(row)},\n"


def _tags(kinds: tuple[type, ...]) -> str:
    return to_json_text([TAGS[kind] for kind in kinds])
