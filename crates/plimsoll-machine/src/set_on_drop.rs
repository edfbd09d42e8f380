// SPDX-License-Identifier: Apache-2.0
//! A flag that is set however the work ends that another thread waits for.

use std::sync::atomic::{AtomicBool, Ordering};

/// Sets a flag when it is dropped, also by a panic. A scope joins its threads before it hands a panic on:
/// one that waits for a flag which the panic passed over would wait for ever, and the program with it.
#[derive(Debug)]
pub struct SetOnDrop<'a>(pub &'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn a_thread_that_waits_for_the_end_ends_by_a_panic_too() {
        let over = AtomicBool::new(false);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    while !over.load(Ordering::Relaxed) {
                        std::thread::yield_now();
                    }
                });
                let _over = SetOnDrop(&over);
                panic!("the work");
            });
        }));
        assert!(panicked.is_err());
    }
}
