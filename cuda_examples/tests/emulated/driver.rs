//! Runs the example libraries on the embedded runtime, with an emulator of NVIDIA's driver.

use std::ffi::{CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use xla_ffi_runtime::{Attributes, Executable, HostAllocator, Runtime, Stage, Stream};
use xla_ffi_testing::compiler::cuda_driver;
use xla_ffi_testing::skip;

/// The emulator of NVIDIA's driver, loaded into this process under the driver's file name.
pub(crate) struct Driver {
    library: libloading::Library,
}

impl Driver {
    /// Compiles and loads the emulator. Without the tools, returns `None` and counts a skipped test. While a test holds
    /// the returned lock, no other test can change the emulator's counters.
    pub(crate) fn open(test: &str) -> Option<(&'static Self, MutexGuard<'static, ()>)> {
        static DRIVER: OnceLock<Option<Driver>> = OnceLock::new();
        static ONE: Mutex<()> = Mutex::new(());
        if env!("KERNELS") != "nvcc" {
            skip(test, "the kernels were built without nvcc (XLA_FFI_NVCC)");
            return None;
        }
        let driver = DRIVER.get_or_init(|| Self::build(test)).as_ref();
        driver.map(|driver| (driver, ONE.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    fn build(test: &str) -> Option<Self> {
        let library = cuda_driver(Path::new(env!("CARGO_TARGET_TMPDIR")), test)?;
        // SAFETY: the emulator is part of this project and has no constructors.
        let library = unsafe { libloading::Library::new(library) }.expect("the stand-in loads");
        Some(Self { library })
    }

    /// Returns a stream of one of the emulator's two devices.
    pub(crate) fn stream(&self, device: c_int) -> *mut c_void {
        type Make = unsafe extern "C" fn(c_int) -> *mut c_void;
        // SAFETY: the emulator exports this function with this type.
        let make = unsafe { self.library.get::<Make>(b"fake_stream") }.expect("exported");
        // SAFETY: the function accepts any device number.
        let stream = unsafe { make(device) };
        assert!(!stream.is_null());
        stream
    }

    /// Returns the emulator's counter of this name.
    pub(crate) fn count(&self, what: &str) -> c_int {
        type Count = unsafe extern "C" fn(*const c_char) -> c_int;
        // SAFETY: the emulator exports this function with this type.
        let count = unsafe { self.library.get::<Count>(b"fake_count") }.expect("exported");
        let name = CString::new(what).expect("no NUL");
        // SAFETY: `name` is a C string, which lives until the end of this call.
        let count = unsafe { count(name.as_ptr()) };
        assert!(count >= 0, "the stand-in does not count {what}");
        count
    }
}

/// Creates a call on a stream of the emulator, with an allocator of scratch memory.
pub(crate) fn call(executable: &Executable, stream: *mut c_void) -> xla_ffi_runtime::Call {
    let allocator: Arc<HostAllocator> = Arc::default();
    executable
        .call()
        // SAFETY: the stream belongs to the emulator, which is never unloaded.
        .stream(unsafe { Stream::borrowed(stream) })
        .allocator(allocator)
}

/// Returns the path of an example library, which the cargo command of this test has built.
pub(crate) fn library(name: &str) -> PathBuf {
    let this = std::env::current_exe().expect("a path of its own");
    let profile = this.ancestors().nth(2).expect("the profile's folder");
    profile.join(format!("examples/libcuda_{name}.so"))
}

/// Loads a handler of an example library and runs its instantiate stage.
pub(crate) fn load(library_name: &str, handler: &str, attributes: &str) -> Executable {
    let runtime = Runtime::default();
    let library = runtime.open(library(library_name)).expect("it loads");
    let symbols: Vec<(Stage, String)> = Stage::ALL
        .into_iter()
        .map(|stage| match stage {
            Stage::Execute => (stage, handler.to_owned()),
            _ => (stage, format!("{handler}_{}", stage.name())),
        })
        .filter(|(_, symbol)| library.symbol(symbol).is_ok())
        .collect();
    let symbols: Vec<(Stage, &str)> = symbols
        .iter()
        .map(|(stage, symbol)| (*stage, symbol.as_str()))
        .collect();
    let handler = library.handler(handler, &symbols).expect("it registers");
    let attributes = Attributes::parse(attributes).expect("attributes");
    handler.instantiate(&attributes).expect("it instantiates")
}
