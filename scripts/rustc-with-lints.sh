#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The compiler, for cargo's `rustc-workspace-wrapper`: Clippy's driver, which is the compiler with lints added,
# for what holds tests and for examples; the compiler alone for the libraries and programs beside them. Their
# code is in both: one look is enough, and Clippy takes a sixth of a build. Bash, since other shells drop
# variables with a dash in their names, of which cargo has some.
# Clippy's arguments are in CLIPPY_ARGS, as `cargo clippy` gives them; warnings of the compiler are errors in both.
for word; do
  case $word in
    --test | examples/* | */examples/*) exec clippy-driver "$@" ;;
  esac
done
exec "$@" -D warnings
