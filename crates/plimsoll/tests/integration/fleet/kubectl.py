#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Stands for kubectl and the cluster behind it, as far as a fleet asks them: the Job of a fleet is a file in
PLIMSOLL_TEST_CLUSTER, its pods are processes of PLIMSOLL_TEST_AGENT. It refuses what a cluster would: a Secret whose
owner is not there, and objects that it does not know.
"""

import json
import os
import signal
import subprocess
import sys

CLUSTER = os.environ["PLIMSOLL_TEST_CLUSTER"]
UID = "0f3c1d52-6c7e-4f57-9c55-5b8f6a3f1a11"


def path(kind, name):
    return os.path.join(CLUSTER, f"{kind.lower()}-{name}.json")


def load(kind, name):
    with open(path(kind, name), encoding="utf-8") as file:
        return json.load(file)


def save(kind, name, value):
    with open(path(kind, name), "w", encoding="utf-8") as file:
        json.dump(value, file)


def start(job, secret):
    """The pods of a Job, each with the environment that it asks for, and nothing else of ours but where to work."""
    container = job["spec"]["template"]["spec"]["containers"][0]
    assert container["command"] == ["plimsoll-agent", "dial"], container
    pids = []
    for index in range(job["spec"]["parallelism"]):
        env = {"PATH": os.environ["PATH"], "TMPDIR": os.environ["TMPDIR"], "JOB_COMPLETION_INDEX": str(index)}
        for entry in container["env"]:
            key = entry["valueFrom"]["secretKeyRef"]
            assert key["name"] == secret["metadata"]["name"], key
            env[entry["name"]] = secret["stringData"][key["key"]]
        words = [os.environ["PLIMSOLL_TEST_AGENT"], "dial"]
        quiet = subprocess.DEVNULL
        pod = subprocess.Popen(words, env=env, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True)
        pids.append(pod.pid)
    save("Pods", job["metadata"]["name"], pids)


def create(made):
    name = made["metadata"]["name"]
    save(made["kind"], name, made)
    if made["kind"] == "Job":
        assert made["spec"]["completionMode"] == "Indexed", made
        print(UID, end="")
        return
    assert made["kind"] == "Secret", made
    owner = made["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["uid"]) == ("Job", UID), owner
    start(load("Job", owner["name"]), made)


def delete(name):
    if os.path.exists(path("Pods", name)):
        for pid in load("Pods", name):
            try:
                os.kill(pid, signal.SIGTERM)
            except ProcessLookupError:
                pass
    # What the Job owns goes with it.
    for kind in ["Pods", "Secret", "Job"]:
        if os.path.exists(path(kind, name)):
            os.unlink(path(kind, name))


def main(words):
    words = [word for word in words if not word.startswith("--")]
    match words:
        case ["create", "-f", "-", "-o", _]:
            create(json.load(sys.stdin))
        case ["delete", job]:
            delete(job.removeprefix("job/"))
        case ["get", "pods", "-l", label]:
            name = label.removeprefix("plimsoll/fleet=")
            for n, _ in enumerate(load("Pods", name)):
                print(f"{name}-{n}  0/1  Running")
        case _:
            sys.exit(f"kubectl: unexpected {words}")


main(sys.argv[1:])
