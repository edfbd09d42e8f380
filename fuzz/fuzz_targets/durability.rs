// SPDX-License-Identifier: Apache-2.0
//! The target [`plimsoll_fuzz_targets::durability`], for libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| plimsoll_fuzz_targets::durability(input));
