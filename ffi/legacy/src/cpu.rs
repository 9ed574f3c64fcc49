//! Events and copies on the streams of the embedded runtime's CPU device. Requires the feature
//! `internal`.

use std::ffi::c_void;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use super::buffers::Leaf;
use super::staging::Device;
use xla_ffi::{Error, Result};
use xla_ffi_runtime::{CpuStream, DeviceStream};

/// A [`Device`] for the streams of the embedded runtime, which all belong to one device.
///
/// ```
/// use xla_ffi_legacy::{CpuStreams, Root, Staging};
/// use xla_ffi_runtime::{CpuStream, DeviceStream};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let stream = CpuStream::new()?;
/// let pool = Staging::new(CpuStreams::new(), 4);
/// let mut table = [std::ptr::null_mut()];
/// let root = Root { table: table.as_mut_ptr(), elements: vec![std::ptr::dangling_mut()] };
/// // SAFETY: the table has room for one, until the stream has run.
/// unsafe { pool.write(stream.handle(), std::slice::from_ref(&root)) }?;
/// stream.synchronize()?;
/// assert_eq!(table[..], root.elements);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Default)]
pub struct CpuStreams;

impl CpuStreams {
    /// Creates the platform of the CPU device, for [`Staging`](crate::Staging).
    #[must_use]
    pub const fn new() -> Self {
        Self
    }

    fn find(stream: *mut c_void) -> Result<Arc<CpuStream>> {
        CpuStream::from_handle(stream).ok_or_else(|| {
            Error::invalid_argument(format!(
                "{stream:p} is not a stream of the embedded runtime"
            ))
        })
    }
}

/// An event: a point on a stream of the embedded runtime.
///
/// ```
/// use xla_ffi_legacy::{CpuEvent, CpuStreams, Device};
/// use xla_ffi_runtime::{CpuStream, DeviceStream};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (streams, stream) = (CpuStreams::new(), CpuStream::new()?);
/// let mut event: CpuEvent = streams.event(stream.handle())?;
/// streams.record(&mut event, stream.handle())?;
/// streams.wait(&event)?;
/// assert!(streams.is_complete(&event)?);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct CpuEvent {
    done: Arc<(Mutex<bool>, Condvar)>,
}

struct Place(*mut *mut c_void, *const *mut c_void, usize);

// SAFETY: both pointers are valid until the stream has run the copy, as the caller of `copy` promised.
unsafe impl Send for Place {}

impl Place {
    fn copy(self) {
        // SAFETY: both pointers are valid until the stream has run the copy, and host and device
        // memory do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(self.1, self.0, self.2) };
    }
}

// SAFETY: an event is marked as complete by a task that is enqueued after all earlier work on the stream.
unsafe impl Device for CpuStreams {
    type Event = CpuEvent;

    fn device_of(&self, _: *mut c_void) -> Result<u64> {
        Ok(0)
    }

    fn event(&self, _: *mut c_void) -> Result<CpuEvent> {
        Ok(CpuEvent {
            done: Arc::default(),
        })
    }

    fn record(&self, event: &mut CpuEvent, stream: *mut c_void) -> Result<()> {
        let stream = Self::find(stream)?;
        event.done = Arc::default();
        let done = event.done.clone();
        stream.enqueue(Box::new(move || {
            *done.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
            done.1.notify_all();
        }));
        Ok(())
    }

    fn is_complete(&self, event: &CpuEvent) -> Result<bool> {
        Ok(*event.done.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn wait(&self, event: &CpuEvent) -> Result<()> {
        let done = event.done.0.lock().unwrap_or_else(PoisonError::into_inner);
        drop(
            event
                .done
                .1
                .wait_while(done, |done| !*done)
                .unwrap_or_else(PoisonError::into_inner),
        );
        Ok(())
    }

    unsafe fn copy(
        &self,
        to: *mut *mut c_void,
        from: &[*mut c_void],
        stream: *mut c_void,
    ) -> Result<()> {
        let place = Place(to, from.as_ptr(), from.len());
        Self::find(stream)?.enqueue(Box::new(move || place.copy()));
        Ok(())
    }

    unsafe fn resolve(&self, stream: *mut c_void, leaf: &Leaf) -> Result<*mut c_void> {
        if let Some(address) = leaf.address() {
            return Ok(address);
        }
        let mut event = self.event(stream)?;
        self.record(&mut event, stream)?;
        self.wait(&event)?;
        // SAFETY: host and device share memory, and the stream has finished its earlier work.
        Ok(unsafe { leaf.resolve() })
    }
}
