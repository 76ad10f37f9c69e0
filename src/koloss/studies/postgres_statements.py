"""The tables of a store on PostgreSQL, and what is said to it more than once."""

from __future__ import annotations

from typing import LiteralString

SCHEMA: tuple[LiteralString, ...] = (
    """CREATE TABLE koloss_studies (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        name text COLLATE "C" NOT NULL UNIQUE,
        last bigint NOT NULL)""",
    """CREATE TABLE koloss_events (
        study bigint NOT NULL REFERENCES koloss_studies,
        seq bigint NOT NULL CHECK (seq > 0),
        kind text NOT NULL,
        micros bigint NOT NULL,
        decision bigint,
        request text COLLATE "C",
        data text NOT NULL,
        PRIMARY KEY (study, seq))""",
    "CREATE INDEX koloss_events_request ON koloss_events (study, request) WHERE request IS NOT NULL",
    "CREATE INDEX koloss_events_decision ON koloss_events (study, decision) WHERE decision IS NOT NULL",
    """CREATE TABLE koloss_snapshots (
        study bigint NOT NULL REFERENCES koloss_studies,
        seq bigint NOT NULL,
        content bytea NOT NULL,
        PRIMARY KEY (study, seq))""",
    """CREATE TABLE koloss_subjects (
        study bigint NOT NULL REFERENCES koloss_studies,
        subject text COLLATE "C" NOT NULL,
        decision bigint NOT NULL,
        PRIMARY KEY (study, subject))""",
    "CREATE INDEX koloss_subjects_decision ON koloss_subjects (study, decision)",
)

SCHEMA_LOCK = 0x6B6F6C6F7373
"""Key of the advisory lock under which the tables are made."""

BEGIN: LiteralString = """BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
    SET LOCAL tcp_keepalives_idle = 30; SET LOCAL tcp_keepalives_interval = 10; SET LOCAL tcp_keepalives_count = 3;"""
"""A machine that vanishes in the middle of a transaction holds its lock for a minute, not for two hours."""

EVENTS: LiteralString = (
    "SELECT seq, kind, micros, decision, request, data FROM koloss_events WHERE study = %s "
)
PAGE: LiteralString = "AND seq > %s ORDER BY seq LIMIT %s"
OF_REQUEST: LiteralString = "AND request = %s ORDER BY seq"
OF_DECISION: LiteralString = "AND decision = %s ORDER BY seq"

APPEND: LiteralString = """WITH added AS (
        INSERT INTO koloss_events (study, seq, kind, micros, decision, request, data)
        SELECT %s, * FROM unnest(%s::bigint[], %s::text[], %s::bigint[], %s::bigint[], %s::text[], %s::text[]))
    UPDATE koloss_studies SET last = %s WHERE id = %s AND last = %s"""

SIZES: LiteralString = """SELECT sum(pg_total_relation_size(name)) FROM unnest(
    ARRAY['koloss_studies', 'koloss_events', 'koloss_snapshots', 'koloss_subjects']) AS name"""

SNAPSHOTS: LiteralString = (
    "SELECT seq, content FROM koloss_snapshots WHERE study = %s ORDER BY seq DESC"
)

COPIES: tuple[tuple[LiteralString, str], ...] = (
    ("SELECT id, name, last FROM koloss_studies", "insert into koloss_studies values (?, ?, ?)"),
    (
        "SELECT study, seq, kind, micros, decision, request, data FROM koloss_events ORDER BY study, seq",
        "insert into koloss_events values (?, ?, ?, ?, ?, ?, ?)",
    ),
    (
        "SELECT study, seq, content FROM koloss_snapshots",
        "insert into koloss_snapshots values (?, ?, ?)",
    ),
    (
        "SELECT study, subject, decision FROM koloss_subjects",
        "insert into koloss_subjects values (?, ?, ?)",
    ),
)
"""How each table is read here, and written to a file of SQLite's."""
