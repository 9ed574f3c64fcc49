//! A CPU device, whose streams are threads. Streams run work in order and asynchronously to the caller, as on a GPU.
//! With such streams, tests of stream-ordered handlers need no GPU.

use crate::device::{DeviceStream, HostAllocator, Stream};
use crate::process::check_owner;
use std::collections::{BTreeMap, VecDeque};
use std::ffi::c_void;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread::ThreadId;
use xla_ffi_sys::{Error, ErrorCode, Result};

type Work = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Queue {
    work: VecDeque<Work>,
    /// Whether the thread is currently running work.
    busy: bool,
    closed: bool,
}

/// The state that a stream shares with its thread.
#[derive(Default)]
struct Inner {
    queue: Mutex<Queue>,
    changed: Condvar,
    /// The id of the stream's thread. It is set before any work is enqueued.
    thread: OnceLock<ThreadId>,
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, queue: MutexGuard<'a, Queue>) -> MutexGuard<'a, Queue> {
        self.changed
            .wait(queue)
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs the stream's work in order until the stream is dropped and its queue is empty.
    fn serve(&self) {
        let mut queue = self.lock();
        loop {
            if let Some(work) = queue.work.pop_front() {
                queue.busy = true;
                drop(queue);
                let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
                if let Err(payload) = outcome {
                    crate::process::guard::discard(payload);
                    crate::process::warn(format_args!(
                        "a panic left a piece of work on a CPU stream"
                    ));
                }
                queue = self.lock();
                queue.busy = false;
                self.changed.notify_all();
            } else if queue.closed {
                return;
            } else {
                queue = self.wait(queue);
            }
        }
    }
}

/// A stream of a CPU device. Its work runs on a separate thread.
pub struct CpuStream {
    inner: Arc<Inner>,
    /// The id of the process that created the stream's thread.
    process: u32,
}

/// All streams by their handles. A handle is the address that handlers receive.
static STREAMS: Mutex<BTreeMap<usize, Weak<CpuStream>>> = Mutex::new(BTreeMap::new());

fn streams() -> MutexGuard<'static, BTreeMap<usize, Weak<CpuStream>>> {
    STREAMS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl CpuStream {
    /// Creates a stream and its thread.
    ///
    /// # Errors
    /// `RESOURCE_EXHAUSTED` if the thread cannot start.
    pub fn new() -> Result<Arc<Self>> {
        let inner = Arc::new(Inner::default());
        let served = inner.clone();
        let thread = std::thread::Builder::new()
            .name("xla-ffi-stream".into())
            .spawn(move || served.serve())
            .map_err(|error| {
                Error::new(
                    ErrorCode::ResourceExhausted,
                    "the stream's thread cannot start",
                )
                .with_source(error)
            })?;
        inner.thread.get_or_init(|| thread.thread().id());
        let process = std::process::id();
        let stream = Arc::new(Self { inner, process });
        streams().insert(stream.handle() as usize, Arc::downgrade(&stream));
        Ok(stream)
    }

    /// Returns the stream with this handle, or `None` for any other pointer. The pointer is not dereferenced.
    #[must_use]
    pub fn from_handle(handle: *mut c_void) -> Option<Arc<Self>> {
        streams().get(&(handle as usize)).and_then(Weak::upgrade)
    }

    /// Enqueues work on the stream.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION` in a fork of the process that created the stream, because the stream's thread does not
    /// exist in the fork.
    pub fn try_enqueue(&self, work: Box<dyn FnOnce() + Send>) -> Result<()> {
        check_owner(self.process)?;
        self.inner.lock().work.push_back(work);
        self.inner.changed.notify_all();
        Ok(())
    }

    /// Returns this stream as a [`Stream`], for calls.
    #[must_use]
    pub fn stream(self: &Arc<Self>) -> Stream {
        Stream::from_device(self.clone())
    }
}

// SAFETY: one thread runs the work in order. The handle is the address of this object, and no driver uses the handle.
unsafe impl DeviceStream for CpuStream {
    fn handle(&self) -> *mut c_void {
        Arc::as_ptr(&self.inner).cast_mut().cast()
    }

    fn enqueue(&self, work: Work) {
        if let Err(error) = self.try_enqueue(work) {
            crate::process::warn(format_args!("{error}"));
        }
    }

    fn try_enqueue(&self, work: Work) -> Result<()> {
        Self::try_enqueue(self, work)
    }

    fn synchronize(&self) -> Result<()> {
        check_owner(self.process)?;
        if self.inner.thread.get() == Some(&std::thread::current().id()) {
            return Err(Error::new(
                ErrorCode::FailedPrecondition,
                "this is the stream's own thread, which cannot wait for itself",
            ));
        }
        let mut queue = self.inner.lock();
        while queue.busy || !queue.work.is_empty() {
            queue = self.inner.wait(queue);
        }
        Ok(())
    }
}

impl Drop for CpuStream {
    fn drop(&mut self) {
        // In a fork, the stream's thread does not exist, and the stream's locks may never be released.
        if check_owner(self.process).is_err() {
            return;
        }
        streams().remove(&(self.handle() as usize));
        self.inner.lock().closed = true;
        self.inner.changed.notify_all();
    }
}

/// A CPU device for calls: a stream and an allocator for scratch memory.
#[non_exhaustive]
pub struct CpuDevice {
    /// The stream of the device.
    pub stream: Arc<CpuStream>,
    /// The allocator for the scratch memory of calls.
    pub allocator: Arc<HostAllocator>,
}

impl CpuDevice {
    /// Creates a device with one stream.
    ///
    /// # Errors
    /// The errors of [`CpuStream::new`].
    pub fn new() -> Result<Self> {
        Ok(Self {
            stream: CpuStream::new()?,
            allocator: Arc::default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    #[test]
    fn work_runs_in_order_and_later() {
        let stream = CpuStream::new().unwrap();
        let found = CpuStream::from_handle(stream.handle()).unwrap();
        let count = Arc::new(AtomicUsize::new(0));
        for expected in 0..100 {
            let count = count.clone();
            found.enqueue(Box::new(move || {
                if expected == 0 {
                    std::thread::sleep(Duration::from_millis(20));
                }
                assert_eq!(count.fetch_add(1, Ordering::Relaxed), expected);
            }));
        }
        assert!(
            count.load(Ordering::Relaxed) < 100,
            "nothing waits for the work"
        );
        stream.synchronize().unwrap();
        assert_eq!(count.load(Ordering::Relaxed), 100);
        let handle = stream.handle();
        drop((stream, found));
        assert!(CpuStream::from_handle(handle).is_none());
        assert!(CpuStream::from_handle(std::ptr::null_mut()).is_none());
    }
}
