-- Tables of a store in PostgreSQL; that of its format is made before them.
CREATE TABLE koloss_studies (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text COLLATE "C" NOT NULL UNIQUE,
    last bigint NOT NULL);
CREATE TABLE koloss_events (
    study bigint NOT NULL REFERENCES koloss_studies,
    seq bigint NOT NULL CHECK (seq > 0),
    kind text NOT NULL,
    micros bigint NOT NULL,
    decision bigint,
    request text COLLATE "C",
    data text NOT NULL,
    PRIMARY KEY (study, seq));
CREATE INDEX koloss_events_request ON koloss_events (study, request) WHERE request IS NOT NULL;
CREATE INDEX koloss_events_decision ON koloss_events (study, decision) WHERE decision IS NOT NULL;
CREATE TABLE koloss_snapshots (
    study bigint NOT NULL REFERENCES koloss_studies,
    seq bigint NOT NULL,
    content bytea NOT NULL,
    PRIMARY KEY (study, seq));
CREATE TABLE koloss_subjects (
    study bigint NOT NULL REFERENCES koloss_studies,
    subject text COLLATE "C" NOT NULL,
    decision bigint NOT NULL,
    PRIMARY KEY (study, subject));
CREATE INDEX koloss_subjects_decision ON koloss_subjects (study, decision);
