#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds what browsers get in a temporary folder, and compares every file with web/dist, to the byte: those scripts
# run in the session of whoever opens a page, and nobody reads them in a review. With --update it replaces web/dist
# by what it built. What is missing on this machine is said loudly; only --update fails then.
set -euo pipefail
cd "$(dirname "$0")/../web"

mode=${1:-check}
case $mode in
  check | --update) ;;
  *) echo "usage: check-web.sh [--update]" >&2; exit 2 ;;
esac

skip() {
  if [ "$mode" = --update ]; then
    echo "check-web.sh: $1" >&2
    exit 1
  fi
  echo "*** SKIPPED: web/dist is not compared with a build: $1 ***"
  exit 0
}

node_major=$(node --version 2>/dev/null | sed 's/^v\([0-9]*\).*/\1/' || true)
[ "${node_major:-0}" -ge 18 ] || skip "Node 18 or newer is missing: apt-get install nodejs npm"
command -v npm >/dev/null || skip "npm is missing: apt-get install npm"

place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cp -r package.json package-lock.json tsconfig.json vite.config.ts src public "$place"
# Packages that scripts/setup.sh installed by the same lock file; else the same here. Nothing that a package would run at its
# installation is needed.
if cmp -s package-lock.json node_modules/made-of; then
  ln -s "$PWD/node_modules" "$place/node_modules"
elif ! (cd "$place" && npm ci --ignore-scripts --no-audit --no-fund --prefer-offline) >"$place/log" 2>&1; then
  # Without the registry this says nothing about web/.
  npm ping >/dev/null 2>&1 || skip "npm's registry cannot be reached"
  cat "$place/log" >&2
  exit 1
fi
if ! (cd "$place" && npm run build) >"$place/log" 2>&1; then
  cat "$place/log" >&2
  exit 1
fi

if [ "$mode" = --update ]; then
  rm -rf dist
  cp -r "$place/dist" dist
elif ! diff --recursive --brief dist "$place/dist"; then
  echo "check-web.sh: web/dist is not what web/src builds: scripts/check-web.sh --update" >&2
  exit 1
fi
echo "web/dist is what its sources build: $(find dist -type f | wc -l) files"
