// SPDX-License-Identifier: Apache-2.0
//! Stacks as people write them: `raid5`, `nbd(read_delay=5ms)`,
//! `gluster(distribute)+tenant+crypt`.
//!
//! A part is a name and, in parentheses, its settings: `setting=value`, the name of a flag alone,
//! or one word of a setting that takes one of several words.

use plimsoll_core::nearest::nearest;
use plimsoll_core::plan::{StackPart, StackSpec};
use plimsoll_core::settings::{SettingDefinition, SettingError, SettingUnit, SettingValues, hint};

use std::fs;
use std::path::Path;
use std::sync::Arc;

use super::own::{self, OwnStackSpec};
use super::{ALL, LAYERS, LayerRecipe, StackRecipe, find, find_layer};

/// An error in the text of a stack, as a sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// No stack has this name.
    #[error("unknown stack '{name}'{}; available: {}", hint(nearest.as_deref()), super::names())]
    UnknownStack {
        /// The name that was asked for.
        name: String,
        /// The most similar name that is known.
        nearest: Option<String>,
    },
    /// No layer has this name.
    #[error(
        "unknown layer '{name}'{}; available: {}",
        hint(nearest.as_deref()),
        super::layer_names()
    )]
    UnknownLayer {
        /// The name that was asked for.
        name: String,
        /// The most similar name that is known.
        nearest: Option<String>,
    },
    /// A layer that this stack cannot have.
    #[error("cannot put {layer} over {stack}: {reason}")]
    Misplaced {
        /// The layer.
        layer: String,
        /// The stack it was to be put over.
        stack: String,
        /// Why not.
        reason: String,
    },
    /// A setting.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// The text itself.
    #[error("invalid stack '{text}': {reason}")]
    Text {
        /// The text.
        text: String,
        /// The error in it.
        reason: String,
    },
}

/// A stack with everything that can be set resolved.
#[derive(Debug, Clone)]
pub struct StackConfig {
    /// As it was written, words in full.
    pub parts: StackSpec,
    /// The recipe of the base.
    pub stack: &'static dyn StackRecipe,
    /// Its settings.
    pub settings: SettingValues,
    /// The layers over it, from below, with their settings.
    pub layers: Vec<(&'static dyn LayerRecipe, SettingValues)>,
    /// The contents of the file of a user's own stack.
    pub own: Option<Arc<OwnStackSpec>>,
}

/// Ending of the files that describe stacks.
const ENDING: &str = ".toml";

impl StackConfig {
    /// Reads a stack.
    ///
    /// # Errors
    /// When a name or a setting is not known (the nearest that is comes with the error), a value is
    /// not of its unit, or a layer does not go with the stack.
    pub fn parse(text: &str) -> Result<Self, SpecError> {
        let mut pieces = split(text, '+')?.into_iter();
        let first = pieces.next().unwrap_or_default();
        if first.trim().ends_with(ENDING) {
            return StackConfig::of_file(text, first.trim(), pieces);
        }
        let (name, words) = take_apart(text, first)?;
        let stack = find(name).ok_or_else(|| SpecError::UnknownStack {
            name: name.into(),
            nearest: nearest(name, ALL.iter().map(|stack| stack.name())).map(Into::into),
        })?;
        let base = part(stack.name(), stack.settings(), words)?;
        let layers = layers_of(text, pieces)?;
        StackConfig::of(StackSpec { base, layers })
    }

    /// A user's own stack by its file, with layers over it.
    fn of_file<'a>(
        text: &str,
        file: &str,
        layers: impl Iterator<Item = &'a str>,
    ) -> Result<Self, SpecError> {
        let wrong = |reason: String| SpecError::Text {
            text: text.into(),
            reason,
        };
        let path = fs::canonicalize(file).map_err(|error| wrong(error.to_string()))?;
        let path = path
            .to_str()
            .filter(|path| !path.contains(['(', ')', ',', '+']));
        let path = path.ok_or_else(|| wrong("its path must not contain any of (),+".into()))?;
        let base = StackPart {
            name: own::NAME.into(),
            given: vec![(own::FILE.into(), path.into())],
        };
        let layers = layers_of(text, layers)?;
        StackConfig::of(StackSpec { base, layers })
    }

