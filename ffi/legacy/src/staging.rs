//! Writes the tuples of a result without stalling the stream.
//!
//! An asynchronous copy transfers the addresses from host to device memory. The source must stay valid until the
//! device has run the copy. Therefore the source is a slot of host memory with an event that is recorded after the
//! copy. A slot is reused when its event is complete. Later calls check this without waiting.

use std::ffi::c_void;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::buffers::{Leaf, Root};
use xla_ffi::{Error, Result};

/// The functions of a platform that a [`Staging`] pool needs.
///
/// ```
/// use std::ffi::c_void;
/// use std::sync::atomic::{AtomicBool, Ordering};
/// use xla_ffi::Result;
/// use xla_ffi_legacy::{Device, Leaf, Root, Staging};
///
/// /// Streams that run everything at once, all of device 0.
/// struct AtOnce;
///
/// // SAFETY: nothing is left to run when a function returns.
/// unsafe impl Device for AtOnce {
///     type Event = AtomicBool;
///
///     fn device_of(&self, _: *mut c_void) -> Result<u64> {
///         Ok(0)
///     }
///     fn event(&self, _: *mut c_void) -> Result<AtomicBool> {
///         Ok(AtomicBool::new(false))
///     }
///     fn record(&self, event: &mut AtomicBool, _: *mut c_void) -> Result<()> {
///         *event.get_mut() = true;
///         Ok(())
///     }
///     fn is_complete(&self, event: &AtomicBool) -> Result<bool> {
///         Ok(event.load(Ordering::Relaxed))
///     }
///     fn wait(&self, _: &AtomicBool) -> Result<()> {
///         Ok(())
///     }
///     unsafe fn copy(&self, to: *mut *mut c_void, from: &[*mut c_void], _: *mut c_void) -> Result<()> {
///         // SAFETY: the caller's promise.
///         unsafe { std::ptr::copy(from.as_ptr(), to, from.len()) };
///         Ok(())
///     }
///     // Where it is left out, a list without an address for each leaf is an error.
///     unsafe fn resolve(&self, _: *mut c_void, leaf: &Leaf) -> Result<*mut c_void> {
///         // SAFETY: the caller's promise; the host reads this device's memory.
///         Ok(unsafe { leaf.resolve() })
///     }
/// }
///
/// let pool = Staging::new(AtOnce, 4);
/// let elements = vec![std::ptr::dangling_mut(); 2];
/// let mut table = [std::ptr::null_mut(); 2];
/// let root = Root { table: table.as_mut_ptr(), elements: elements.clone() };
/// // SAFETY: the table has room for two.
/// unsafe { pool.write(std::ptr::null_mut(), &[root]) }?;
/// assert_eq!((&table[..], pool.slots()), (&elements[..], 1));
/// # Ok::<(), xla_ffi::Error>(())
/// ```
///
/// # Safety
/// `is_complete` and `wait` may report an event as complete only if all work that was on the stream before
/// [`Device::record`] has run.
pub unsafe trait Device: Send + Sync {
    /// An event: a point on a stream. Dropping an event does not wait for the stream.
    type Event: Send;

    /// Returns the number of a stream's device. An event is only used on the device for which it was created.
    ///
    /// # Errors
    /// Errors from the platform.
    fn device_of(&self, stream: *mut c_void) -> Result<u64>;

    /// Creates an event for the device of a stream.
    ///
    /// # Errors
    /// Errors from the platform.
    fn event(&self, stream: *mut c_void) -> Result<Self::Event>;

    /// Records the event on a stream, after the work that is already on the stream. The event is not complete until
    /// the stream has reached it.
    ///
    /// # Errors
    /// Errors from the platform.
    fn record(&self, event: &mut Self::Event, stream: *mut c_void) -> Result<()>;

    /// Returns true if the stream has reached the event. Does not wait.
    ///
    /// # Errors
    /// Errors from the platform.
    fn is_complete(&self, event: &Self::Event) -> Result<bool>;

    /// Waits until the stream has reached the event.
    ///
    /// # Errors
    /// Errors from the platform.
    fn wait(&self, event: &Self::Event) -> Result<()>;

    /// Enqueues a copy from host to device memory without waiting for the copy.
    ///
    /// # Safety
    /// `from` stays unchanged until an event after the copy is complete. `to` is device memory with at least the size
    /// of `from`.
    ///
    /// # Errors
    /// Errors from the platform. If the copy was enqueued, an implementation must not return an error.
    unsafe fn copy(
        &self,
        to: *mut *mut c_void,
        from: &[*mut c_void],
        stream: *mut c_void,
    ) -> Result<()>;

    /// Returns the address of an operand's leaf. If the list of buffers lacks the address, reads it through the root
    /// in device memory. In that case, the calling thread waits for the work on the stream.
    ///
    /// # Safety
    /// The stream is the call's stream. When the stream's current work has finished, the leaf's root leads to tuples
    /// of the declared structure.
    ///
    /// # Errors
    /// Errors from the platform. `UNIMPLEMENTED` if the list of buffers lacks the address and the platform does not
    /// implement this function.
    unsafe fn resolve(&self, stream: *mut c_void, leaf: &Leaf) -> Result<*mut c_void> {
        let _ = stream;
        leaf.address().ok_or_else(|| {
            Error::unimplemented(
                "the list of buffers has no address for a node of an operand, and this platform reads no tuples in \
                 device memory: give its `Device` a `resolve`",
            )
        })
    }
}

