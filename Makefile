# SPDX-License-Identifier: Apache-2.0
# Two commands: `make demo` does the main job on this machine, `make test` checks the project.

SHELL := /bin/bash
.PHONY: demo test fuzz test-stacks test-vm test-newcomer guide build

# The program, and the agent that it copies to other machines (docs/stacks/inventory.md), which is static
# for that and lies beside it. The flags are for these two alone: macros of the compiler cannot be static.
# Of the program the names of functions stay for back-traces, and a panic says its line without them.
STATIC := -C target-feature=+crt-static -C link-arg=-Wl,--build-id
build:
	cargo rustc --locked --profile agent --package plimsoll-agent --bin plimsoll-agent -- $(STATIC)
	cargo rustc --locked --release --package plimsoll --bin plimsoll -- $(STATIC) -C strip=debuginfo
	cp "$${CARGO_TARGET_DIR:-target}"/agent/plimsoll-agent "$${CARGO_TARGET_DIR:-target}"/release/

demo:
	scripts/setup.sh demo
	$(MAKE) --no-print-directory build
	scripts/demo.sh

# Recordings of others that tests hold results against; not part of this repository.
export PLIMSOLL_TEST_DATA ?= $(abspath $(if $(wildcard ../shared/data),../shared/data,target/recordings))

test:
	scripts/setup.sh test
	scripts/fetch-recordings.sh "$$PLIMSOLL_TEST_DATA" || echo "tests on recordings will say SKIPPED"
	cargo fmt --all --check
	scripts/check-shell.sh
	scripts/check-spelling.sh
	cargo clippy --workspace --all-targets --locked -- -D warnings
	cargo xtask deps
	cargo xtask fuzz 5
	cargo xtask test

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
