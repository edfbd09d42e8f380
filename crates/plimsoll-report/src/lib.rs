// SPDX-License-Identifier: Apache-2.0
//! The report: results mapped to data, and data mapped to text and to one self-contained page.
//!
//! [`build`] is the only place that decides what is said; the renderers decide only how it looks.
//! Nothing here reads or writes files, and nothing here computes a verdict: that is the business
//! of the statistics crate.
#![forbid(unsafe_code)]

mod build;
mod csv;
mod data;
mod html;
pub mod model;
mod svg;
mod terminal;
mod words;

pub use build::build;
pub use csv::csv;
pub use data::phase;
pub use html::html;
pub use model::Report;
pub use terminal::terminal;

/// Formats into a string, which cannot fail.
macro_rules! put {
    ($out:expr, $($args:tt)*) => {
        std::fmt::Write::write_fmt(&mut $out, format_args!($($args)*))
            .expect("a string takes all that is written")
    };
}
pub(crate) use put;
