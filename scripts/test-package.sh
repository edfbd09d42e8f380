#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the Debian package in a clean root, uses it as root and as an ordinary user, purges it, and compares
# all files with those of before. The root is made of the machine's own sources of packages, has namespaces of
# its own, and is removed at the end. Needs root and mmdebstrap.
#
#   test-package.sh FILE.deb
#
# CLEAN_ROOT=FILE.tar keeps the clean root in a file, and takes it from there the next time.
set -euo pipefail
export LC_ALL=C

deb=$(realpath "${1:?usage: test-package.sh FILE.deb}")
die() { echo "test-package.sh: $*" >&2; exit 1; }

if [ "$(id -u)" -ne 0 ] || ! command -v mmdebstrap >/dev/null; then
  echo "SKIPPED: the package in a clean root: that needs root and mmdebstrap (scripts/setup.sh dist)"
  exit 0
fi
if [ "$(dpkg-deb --field "$deb" Architecture)" != "$(dpkg --print-architecture)" ]; then
  echo "SKIPPED: ${deb##*/} in a clean root: it is for another processor"
  exit 0
fi
# Its mounts and processes are gone when it ends, however it ends.
if [ "${IN_NAMESPACE:-}" != yes ]; then
  root=$(mktemp -d /var/tmp/plimsoll-package.XXXXXX)
  trap 'rm -rf --one-file-system "$root"' EXIT
  IN_NAMESPACE=yes ROOT=$root unshare --mount --mount-proc --pid --fork --kill-child "$0" "$deb"
  exit
fi

root=$ROOT
say() { printf '== %s\n' "$*"; }
inside() { chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C "$@"; }
as_user() {
  chroot --userspec=tester:tester "$root" /usr/bin/env -i PATH=/usr/bin:/bin HOME=/home/tester LC_ALL=C \
    NO_COLOR=1 sh -c "cd && $1"
}

say "a clean root"
root_of_sources() {
  local release
  release=$(. /etc/os-release && echo "$VERSION_CODENAME")
  # shellcheck disable=SC2016 # fields of apt-get
  apt-get indextargets --format '$(ORIGIN) deb $(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
    sed -n "s/^Debian \(deb [^ ]* ${release}[-a-z]* main\)$/\1/p" | sort -u >"$root.sources"
  [ -s "$root.sources" ] || die "no sources of $release are known here: apt-get update"
  # The shells are there to try the completions.
  mmdebstrap --quiet --mode=root --variant=minbase --include=man-db,bash-completion,zsh,fish \
    --dpkgopt='force-unsafe-io' "$release" "$root" - <"$root.sources"
  rm "$root.sources"
}
if [ -s "${CLEAN_ROOT:-}" ]; then
  tar -xf "$CLEAN_ROOT" -C "$root"
else
  root_of_sources
  if [ -n "${CLEAN_ROOT:-}" ]; then tar --one-file-system -cf "$CLEAN_ROOT" -C "$root" .; fi
fi
# A root that is a mount, as that of every machine and container is: what is measured lies on one.
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount --bind /dev "$root/dev"
inside useradd --create-home tester

# Path, kind, mode and owner of all files, and their content. Left out are logs and caches, and of the package
# manager's own files the content. A name with plimsoll in it is looked for in those, too.
all_files() {
  (
    cd "$root"
    left_out=(-path ./proc -o -path ./dev -o -path ./var/log -o -path ./var/cache -o -path ./var/lib/apt/lists)
    find . -xdev \( "${left_out[@]}" \) -prune -o -printf '%p %y %m %U:%G %l\n' | sort
    find ./var/log ./var/cache ./run ./tmp -name '*plimsoll*' -printf '%p\n' | sort
    find . -xdev \( "${left_out[@]}" -o -path './var/lib/dpkg/status*' -o -path ./var/lib/apt/extended_states \) \
      -prune -o -type f -print0 | sort -z | xargs -0 sha256sum
  ) >"$1"
}
before=$(mktemp) after=$(mktemp)
trap 'rm -f "$before" "$after"' EXIT
all_files "$before"
packages=$(inside dpkg-query --show | wc -l)

say "installs, and depends on nothing"
install -m 644 "$deb" "$root/tmp/plimsoll.deb"
inside apt-get install --yes --no-install-recommends --quiet=2 /tmp/plimsoll.deb \
  >"$root/tmp/log" 2>&1 || { cat "$root/tmp/log"; die "it cannot be installed"; }
