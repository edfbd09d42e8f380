#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Measures a team's history on PostgreSQL (docs/results/2026-11-history.md).
#   bench/history.sh kills          500 kills of server and clients, 50 immediate stops of PostgreSQL
#   bench/history.sh facts          36 million facts: the page of a series, the changes of 10,000 series
# PLIMSOLL names the program (default: what cargo build made). Needs Debian's postgresql, curl and room of 12 GB
# below TMPDIR.
set -euo pipefail
cd "$(dirname "$0")/.."

what=${1:?usage: history.sh kills|facts}
plimsoll=$(realpath "${PLIMSOLL:-target/$(uname -m)-unknown-linux-gnu/debug/plimsoll}")

if [ "$what" = kills ]; then
  PLIMSOLL_TEST_KILLS=${KILLS:-500} PLIMSOLL_TEST_STOPS=${STOPS:-50} \
    exec cargo test -p plimsoll --test integration -- --nocapture an_acknowledged_run_is_never_lost
fi
[ "$what" = facts ] || { echo "history.sh: '$what' is not kills or facts" >&2; exit 2; }

programs=$(find /usr/lib/postgresql -maxdepth 2 -name bin | sort -V | tail -n 1)
place=$(mktemp -d "${TMPDIR:-/tmp}/plimsoll-facts-XXXXXX")
chmod 777 "$place"
# PostgreSQL refuses to run as root.
as=()
[ "$(id -u)" != 0 ] || as=(setpriv --reuid=nobody --regid=nogroup --clear-groups)
port=${PORT:-54399}
server=
end() {
  [ -z "$server" ] || kill "$server" || true
  (cd / && "${as[@]}" "$programs/pg_ctl" -D "$place/data" -m fast -w stop >/dev/null) || true
  rm -rf --one-file-system "$place"
}
trap end EXIT
(cd / && "${as[@]}" "$programs/initdb" -D "$place/data" -U lab -A trust -E UTF8 >/dev/null)
(cd / && "${as[@]}" "$programs/pg_ctl" -D "$place/data" -l "$place/log" -w start -o \
  "-p $port -k $place -c listen_addresses=127.0.0.1 -c max_wal_size=8GB -c shared_buffers=512MB" >/dev/null)
export PLIMSOLL_DATABASE=postgres://lab@127.0.0.1:$port/postgres
sql() { psql -h 127.0.0.1 -p "$port" -U lab -d postgres -v ON_ERROR_STOP=1 -qAt "$@"; }

"$plimsoll" team user add ada >/dev/null
token=$("$plimsoll" team token add ada --scope read,run 2>/dev/null)

# 10,000 series of 60 points: 600 runs, each with a tenth of the series and 60 blocks.
began=$(date +%s)
sql <<'SQL'
SELECT setseed(0.2026);
INSERT INTO figures (id, system, workload, condition, metric)
  SELECT n + 1, 'system-' || n % 25, 'workload-' || n / 250, '', 'metric-' || n / 25 % 10
  FROM generate_series(0, 9999) n;
INSERT INTO series (id, figure_id, reference, is_control) SELECT id, id, 'reference', 0 FROM figures;
INSERT INTO settings (id, digest, text) VALUES (1, 'x', '{}');
INSERT INTO runs (id, owner_id, digest, folder, name, program, versions, command, revision, reference, began_ms,
                  pushed_ms, bytes, is_complete, is_shared)
  SELECT n + 1, 1, 'digest-' || n, 'run-' || n, 'run-' || n, '0.1.0', '{"linux":"6.1"}', '[]', 'rev-' || n / 10,
         'reference', 1735689600000 + n * 3600000::bigint, 1735689600000 + n * 3600000::bigint, 1000, 1, 1
  FROM generate_series(0, 599) n;
CREATE FUNCTION normal() RETURNS float8 LANGUAGE sql VOLATILE AS
  'SELECT sqrt(-2 * ln(1 - random())) * cos(2 * pi() * random())';
DO $$
BEGIN
  FOR run IN 0..599 LOOP
    -- One series in a hundred becomes 8 % slower in the middle.
    INSERT INTO facts
      SELECT f, run + 1, 1735689600000 + run * 3600000::bigint, 1, block, block * 2, 100000 * ratio, NULL, NULL, ratio
      FROM (SELECT f, block, exp(0.05 * normal() + CASE WHEN f % 100 = 0 AND run >= 300 THEN 0.08 ELSE 0 END) AS ratio
            FROM generate_series(1 + run % 10 * 1000, (1 + run % 10) * 1000) f, generate_series(0, 59) block) one;
  END LOOP;
END $$;
INSERT INTO points
  SELECT figure_id, at_ms, run_id, 1, count(*), exp(avg(ln(ratio))),
         exp(avg(ln(ratio)) - 2.0 * stddev(ln(ratio)) / sqrt(count(*))),
         exp(avg(ln(ratio)) + 2.0 * stddev(ln(ratio)) / sqrt(count(*))), avg(value), 100000
  FROM facts GROUP BY figure_id, at_ms, run_id;
SELECT setval(pg_get_serial_sequence(t, 'id'), 100000) FROM unnest(ARRAY['figures', 'series', 'settings', 'runs']) t;
SQL
sql -c 'VACUUM ANALYZE'
echo "made in $(($(date +%s) - began)) s: $(sql -c 'SELECT count(*) FROM facts') facts," \
  "$(sql -c 'SELECT count(*) FROM points') points," \
  "$(sql -c "SELECT pg_size_pretty(pg_database_size('postgres'))")"
sql -c "SELECT relname, pg_size_pretty(pg_relation_size(oid)) FROM pg_class
        WHERE relname LIKE 'facts%' OR relname LIKE 'points%' ORDER BY 1"

mkdir "$place/store"
"$plimsoll" serve "$place/store" --listen 127.0.0.1:0 2>"$place/said" &
server=$!
for _ in $(seq 100); do grep -q :// "$place/said" && break; sleep 0.1; done
address=$(sed -n 's|^\(http://[^/]*\)/.*|\1|p' "$place/said")
# Time for one series, in seconds: fifty drawn ones, each asked for once.
times=$(for id in $(sql -c 'SELECT setseed(0.5)' -c \
  'SELECT 1 + floor(random() * 10000)::int FROM generate_series(1, 50)' | tail -n 50); do
  curl -sf -o "$place/page" -w '%{time_total}\n' -H "Authorization: Bearer $token" \
    "$address/api/v1/history/series/$id"
done | sort -n)
echo "page of a series, 50 asked once each: median $(sed -n 25p <<<"$times") s, longest $(tail -n 1 <<<"$times") s"
for path in 'history/series' 'history/series?text=system-7' runs; do
  curl -sf -o /dev/null -w "$path: %{time_total} s\n" -H "Authorization: Bearer $token" "$address/api/v1/$path"
done
began=$(date +%s.%N)
"$plimsoll" history changes --json >"$place/changes" || true
echo "changes of all series in $(echo "$(date +%s.%N) - $began" | bc) s"
python3 - "$place/changes" <<'PY'
import json, sys
told = json.load(open(sys.argv[1]))
of = {change["series"] for change in told["changes"]}
planted = {n for n in of if n % 100 == 0}
print(f"{len(told['changes'])} changes in {len(of)} of {told['series']} series: {len(planted)} of 100 with a planted step,"
      f" {len(of - planted)} of the others")
PY
if [ -n "${EXPORT:-}" ]; then
  began=$(date +%s)
  "$plimsoll" history export --parquet "$place/history.parquet"
  echo "exported in $(($(date +%s) - began)) s: $(stat -c %s "$place/history.parquet") bytes"
fi
