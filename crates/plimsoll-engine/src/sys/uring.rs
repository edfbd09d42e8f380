// SPDX-License-Identifier: Apache-2.0
//! The `io_uring` engine: block operations on one file or device, as deep as there are slots; or
//! requests that do nothing, which show what ring, driver and statistics cost without a target.
//!
//! Wanted: a single issuer with deferred task work, the file and the buffers registered. What the
//! kernel or its limits refuse is done without, and [`IoEngine::describe`] says so. The ring belongs
//! to the thread that made it. The ring's own descriptor is not registered: the binding keeps that
//! registration in a borrowed handle that cannot be stored beside the ring.
//!
//! Invariant: a buffer is reachable through [`IoEngine::buffer`] only while its slot is free, and
//! its memory is freed only when no operation is in flight; an engine dropped with operations in
//! flight waits a little for them and then gives the memory up for good.
#![expect(
    unsafe_code,
    reason = "the kernel reads and writes memory that Rust does not see it touch"
)]

use std::io;
use std::io::IoSliceMut;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use io_uring::{IoUring, opcode, squeue, types};
use plimsoll_core::num::saturating_u32;
use plimsoll_core::op::{OpKind, OpRequest};
use plimsoll_core::rng::Seed;
use plimsoll_core::units::Nanos;
use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use crate::data_file;
use crate::engine::pretended_bytes;
use crate::engine::{IoBuffer, IoCompletion, IoEngine, UnsupportedOp, buffers, fits};
use crate::error::EngineError;
use crate::sys::sync_range::SYNC_RANGE_FLAGS;

/// Most slots: the kernel's limit for the entries of a ring is 32768, and no workload here wants
/// more than some hundred.
pub const SLOTS_MAX: u32 = 4096;

/// At the end of the file.
const APPEND_FLAGS: i32 = libc::RWF_APPEND;

/// How long a dropped engine waits for operations in flight, in total.
const PARTING_WAIT: Nanos = Nanos(200_000_000);

/// One ring on one file.
pub struct UringEngine {
    ring: IoUring,
    /// Kept open while the ring may use it; `None` when requests do nothing.
    file: Option<Arc<OwnedFd>>,
    buffers: ManuallyDrop<Vec<IoBuffer>>,
    busy: Vec<bool>,
    /// Pushed to the ring and not yet taken by the kernel.
    queued: u32,
    in_flight: u32,
    /// A close, which a worker does when nothing else is in flight: carried out at the submission,
    /// because the ring can only close descriptors that it would then have to be given.
    closing: Option<u32>,
    closed: Option<IoCompletion>,
    file_registered: bool,
    buffers_registered: bool,
    /// Features that the kernel or its limits refused.
    missing: Vec<&'static str>,
}

impl std::fmt::Debug for UringEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Uring({}, {} in flight)",
            self.describe(),
            self.in_flight
        )
    }
}

impl UringEngine {
    /// A ring of `slots` (at most [`SLOTS_MAX`]) slots on `file`, for requests of at most
    /// `len_max` bytes. To be used by the calling thread only.
    ///
    /// # Errors
    /// When this kernel has no `io_uring`, forbids it, or is older than 5.11 (waits with a time
    /// limit).
    pub fn new(file: Arc<OwnedFd>, slots: u32, len_max: u32, seed: Seed) -> io::Result<Self> {
        let mut uring = UringEngine::on_nothing(slots, len_max, seed)?;
        let registered = uring.ring.submitter().register_files(&[file.as_raw_fd()]);
        uring.file_registered = registered.is_ok();
        if registered.is_err() {
            uring.missing.push("registered files");
        }
        uring.file = Some(file);
        Ok(uring)
    }

    /// A ring of `slots` slots whose requests go to the kernel, do nothing there, and report their
    /// length. To be used by the calling thread only.
    ///
    /// # Errors
    /// As [`UringEngine::new`].
    pub fn nop(slots: u32) -> io::Result<Self> {
        UringEngine::on_nothing(slots, 0, Seed(0))
    }

    fn on_nothing(slots: u32, len_max: u32, seed: Seed) -> io::Result<Self> {
        let slots = slots.clamp(1, SLOTS_MAX);
        let mut missing = Vec::new();
        let ring = build(slots, &mut missing)?;
        if !ring.params().is_feature_ext_arg() {
            return Err(io::Error::from(io::ErrorKind::Unsupported));
        }
        let mut buffers = buffers(slots, len_max, seed);
        let buffers_registered = len_max > 0 && register_buffers(&ring, &mut buffers).is_ok();
        if len_max > 0 && !buffers_registered {
            missing.push("registered buffers");
        }
        Ok(UringEngine {
            ring,
            file: None,
            buffers: ManuallyDrop::new(buffers),
            busy: vec![false; slots as usize],
            queued: 0,
            in_flight: 0,
            closing: None,
            closed: None,
            file_registered: false,
            buffers_registered,
            missing,
        })
    }

