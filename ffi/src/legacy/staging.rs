//! Writing the tuples of a result without stalling the stream.
//!
//! The addresses go from host to device memory by an asynchronous copy, whose source has to stay until
//! the device has run it. So they wait in slots of host memory, each with an event that is recorded
//! behind the copy; a slot is used again when its event has completed, which later calls look at
//! without waiting.

use std::ffi::c_void;
use std::sync::PoisonError;
use std::time::Duration;

use super::buffers::{Leaf, Root};
use crate::error::{Error, Result};
use crate::sync::{Mutex, MutexGuard, pause};

/// What the pool needs of a platform.
///
/// ```
/// use std::ffi::c_void;
/// use std::sync::atomic::{AtomicBool, Ordering};
/// use xla_ffi::Result;
/// use xla_ffi::legacy::{Device, Leaf, Root, Staging};
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

/// Host memory with an event.
struct Slot<Event> {
    device: u64,
    event: Event,
    /// A box, so that the addresses stay where they are when the slot moves.
    addresses: Box<[*mut c_void]>,
}

// SAFETY: the addresses are only numbers to this process.
unsafe impl<Event: Send> Send for Slot<Event> {}

struct Slots<Event> {
    /// Those that no copy uses.
    free: Vec<Slot<Event>>,
    /// Those that a copy may use, oldest first.
    busy: Vec<Slot<Event>>,
    /// How many there are for each device, those that a call has taken included.
    count: Vec<(u64, usize)>,
}

/// A pool of slots, for any number of threads, streams and devices.
///
/// At most `capacity` slots are made for each device. While one of them is free a call waits for
/// nothing; when all are in use the calling thread waits for the first that gets free, the stream for
/// none.
///
/// ```
/// use std::ffi::c_void;
/// use std::sync::atomic::{AtomicBool, Ordering};
/// use xla_ffi::Result;
/// use xla_ffi::legacy::{Device, Root, Staging};
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
    slots: Mutex<Slots<D::Event>>,
}

impl<D: Device> Staging<D> {
    constant! {
        /// A pool of at most `capacity` slots a device, one at least.
        pub fn new(device: D, capacity: usize) -> Self {
            Self {
                device,
                capacity: if capacity == 0 { 1 } else { capacity },
                slots: Mutex::new(Slots {
                    free: Vec::new(),
                    busy: Vec::new(),
                    count: Vec::new(),
                }),
            }
        }
    }

    /// The platform.
    pub(super) fn device(&self) -> &D {
        &self.device
    }

    fn lock(&self) -> MutexGuard<'_, Slots<D::Event>> {
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
        let mut taken = self.acquire(device, stream)?;
        let slot = taken.slot();
        if slot.addresses.len() < needed {
            slot.addresses = vec![std::ptr::null_mut(); needed.next_power_of_two()].into();
        }
        let mut at = 0;
        let mut copied = Ok(());
        let mut queued = false;
        for root in roots {
            let place = &mut slot.addresses[at..at + root.elements.len()];
            place.copy_from_slice(&root.elements);
            at += root.elements.len();
            // SAFETY: the slot stays as it is until its event, behind the copy, is complete.
            copied = unsafe { self.device.copy(root.table, place, stream) };
            if copied.is_err() {
                break;
            }
            queued = true;
        }
        if !queued {
            taken.give_back(|slots, slot| slots.free.push(slot));
            return copied;
        }
        self.device.record(&mut slot.event, stream)?;
        taken.give_back(|slots, slot| slots.busy.push(slot));
        copied
    }

    /// A slot that no copy uses. Where all are in use this waits for the first of them that gets free,
    /// without the lock: not for the oldest, whose stream may itself wait for what this thread is about
    /// to put on another. A slot that is lost meanwhile makes room for a new one.
    fn acquire(&self, device: u64, stream: *mut c_void) -> Result<Taken<'_, D>> {
        let mut wait = Duration::from_micros(5);
        loop {
            let mut slots = self.lock();
            slots.poll(&self.device, device)?;
            let free = slots.free.iter().position(|slot| slot.device == device);
            let slot = free.map(|index| slots.free.swap_remove(index));
            let make = slot.is_none() && slots.reserve(device, self.capacity);
            drop(slots);
            if slot.is_some() || make {
                let mut taken = Taken {
                    pool: self,
                    device,
                    slot,
                };
                if make {
                    taken.slot = Some(Slot {
                        device,
                        event: self.device.event(stream)?,
                        addresses: Box::default(),
                    });
                }
                return Ok(taken);
            }
            pause(wait);
            wait = (wait * 2).min(Duration::from_micros(200));
        }
    }

    /// How many slots there are, over all devices.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.lock().count.iter().map(|(_, count)| count).sum()
    }
}

