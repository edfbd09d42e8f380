# SPDX-License-Identifier: Apache-2.0
# Two commands: `make demo` does the main job on this machine, `make test` checks the project.

SHELL := /bin/bash
.PHONY: demo test fuzz test-stacks test-vm test-newcomer guide build dist dist-check

# The program, the agent that it copies to other machines and the server of its page, all static.
build:
	scripts/build.sh

# Everything that a release has, in target/dist, and the package installed in a clean root and purged there.
dist:
	scripts/setup.sh dist
	scripts/dist.sh
	scripts/test-dist.sh

# The same from two places: every file must be equal to the byte.
dist-check:
	scripts/setup.sh dist
	scripts/dist-check.sh
	scripts/test-dist.sh

demo:
	@scripts/demo.sh --announce
	scripts/setup.sh demo
	scripts/build.sh --program-alone
	scripts/demo.sh

# Recordings of others that tests hold results against; not part of this repository.
export PLIMSOLL_TEST_DATA ?= $(abspath $(if $(wildcard ../shared/data),../shared/data,target/recordings))

test:
	scripts/test.sh

# Every fuzz target for a minute.
fuzz:
	scripts/setup.sh test
	cargo xtask fuzz

# Every stack for real: up, checks, load, down, nothing left. Needs root; installs what is missing.
test-stacks:
	scripts/setup.sh stacks
	$(MAKE) --no-print-directory build
	scripts/test-stacks.sh up

# Virtual machines for real, from nothing: image, three nodes and a client, what stands on them, a power
# cut, down, nothing left. Needs root; installs what is missing.
test-vm:
	scripts/setup.sh vm
	$(MAKE) --no-print-directory build
	scripts/test-vm.sh

# The guide as a book: target/guide/book/index.html. Needs mdbook.
guide:
	scripts/guide.sh

# The commands of docs/first-steps.md in a clean Debian, with the package of `make dist`. Needs root.
test-newcomer:
	scripts/test-newcomer.sh