[ "$(inside dpkg-query --show | wc -l)" -eq $((packages + 1)) ] || die "it brought other packages along"
inside plimsoll --version
[ "$(inside plimsoll --version | cut -d ' ' -f 2)" = "$(dpkg-deb --field "$deb" Version | sed 's/~.*//')" ] ||
  die "the program and the package have different versions"
inside /usr/lib/plimsoll/plimsoll-agent --version
inside /usr/lib/plimsoll/plimsoll-server --version

say "manual pages and completions are those of this program"
mkdir "$root/tmp/man"
inside plimsoll man --dir /tmp/man
for page in "$root"/tmp/man/*.1; do
  name=$(basename "$page" .1)
  gzip -dc "$root/usr/share/man/man1/$name.1.gz" | cmp - "$page" || die "the page of $name is stale"
  inside man -w "$name" >/dev/null || die "man does not find $name"
done
[ "$(find "$root/tmp/man" -name '*.1' | wc -l)" -eq "$(dpkg-deb --contents "$deb" | grep -c 'man1/.*\.1\.gz$')" ] ||
  die "the package has pages of commands that are gone"
inside env MANWIDTH=100 sh -c 'man plimsoll-compare | grep -q "compare \[OPTIONS\]\|--blocks"' || die "man does not show a page"
inside sh -c 'plimsoll completions bash | cmp - /usr/share/bash-completion/completions/plimsoll
  plimsoll completions zsh | cmp - /usr/share/zsh/vendor-completions/_plimsoll
  plimsoll completions fish | cmp - /usr/share/fish/vendor_completions.d/plimsoll.fish'
# shellcheck disable=SC2016 # of the inner shell
inside bash -c '. /usr/share/bash-completion/bash_completion; _completion_loader plimsoll
  COMP_WORDS=(plimsoll comp); COMP_CWORD=1; COMP_LINE="plimsoll comp"; COMP_POINT=${#COMP_LINE}
  function=$(complete -p plimsoll | sed "s/.*-F \([^ ]*\).*/\1/"); "$function" plimsoll comp plimsoll
  [[ " ${COMPREPLY[*]} " == *" compare "* ]]' || die "bash does not complete 'plimsoll comp'"
# shellcheck disable=SC2016
inside zsh -fc 'autoload -Uz compinit; compinit -u -D; [ "$_comps[plimsoll]" = _plimsoll ]' ||
  die "zsh does not find its completions"
[[ $(inside env HOME=/tmp/home fish -c "complete -C 'plimsoll comp'") == *compare* ]] || die "fish does not complete 'plimsoll comp'"

say "works as an ordinary user, and as root"
as_user "plimsoll compare 'sim(flash)' 'sim(disk)' -w randread,size=16M --for 1s --blocks 2 -o run" \
  >"$root/tmp/log" 2>&1 || { cat "$root/tmp/log"; die "a comparison fails"; }
as_user "test -s run/report.html && plimsoll report run --json >/dev/null"
as_user "mkdir a && plimsoll run randread,size=16M a --for 1s -o run-a >log 2>&1 || { cat log; false; }"
inside sh -c 'plimsoll doctor >/dev/null; mkdir /root/a; cd /root
  plimsoll run randread,size=16M /root/a --for 1s -o /root/run >/root/log 2>&1 || { cat /root/log; false; }'

say "the service: neither enabled nor started, and its commands work"
unit=$root/usr/lib/systemd/system/plimsoll-serve.service
[ -z "$(find "$root/etc" -name 'plimsoll*')" ] || die "something of it is enabled in /etc"
# Only the processes of this namespace are seen here.
! pgrep plimsoll >/dev/null || die "something of it runs"
prepare=$(sed -n 's|^ExecStartPre=/bin/sh -c "\(.*\)"$|\1|p' "$unit")
start=$(sed -n 's|^ExecStart=/usr/bin/plimsoll \(.*\) --listen [^ ]* \(.*\)|\1 \2|p' "$unit")
[ -n "$prepare" ] && [ -n "$start" ] || die "the unit has other commands than this test knows"
mkdir -p "$root/home/tester/serve"
mkdir "$root/home/tester/serve/runs"
cp -r "$root/home/tester/run" "$root/home/tester/serve/runs/run"
inside chown -R tester:tester /home/tester/serve
as_user "umask 077 && cd serve && sh -c '$prepare' && echo \$\$ >pid && exec plimsoll $start \
  --listen 127.0.0.1:0 >log 2>&1" &
