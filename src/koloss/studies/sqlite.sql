create table koloss_format (version integer not null);
create table koloss_studies (id integer primary key, name text not null unique, last integer not null);
create table koloss_events (
    study integer not null, seq integer not null, kind text not null, micros integer not null,
    decision integer, request text, data text not null, primary key (study, seq)
) without rowid;
create index koloss_events_request on koloss_events (study, request) where request is not null;
create index koloss_events_decision on koloss_events (study, decision) where decision is not null;
create table koloss_snapshots (
    study integer not null, seq integer not null, content blob not null, primary key (study, seq)
);
create table koloss_subjects (
    study integer not null, subject text not null, decision integer not null, primary key (study, subject)
) without rowid;
create index koloss_subjects_decision on koloss_subjects (study, decision);
