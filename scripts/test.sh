#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tests that every change must pass; `make test`. The last lines are the time of each stage, and the tests counted.
set -euo pipefail
cd "$(dirname "$0")/.."

target=${CARGO_TARGET_DIR:-$PWD/target}
export PATH=$target/tools/bin:$target/pcp/bin:$target/prometheus/bin:$PATH
export PLIMSOLL_PCP_ARCHIVES=${PLIMSOLL_PCP_ARCHIVES:-$target/pcp/archives}
# Nothing is built twice here.
export CARGO_INCREMENTAL=${CARGO_INCREMENTAL:-0}
times=()
# All that is compiled: programs and examples as well, for their lints. What is checked is what runs, and nothing is
# compiled twice for it (scripts/rustc-with-lints.sh). Cargo gives the wrapper our own crates alone; arguments of
# Clippy are joined as `cargo clippy` joins them.
all=(--workspace --lib --bins --tests --examples --locked
  --config "build.rustc-workspace-wrapper=\"$PWD/scripts/rustc-with-lints.sh\"")
export CLIPPY_ARGS=-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__
began=$SECONDS

# Processor time of all that has ended below this shell, in hundredths of a second: cutime and cstime of proc(5).
processor_time() { awk '{ print $16 + $17 }' /proc/$$/stat; }

stage() {
  local name=$1 from=$SECONDS used
  used=$(processor_time)
  shift
  echo "== $name"
  "$@"
  used=$(($(processor_time) - used))
  times+=("$(printf '%5d s  %5d s of processors  %s' $((SECONDS - from)) $((used / 100)) "$name")")
}

recordings() {
  scripts/fetch-recordings.sh "$PLIMSOLL_TEST_DATA" || echo "tests on recordings will say SKIPPED"
}

texts() {
  cargo fmt --all --check
  scripts/check-shell.sh
  scripts/check-spelling.sh
}

dependencies() {
  local kinds=(licenses bans sources)
  cargo deny --locked -L error check "${kinds[@]}"
  cargo deny --locked -L error --manifest-path fuzz/Cargo.toml --config deny.toml check "${kinds[@]}"
  cargo shear --locked --deny-warnings
  cargo shear --locked --deny-warnings fuzz
}

build() { cargo nextest run "${all[@]}" --no-run; }

# Results are judged, whatever nextest says of them itself.
tests() {
  local results=target/nextest/default code=0
  mkdir -p "$results"
  rm -f "$results/junit.xml"
  cargo nextest list "${all[@]}" --message-format json >"$results/list.json"
  cargo nextest run "${all[@]}" || code=$?
  scripts/verdict.py "$results/list.json" "$results/junit.xml" "$code" >"$results/verdict.txt" || red=1
}

red=0
stage "packages and libraries" scripts/setup.sh test
for tool in cargo-nextest cargo-deny cargo-shear; do
  if ! command -v "$tool" >/dev/null; then
    echo "test.sh: $tool is missing: scripts/setup.sh test could not install it (see above); put it on PATH" >&2
    exit 1
  fi
done
stage "recordings" recordings
stage "form of code, scripts and words" texts
stage "dependencies" dependencies
stage "pages are what their sources build" scripts/check-web.sh
stage "lints, and build of the tests" build
stage "tests" tests
printf '\n== times, of %d s in all\n' $((SECONDS - began))
printf '%s\n' "${times[@]}"
cat target/nextest/default/verdict.txt
exit "$red"
