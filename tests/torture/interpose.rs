//! Replaces the functions that a library calls and that may fail: allocations, `pthread_create`, and the slots of the
//! host's table. This program defines `malloc` and related functions, so the loader binds every library to these
//! functions. Only calls by the library under test are counted.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;
use xla_ffi_runtime::{Revision, Stage};
use xla_ffi_sys::{
    Slot, XLA_FFI_CallFrame, XLA_FFI_Error, XLA_FFI_Error_Code, XLA_FFI_Error_Create_Args,
    XLA_FFI_Handler, XLA_FFI_Task, XLA_FFI_ThreadPool_Schedule_Args,
};

/// A kind of call that can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Kind {
    /// An allocation on the thread that calls the handler.
    Allocation,
    /// An allocation on a thread that the library has started, or in a task of the host's pool.
    AllocationElsewhere,
    /// The start of a thread.
    Thread,
    /// A call of a function in the host's table.
    Host,
}

impl Kind {
    pub(crate) const ALL: [Self; 4] = [
        Self::Allocation,
        Self::AllocationElsewhere,
        Self::Thread,
        Self::Host,
    ];
}

/// The message of the errors that failing slots return; their code is `ABORTED`.
pub(crate) const INJECTED: &str = "injected failure";

const NONE: usize = usize::MAX;
static COUNTS: [AtomicUsize; 4] = [const { AtomicUsize::new(0) }; 4];
static FAILING_KIND: AtomicUsize = AtomicUsize::new(NONE);
static FAILING_INDEX: AtomicUsize = AtomicUsize::new(NONE);
/// Whether all allocations fail after the first failure.
static STICKY: AtomicBool = AtomicBool::new(false);
static EXHAUSTED: AtomicBool = AtomicBool::new(false);
/// The slot that failed, or `NONE`.
static FAILED_SLOT: AtomicUsize = AtomicUsize::new(NONE);

/// A call to fail: its kind, and its index among the calls of this kind.
#[derive(Clone, Copy)]
pub(crate) struct Failure {
    pub(crate) kind: Kind,
    pub(crate) index: usize,
    /// Whether every allocation after the failed allocation also fails.
    pub(crate) sticky: bool,
}

/// Resets the counters, and selects the call that fails, if any.
pub(crate) fn start(failing: Option<Failure>) {
    COUNTS.iter().for_each(|count| count.store(0, SeqCst));
    STICKY.store(failing.is_some_and(|failing| failing.sticky), SeqCst);
    EXHAUSTED.store(false, SeqCst);
    FAILING_INDEX.store(failing.map_or(NONE, |failing| failing.index), SeqCst);
    FAILING_KIND.store(
        failing.map_or(NONE, |failing| failing.kind as usize),
        SeqCst,
    );
}

/// Returns the number of calls of each kind since `start`.
pub(crate) fn counts() -> [usize; 4] {
    COUNTS.each_ref().map(|count| count.load(SeqCst))
}

/// Returns the slot whose call failed, if any.
pub(crate) fn failed_slot() -> Option<Slot> {
    Slot::ALL.get(FAILED_SLOT.load(SeqCst)).copied()
}

fn fails(kind: Kind) -> bool {
    let index = COUNTS[kind as usize].fetch_add(1, SeqCst);
    let is_allocation = kind != Kind::Host && kind != Kind::Thread;
    if is_allocation && EXHAUSTED.load(SeqCst) {
        return true;
    }
    let fails = FAILING_KIND.load(SeqCst) == kind as usize && index == FAILING_INDEX.load(SeqCst);
    if fails && STICKY.load(SeqCst) {
        EXHAUSTED.store(true, SeqCst);
    }
    fails
}

thread_local! {
    /// The kind that counts this thread's allocations for the library; `None` while the host runs.
    static ROLE: Cell<Option<Kind>> = const { Cell::new(None) };
}

/// Runs `body` with allocations counted as `role`.
fn with_role<R>(role: Option<Kind>, body: impl FnOnce() -> R) -> R {
    let before = ROLE.replace(role);
    let result = body();
    ROLE.set(before);
    result
}

// Replacements of allocation functions

/// Addresses of the library's live allocations. An address is at most `WINDOW` entries after the entry of its hash.
static PLACES: [AtomicUsize; 1 << 16] = [const { AtomicUsize::new(0) }; 1 << 16];
const WINDOW: usize = 64;
static LIVE: AtomicIsize = AtomicIsize::new(0);

/// Returns the number of the library's live allocations.
pub(crate) fn live() -> isize {
    LIVE.load(SeqCst)
}

fn replace(address: usize, from: usize, to: usize) -> bool {
    (0..WINDOW).any(|offset| {
        let hash = address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48;
        let place = &PLACES[(hash + offset) % PLACES.len()];
        place.load(SeqCst) == from && place.compare_exchange(from, to, SeqCst, SeqCst).is_ok()
    })
}

fn track(memory: *mut c_void) -> *mut c_void {
    if ROLE.get().is_some() && !memory.is_null() {
        assert!(
            replace(memory as usize, 0, memory as usize),
            "too many allocations"
        );
        LIVE.fetch_add(1, SeqCst);
    }
    memory
}

