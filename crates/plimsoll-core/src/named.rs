// SPDX-License-Identifier: Apache-2.0
//! Enumerations whose variants have names.

/// Gives an enumeration the list of its variants and their names, both from one table, which has every
/// variant in the order of its declaration.
#[macro_export]
macro_rules! named_variants {
    ($of:ident, $(#[$about:meta])* $name:ident: $($variant:ident => $text:literal,)+) => {
        impl $of {
            /// All of them, in order.
            pub const ALL: [$of; [$($text),+].len()] = [$($of::$variant),+];

            $(#[$about])*
            #[must_use]
            pub fn $name(self) -> &'static str {
                match self {
                    $($of::$variant => $text,)+
                }
            }
        }
    };
}

pub use named_variants;
