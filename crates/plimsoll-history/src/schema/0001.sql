-- SPDX-License-Identifier: Apache-2.0
-- Times are milliseconds since 1970, truths are 0 or 1, so that both databases mean the same.
CREATE TABLE users (
    id {id},
    name TEXT NOT NULL UNIQUE,
    created_ms BIGINT NOT NULL
);

-- Of a token only its SHA-256 digest is kept.
CREATE TABLE tokens (
    id {id},
    user_id BIGINT NOT NULL REFERENCES users (id),
    digest TEXT NOT NULL UNIQUE,
    scopes TEXT NOT NULL,
    note TEXT NOT NULL,
    created_ms BIGINT NOT NULL,
    expires_ms BIGINT,
    revoked_ms BIGINT
);

-- Names, not references: what was done stays told when a user is gone.
CREATE TABLE audit (
    id {id},
    at_ms BIGINT NOT NULL,
    who TEXT NOT NULL,
    token_id BIGINT,
    from_where TEXT NOT NULL,
    action TEXT NOT NULL,
    subject TEXT NOT NULL,
    detail TEXT NOT NULL
);

-- A pushed run: its folder in the store, and what its manifest says.
CREATE TABLE runs (
    id {id},
    owner_id BIGINT NOT NULL REFERENCES users (id),
    digest TEXT NOT NULL,
    folder TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    program TEXT NOT NULL,
    versions TEXT NOT NULL,
    command TEXT NOT NULL,
    revision TEXT NOT NULL,
    reference TEXT NOT NULL,
    began_ms BIGINT NOT NULL,
    pushed_ms BIGINT NOT NULL,
    bytes BIGINT NOT NULL,
    is_complete BIGINT NOT NULL,
    is_shared BIGINT NOT NULL,
    UNIQUE (owner_id, digest)
);
CREATE INDEX runs_began ON runs (began_ms);

-- What is measured: a metric of a system under a workload in a condition.
CREATE TABLE figures (
    id {id},
    system TEXT NOT NULL,
    workload TEXT NOT NULL,
    condition TEXT NOT NULL,
    metric TEXT NOT NULL,
    UNIQUE (system, workload, condition, metric)
);

-- Settings of a workload, each text once.
CREATE TABLE settings (
    id {id},
    digest TEXT NOT NULL UNIQUE,
    text TEXT NOT NULL
);

-- One row for each trial and figure. The ratio is to the reference of the run in the same block.
CREATE TABLE facts (
    figure_id BIGINT NOT NULL,
    run_id BIGINT NOT NULL,
    at_ms BIGINT NOT NULL,
    settings_id BIGINT NOT NULL,
    block INTEGER NOT NULL,
    place INTEGER NOT NULL,
    value {real} NOT NULL,
    low {real},
    high {real},
    ratio {real}
);
CREATE INDEX facts_figure ON facts (figure_id, at_ms);

-- A figure as a ratio to a reference.
CREATE TABLE series (
    id {id},
    figure_id BIGINT NOT NULL REFERENCES figures (id),
    reference TEXT NOT NULL,
    -- Whether the system is the reference itself, entered a second time.
    is_control BIGINT NOT NULL,
    UNIQUE (figure_id, reference)
);

-- One row for each run of a series: the ratio over its blocks, with its interval.
CREATE TABLE points (
    series_id BIGINT NOT NULL REFERENCES series (id),
    at_ms BIGINT NOT NULL,
    run_id BIGINT NOT NULL REFERENCES runs (id),
    settings_id BIGINT NOT NULL,
    blocks INTEGER NOT NULL,
    estimate {real} NOT NULL,
    low {real},
    high {real},
    value {real} NOT NULL,
    reference_value {real} NOT NULL,
    PRIMARY KEY (series_id, at_ms, run_id)
);

-- What people said of changes: seen, or not to be told of for a time.
CREATE TABLE marks (
    id {id},
    series_id BIGINT NOT NULL REFERENCES series (id),
    run_id BIGINT,
    kind TEXT NOT NULL,
    user_name TEXT NOT NULL,
    at_ms BIGINT NOT NULL,
    until_ms BIGINT,
    note TEXT NOT NULL
);
CREATE INDEX marks_series ON marks (series_id);
CREATE INDEX tokens_user ON tokens (user_id);
CREATE INDEX audit_at ON audit (at_ms);