fn untrack(memory: *mut c_void) {
    if !memory.is_null() && replace(memory as usize, memory as usize, 0) {
        LIVE.fetch_sub(1, SeqCst);
    }
}

fn refuses() -> bool {
    ROLE.get().is_some_and(fails)
}

unsafe extern "C" {
    fn __libc_malloc(size: usize) -> *mut c_void;
    fn __libc_calloc(count: usize, size: usize) -> *mut c_void;
    fn __libc_realloc(memory: *mut c_void, size: usize) -> *mut c_void;
    fn __libc_memalign(alignment: usize, size: usize) -> *mut c_void;
    fn __libc_free(memory: *mut c_void);
}

/// Defines a C allocation function that calls glibc's function, unless the allocation must fail.
macro_rules! allocates {
    ($($name:ident($($argument:ident: $type:ty),*) = $own:expr;)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($argument: $type),*) -> *mut c_void {
            if refuses() {
                return std::ptr::null_mut();
            }
            // SAFETY: the caller upholds the contract of the C function, which is also that of glibc's function.
            track(unsafe { $own })
        }
    )*};
}

allocates! {
    malloc(size: usize) = __libc_malloc(size);
    calloc(count: usize, size: usize) = __libc_calloc(count, size);
    aligned_alloc(alignment: usize, size: usize) = __libc_memalign(alignment, size);
}

#[unsafe(no_mangle)]
unsafe extern "C" fn posix_memalign(out: *mut *mut c_void, alignment: usize, size: usize) -> c_int {
    // SAFETY: the caller upholds the contract of the C function.
    let memory = unsafe { aligned_alloc(alignment, size) };
    if memory.is_null() {
        return libc::ENOMEM;
    }
    // SAFETY: the caller passes a valid `out`, as the C function requires.
    unsafe { out.write(memory) };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn realloc(memory: *mut c_void, size: usize) -> *mut c_void {
    if refuses() {
        return std::ptr::null_mut();
    }
    let was_tracked = replace(memory as usize, memory as usize, 0) && !memory.is_null();
    LIVE.fetch_sub(isize::from(was_tracked), SeqCst);
    // SAFETY: the caller upholds the contract of the C function.
    let moved = unsafe { __libc_realloc(memory, size) };
    let role = if was_tracked {
        Some(Kind::Allocation)
    } else {
        ROLE.get()
    };
    with_role(role, || track(moved))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn free(memory: *mut c_void) {
    untrack(memory);
    // SAFETY: the caller upholds the contract of the C function.
    unsafe { __libc_free(memory) };
}

// The replacement of `pthread_create`

type Start = unsafe extern "C" fn(*mut c_void) -> *mut c_void;
static STARTED: AtomicUsize = AtomicUsize::new(0);
static RUNNING: AtomicUsize = AtomicUsize::new(0);

/// Returns the number of threads and tasks that the library has started.
pub(crate) fn started() -> usize {
    STARTED.load(SeqCst)
}

/// Returns the number of the library's threads and tasks that are still running.
pub(crate) fn running() -> usize {
    RUNNING.load(SeqCst)
}

/// A function of the library that a different thread runs.
struct Work {
    run: Start,
    data: *mut c_void,
    /// Delay before the function runs. The handler returns first, so that every run makes the same calls.
    delay: Duration,
}

/// Creates work whose allocations count as allocations of the library.
fn work(run: Start, data: *mut c_void, delay: u64) -> *mut c_void {
    let delay = Duration::from_millis(delay);
    STARTED.fetch_add(1, SeqCst);
    RUNNING.fetch_add(1, SeqCst);
    Box::into_raw(Box::new(Work { run, data, delay })).cast()
}

unsafe extern "C" fn run_work(work: *mut c_void) -> *mut c_void {
    // SAFETY: `work` created the pointer, and it is used once.
    let Work { run, data, delay } = *unsafe { Box::from_raw(work.cast::<Work>()) };
    std::thread::sleep(delay);
    // SAFETY: the library passed this function together with its data.
    let result = with_role(Some(Kind::AllocationElsewhere), || unsafe { run(data) });
    RUNNING.fetch_sub(1, SeqCst);
    result
}

type CreateThread =
    unsafe extern "C" fn(*mut libc::pthread_t, *const c_void, Start, *mut c_void) -> c_int;

#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_create(
    thread: *mut libc::pthread_t,
    attributes: *const c_void,
    start: Start,
    data: *mut c_void,
) -> c_int {
    let is_librarys = ROLE.get().is_some();
    if is_librarys && fails(Kind::Thread) {
        return libc::EAGAIN;
    }
    with_role(None, || {
        // SAFETY: the argument is a C string.
        let own = unsafe { libc::dlsym(libc::RTLD_NEXT, c"pthread_create".as_ptr()) };
        // SAFETY: glibc's function has this type.
        let own: CreateThread = unsafe { std::mem::transmute(own) };
        let (start, data) = if is_librarys {
            (run_work as Start, work(start, data, 10))
        } else {
            (start, data)
        };
        // SAFETY: the caller upholds the contract of the C function.
        unsafe { own(thread, attributes, start, data) }
    })
}

// Replacements of functions in the host's table

type SlotFunction = unsafe extern "C" fn(*mut c_void) -> *mut XLA_FFI_Error;
static SLOTS: [AtomicUsize; 20] = [const { AtomicUsize::new(0) }; 20];

/// Calls the host's original function of a slot.
unsafe fn call_slot(slot: Slot, args: *mut c_void) -> *mut XLA_FFI_Error {
    // SAFETY: `intercept` stored the function of this slot.
    let own: SlotFunction = unsafe { std::mem::transmute(SLOTS[slot as usize].load(SeqCst)) };
    // SAFETY: the caller passes the arguments of this slot.
    let error = unsafe { own(args) };
    if slot.returns_error() {
        error
    } else {
        std::ptr::null_mut()
    }
}

fn injected() -> *mut XLA_FFI_Error {
    let message = std::ffi::CString::new(INJECTED).expect("no NUL");
    let mut args = XLA_FFI_Error_Create_Args {
        struct_size: XLA_FFI_Error_Create_Args::STRUCT_SIZE,
        extension_start: std::ptr::null_mut(),
        message: message.as_ptr(),
        errc: XLA_FFI_Error_Code::ABORTED,
    };
    // SAFETY: the arguments are complete.
    unsafe { call_slot(Slot::ErrorCreate, (&raw mut args).cast()) }
}

unsafe extern "C" fn slot<const INDEX: usize>(args: *mut c_void) -> *mut XLA_FFI_Error {
    let slot = Slot::ALL[INDEX];
    with_role(None, || {
        // In the ABI, these functions cannot return an error.
        let can_fail = slot.returns_error() && slot != Slot::ErrorCreate;
        if can_fail && fails(Kind::Host) {
            FAILED_SLOT.store(INDEX, SeqCst);
            // Even if the slot reports a failure, the host must release memory and futures, so the slot also does the
            // work.
            let does_work = matches!(
                slot,
                Slot::FutureSetAvailable | Slot::FutureSetError | Slot::DeviceMemoryFree
            );
            if does_work {
                // SAFETY: the caller passes the arguments of this slot.
                let error = unsafe { call_slot(slot, args) };
                assert!(error.is_null(), "the host refuses what it took before");
            }
            return injected();
        }
        if slot == Slot::ThreadPoolSchedule {
            // SAFETY: the library passes the arguments of this slot, and nothing else accesses them.
            let args = unsafe { &mut *args.cast::<XLA_FFI_ThreadPool_Schedule_Args>() };
            if let Some(task) = args.task {
                // SAFETY: the types differ only in the result, which may be ignored.
                let run: Start = unsafe { std::mem::transmute(task) };
                let data = work(run, args.data, 0);
                // SAFETY: the types differ only in the result, which may be ignored.
                let run = unsafe { std::mem::transmute::<Start, XLA_FFI_Task>(run_work) };
                (args.task, args.data) = (Some(run), data);
            }
        }
        // SAFETY: the caller passes the arguments of this slot.
        unsafe { call_slot(slot, args) }
    })
}

macro_rules! slots {
    ($($index:literal)*) => { [$(slot::<$index>),*] };
}
static WRAPPED: [SlotFunction; 20] = slots!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19);

