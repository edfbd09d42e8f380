#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The resource agent of the stack `san` under ocf-tester, the conformance test of the distribution's
# agents: on a real node, with the parameters that the cluster has, while the cluster itself runs nothing.
# Afterwards the cluster takes the array up again, whose other leg must then be rebuilt.
#
#   test-agent.sh NODE DIRECTORY    the stack's directory on the node, with machines that are up
set -euo pipefail
PLIMSOLL=${PLIMSOLL:-plimsoll}
node=${1:?usage: test-agent.sh NODE DIRECTORY} dir=${2:?usage: test-agent.sh NODE DIRECTORY}

"$PLIMSOLL" vm shell "$node" "dir=$dir sh -s" <<'X'
. "$dir/settings"
sh "$dir/run" stop-all || { echo "the cluster does not stop its resources" >&2; exit 1; }
set -- -n leg
for key in $parameters; do
  eval "set -- \"\$@\" -o \"$key=\$$key\""
done
# As an agent is installed.
install -m 755 "$dir/leg" /tmp/leg
ocf-tester "$@" /tmp/leg
conforms=$?
crm_attribute --type crm_config --name stonith-enabled --update true
crm_attribute --type crm_config --name stop-all-resources --update false
left=300
until sh "$dir/run" whole; do
  left=$((left - 1))
  [ $left -gt 0 ] || { echo "the array does not become whole again" >&2; exit 1; }
  sleep 1
done
exit $conforms
X