    fn entry(&mut self, slot: u32, request: &OpRequest) -> Option<squeue::Entry> {
        let Some(file) = &self.file else {
            // The byte count that the request claims to have moved travels with its slot.
            let data = pretended_bytes(request) << 32 | u64::from(slot);
            return Some(opcode::Nop::new().build().user_data(data));
        };
        let memory = self.buffers[slot as usize].bytes_mut().as_mut_ptr();
        let (len, offset) = (request.len, request.offset);
        let index = u16::try_from(slot).expect("slots are fewer than SLOTS_MAX");
        let fixed = self.buffers_registered;
        let (fd, flags) = if self.file_registered {
            (types::Fd(0), squeue::Flags::FIXED_FILE)
        } else {
            (types::Fd(file.as_raw_fd()), squeue::Flags::empty())
        };
        let entry = match request.kind {
            OpKind::Read if fixed => opcode::ReadFixed::new(fd, memory, len, index)
                .offset(offset)
                .build(),
            OpKind::Read => opcode::Read::new(fd, memory, len).offset(offset).build(),
            OpKind::Write if fixed => opcode::WriteFixed::new(fd, memory, len, index)
                .offset(offset)
                .build(),
            OpKind::Write => opcode::Write::new(fd, memory, len).offset(offset).build(),
            OpKind::Append => opcode::Write::new(fd, memory, len)
                .rw_flags(APPEND_FLAGS)
                .build(),
            OpKind::Fsync => opcode::Fsync::new(fd).build(),
            OpKind::Fdatasync => opcode::Fsync::new(fd)
                .flags(types::FsyncFlags::DATASYNC)
                .build(),
            OpKind::SyncRange => opcode::SyncFileRange::new(fd, len)
                .offset(offset)
                .flags(SYNC_RANGE_FLAGS)
                .build(),
            // Block devices take it too, as a discard.
            OpKind::Discard => opcode::Fallocate::new(fd, u64::from(len))
                .offset(offset)
                .mode(punch_hole())
                .build(),
            _ => return None,
        };
        Some(entry.flags(flags).user_data(u64::from(slot)))
    }

    /// Tolerates the answers that mean "come back": the time is up, a signal came, the kernel is
    /// short of something for a moment.
    fn took(&mut self, submitted: io::Result<usize>) -> Result<(), EngineError> {
        match submitted {
            Ok(n) => {
                self.queued = self.queued.saturating_sub(saturating_u32(n as u64));
                Ok(())
            }
            Err(error) => match Errno::from_io_error(&error) {
                Some(Errno::TIME | Errno::INTR | Errno::AGAIN | Errno::BUSY) => {
                    let left = self.ring.submission().len();
                    self.queued = saturating_u32(left as u64);
                    Ok(())
                }
                _ => Err(EngineError::Io {
                    doing: "hand operations to io_uring".into(),
                    source: error,
                }),
            },
        }
    }
}

impl IoEngine for UringEngine {
    fn describe(&self) -> String {
        let name = match self.file {
            Some(_) => "io_uring",
            None => "io_uring, requests that do nothing",
        };
        if self.missing.is_empty() {
            name.into()
        } else {
            format!("{name} without {}", self.missing.join(", "))
        }
    }

    fn moves_data(&self) -> bool {
        self.file.is_some()
    }

    fn slots(&self) -> u32 {
        saturating_u32(self.busy.len() as u64)
    }

    fn has_kernel_threads(&self) -> bool {
        true
    }

    fn buffer(&mut self, slot: u32) -> &mut [u8] {
        assert!(!self.busy[slot as usize], "the slot is free");
        self.buffers[slot as usize].bytes_mut()
    }

    fn queue(&mut self, slot: u32, request: &OpRequest) -> Result<(), UnsupportedOp> {
        assert!(!self.busy[slot as usize], "the slot is free");
        let room = self.buffers[slot as usize].bytes().len();
        let held = !self.moves_data() || fits(request, room);
        assert!(held, "the request fits its buffer");
        if request.kind == OpKind::Close && self.file.is_some() {
            assert!(self.closing.is_none(), "one close at a time");
            self.busy[slot as usize] = true;
            self.closing = Some(slot);
            return Ok(());
        }
        let entry = self
            .entry(slot, request)
            .ok_or(UnsupportedOp(request.kind))?;
        // SAFETY: the buffer is `len` bytes long, belongs to this slot alone, is out of reach
        // while the slot is busy, and is not freed before the completion has been seen (see
        // `drop`); the file is open as long as `self.file` lives.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.expect("the ring has an entry per slot");
        self.busy[slot as usize] = true;
        self.queued += 1;
        self.in_flight += 1;
        Ok(())
    }

