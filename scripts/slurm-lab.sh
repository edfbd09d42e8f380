#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A Slurm cluster on one machine, from the distribution's packages: every node is a slurmd in a network and
# a host name of its own, the controller of the cluster is in the network "head", where load hosts find
# plimsoll at 10.77.0.1. Its own munge key, directories and process numbers; nothing of a Slurm that is
# installed here is touched. Needs root, and slurm-wlm and munge (scripts/setup.sh slurm).
#
#   slurm-lab.sh up DIR NODES    DIR must not exist; prints what enters the head
#   slurm-lab.sh in DIR COMMAND  runs a command in the head
#   slurm-lab.sh down DIR        ends what was started, by its number, and removes DIR
set -euo pipefail
export PATH=$PATH:/usr/sbin:/sbin

verb=${1:?usage: slurm-lab.sh up DIR NODES | in DIR COMMAND | down DIR}
dir=${2:?usage: slurm-lab.sh up DIR NODES | in DIR COMMAND | down DIR}
shift 2

# Names of networks are of the whole machine: this one's begin with the number of its directory.
name_of() { echo "plslurm-$(stat -c %i "$dir")-$1"; }

# Without `ip netns exec`, which hides the control groups that slurmd looks for.
enter() {
  local of
  of=$(name_of "$1")
  shift
  nsenter --net="/run/netns/$of" -- "$@"
}

up() {
  local nodes=${1:?usage: slurm-lab.sh up DIR NODES}
  mkdir -m 755 "$dir"
  dir=$(cd "$dir" && pwd -P)
  mkdir "$dir/state" "$dir/pids"
  chmod 700 "$dir/state"
  write_config "$nodes"
  # Whatever fails from here on, nothing stays.
  trap 'down; exit 1' ERR INT TERM
  make_networks "$nodes"
  head -c 1024 /dev/urandom >"$dir/munge.key"
  chmod 400 "$dir/munge.key"
  munged --foreground --force --key-file="$dir/munge.key" --socket="$dir/munge.sock" \
    --pid-file="$dir/munged.pid" --log-file="$dir/munged.log" --seed-file="$dir/munge.seed" \
    >/dev/null 2>&1 &
  echo $! >"$dir/pids/munged"
  until_is "munge" test -S "$dir/munge.sock"
  enter head slurmctld -D -i -f "$dir/slurm.conf" >"$dir/slurmctld.out" 2>&1 &
  echo $! >"$dir/pids/slurmctld"
  local n
  for n in $(seq "$nodes"); do
    enter "n$n" unshare --uts sh -c "hostname n$n && exec slurmd -D -N n$n -f '$dir/slurm.conf'" \
      >"$dir/slurmd.n$n.out" 2>&1 &
    echo $! >"$dir/pids/n$n"
  done
  until_is "all $nodes nodes" all_idle "$nodes"
  trap - ERR INT TERM
  echo "SLURM_CONF=$dir/slurm.conf nsenter --net=/run/netns/$(name_of head)"
}

write_config() {
  local nodes=$1 n
  cat >"$dir/slurm.conf" <<X
ClusterName=plimsoll
SlurmctldHost=$(hostname -s)(10.77.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$dir/munge.sock
CredType=cred/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool.%n
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd.%n.pid
SlurmctldLogFile=$dir/slurmctld.log
SlurmdLogFile=$dir/slurmd.%n.log
SlurmctldParameters=idle_on_node_suspend
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SchedulerType=sched/builtin
ReturnToService=2
SlurmdTimeout=20
KillWait=5
MpiParams=ports=20000-21000
X
  for n in $(seq "$nodes"); do
    echo "NodeName=n$n NodeHostname=n$n NodeAddr=10.77.0.$((10 + n)) CPUs=1 RealMemory=64" >>"$dir/slurm.conf"
  done
  echo "PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP" >>"$dir/slurm.conf"
  echo "CgroupPlugin=cgroup/v1" >"$dir/cgroup.conf"
}

make_networks() {
  local nodes=$1 n head of
  head=$(name_of head)
  ip netns add "$head"
  ip -n "$head" link set lo up
  ip -n "$head" link add name br0 type bridge
  ip -n "$head" addr add 10.77.0.1/24 dev br0
  ip -n "$head" link set br0 up
  for n in $(seq "$nodes"); do
    of=$(name_of "n$n")
    ip netns add "$of"
    ip -n "$of" link set lo up
    ip -n "$of" link add name eth0 type veth peer name "v$n" netns "$head"
    ip -n "$of" addr add "10.77.0.$((10 + n))/24" dev eth0
    ip -n "$of" link set eth0 up
    ip -n "$head" link set "v$n" master br0 up
  done
}

# Waits for something that must come about.
until_is() {
  local what=$1 left=600
  shift
  until "$@" 2>/dev/null; do
    left=$((left - 1))
    if [ $left -eq 0 ]; then
      echo "slurm-lab.sh: within a minute there was no $what; see the logs in $dir" >&2
      tail -n 3 "$dir"/*.log "$dir"/*.out >&2 || true
      return 1
    fi
    sleep 0.1
  done
}

all_idle() {
  [ "$(SLURM_CONF=$dir/slurm.conf enter head sinfo -h -N -t idle -o %N | sort -u | wc -l)" -eq "$1" ]
}

down() {
  local file pid of left
  # Nodes first: what runs on them ends with them.
  for file in "$dir"/pids/n* "$dir/pids/slurmctld" "$dir/pids/munged"; do
    pid=$(cat "$file" 2>/dev/null || true)
    [ -z "$pid" ] || kill "$pid" 2>/dev/null || true
  done
  left=50
  while for file in "$dir"/pids/*; do kill -0 "$(cat "$file")" 2>/dev/null && break; done && [ $left -gt 0 ]; do
    left=$((left - 1))
    sleep 0.1
  done
  # What is still there: daemons that did not end, and steps in the networks that were made here.
  for file in "$dir"/pids/*; do kill -9 "$(cat "$file")" 2>/dev/null || true; done
  for of in /run/netns/"$(name_of "")"*; do
    [ -e "$of" ] || continue
    of=$(basename "$of")
    for pid in $(ip netns pids "$of"); do kill -9 "$pid" 2>/dev/null || true; done
    ip netns delete "$of" || true
  done
  rm -rf "$dir"
}

case $verb in
  up) up "$@" ;;
  # Becomes the command, so that a signal to this one reaches that one.
  in) SLURM_CONF=$(cd "$dir" && pwd -P)/slurm.conf exec nsenter --net="/run/netns/$(name_of head)" -- "$@" ;;
  down) [ ! -d "$dir" ] || down ;;
  *) echo "slurm-lab.sh: '$verb' is not up, in or down" >&2; exit 2 ;;
esac
