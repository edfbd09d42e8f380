// SPDX-License-Identifier: Apache-2.0
//! The script of a page, and the policy that lets a browser run it and nothing else.

use sha2::{Digest, Sha256};

use crate::put::put;

/// Script for pointing, sorting, hiding and copying; built from `web/`. Nothing is lost without it.
pub(crate) const SCRIPT: &str = include_str!("../../../web/dist/report.js");

/// The content policy of a page: its own styles, this one script, and nothing from anywhere.
pub(crate) fn policy() -> String {
    format!(
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{}'; base-uri 'none'; \
         form-action 'none'",
        base64(&Sha256::digest(SCRIPT))
    )
}

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// With padding (RFC 4648).
fn base64(bytes: &[u8]) -> String {
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let byte = |place: usize| u32::from(three.get(place).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            let digit = (bits >> (18 - 6 * place)) & 63;
            match place <= three.len() {
                true => put!(text, "{}", char::from(DIGITS[digit as usize])),
                false => text.push('='),
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_cannot_end_its_element() {
        let lower = SCRIPT.to_ascii_lowercase();
        assert!(!lower.contains("</script"), "it would end there");
        for text in ["<!--", "<script"] {
            assert!(
                !lower.contains(text),
                "{text} would change how the rest is read"
            );
        }
    }

    #[test]
    fn base64_is_that_of_the_standard() {
        for (text, expect) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(text.as_bytes()), expect);
        }
        // Of nothing, as everybody knows it.
        let empty = base64(&Sha256::digest(""));
        assert_eq!(empty, "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=");
    }
}