/// A slot that a call has, or is about to make. Where it does not come back, since the device fails or
/// panics, nothing tells any more when its copy has run: it is never used again, nor counted.
struct Taken<'a, D: Device> {
    pool: &'a Staging<D>,
    device: u64,
    slot: Option<Slot<D::Event>>,
}

impl<D: Device> Taken<'_, D> {
    fn slot(&mut self) -> &mut Slot<D::Event> {
        self.slot.as_mut().expect("it is not given back yet")
    }

    fn give_back(mut self, to: impl FnOnce(&mut Slots<D::Event>, Slot<D::Event>)) {
        if let Some(slot) = self.slot.take() {
            to(&mut self.pool.lock(), slot);
        }
        std::mem::forget(self);
    }
}

impl<D: Device> Drop for Taken<'_, D> {
    fn drop(&mut self) {
        self.pool.lock().forget(self.device);
        if let Some(slot) = self.slot.take() {
            std::mem::forget(slot.addresses);
        }
    }
}

impl<Event> Slots<Event> {
    /// Frees the slots of a device whose copies have run. What became of another device is for its own
    /// calls to tell.
    fn poll<D: Device<Event = Event>>(&mut self, device: &D, number: u64) -> Result<()> {
        let mut index = 0;
        while index < self.busy.len() {
            let slot = &self.busy[index];
            if slot.device == number && device.is_complete(&slot.event)? {
                self.free.push(self.busy.remove(index));
            } else {
                index += 1;
            }
        }
        Ok(())
    }

    /// Counts one more slot of a device, if there may be one.
    fn reserve(&mut self, device: u64, capacity: usize) -> bool {
        match self.count.iter_mut().find(|(number, _)| *number == device) {
            Some((_, count)) if *count >= capacity => false,
            Some((_, count)) => {
                *count += 1;
                true
            }
            None => {
                self.count.push((device, 1));
                true
            }
        }
    }

    fn forget(&mut self, device: u64) {
        if let Some((_, count)) = self.count.iter_mut().find(|(number, _)| *number == device) {
            *count -= 1;
        }
    }
}

