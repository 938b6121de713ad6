"""What version 2 adds for fleets: the queue of tasks, and what is known of each engine."""

from __future__ import annotations

from typing import Final

FLEET: Final = """
ALTER TABLE writers ADD COLUMN host text NOT NULL DEFAULT '';
ALTER TABLE writers ADD COLUMN pid bigint NOT NULL DEFAULT 0;
ALTER TABLE writers ADD COLUMN version text NOT NULL DEFAULT '';
ALTER TABLE writers ADD COLUMN opened timestamptz NOT NULL DEFAULT clock_timestamp();
ALTER TABLE writers ADD COLUMN figures text NOT NULL DEFAULT '';
CREATE TABLE tasks (
    tenant text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    number bigint GENERATED ALWAYS AS IDENTITY,
    session_id text COLLATE "C" NOT NULL,
    text text NOT NULL,
    cwd text COLLATE "C",
    model text NOT NULL,
    agent text NOT NULL,
    enqueued timestamptz NOT NULL DEFAULT clock_timestamp(),
    not_before timestamptz NOT NULL DEFAULT clock_timestamp(),
    attempts integer NOT NULL DEFAULT 0,
    ended timestamptz,
    outcome text NOT NULL DEFAULT '',
    detail text NOT NULL DEFAULT '',
    PRIMARY KEY (tenant, key)
) WITH (fillfactor = 70);
CREATE INDEX tasks_waiting ON tasks (tenant, number) WHERE ended IS NULL;
CREATE INDEX tasks_of_session ON tasks (tenant, session_id) WHERE ended IS NULL;
CREATE INDEX tasks_ended ON tasks (tenant, ended, number) WHERE ended IS NOT NULL;
"""