/// Replaces the functions in a runtime's table by functions of this program.
///
/// # Safety
/// `api` is the table of an embedded runtime of this revision, which no other thread reads.
pub(crate) unsafe fn intercept(api: *const c_void, revision: Revision) {
    for slot in Slot::ALL {
        let Some(index) = slot.index(revision) else {
            continue;
        };
        let functions = api.cast_mut().wrapping_byte_add(Slot::HEAD);
        let place = functions.cast::<usize>().wrapping_add(index);
        // SAFETY: the table is in the runtime's own, writable memory.
        SLOTS[slot as usize].store(unsafe { place.read() }, SeqCst);
        // SAFETY: the table is in the runtime's own, writable memory.
        unsafe { place.write(WRAPPED[slot as usize] as usize) };
    }
}

// The wrapper of the library's handler

static HANDLERS: [AtomicUsize; 5] = [const { AtomicUsize::new(0) }; 5];

/// Returns a handler that calls the library's `handler` for this stage and counts its calls and allocations.
pub(crate) fn counted(stage: Stage, handler: *mut c_void) -> XLA_FFI_Handler {
    HANDLERS[stage as usize].store(handler as usize, SeqCst);
    match stage {
        Stage::Instantiate => call_handler::<0>,
        _ => call_handler::<3>,
    }
}

unsafe extern "C" fn call_handler<const STAGE: usize>(
    frame: *mut XLA_FFI_CallFrame,
) -> *mut XLA_FFI_Error {
    // SAFETY: `counted` stored the handler of this stage.
    let handler: XLA_FFI_Handler = unsafe { std::mem::transmute(HANDLERS[STAGE].load(SeqCst)) };
    // SAFETY: the host passes a valid frame.
    with_role(Some(Kind::Allocation), || unsafe { handler(frame) })
}
