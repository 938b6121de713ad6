"""The column `tenant` of all tables, which version 2 adds to those of version 1."""

from __future__ import annotations

from typing import Final

# The columns get a default for the rows that there are, and lose it: a statement that names no tenant must fail.
TENANTS: Final = """
ALTER TABLE writers ADD COLUMN tenant text COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE events ADD COLUMN tenant text COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE sessions ADD COLUMN tenant text COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE texts ADD COLUMN tenant text COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE spent ADD COLUMN tenant text COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE leases ADD COLUMN tenant text COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE states ADD COLUMN tenant text COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE drafts ADD COLUMN tenant text COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE watchers ADD COLUMN tenant text COLLATE "C" NOT NULL;
ALTER TABLE removals ADD COLUMN tenant text COLLATE "C" NOT NULL;
ALTER TABLE writers ALTER COLUMN tenant DROP DEFAULT;
ALTER TABLE events ALTER COLUMN tenant DROP DEFAULT,
    DROP CONSTRAINT events_pkey, ADD PRIMARY KEY (tenant, session_id, seq);
ALTER TABLE sessions ALTER COLUMN tenant DROP DEFAULT,
    DROP CONSTRAINT sessions_pkey, ADD PRIMARY KEY (tenant, id);
ALTER TABLE texts ALTER COLUMN tenant DROP DEFAULT;
ALTER TABLE spent ALTER COLUMN tenant DROP DEFAULT,
    DROP CONSTRAINT spent_pkey, ADD PRIMARY KEY (tenant, slot, root_id, model);
ALTER TABLE leases ALTER COLUMN tenant DROP DEFAULT,
    DROP CONSTRAINT leases_pkey, ADD PRIMARY KEY (tenant, session_id);
ALTER TABLE states ALTER COLUMN tenant DROP DEFAULT,
    DROP CONSTRAINT states_pkey, ADD PRIMARY KEY (tenant, session_id);
ALTER TABLE drafts ALTER COLUMN tenant DROP DEFAULT,
    DROP CONSTRAINT drafts_pkey, ADD PRIMARY KEY (tenant, session_id, part_id, at);
ALTER TABLE watchers DROP CONSTRAINT watchers_pkey, ADD PRIMARY KEY (tenant, session_id, owner);
ALTER TABLE removals DROP CONSTRAINT removals_pkey, ADD PRIMARY KEY (tenant, session_id);
DROP INDEX sessions_listed, sessions_of_folder, sessions_of_tree, sessions_of_parent;
CREATE INDEX sessions_listed ON sessions (tenant, parent_id, updated, id);
CREATE INDEX sessions_of_folder ON sessions (tenant, cwd, parent_id, updated, id);
CREATE INDEX sessions_of_tree ON sessions (tenant, root_id);
CREATE INDEX sessions_of_parent ON sessions (tenant, parent_id);
DROP INDEX texts_of_message, spent_by_tree, leases_of_owner, watchers_of_owner;
CREATE INDEX texts_of_message ON texts (tenant, session_id, message_id);
CREATE INDEX spent_by_tree ON spent (tenant, root_id);
CREATE INDEX leases_of_owner ON leases (tenant, owner);
CREATE INDEX watchers_of_owner ON watchers (tenant, owner);
"""
