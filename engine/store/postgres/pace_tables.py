"""The tables of shared paces, and the function that does an exchange in one statement.

paces         for each model at each host and each account, what is known of its limits
pace_blocks   the permits that each engine has leased, until when by the server's clock

The function does the same as `engine.pace.shared_limits`, with the constants of `engine.pace.adaptive_limit`; a test
compares the two. It is here so that an exchange is one statement: with several, each engine would hold the row's lock for
the time of a round trip.
"""

from __future__ import annotations

from typing import Final

PACE_TABLES: Final = """
CREATE TABLE paces (
    host text COLLATE "C" NOT NULL,
    model text COLLATE "C" NOT NULL,
    key_hash text COLLATE "C" NOT NULL,
    in_flight_limit double precision NOT NULL DEFAULT 20,
    clean bigint NOT NULL DEFAULT 0,
    cut_at timestamptz NOT NULL DEFAULT '-infinity',
    ceiling double precision NOT NULL DEFAULT 'infinity',
    cooldown_until timestamptz NOT NULL DEFAULT '-infinity',
    requests_minute bigint,
    tokens_minute bigint,
    updated timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (host, model, key_hash)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0);
CREATE TABLE pace_blocks (
    host text COLLATE "C" NOT NULL,
    model text COLLATE "C" NOT NULL,
    key_hash text COLLATE "C" NOT NULL,
    owner text COLLATE "C" NOT NULL,
    permits bigint NOT NULL,
    need bigint NOT NULL,
    requests_minute bigint,
    tokens_minute bigint,
    expires timestamptz NOT NULL,
    PRIMARY KEY (host, model, key_hash, owner)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0);
CREATE FUNCTION exchange_permits(me text, reports jsonb, moment timestamptz) RETURNS jsonb LANGUAGE plpgsql AS $function$
DECLARE
    report record;
    pace paces;
    others bigint;
    hungry bigint;
    most bigint;
    share bigint;
    is_starving boolean;
    granted bigint;
    counted bigint;
    grown double precision;
    pause double precision;
    grants jsonb := '[]';
BEGIN
    FOR report IN
        SELECT * FROM jsonb_to_recordset(reports) AS r (
            host text, model text, key_hash text, held bigint, need bigint, answered bigint, is_rate_limited boolean,
            wait double precision, reserve double precision, requests_minute bigint, tokens_minute bigint
        )
        -- The same order for all engines, so that they can't wait for each other in a circle.
        ORDER BY r.host COLLATE "C", r.model COLLATE "C", r.key_hash COLLATE "C"
    LOOP
        INSERT INTO paces (host, model, key_hash) VALUES (report.host, report.model, report.key_hash)
            ON CONFLICT DO NOTHING;
        -- With this lock, all blocks that were committed before are visible, and no other engine changes one in the same time.
        SELECT * INTO pace FROM paces p
            WHERE p.host = report.host AND p.model = report.model AND p.key_hash = report.key_hash FOR UPDATE;
        DELETE FROM pace_blocks b
            WHERE b.host = report.host AND b.model = report.model AND b.key_hash = report.key_hash
                AND (b.expires <= moment OR b.owner = me AND report.held = 0 AND report.need = 0);
        -- A limit holds as long as an engine that has set it: who sets none later has none.
        SELECT coalesce(sum(b.permits), 0), count(*) FILTER (WHERE b.need > 0),
            least(min(b.requests_minute), report.requests_minute), least(min(b.tokens_minute), report.tokens_minute)
            INTO others, hungry, pace.requests_minute, pace.tokens_minute FROM pace_blocks b
            WHERE b.host = report.host AND b.model = report.model AND b.key_hash = report.key_hash
                AND b.owner <> me;

        pause := report.wait;
        IF report.is_rate_limited THEN
            pace.clean := 0;
            IF pace.cut_at + interval '15 s' <= moment THEN
                pace.cut_at := moment;
                pace.ceiling := greatest(10, others + report.held);
                pace.in_flight_limit := greatest(10, pace.in_flight_limit * 0.8::double precision);
                IF pause <= 0 THEN
                    pause := 2;
                END IF;
            END IF;
        ELSIF report.answered > 0 THEN
            pace.clean := pace.clean + report.answered;
            IF pace.clean >= pace.in_flight_limit THEN
                pace.clean := 0;
                grown := pace.in_flight_limit * 1.05::double precision;
                IF report.reserve > 0 AND moment < pace.cut_at + interval '300 s' THEN
                    grown := least(grown, greatest(pace.in_flight_limit, pace.ceiling));
                END IF;
                pace.in_flight_limit := grown;
            END IF;
        END IF;
        IF pause > 0 THEN
            pace.cooldown_until := greatest(pace.cooldown_until, moment + pause * interval '1 s');
        END IF;

        most := greatest(1, floor(pace.in_flight_limit * (1 - report.reserve) + 1e-9));
        share := greatest(1, most / (1 + hungry));
        SELECT count(*) > 0 INTO is_starving FROM pace_blocks b
            WHERE b.host = report.host AND b.model = report.model AND b.key_hash = report.key_hash
                AND b.owner <> me AND b.need > b.permits AND b.permits < share;
        granted := CASE WHEN is_starving THEN least(report.need, share) ELSE report.need END;
        granted := greatest(0, least(granted, most - others));
        counted := greatest(report.held, granted);
        IF counted > 0 OR report.need > 0 THEN
            INSERT INTO pace_blocks (
                host, model, key_hash, owner, permits, need, requests_minute, tokens_minute, expires
            )
                VALUES (
                    report.host, report.model, report.key_hash, me, counted, report.need, report.requests_minute,
                    report.tokens_minute, moment + interval '10 s'
                )
                ON CONFLICT (host, model, key_hash, owner) DO UPDATE
                    SET permits = excluded.permits, need = excluded.need, expires = excluded.expires,
                        requests_minute = excluded.requests_minute, tokens_minute = excluded.tokens_minute;
        END IF;
        UPDATE paces p SET
            in_flight_limit = pace.in_flight_limit,
            clean = pace.clean,
            cut_at = pace.cut_at,
            ceiling = pace.ceiling,
            cooldown_until = pace.cooldown_until,
            requests_minute = pace.requests_minute,
            tokens_minute = pace.tokens_minute,
            updated = moment
            WHERE p.host = report.host AND p.model = report.model AND p.key_hash = report.key_hash;
        grants := grants || jsonb_build_object(
            'host', report.host,
            'model', report.model,
            'key_hash', report.key_hash,
            'permits', granted,
            'in_flight_limit', pace.in_flight_limit,
            'cooldown', CASE WHEN pace.cooldown_until > moment
                THEN extract(epoch FROM pace.cooldown_until - moment) ELSE 0 END,
            'sharers', hungry + 1,
            'requests_minute', pace.requests_minute,
            'tokens_minute', pace.tokens_minute
        );
    END LOOP;
    RETURN grants;
END
$function$;
"""
