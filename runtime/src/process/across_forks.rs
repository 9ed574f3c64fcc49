//! The locks of the whole process, held across every fork: a child that is forked while another thread has one would find it
//! locked, and nobody there to open it.
//!
//! None of them is held while code of somebody else's runs, or while another of them is taken. The loader's lock is: a
//! library's constructors run under it, which may fork, or wait for a thread that does. It is held where it is
//! free, and a child that finds it taken gets another.

use super::isolate;
use std::any::Any;
use std::cell::RefCell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Once, OnceLock};

/// The locks, in the order in which they are taken. The modules that have them say how, before they take them first.
#[derive(Clone, Copy)]
pub enum Lock {
    /// Of the logger of the functions for C.
    Logger,
    /// Of calls that were dropped open.
    LeftOpen,
    /// Of the list of runtimes.
    Runtimes,
    /// Of the list of streams.
    Streams,
    /// Of the list of function tables.
    Tables,
    /// Of the status objects that no call uses.
    Statuses,
    /// Of the types of all runtimes.
    Types,
    /// Of the table of futures.
    Futures,
    /// Of the table of errors.
    Errors,
}

type Hold = fn() -> Box<dyn Any>;

static HOLDS: [OnceLock<Hold>; Lock::Errors as usize + 1] =
    [const { OnceLock::new() }; Lock::Errors as usize + 1];

thread_local! {
    /// What this thread holds while it forks; the child's only thread has the same.
    static HELD: RefCell<Vec<Box<dyn Any>>> = const { RefCell::new(Vec::new()) };
}

static FORKS: AtomicU32 = AtomicU32::new(0);

/// Has a lock held across forks from now on.
pub fn hold(lock: Lock, hold: Hold) {
    HOLDS[lock as usize].get_or_init(|| {
        forks();
        hold
    });
}

extern "C" fn prepare() {
    // A thread that is at its end has no place to keep them in.
    let _ = HELD.try_with(|held| {
        let mut held = held.borrow_mut();
        if let Some(loader) = isolate::hold_loader_if_free() {
            held.push(Box::new(loader));
        }
        held.extend(HOLDS.iter().filter_map(|hold| Some(hold.get()?())));
    });
}

extern "C" fn in_parent() {
    let _ = HELD.try_with(|held| held.borrow_mut().clear());
}

extern "C" fn in_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
    in_parent();
    isolate::renew_loader();
}

/// How many processes deep this one is, whoever forked them: what was made in a process of another number has its
/// threads there. They are counted from the first question on, by the system, so that the question costs next to nothing;
/// from then on the locks are held, too.
pub(crate) fn forks() -> u32 {
    static COUNTED: Once = Once::new();
    COUNTED.call_once(|| {
        // SAFETY: the functions may be called around a fork at any time. Where there is no memory for them, forks are
        // not seen.
        let _ = unsafe { libc::pthread_atfork(Some(prepare), Some(in_parent), Some(in_child)) };
    });
    FORKS.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_loads_libraries_though_the_parent_was_loading_one() {
        forks();
        let (loads, others) = std::sync::mpsc::channel();
        let (ends, until) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            let held = isolate::hold_loader();
            loads.send(()).unwrap();
            let _ = until.recv();
            drop(held);
        });
        others.recv().unwrap();
        // SAFETY: the child takes a lock and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: ends the child alone, if it hangs.
            unsafe { libc::alarm(20) };
            drop(isolate::hold_loader());
            // SAFETY: without the parent's exit handlers.
            unsafe { libc::_exit(7) };
        }
        let mut status = 0;
        // SAFETY: a child of this process.
        unsafe { libc::waitpid(child, &raw mut status, 0) };
        drop(ends);
        thread.join().unwrap();
        assert!(
            libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 7,
            "{status}"
        );
    }
}