    fn enter(&mut self, wait: Option<Nanos>) -> Result<(), EngineError> {
        if let (Some(slot), Some(file)) = (self.closing.take(), &self.file) {
            let result = data_file::close(file).map_err(Errno::raw_os_error);
            self.closed = Some(IoCompletion { slot, result });
            return self.enter(None);
        }
        let taskrun = self.ring.submission().taskrun();
        if let Some(time) = wait {
            if !self.ring.completion().is_empty() {
                // Something has ended already: submit and do not sleep.
                return self.enter(None);
            }
            let seconds = time.0 / 1_000_000_000;
            let rest = saturating_u32(time.0 % 1_000_000_000);
            let limit = types::Timespec::new().sec(seconds).nsec(rest);
            let args = types::SubmitArgs::new().timespec(&limit);
            let submitted = self.ring.submitter().submit_with_args(1, &args);
            return self.took(submitted);
        }
        // Without deferred work or overflow to fetch, a look at the completion ring is enough.
        if self.queued == 0 && !taskrun && !self.ring.submission().cq_overflow() {
            return Ok(());
        }
        let submitted = self.ring.submitter().submit();
        self.took(submitted)
    }

    fn reap(&mut self, done: &mut Vec<IoCompletion>) {
        if let Some(closed) = self.closed.take() {
            self.busy[closed.slot as usize] = false;
            done.push(closed);
        }
        for entry in self.ring.completion() {
            let slot = saturating_u32(entry.user_data() & u64::from(u32::MAX));
            // Zero but for requests that do nothing.
            let pretended = entry.user_data() >> 32;
            let result = u64::try_from(entry.result())
                .map(|moved| moved + pretended)
                .map_err(|_| -entry.result());
            self.busy[slot as usize] = false;
            self.in_flight -= 1;
            done.push(IoCompletion { slot, result });
        }
    }
}

impl Drop for UringEngine {
    fn drop(&mut self) {
        let mut done = Vec::new();
        let mut failed = false;
        for _ in 0..20 {
            if self.in_flight == 0 || failed {
                break;
            }
            failed = self.enter(Some(Nanos(PARTING_WAIT.0 / 20))).is_err();
            self.reap(&mut done);
        }
        if self.in_flight == 0 {
            // SAFETY: dropped once, here; the kernel holds no operation on the buffers, and
            // registered pages are pinned by the kernel itself.
            unsafe { ManuallyDrop::drop(&mut self.buffers) };
        }
    }
}

/// The ring with the best set of flags that this kernel takes.
fn build(slots: u32, missing: &mut Vec<&'static str>) -> io::Result<IoUring> {
    let mut best = IoUring::builder();
    best.setup_single_issuer()
        .setup_defer_taskrun()
        .setup_taskrun_flag();
    if let Ok(ring) = best.build(slots) {
        return Ok(ring);
    }
    missing.push("deferred task work");
    let mut good = IoUring::builder();
    good.setup_coop_taskrun().setup_taskrun_flag();
    if let Ok(ring) = good.build(slots) {
        return Ok(ring);
    }
    missing.push("cooperative task work");
    IoUring::builder().build(slots)
}

/// The mode of `fallocate` that gives the blocks back and keeps the size.
fn punch_hole() -> i32 {
    let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    mode.bits().cast_signed()
}

fn register_buffers(ring: &IoUring, buffers: &mut [IoBuffer]) -> io::Result<()> {
    let slices: Vec<IoSliceMut<'_>> = buffers
        .iter_mut()
        .map(|buffer| IoSliceMut::new(buffer.bytes_mut()))
        .collect();
    // SAFETY: the standard library guarantees that `IoSliceMut` has the layout of `iovec` on
    // Unix, and the vector outlives the slice.
    let vectors = unsafe { std::slice::from_raw_parts(slices.as_ptr().cast(), slices.len()) };
    // SAFETY: the memory is not freed while the ring lives with operations in flight (see
    // `drop`), and the kernel pins the pages for itself.
    unsafe { ring.submitter().register_buffers(vectors) }
}
