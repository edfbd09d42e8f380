// SPDX-License-Identifier: Apache-2.0
//! Plain system calls on helper threads: depth where `io_uring` is forbidden.
//!
//! A buffer travels with its operation to the thread that carries it out and back, so no other thread
//! can touch it in between. Service times include two hand-overs between threads; where `io_uring`
//! works it is the better engine.

use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use plimsoll_core::op::OpRequest;
use plimsoll_core::rng::Seed;
use plimsoll_core::units::Nanos;

use crate::engine::{IoBuffer, IoCompletion, IoEngine, UnsupportedOp, buffers, fits};
use crate::error::EngineError;
use crate::sys::clock::nap;
use crate::target::RequestTarget;

/// Most helper threads. A deeper workload is lowered to this depth, and the description says so.
pub const THREADS_MAX: u32 = 64;

struct PoolJob {
    slot: u32,
    request: OpRequest,
    buffer: IoBuffer,
}

type PoolJobResult = (IoCompletion, IoBuffer);

/// One thread per slot, fed through one queue.
#[derive(Debug)]
pub struct ThreadPoolEngine {
    target: RequestTarget,
    /// `None` while the slot holds an operation.
    buffers: Vec<Option<IoBuffer>>,
    len_max: u32,
    queued: Vec<(u32, OpRequest)>,
    in_flight: usize,
    arrived: Vec<PoolJobResult>,
    /// `None` only while the pool is dropped: that is how the threads learn to end.
    errands: Option<Sender<PoolJob>>,
    returns: Receiver<PoolJobResult>,
    threads: Vec<JoinHandle<()>>,
    thread_ids: Vec<u32>,
}

impl std::fmt::Debug for PoolJob {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Errand({}, {:?})", self.slot, self.request)
    }
}

impl ThreadPoolEngine {
    /// An engine of `slots` (at most [`THREADS_MAX`]) threads on `file`, for requests of at most
    /// `len_max` bytes.
    ///
    /// # Errors
    /// When a thread cannot be started.
    pub fn new(
        file: Arc<OwnedFd>,
        slots: u32,
        len_max: u32,
        seed: Seed,
    ) -> Result<Self, EngineError> {
        let slots = slots.clamp(1, THREADS_MAX);
        let target = RequestTarget::File(file);
        let (errands, inbox) = channel::<PoolJob>();
        let (outbox, returns) = channel();
        let (id_sender, ids) = channel();
        let inbox = Arc::new(Mutex::new(inbox));
        let mut threads = Vec::new();
        for _ in 0..slots {
            let (inbox, outbox, id_sender) =
                (Arc::clone(&inbox), outbox.clone(), id_sender.clone());
            let mut target = target.share().expect("a file can be shared");
            let work = move || {
                let _ = id_sender.send(thread_id());
                help(&inbox, &outbox, &mut target);
            };
            let thread = std::thread::Builder::new().name("plimsoll-io".into());
            threads.push(
                thread
                    .spawn(work)
                    .map_err(EngineError::doing("start a helper thread"))?,
            );
        }
        Ok(ThreadPoolEngine {
            target,
            buffers: buffers(slots, len_max, seed)
                .into_iter()
                .map(Some)
                .collect(),
            len_max,
            queued: Vec::with_capacity(slots as usize),
            in_flight: 0,
            arrived: Vec::with_capacity(slots as usize),
            errands: Some(errands),
            returns,
            thread_ids: ids.iter().take(slots as usize).collect(),
            threads,
        })
    }
}

/// The kernel's id of the calling thread.
pub(crate) fn thread_id() -> u32 {
    rustix::thread::gettid()
        .as_raw_nonzero()
        .get()
        .unsigned_abs()
}

fn help(
    inbox: &Mutex<Receiver<PoolJob>>,
    outbox: &Sender<PoolJobResult>,
    target: &mut RequestTarget,
) {
    // Ends when the pool drops its sender.
    loop {
        let errand = match inbox.lock() {
            Ok(inbox) => inbox.recv(),
            Err(_) => return,
        };
        let Ok(mut errand) = errand else { return };
        let result = target.perform(&errand.request, errand.buffer.bytes_mut());
        let completion = IoCompletion {
            slot: errand.slot,
            result,
        };
        if outbox.send((completion, errand.buffer)).is_err() {
            return;
        }
    }
}

impl IoEngine for ThreadPoolEngine {
    fn describe(&self) -> String {
        format!("sync on {} threads", self.threads.len())
    }

    fn slots(&self) -> u32 {
        plimsoll_core::num::saturating_u32(self.buffers.len() as u64)
    }

    fn helper_threads(&self) -> Vec<u32> {
        self.thread_ids.clone()
    }

    fn buffer(&mut self, slot: u32) -> &mut [u8] {
        let buffer = self.buffers[slot as usize].as_mut();
        buffer.expect("the slot is free").bytes_mut()
    }

    fn queue(&mut self, slot: u32, request: &OpRequest) -> Result<(), UnsupportedOp> {
        if !self.target.supports(request.kind) {
            return Err(UnsupportedOp(request.kind));
        }
        assert!(
            fits(request, self.len_max as usize),
            "the request fits its buffer"
        );
        let free = self.buffers[slot as usize].is_some();
        let twice = self.queued.iter().any(|(queued, _)| *queued == slot);
        assert!(free && !twice, "the slot is free");
        self.queued.push((slot, *request));
        Ok(())
    }

    fn enter(&mut self, wait: Option<Nanos>) -> Result<(), EngineError> {
        for (slot, request) in self.queued.drain(..) {
            let buffer = self.buffers[slot as usize].take();
            let errand = PoolJob {
                slot,
                request,
                buffer: buffer.expect("the slot was free when it was queued"),
            };
            let errands = self.errands.as_ref().expect("the pool is alive");
            errands.send(errand).map_err(|_| broken())?;
            self.in_flight += 1;
        }
        let Some(time) = wait else { return Ok(()) };
        if self.in_flight == 0 {
            nap(time);
            return Ok(());
        }
        match self.returns.recv_timeout(Duration::from_nanos(time.0)) {
            Ok(back) => self.arrived.push(back),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err(broken()),
        }
        Ok(())
    }

    fn reap(&mut self, done: &mut Vec<IoCompletion>) {
        self.arrived.extend(self.returns.try_iter());
        for (completion, buffer) in self.arrived.drain(..) {
            self.buffers[completion.slot as usize] = Some(buffer);
            self.in_flight -= 1;
            done.push(completion);
        }
    }
}

fn broken() -> EngineError {
    EngineError::Io {
        doing: "hand an operation to a helper thread".into(),
        source: std::io::Error::other("the thread has ended"),
    }
}

impl Drop for ThreadPoolEngine {
    fn drop(&mut self) {
        self.errands = None;
        // A thread that hangs in a call on a dead server must not hang the program: it owns its
        // buffer and its share of the file, and is left to the end of the process.
        if self.in_flight == 0 {
            for thread in self.threads.drain(..) {
                let _ = thread.join();
            }
        }
    }
}
