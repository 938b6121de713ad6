"""The tables, and the number of their version. A change here is a step in `migrate.py` and a file for its tests.

events      the journal: JSON text as the codec writes it. Everything else can be rebuilt from it.
sessions    one row each, for lists
texts, words   searchable texts and titles, with their roles, and the full-text index
spent       tokens and money, by quarter of an hour, tree of sessions and model
leases      which engine has which session open
states      the fold of long sessions at some event, a cache

`sessions`, `texts`, `words` and `spent` are projections: migrating a file rebuilds them from
its events.
"""

from __future__ import annotations

import sqlite3
from typing import Final

# "ngin" in ASCII. SQLite stores it in the file's header, where `file(1)` and this engine recognise it.
APPLICATION_ID: Final = 0x6E67696E
VERSION: Final = 2

# The tables that can be rebuilt from the events.
PROJECTED: Final = ("sessions", "texts", "words", "spent")
PROJECTIONS: Final = """
CREATE TABLE sessions (
    id TEXT PRIMARY KEY NOT NULL,
    parent_id TEXT,
    root_id TEXT NOT NULL,
    title TEXT NOT NULL DEFAULT '',
    cwd TEXT NOT NULL DEFAULT '',
    model TEXT NOT NULL DEFAULT '',
    created REAL NOT NULL,
    updated REAL NOT NULL,
    seq INTEGER NOT NULL,
    messages INTEGER NOT NULL DEFAULT 0,
    turns INTEGER NOT NULL DEFAULT 0,
    is_busy INTEGER NOT NULL DEFAULT 0,
    asked INTEGER NOT NULL DEFAULT 0,
    stop_reason TEXT,
    input INTEGER NOT NULL DEFAULT 0,
    output INTEGER NOT NULL DEFAULT 0,
    cache_read INTEGER NOT NULL DEFAULT 0,
    cache_write INTEGER NOT NULL DEFAULT 0,
    reasoning INTEGER NOT NULL DEFAULT 0,
    cost REAL NOT NULL DEFAULT 0,
    given_title TEXT NOT NULL DEFAULT '',
    titled_by TEXT NOT NULL DEFAULT '',
    forked_from TEXT,
    agent TEXT NOT NULL DEFAULT '',
    step_model TEXT NOT NULL DEFAULT ''
);
CREATE INDEX sessions_listed ON sessions (parent_id, updated, id);
CREATE INDEX sessions_of_folder ON sessions (cwd, parent_id, updated, id);
CREATE INDEX sessions_of_tree ON sessions (root_id);
CREATE TABLE texts (
    id INTEGER PRIMARY KEY,
    session_id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    message_id TEXT NOT NULL,
    part_id TEXT NOT NULL,
    role TEXT NOT NULL,
    time REAL NOT NULL
);
CREATE INDEX texts_of_message ON texts (session_id, message_id);
CREATE VIRTUAL TABLE words USING fts5 (text, tokenize = 'unicode61 remove_diacritics 2');
CREATE TABLE spent (
    slot INTEGER NOT NULL,
    root_id TEXT NOT NULL,
    model TEXT NOT NULL,
    steps INTEGER NOT NULL,
    input INTEGER NOT NULL,
    output INTEGER NOT NULL,
    cache_read INTEGER NOT NULL,
    cache_write INTEGER NOT NULL,
    reasoning INTEGER NOT NULL,
    cost REAL NOT NULL,
    PRIMARY KEY (slot, root_id, model)
) WITHOUT ROWID;
CREATE INDEX spent_by_tree ON spent (root_id);
"""

TABLES: Final = f"""
CREATE TABLE events (
    session_id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    type TEXT NOT NULL,
    version INTEGER NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (session_id, seq)
);
{PROJECTIONS}CREATE TABLE leases (
    session_id TEXT PRIMARY KEY NOT NULL,
    owner TEXT NOT NULL,
    machine TEXT NOT NULL,
    host TEXT NOT NULL,
    pid INTEGER NOT NULL,
    started INTEGER NOT NULL,
    expires REAL NOT NULL
);
CREATE TABLE states (
    session_id TEXT PRIMARY KEY NOT NULL,
    seq INTEGER NOT NULL,
    made_by TEXT NOT NULL,
    body TEXT NOT NULL
);
CREATE TABLE notes (name TEXT PRIMARY KEY NOT NULL, value REAL NOT NULL);
"""

# Not part of `VERSION`: the table is created with the first draft, and a file without it is complete. So older engines
# can open a file that has it.
DRAFTS: Final = """
CREATE TABLE IF NOT EXISTS drafts (
    session_id TEXT NOT NULL,
    part_id TEXT NOT NULL,
    offset INTEGER NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (session_id, part_id, offset)
)
"""


def has_drafts(connection: sqlite3.Connection) -> bool:
    """Return whether the file already has the table of drafts."""
    count: tuple[int] = connection.execute(
        "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'drafts'"
    ).fetchone()
    return bool(count[0])