/// A slot: host memory for the source of a copy, with the event after the copy.
struct Slot<Event> {
    device: u64,
    event: Event,
    /// The source of the copy. Never freed, because a copy whose end is unknown may still read it. There are only a
    /// few slots.
    addresses: &'static mut [*mut c_void],
}

// SAFETY: this process never dereferences the addresses.
unsafe impl<Event: Send> Send for Slot<Event> {}

/// A pool of host memory slots from which tuples are copied to devices, for any number of threads and streams.
///
/// At most `capacity` slots are allocated per device. If all slots are in use, the calling thread waits for the
/// oldest slot; streams never wait.
///
/// ```
/// use std::ffi::c_void;
/// use std::sync::atomic::{AtomicBool, Ordering};
/// use xla_ffi::Result;
/// use xla_ffi_legacy::{Device, Root, Staging};
///
/// /// Streams that run everything at once, all of device 0.
/// struct AtOnce;
///
/// // SAFETY: nothing is left to run when a function returns.
/// unsafe impl Device for AtOnce {
///     type Event = AtomicBool;
///
///     fn device_of(&self, _: *mut c_void) -> Result<u64> {
///         Ok(0)
///     }
///     fn event(&self, _: *mut c_void) -> Result<AtomicBool> {
///         Ok(AtomicBool::new(false))
///     }
///     fn record(&self, event: &mut AtomicBool, _: *mut c_void) -> Result<()> {
///         *event.get_mut() = true;
///         Ok(())
///     }
///     fn is_complete(&self, event: &AtomicBool) -> Result<bool> {
///         Ok(event.load(Ordering::Relaxed))
///     }
///     fn wait(&self, _: &AtomicBool) -> Result<()> {
///         Ok(())
///     }
///     unsafe fn copy(&self, to: *mut *mut c_void, from: &[*mut c_void], _: *mut c_void) -> Result<()> {
///         // SAFETY: the caller's promise.
///         unsafe { std::ptr::copy(from.as_ptr(), to, from.len()) };
///         Ok(())
///     }
/// }
///
/// let pool = Staging::new(AtOnce, 4);
/// let elements = vec![std::ptr::dangling_mut(); 2];
/// let mut table = [std::ptr::null_mut(); 2];
/// let root = Root { table: table.as_mut_ptr(), elements: elements.clone() };
/// // SAFETY: the table has room for two.
/// unsafe { pool.write(std::ptr::null_mut(), &[root]) }?;
/// assert_eq!((&table[..], pool.slots()), (&elements[..], 1));
/// # Ok::<(), xla_ffi::Error>(())
/// ```
pub struct Staging<D: Device> {
    device: D,
    capacity: usize,
    slots: Mutex<Vec<Slot<D::Event>>>,
}

impl<D: Device> Staging<D> {
    /// Creates a pool of at most `capacity` slots per device. A capacity of 0 counts as 1.
    pub const fn new(device: D, capacity: usize) -> Self {
        Self {
            device,
            capacity: if capacity == 0 { 1 } else { capacity },
            slots: Mutex::new(Vec::new()),
        }
    }

    /// Returns the platform's functions.
    pub(super) fn device(&self) -> &D {
        &self.device
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Slot<D::Event>>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enqueues on a stream the copies that write the result's tuples.
    ///
    /// # Safety
    /// Each table is device memory with room for its elements, and stays allocated until the stream has written the
    /// table.
    ///
    /// # Errors
    /// Errors from the platform.
    pub unsafe fn write(&self, stream: *mut c_void, roots: &[Root]) -> Result<()> {
        let needed: usize = roots.iter().map(|root| root.elements.len()).sum();
        if needed == 0 {
            return Ok(());
        }
        let device = self.device.device_of(stream)?;
        let mut slots = self.lock();
        // If the platform fails to copy or to record the event, the slot is not used again.
        let mut slot = self.take(&mut slots, device, stream)?;
        if slot.addresses.len() < needed {
            slot.addresses = vec![std::ptr::null_mut(); needed.next_power_of_two()].leak();
        }
        let mut at = 0;
        for root in roots {
            let place = &mut slot.addresses[at..at + root.elements.len()];
            place.copy_from_slice(&root.elements);
            at += root.elements.len();
            // SAFETY: the slot stays unchanged until the event that is recorded after the copy is complete.
            unsafe { self.device.copy(root.table, place, stream) }?;
        }
        self.device.record(&mut slot.event, stream)?;
        slots.push(slot);
        Ok(())
    }

    /// Takes a slot that no copy uses. If there is none, creates a slot; if the pool is at its capacity, waits for
    /// the oldest slot.
    fn take(
        &self,
        slots: &mut Vec<Slot<D::Event>>,
        device: u64,
        stream: *mut c_void,
    ) -> Result<Slot<D::Event>> {
        let (mut oldest, mut count) = (None, 0);
        for (index, slot) in slots
            .iter()
            .enumerate()
            .filter(|(_, slot)| slot.device == device)
        {
            if self.device.is_complete(&slot.event)? {
                return Ok(slots.remove(index));
            }
            oldest = oldest.or(Some(index));
            count += 1;
        }
        match oldest.filter(|_| count >= self.capacity) {
            Some(index) => {
                self.device.wait(&slots[index].event)?;
                Ok(slots.remove(index))
            }
            None => Ok(Slot {
                device,
                event: self.device.event(stream)?,
                addresses: &mut [],
            }),
        }
    }

    /// Returns the number of slots on all devices.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.lock().len()
    }
}

impl<D: Device> std::fmt::Debug for Staging<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Staging")
            .field("capacity", &self.capacity)
            .field("slots", &self.slots())
            .finish_non_exhaustive()
    }
}
