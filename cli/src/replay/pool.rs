//! A thread pool of the size that a recorded host's had.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use xla_ffi_runtime::Executor;

type Task = Box<dyn FnOnce() + Send>;

/// Threads at most, whatever a file says: more are told, and do not run at the same time.
const MOST: usize = 1024;

/// Where a call's tasks run.
pub(super) enum Threads {
    /// Nowhere: it has no thread pool.
    None,
    /// On a pool of this size.
    Some(usize),
    /// On some pool: the recorded host had no way to say how large its own was.
    Untold,
}

/// A pool whose threads begin when there is work for them: most handlers only ask how many there are, and a host may
/// have had more than this machine starts gladly.
pub(super) struct Pool {
    size: usize,
    /// How many threads have begun.
    begun: Mutex<usize>,
    tasks: Sender<Task>,
    waiting: Arc<Mutex<Receiver<Task>>>,
}

impl Pool {
    pub(super) fn new(size: usize) -> Self {
        let (tasks, waiting) = channel();
        Self {
            size,
            begun: Mutex::new(0),
            tasks,
            waiting: Arc::new(Mutex::new(waiting)),
        }
    }

    /// Begins another thread, if there may be one more; whether there is any.
    fn grow(&self) -> bool {
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        if *begun < self.size.clamp(1, MOST) {
            let waiting = self.waiting.clone();
            let thread = std::thread::Builder::new().name(format!("replay-pool-{begun}"));
            // It ends with the process, or once the pool is gone.
            if thread.spawn(move || work(&waiting)).is_ok() {
                *begun += 1;
            }
        }
        *begun > 0
    }
}

fn work(waiting: &Mutex<Receiver<Task>>) {
    loop {
        // Taken before the task runs, not for as long as it does.
        let task = waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .recv();
        match task {
            Ok(task) => task(),
            Err(_) => return,
        }
    }
}

impl Executor for Pool {
    fn execute(&self, task: Task) {
        if self.grow() {
            // Nobody else holds the other end: it is there as long as this one.
            let _ = self.tasks.send(task);
        } else {
            // A machine that has no thread left runs it here.
            task();
        }
    }

    fn num_threads(&self) -> usize {
        self.size
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    #[test]
    fn tasks_run_beside_each_other_and_no_thread_begins_before_its_time() {
        let pool = Pool::new(3);
        assert_eq!(pool.num_threads(), 3);
        assert_eq!(*pool.begun.lock().unwrap(), 0);
        let met = Arc::new(Barrier::new(4));
        for _ in 0..2 {
            for _ in 0..3 {
                let met = met.clone();
                pool.execute(Box::new(move || {
                    met.wait();
                }));
            }
            met.wait();
        }
        assert_eq!(*pool.begun.lock().unwrap(), 3);
    }

    #[test]
    fn a_pool_of_any_size_can_be_told() {
        let pool = Pool::new(usize::MAX);
        assert_eq!(pool.num_threads(), usize::MAX);
        let (said, hears) = channel();
        pool.execute(Box::new(move || said.send(7).unwrap()));
        assert_eq!(hears.recv(), Ok(7));
        assert_eq!(*pool.begun.lock().unwrap(), 1);
    }
}