server=$!
for _ in $(seq 600); do
  # The log may not be there yet.
  port=$(sed -n 's|.*http://127.0.0.1:\([0-9]*\)/.*|\1|p' "$root/home/tester/serve/log" 2>/dev/null | head -n 1) || true
  [ -z "$port" ] || break
  sleep 0.1
done
[ -n "$port" ] || { cat "$root/home/tester/serve/log"; die "the server does not say its address"; }
token=$(cat "$root/home/tester/serve/token")
! grep -qF "$token" "$root/home/tester/serve/log" || die "the token is in the log"
# The first line of the answer to a path, with headers.
answer_to() {
  exec 3<>"/dev/tcp/127.0.0.1/$port"
  printf 'GET %s HTTP/1.1\r\nHost: 127.0.0.1:%s\r\nConnection: close\r\n%s\r\n' "$1" "$port" "$2" >&3
  head -n 1 <&3
  exec 3>&-
}
bearer="Authorization: Bearer $token"$'\r\n'
[[ $(answer_to /metrics "") == *" 401 "* ]] || die "the server answers without its token"
[[ $(answer_to /metrics "$bearer") == *" 200 "* ]] || die "the server refuses its token"
# The server is a program of its own: a format that was left out of its build alone shows only here.
formats=$(inside plimsoll report --help | tr -s '\n ' ' ' | sed -n 's/.*--as <FORMAT>[^[]*\[possible values: \([^]]*\)\].*/\1/p')
[ "$(wc -w <<<"$formats")" -ge 9 ] || die "the formats of report are not read from its help: '$formats'"
for format in ${formats//,/}; do
  answer=$(answer_to "/api/v1/runs/run/export/$format" "$bearer")
  [[ $answer == *" 200 "* ]] || die "the server does not export $format: $answer"
done
kill -INT "$(cat "$root/home/tester/serve/pid")"
wait "$server"

say "is not removed over stacks that are up, and purged it leaves nothing"
install -D /dev/null "$root/var/lib/plimsoll/journals/test"
! inside dpkg --remove plimsoll >"$root/tmp/log" 2>&1 || die "it was removed over a journal"
grep -q 'plimsoll raze' "$root/tmp/log" || die "it does not say what to do"
rm "$root/var/lib/plimsoll/journals/test"
if command -v systemctl >/dev/null; then
  systemctl --root="$root" enable plimsoll-serve.service 2>/dev/null
  inside dpkg --install /tmp/plimsoll.deb >/dev/null 2>&1
  [ -L "$root/etc/systemd/system/multi-user.target.wants/plimsoll-serve.service" ] ||
    die "an upgrade disables the service"
fi
inside apt-get purge --yes --quiet=2 plimsoll >"$root/tmp/log" 2>&1 || { cat "$root/tmp/log"; die "no purge"; }
# Results belong to those who measured.
rm -rf "$root"/home/tester/{a,run,run-a,log,serve,.local} "$root"/root/{a,run,log} \
  "$root"/tmp/{home,man,log,plimsoll.deb} "$root"/home/tester/.{cache,config,zcompdump*}
all_files "$after"
if ! diff "$before" "$after" >"$after.diff"; then
  cat "$after.diff"
  rm -f "$after.diff"
  die "files differ after the purge"
fi
rm -f "$after.diff"
echo "$(grep -c ' [dflcbps] ' "$before") files and directories, the same before and after"

say "nothing starts by itself with what is recommended either"
units() { find "$root/etc/systemd" "$root"/etc/rc?.d -type l | sort; }
units >"$before"
printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
chmod 755 "$root/usr/sbin/policy-rc.d"
install -m 644 "$deb" "$root/tmp/plimsoll.deb"
inside apt-get install --yes --install-recommends --quiet=2 /tmp/plimsoll.deb >"$root/tmp/log" 2>&1 ||
  { cat "$root/tmp/log"; die "not with what is recommended"; }
units >"$after"
new=$(comm -13 "$before" "$after" | sed "s|^$root||")
echo "enabled by recommended packages: ${new:-nothing}"
