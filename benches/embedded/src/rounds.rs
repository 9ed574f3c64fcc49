//! Rounds that two workers, threads or processes, run together.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

/// What the workers share.
struct Shared {
    arrived: AtomicU32,
    round: AtomicU32,
}

/// Where two workers wait for each other: memory that a fork shares with its parent.
pub(crate) struct Board(&'static Shared);

impl Board {
    pub(crate) fn new() -> Self {
        // SAFETY: new memory, shared with processes to come.
        let memory = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                size_of::<Shared>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        assert!(memory != libc::MAP_FAILED, "no memory to share");
        // SAFETY: zeroed memory that is never unmapped; both fields may be zero.
        Self(unsafe { &*memory.cast::<Shared>() })
    }

    /// Waits until both workers are here.
    fn meet(&self) {
        let round = self.0.round.load(Ordering::Acquire);
        if self.0.arrived.fetch_add(1, Ordering::AcqRel) == 1 {
            self.0.arrived.store(0, Ordering::Relaxed);
            self.0.round.store(round.wrapping_add(1), Ordering::Release);
            return;
        }
        let mut spins = 0_u32;
        while self.0.round.load(Ordering::Acquire) == round {
            spins += 1;
            if spins % (1 << 12) == 0 {
                std::thread::yield_now();
            }
            std::hint::spin_loop();
        }
    }

    /// Works in rounds beside the other worker, on a core of its own where there are two; the
    /// nanoseconds of the shortest round.
    pub(crate) fn work(&self, worker: usize, rounds: usize, mut work: impl FnMut()) -> f64 {
        let unpinned = pin(worker);
        let mut least = f64::INFINITY;
        for _ in 0..rounds {
            self.meet();
            let start = Instant::now();
            work();
            self.meet();
            least = least.min(start.elapsed().as_nanos() as f64);
        }
        restore(&unpinned);
        least
    }
}

/// Binds this thread to one of the cores that it may run on; which they were.
fn pin(worker: usize) -> libc::cpu_set_t {
    // SAFETY: a set of bits, for which zero is a value.
    let mut allowed: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: a set of our own, of the size told.
    unsafe { libc::sched_getaffinity(0, size_of_val(&allowed), &raw mut allowed) };
    let cores: Vec<usize> = (0..libc::CPU_SETSIZE as usize)
        // SAFETY: the set has this many bits.
        .filter(|core| unsafe { libc::CPU_ISSET(*core, &allowed) })
        .collect();
    // SAFETY: as above.
    let mut one: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    if let Some(core) = cores.get(worker % cores.len().max(1)) {
        // SAFETY: a core of the set above.
        unsafe { libc::CPU_SET(*core, &mut one) };
        restore(&one);
    }
    allowed
}

fn restore(cores: &libc::cpu_set_t) {
    // SAFETY: a set of our own, of the size told. Where it is refused the scheduler chooses.
    unsafe { libc::sched_setaffinity(0, size_of_val(cores), cores) };
}

/// A child process.
pub(crate) struct Child(libc::pid_t);

/// Runs `work` in a fork of this process, which has no other thread.
pub(crate) fn fork(work: impl FnOnce()) -> Child {
    // SAFETY: this process has one thread, so that the child may go on as the parent does.
    match unsafe { libc::fork() } {
        -1 => panic!("no child process"),
        0 => {
            work();
            // SAFETY: ends the child without what the parent does at its end.
            unsafe { libc::_exit(0) }
        }
        pid => Child(pid),
    }
}

impl Child {
    pub(crate) fn wait(self) {
        let mut status = 0;
        // SAFETY: a child of this process, waited for once.
        unsafe { libc::waitpid(self.0, &raw mut status, 0) };
        assert_eq!(status, 0, "the child process failed");
    }
}
