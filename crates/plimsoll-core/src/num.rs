// SPDX-License-Identifier: Apache-2.0
//! Checked conversions between numbers, so that casts are argued once.

/// Nearest unsigned integer; negative and NaN become 0, too large becomes `u64::MAX`.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "float-to-int `as` saturates, which is the documented behaviour"
)]
pub fn round_u64(value: f64) -> u64 {
    value.round() as u64
}

/// Integer part; negative and NaN become 0, too large becomes `u64::MAX`.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "float-to-int `as` saturates, which is the documented behaviour"
)]
pub fn floor_u64(value: f64) -> u64 {
    value.floor() as u64
}

/// As `u32`, saturating.
pub fn saturating_u32(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

/// As `usize`; the supported machines are 64-bit, so nothing is lost.
pub fn to_usize(value: u64) -> usize {
    usize::try_from(value).expect("64-bit machine")
}

/// `part / whole`, or 0 when `whole` is 0.
pub fn ratio(part: f64, whole: f64) -> f64 {
    if whole == 0.0 { 0.0 } else { part / whole }
}
