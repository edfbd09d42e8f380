#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A newcomer's two paths in a clean Debian. The wheel in a clean virtual environment, and `plimsoll check`: the first
# sentence is there within six minutes. Then the commands of docs/first-steps.md as they stand there, beside a
# PostgreSQL that pgbench uses: a load line of its load in four commands behind the installation. Needs root. Takes some
# 15 minutes, two of them for the clean root, which is kept as target/newcomer/root.tar (remove it to have it made anew).
#   scripts/test-newcomer.sh [PACKAGE.deb [WHEEL]]      default: the newest of target/dist
set -euo pipefail
cd "$(dirname "$0")/.."

commands_max=8
sentence_max_s=360
page=docs/first-steps.md
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
place=$target/newcomer
say() { printf '\n== %s\n' "$*"; }

# The commands: blocks marked sh behind the line `<!-- newcomer -->`.
commands() {
  awk '/^<!-- newcomer -->$/ { marked = 1; next }
    marked && /^```sh$/ { inside = 1; next }
    /^```$/ { inside = marked = 0; next }
    inside' "$page"
}

# Inside a mount and process namespace of its own: its mounts, loop devices and processes end with it.
inside() {
  local root=$1 device pgbench n=0 began took
  mount --make-rprivate /
  mount --bind "$root" "$root"
  for system in ext4:mnt/a xfs:mnt/b ext4:var/lib/postgresql; do
    device=$place/${system##*/}.img
    truncate --size 2G "$device"
    "mkfs.${system%%:*}" -q "$device"
    mkdir -p "$root/${system#*:}"
    mount -o loop "$device" "$root/${system#*:}"
  done
  mount -t proc proc "$root/proc"
  mount -t sysfs sysfs "$root/sys"
  mount --rbind /dev "$root/dev"
  in_root() { chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 COLUMNS=100 \
    bash -c "cd /root && $1"; }

  say "The wheel in a clean virtual environment, and the first sentence"
  began=$SECONDS
  in_root "python3 -m venv v && v/bin/pip install --quiet --no-index --disable-pip-version-check *.whl"
  in_root "v/bin/plimsoll check /mnt/a -o checked" | tee "$root/root/checked.txt"
  took=$((SECONDS - began))
  grep -qE 'fits|does not fit|is not known|Not answered' "$root/root/checked.txt" ||
    { echo "test-newcomer.sh: check says nothing" >&2; exit 1; }
  [ "$took" -le "$sentence_max_s" ] ||
    { echo "test-newcomer.sh: the first sentence took $took s, more than $sentence_max_s" >&2; exit 1; }
  echo "(installed and checked in $took s)"
  in_root "v/bin/pip uninstall --quiet --yes plimsoll && test ! -e v/bin/plimsoll"

  say "PostgreSQL, and pgbench that uses it"
  # The package made a cluster, which the mounted file system hides.
  in_root "rm -r /etc/postgresql/15/main && chown postgres: /var/lib/postgresql && pg_createcluster 15 main --pgoption listen_addresses='' --start"
  in_root "su postgres -c 'createdb bench && pgbench --initialize --scale=10 --quiet bench' 2>&1 | tail -n 1"
  in_root "su postgres -c 'pgbench --client=4 --jobs=2 --time=75 --progress=15 bench' >pgbench.log 2>&1" &
  pgbench=$!
  sleep 5
  while read -r -u 3 command; do
    n=$((n + 1))
    case $command in
      # The recording was made while it worked; what is compared is another machine's, so it ends here.
      *fit*) wait "$pgbench"; in_root "pg_ctlcluster 15 main stop"; grep tps "$root/root/pgbench.log" | tail -n 1 ;;
    esac
    say "$n. $command"
    began=$SECONDS
    if ! in_root "$command"; then
      echo "test-newcomer.sh: command $n failed: $command" >&2
      exit 1
    fi
    echo "($((SECONDS - began)) s)"
  done 3< <(commands)

  say "What must have come of it"
  for file in line/report.html line.md line.xlsx pg.toml; do
    test -s "$root/root/$file" || { echo "test-newcomer.sh: there is no $file" >&2; exit 1; }
  done
  for system in a b; do
    # What it carries is the machine's: a starved one may not carry the least.
    grep -qE "$system (carries|does not carry)" "$root/root/line.md" ||
      { echo "test-newcomer.sh: nothing is said of $system" >&2; exit 1; }
    left=$(find "$root/mnt/$system" -mindepth 1 -not -name lost+found | wc -l)
    [ "$left" -eq 0 ] || { echo "test-newcomer.sh: $left files are left on $system" >&2; exit 1; }
  done
  in_root "plimsoll raze"
  echo "$n commands in $SECONDS s"
}

if [ "${1:-}" = --inside ]; then
  inside "$2"
  exit 0
fi

if [ "$(id -u)" -ne 0 ]; then
  echo "SKIPPED: test-newcomer.sh needs root: it mounts file systems" >&2
  exit 0
fi
count=$(commands | wc -l)
line=$(commands | grep -n 'plimsoll loadline' | cut -d: -f1)
if [ "${line:-9}" -gt 5 ]; then
  echo "test-newcomer.sh: the load line is command ${line:-none} of $page, expected at most the fourth behind the installation" >&2
  exit 1
fi
if [ "$count" -eq 0 ] || [ "$count" -gt $commands_max ]; then
  echo "test-newcomer.sh: $page has $count commands, expected 1 to $commands_max" >&2
  exit 1
fi
newest() { find "$target/dist" -name "$1" -printf '%T@ %p\n' 2>/dev/null | sort -n | tail -n 1 | cut -d' ' -f2; }
package=${1:-$(newest 'plimsoll_*.deb')}
wheel=${2:-$(newest "plimsoll-*$(uname -m).whl")}
if [ -z "$package" ] || [ -z "$wheel" ]; then
  echo "test-newcomer.sh: there is no package or no wheel in $target/dist; make dist makes them" >&2
  exit 1
fi
scripts/setup.sh newcomer
mkdir -p "$place"
if [ ! -f "$place/root.tar" ]; then
  say "A clean Debian with PostgreSQL"
  mmdebstrap --variant=apt --include=postgresql,postgresql-contrib,python3-venv bookworm "$place/root.tar" \
    >"$place/root.log" 2>&1 || { tail "$place/root.log" >&2; exit 1; }
fi
root=$place/root
cleanup() { rm -rf --one-file-system "$root" "$place"/*.img; }
trap cleanup EXIT
cleanup
mkdir "$root"
tar --extract --file "$place/root.tar" --directory "$root"
cp "$package" "$wheel" "$root/root/"
unshare --mount --pid --fork --kill-child "$0" --inside "$root"