impl<D: Device> Drop for Staging<D> {
    fn drop(&mut self) {
        let slots = self.slots.get_mut().unwrap_or_else(PoisonError::into_inner);
        for slot in slots.busy.drain(..) {
            if self.device.wait(&slot.event).is_err() {
                // The copy may still read there.
                std::mem::forget(slot.addresses);
            }
        }
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

/// Every order in which calls and a stream can share slots.
#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use crate::error::Error;
    use crate::sync::atomic::{AtomicBool, Ordering};
    use loom::thread;
    use std::sync::Arc;

    type Event = Arc<AtomicBool>;

    /// A copy, and the event that was put behind it.
    struct Copy {
        to: usize,
        from: usize,
        event: Option<Event>,
    }

    /// A device of one stream.
    struct Queue {
        copies: Mutex<Vec<Copy>>,
        /// Making the first event fails.
        fails: std::sync::atomic::AtomicBool,
    }

    impl Queue {
        /// What the stream does: the oldest copy, as soon as its event is there; where addresses are
        /// read too late, others arrive.
        fn run_one(&self) {
            let copy = loop {
                let mut copies = self.copies.lock().unwrap();
                if copies.first().is_some_and(|copy| copy.event.is_some()) {
                    break copies.remove(0);
                }
                drop(copies);
                thread::yield_now();
            };
            let from = copy.from as *const *mut c_void;
            // SAFETY: the slot stays until the event is complete.
            let address = unsafe { from.read() };
            // SAFETY: the table stays until the model is over.
            unsafe { (copy.to as *mut *mut c_void).write(address) };
            copy.event.expect("seen").store(true, Ordering::Release);
        }
    }

    // SAFETY: as `run_one` says.
    unsafe impl Device for Queue {
        type Event = Event;

        fn device_of(&self, _: *mut c_void) -> Result<u64> {
            Ok(0)
        }
        fn event(&self, _: *mut c_void) -> Result<Event> {
            if self.fails.swap(false, Ordering::Relaxed) {
                // Whoever waits for this slot may look for it meanwhile.
                thread::yield_now();
                return Err(Error::internal("no event today"));
            }
            Ok(Arc::new(AtomicBool::new(false)))
        }
        fn record(&self, event: &mut Event, _: *mut c_void) -> Result<()> {
            *event = Arc::new(AtomicBool::new(false));
            let mut copies = self.copies.lock().unwrap();
            let own = copies.iter_mut().find(|copy| copy.event.is_none());
            own.expect("a copy before").event = Some(Arc::clone(event));
            Ok(())
        }
        fn is_complete(&self, event: &Event) -> Result<bool> {
            Ok(event.load(Ordering::Acquire))
        }
        fn wait(&self, event: &Event) -> Result<()> {
            while !event.load(Ordering::Acquire) {
                thread::yield_now();
            }
            Ok(())
        }
        unsafe fn copy(
            &self,
            to: *mut *mut c_void,
            from: &[*mut c_void],
            _: *mut c_void,
        ) -> Result<()> {
            self.copies.lock().unwrap().push(Copy {
                to: to as usize,
                from: from.as_ptr() as usize,
                event: None,
            });
            Ok(())
        }
    }

    fn pool(fails: bool) -> Arc<Staging<Queue>> {
        let device = Queue {
            copies: Mutex::new(Vec::new()),
            fails: fails.into(),
        };
        Arc::new(Staging::new(device, 1))
    }

    /// Puts the writing of a number on the stream.
    fn write(pool: &Staging<Queue>, table: &mut *mut c_void, number: usize) -> Result<()> {
        let root = Root {
            table: std::ptr::from_mut(table),
            elements: vec![std::ptr::without_provenance_mut(number)],
        };
        // SAFETY: the table stays until the model is over.
        unsafe { pool.write(std::ptr::null_mut(), &[root]) }
    }

    fn model(check: impl Fn() + Send + Sync + 'static) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(2);
        model.check(check);
    }

    /// The slot is used again when the stream has read it, and not before.
    #[test]
    fn loom_a_slot_is_used_again_when_its_copy_has_run() {
        model(|| {
            let pool = pool(false);
            let mut tables = [std::ptr::null_mut(); 2];
            let stream = Arc::clone(&pool);
            let stream = thread::spawn(move || (0..2).for_each(|_| stream.device.run_one()));
            for (number, table) in tables.iter_mut().enumerate() {
                write(&pool, table, 100 + number).unwrap();
            }
            stream.join().unwrap();
            assert_eq!(tables.map(|table| table.addr()), [100, 101]);
            assert_eq!(pool.slots(), 1);
        });
    }

    /// A call loses the only slot while another one waits for it: that one makes another.
    #[test]
    fn loom_a_lost_slot_is_made_up_for() {
        model(|| {
            let pool = pool(true);
            let (stream, there) = (Arc::clone(&pool), Arc::clone(&pool));
            let stream = thread::spawn(move || stream.device.run_one());
            let call = |pool: &Staging<Queue>| {
                // The stream may write it when the call is over.
                let table = Box::leak(Box::new(std::ptr::null_mut()));
                write(pool, table, 100).is_ok()
            };
            let other = thread::spawn(move || call(&there));
            let here = call(&pool);
            stream.join().unwrap();
            assert!(here != other.join().unwrap(), "one of them lost the slot");
            assert_eq!(pool.slots(), 1);
        });
    }
}
