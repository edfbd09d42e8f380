
-- Facts come run after run, in the order of time: an index of page ranges is small and suffices.
CREATE INDEX facts_run ON facts USING brin (run_id) WITH (pages_per_range = 16);
CREATE INDEX facts_at ON facts USING brin (at_ms) WITH (pages_per_range = 64);

-- For people and programs that read by SQL.
CREATE VIEW fact_rows AS
    SELECT r.name AS run, f.system, f.workload, f.condition, f.metric, x.block, x.place, x.value, x.low,
           x.high, x.ratio, r.reference, to_timestamp(x.at_ms / 1000.0) AS at, r.revision, r.program,
           s.text AS settings, r.is_shared = 1 AS is_shared, u.name AS owner
    FROM facts x
    JOIN figures f ON f.id = x.figure_id
    JOIN runs r ON r.id = x.run_id
    JOIN users u ON u.id = r.owner_id
    JOIN settings s ON s.id = x.settings_id;

CREATE VIEW series_rows AS
    SELECT p.series_id, f.system, c.reference, f.workload, f.condition, f.metric,
           to_timestamp(p.at_ms / 1000.0) AS at, p.estimate, p.low, p.high, p.blocks, r.name AS run,
           r.revision, r.program, r.is_shared = 1 AS is_shared, u.name AS owner
    FROM points p
    JOIN series c ON c.id = p.series_id
    JOIN figures f ON f.id = c.figure_id
    JOIN runs r ON r.id = p.run_id
    JOIN users u ON u.id = r.owner_id;