    /// Resolves what a journal holds.
    ///
    /// # Errors
    /// As [`StackConfig::parse`].
    pub fn of(parts: StackSpec) -> Result<Self, SpecError> {
        let base = &parts.base;
        let stack = find(&base.name).ok_or_else(|| SpecError::UnknownStack {
            name: base.name.clone(),
            nearest: None,
        })?;
        let settings = SettingValues::new(stack.name(), stack.settings(), &base.given)?;
        let own = match (stack.name(), base.given.first()) {
            (own::NAME, Some((_, file))) => {
                let read = OwnStackSpec::read(Path::new(file));
                Some(Arc::new(read.map_err(|reason| SpecError::Text {
                    text: file.clone(),
                    reason,
                })?))
            }
            _ => None,
        };
        let mut layers: Vec<(&'static dyn LayerRecipe, SettingValues)> = Vec::new();
        for part in &parts.layers {
            let layer = find_layer(&part.name).ok_or_else(|| SpecError::UnknownLayer {
                name: part.name.clone(),
                nearest: None,
            })?;
            let misplaced = |reason: &str| SpecError::Misplaced {
                layer: layer.name().into(),
                stack: stack.name().into(),
                reason: reason.into(),
            };
            if layers.iter().any(|(other, _)| other.name() == layer.name()) {
                return Err(misplaced("it is already in the stack"));
            }
            if let Some(stacks) = layer.only_over()
                && !stacks.contains(&stack.name())
            {
                return Err(misplaced(&format!(
                    "it works over {} only",
                    stacks.join(", ")
                )));
            }
            let settings = SettingValues::new(layer.name(), layer.settings(), &part.given)?;
            layers.push((layer, settings));
        }
        Ok(StackConfig {
            parts,
            stack,
            settings,
            layers,
            own,
        })
    }

    /// The settings of a layer, if it is there.
    pub fn layer(&self, name: &str) -> Option<&SettingValues> {
        let found = self.layers.iter().find(|(layer, _)| layer.name() == name);
        found.map(|(_, settings)| settings)
    }
}

/// The layers of a stack as they are written.
fn layers_of<'a>(
    text: &str,
    pieces: impl Iterator<Item = &'a str>,
) -> Result<Vec<StackPart>, SpecError> {
    let layer = |piece| {
        let (name, words) = take_apart(text, piece)?;
        let layer = find_layer(name).ok_or_else(|| SpecError::UnknownLayer {
            name: name.into(),
            nearest: nearest(name, LAYERS.iter().map(|l| l.name())).map(Into::into),
        })?;
        part(layer.name(), layer.settings(), words)
    };
    pieces.map(layer).collect()
}

/// Splits at a letter outside of parentheses.
fn split(text: &str, at: char) -> Result<Vec<&str>, SpecError> {
    let wrong = |reason: &str| SpecError::Text {
        text: text.into(),
        reason: reason.into(),
    };
    let (mut pieces, mut begin, mut depth) = (Vec::new(), 0, 0_u32);
    for (n, letter) in text.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => {
                depth = depth.checked_sub(1).ok_or_else(|| wrong("unmatched )"))?;
            }
            _ if letter == at && depth == 0 => {
                pieces.push(&text[begin..n]);
                begin = n + at.len_utf8();
            }
            _ => {}
        }
    }
    if depth > 0 {
        return Err(wrong("unmatched ("));
    }
    pieces.push(&text[begin..]);
    Ok(pieces)
}

/// A piece as its name and the words in parentheses.
fn take_apart<'a>(text: &str, piece: &'a str) -> Result<(&'a str, Vec<&'a str>), SpecError> {
    let piece = piece.trim();
    let Some((name, rest)) = piece.split_once('(') else {
        return Ok((piece, Vec::new()));
    };
    let Some(inside) = rest.strip_suffix(')') else {
        return Err(SpecError::Text {
            text: text.into(),
            reason: format!("unexpected text after the settings of {name}"),
        });
    };
    let words = split(inside, ',')?.into_iter().map(str::trim);
    Ok((name.trim(), words.filter(|word| !word.is_empty()).collect()))
}

fn part(
    name: &str,
    declared: &'static [SettingDefinition],
    words: Vec<&str>,
) -> Result<StackPart, SpecError> {
    let mut given: Vec<(String, String)> = Vec::new();
    for word in words {
        check_word(name, declared, word)?;
        let (setting, value) = match word.split_once('=') {
            Some((setting, value)) => (setting.trim(), value.trim()),
            None => alone(declared, word),
        };
        given.push((setting.into(), value.into()));
    }
    // Errors in them are reported here, with the names that are known.
    SettingValues::new(name, declared, &given)?;
    Ok(StackPart {
        name: name.into(),
        given,
    })
}

/// A word alone that is neither known nor near the name of a setting may be a slip in one of the
/// words that a setting takes.
fn check_word(
    name: &str,
    declared: &'static [SettingDefinition],
    word: &str,
) -> Result<(), SpecError> {
    let choices = declared.iter().flat_map(|setting| match setting.unit {
        SettingUnit::Choice(words) => words,
        _ => &[],
    });
    let choices: Vec<&str> = choices.copied().collect();
    let is_known = word.contains('=')
        || choices.contains(&word)
        || declared.iter().any(|setting| setting.name == word);
    match nearest(word, choices) {
        Some(meant) if !is_known => Err(SpecError::Text {
            text: format!("{name}({word})"),
            reason: format!("unknown word '{word}'; did you mean '{meant}'?"),
        }),
        _ => Ok(()),
    }
}

/// A word without a value: one of the words of a setting, else the name of a flag.
fn alone<'a>(declared: &'static [SettingDefinition], word: &'a str) -> (&'a str, &'a str) {
    let takes = |setting: &&SettingDefinition| match setting.unit {
        SettingUnit::Choice(words) => words.contains(&word),
        _ => false,
    };
    match declared.iter().find(takes) {
        Some(setting) => (setting.name, word),
        None => (word, "on"),
    }
}
