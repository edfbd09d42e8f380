// SPDX-License-Identifier: Apache-2.0
//! Enumerations whose variants have names.

/// Gives an enumeration the list of its variants and their names, both from one table, which has every
/// variant in the order of its declaration. With the word `Display` behind the enumeration's name, the
/// enumeration is also shown by these names.
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
    ($of:ident, Display, $(#[$about:meta])* $name:ident: $($variant:ident => $text:literal,)+) => {
        $crate::named::named_variants! { $of, $(#[$about])* $name: $($variant => $text,)+ }

        impl std::fmt::Display for $of {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.$name())
            }
        }
    };
}

pub use named_variants;
