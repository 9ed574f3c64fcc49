//! Writing the tuples of a result without stalling the stream.
//!
//! The addresses go from host to device memory by an asynchronous copy, whose source has to stay until
//! the device has run it. So they wait in slots of host memory, each with an event that is recorded
//! behind the copy; a slot is used again when its event has completed, which later calls look at
//! without waiting.

use std::ffi::c_void;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::buffers::{Leaf, Root};
use xla_ffi::{Error, Result};

/// What the pool needs of a platform.
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
/// `is_complete` and `wait` say that an event is complete only when everything that was on its stream
/// before [`Device::record`] has run.
pub unsafe trait Device: Send + Sync {
    /// A point on a stream. Dropping one does not wait.
    type Event: Send;

    /// The number of the device that a stream belongs to. Events are used on the device that they
    /// were made for.
    ///
    /// # Errors
    /// What the platform says.
    fn device_of(&self, stream: *mut c_void) -> Result<u64>;

    /// Makes an event for the device of a stream.
    ///
    /// # Errors
    /// What the platform says.
    fn event(&self, stream: *mut c_void) -> Result<Self::Event>;

    /// Puts the event on a stream, behind what is there. It is not complete until the stream has come
    /// there.
    ///
    /// # Errors
    /// What the platform says.
    fn record(&self, event: &mut Self::Event, stream: *mut c_void) -> Result<()>;

    /// Whether the stream has come to the event; does not wait.
    ///
    /// # Errors
    /// What the platform says.
    fn is_complete(&self, event: &Self::Event) -> Result<bool>;

    /// Waits until the stream has come to the event.
    ///
    /// # Errors
    /// What the platform says.
    fn wait(&self, event: &Self::Event) -> Result<()>;

    /// Puts a copy from host to device memory on a stream and does not wait for it.
    ///
    /// # Safety
    /// `from` stays as it is until an event behind the copy is complete; `to` is device memory of this
    /// size, or more.
    ///
    /// # Errors
    /// What the platform says; then nothing has been put on the stream.
    unsafe fn copy(
        &self,
        to: *mut *mut c_void,
        from: &[*mut c_void],
        stream: *mut c_void,
    ) -> Result<()>;

    /// Where a leaf of an operand lies, read through its root in device memory where the list does not
    /// say. The calling thread waits for what is on the stream then.
    ///
    /// # Safety
    /// The stream is that of the call, and the leaf's root leads to tuples of its structure, once the
    /// stream has come here.
    ///
    /// # Errors
    /// What the platform says; `UNIMPLEMENTED`, where the list does not say and the platform has no such
    /// function.
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

/// Host memory with an event. Oldest first in the pool.
struct Slot<Event> {
    device: u64,
    event: Event,
    /// Never freed: a copy that nothing tells the end of may still read there. There are few.
    addresses: &'static mut [*mut c_void],
}

// SAFETY: the addresses are only numbers to this process.
unsafe impl<Event: Send> Send for Slot<Event> {}

/// A pool of slots, for any number of threads, streams and devices.
///
/// At most `capacity` slots are made for each device. While one of them is free a call waits for
/// nothing; when all are in use the calling thread waits for the oldest, the stream for none.
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
    /// A pool of at most `capacity` slots a device, one at least.
    pub const fn new(device: D, capacity: usize) -> Self {
        Self {
            device,
            capacity: if capacity == 0 { 1 } else { capacity },
            slots: Mutex::new(Vec::new()),
        }
    }

    /// The platform.
    pub(super) fn device(&self) -> &D {
        &self.device
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Slot<D::Event>>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts the writing of tuples on a stream.
    ///
    /// # Safety
    /// Each table is device memory with room for its elements, and nobody frees it before the stream has
    /// come here.
    ///
    /// # Errors
    /// What the platform says.
    pub unsafe fn write(&self, stream: *mut c_void, roots: &[Root]) -> Result<()> {
        let needed: usize = roots.iter().map(|root| root.elements.len()).sum();
        if needed == 0 {
            return Ok(());
        }
        let device = self.device.device_of(stream)?;
        let mut slots = self.lock();
        // Where the platform fails below, the slot is not used again.
        let mut slot = self.take(&mut slots, device, stream)?;
        if slot.addresses.len() < needed {
            slot.addresses = vec![std::ptr::null_mut(); needed.next_power_of_two()].leak();
        }
        let mut at = 0;
        for root in roots {
            let place = &mut slot.addresses[at..at + root.elements.len()];
            place.copy_from_slice(&root.elements);
            at += root.elements.len();
            // SAFETY: the slot stays as it is until its event, behind the copy, is complete.
            unsafe { self.device.copy(root.table, place, stream) }?;
        }
        self.device.record(&mut slot.event, stream)?;
        slots.push(slot);
        Ok(())
    }

    /// A slot that no copy uses.
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

    /// How many slots there are, over all devices.
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
