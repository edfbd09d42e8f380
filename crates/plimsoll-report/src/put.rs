// SPDX-License-Identifier: Apache-2.0
//! Formatting into strings.

/// Formats into a string, which cannot fail.
macro_rules! put {
    ($out:expr, $($args:tt)*) => {
        std::fmt::Write::write_fmt(&mut $out, format_args!($($args)*))
            .expect("a string takes all that is written")
    };
}
pub(crate) use put;
