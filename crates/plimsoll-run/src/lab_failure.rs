// SPDX-License-Identifier: Apache-2.0
//! Which exit code an error of the lab calls for.

use plimsoll_console::failure::{CliError, CliExitCode, doing};
use plimsoll_lab::stacks::{ChangeError, UpError};
use plimsoll_lab::vm::VmError;
use std::fmt;

/// An error of the lab, which may be a mistake of the user.
pub trait OfLab: fmt::Display {
    /// Whether it is for the user to ask for something else.
    fn is_mistake(&self) -> bool;

    /// Whether the user wanted it to end.
    fn is_stop(&self) -> bool {
        false
    }
}

impl OfLab for UpError {
    fn is_mistake(&self) -> bool {
        matches!(self, UpError::AlreadyUp { .. } | UpError::Wrong(_))
    }

    fn is_stop(&self) -> bool {
        matches!(self, UpError::Raise(error) if error.is_stop())
    }
}

impl OfLab for ChangeError {
    fn is_mistake(&self) -> bool {
        matches!(self, ChangeError::NotUp { .. })
    }
}

impl OfLab for VmError {
    fn is_mistake(&self) -> bool {
        use VmError::{AlreadyUp, NotUp, Wanted};
        matches!(self, AlreadyUp | NotUp | Wanted(_))
    }

    fn is_stop(&self) -> bool {
        matches!(self, VmError::Raise(error) if error.is_stop())
    }
}

/// The same as [`doing`], with the code that the error calls for.
pub fn trying<E: OfLab>(what: impl Into<String>) -> impl Fn(E) -> CliError {
    let what = what.into();
    move |error| {
        let code = if error.is_stop() {
            CliExitCode::Interrupted
        } else if error.is_mistake() {
            CliExitCode::Usage
        } else {
            CliExitCode::Failed
        };
        doing(code, what.clone())(error)
    }
}
