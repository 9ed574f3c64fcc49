//! A client: its devices, compiled programs, and the registries of its XLA copy.

use super::api::{Api, named};
use super::bootstrap::{self, Table};
use super::buffer::Buffer;
use super::executable::Loaded;
use super::extension::Extension;
use super::handles::Shared;
use super::raw::{
    ClientAddressableDevices, ClientCompile, ClientCreate, ClientPlatformName, RawProgram,
    SizedStruct,
};
use std::sync::{Arc, OnceLock};
use xla_ffi_runtime::{
    Bundle, Error, ErrorCode, Library, Result, Stage, Tensor, TypeInfo, canonical_platform,
};

/// A serialised `CompileOptionsProto`: one replica, one partition, no particular device (-1).
const COMPILE_OPTIONS: [u8; 17] = [
    0x1A, 15, 0x08, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01, 0x20, 1, 0x28, 1,
];
/// The largest number that is tried when searching for a type's number.
const MOST_TYPES: i64 = 4096;
/// PJRT's name of the program format: StableHLO, as text or byte code.
const FORMAT: &str = "mlir";

/// A client of a plugin. Clones share the same client; it is destroyed with the last object created from it.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
    bootstrap: Arc<OnceLock<Loaded>>,
}

impl Client {
    pub(super) fn new(api: Api) -> Result<Self> {
        let mut made = ClientCreate::new();
        // SAFETY: no options and no key-value store are given.
        unsafe { api.call(&mut made) }?;
        let mut shared = Shared {
            api,
            client: made.client,
            device: std::ptr::null_mut(),
            platform: String::new(),
        };
        let mut asked = ClientPlatformName::new();
        asked.client = shared.client;
        // SAFETY: the client is alive.
        unsafe { api.call(&mut asked) }?;
        // SAFETY: the plugin's text is valid as long as the client.
        let name = unsafe {
            std::slice::from_raw_parts(asked.platform_name.cast::<u8>(), asked.platform_name_size)
        };
        shared.platform = canonical_platform(&String::from_utf8_lossy(name));
        let mut asked = ClientAddressableDevices::new();
        asked.client = shared.client;
        // SAFETY: the client is alive.
        unsafe { api.call(&mut asked) }?;
        if asked.num_addressable_devices == 0 {
            return Err(Error::new(
                ErrorCode::FailedPrecondition,
                format!("the plugin has no device of platform {}", shared.platform),
            ));
        }
        // SAFETY: the list has at least one entry.
        shared.device = unsafe { asked.addressable_devices.read() };
        Ok(Self {
            shared: Arc::new(shared),
            bootstrap: Arc::default(),
        })
    }

    pub(super) fn extension(&self) -> Result<Extension> {
        Extension::find(self.shared.api)
    }

    /// Returns the platform's name in the spelling of [`canonical_platform`]: `cpu`, `cuda`.
    #[must_use]
    pub fn platform(&self) -> &str {
        &self.shared.platform
    }

    /// Compiles StableHLO, as text or byte code, for one device.
    ///
    /// # Errors
    /// Errors from the compiler, and from the handlers' instantiate stages.
    pub fn compile(&self, stablehlo: impl AsRef<[u8]>) -> Result<Loaded> {
        let code = stablehlo.as_ref();
        let mut program = RawProgram::new();
        program.code = code.as_ptr().cast();
        program.code_size = code.len();
        program.format = FORMAT.as_ptr().cast();
        program.format_size = FORMAT.len();
        let mut args = ClientCompile::new();
        args.client = self.shared.client;
        args.program = &raw const program;
        args.compile_options = COMPILE_OPTIONS.as_ptr().cast();
        args.compile_options_size = COMPILE_OPTIONS.len();
        // SAFETY: program and options outlive the call.
        unsafe { self.shared.api.call(&mut args) }?;
        // SAFETY: the executable is new and owned by this code.
        unsafe { Loaded::new(self.shared.clone(), args.executable) }
    }

    /// Copies an array to the device.
    ///
    /// # Errors
    /// `UNIMPLEMENTED` for element types that PJRT does not have, and errors from the plugin.
    pub fn upload(&self, tensor: &Tensor) -> Result<Buffer> {
        Buffer::upload(&self.shared, tensor)
    }

    /// Registers functions as the custom call `name` of this platform, with all stages in the bundle. The XLA copy
    /// asks them for their metadata; repeating a registration is fine.
    ///
    /// The plugins' own extension only accepts an execute stage, and does not report refusals. Registration
    /// therefore uses the handlers' function table, from inside a call.
    ///
    /// # Errors
    /// `NOT_FOUND` without an execute stage. Errors from the XLA copy, with its version. `UNIMPLEMENTED` for a
    /// record stage if that version is below 0.4, and on platforms other than `cpu`, whose operands are in device
    /// memory.
    pub fn register(&self, name: &str, bundle: &Bundle) -> Result<()> {
        if bundle.get(Stage::Execute).is_none() {
            return Err(Error::new(
                ErrorCode::NotFound,
                format!("handler '{name}' has no execute stage; every handler needs one"),
            ));
        }
        let (name, bundle, api) = (name.to_owned(), *bundle, self.shared.api);
        self.inside(move |table, platform| {
            table
                .register(&name, platform, &bundle)
                .map_err(|error| named(api, error.within(format_args!("handler '{name}'"))))
        })
    }

    /// Registers all handlers of a library for this platform, under their own names. This function calls the
    /// library's `xla_ffi_register`, which Rust libraries have. Otherwise, it registers the handlers in the
    /// manifest, as in C and C++ (`XFFI_LIBRARY`, `XLA_FFI_LIBRARY`). If a handler is refused, the others are still
    /// registered.
    ///
    /// # Errors
    /// `NOT_FOUND` if the library has neither, or no handler for this platform; refused registrations, one line per
    /// handler.
    pub fn register_library(&self, library: &Library) -> Result<()> {
        let Ok(entry) = library.symbol("xla_ffi_register") else {
            let platform = &self.shared.platform;
            return library.register_described(Some(platform), |name, _, bundle| {
                self.register(name, &bundle)
            });
        };
        // SAFETY: in libraries of this SDK, the symbol with this name is a registration entry.
        let entry =
            unsafe { std::mem::transmute::<*mut std::ffi::c_void, bootstrap::Entry>(entry) };
        let api = self.shared.api;
        self.inside(move |table, platform| {
            table
                .enter(entry, platform)
                .map_err(|error| named(api, error))
        })
    }

    /// Registers a user type and returns its number; with `wanted` 0 the number is new.
    ///
    /// # Errors
    /// Errors from the XLA copy if the name is in use.
    ///
    /// # Safety
    /// In this XLA copy, the name (and `wanted`, if it is not 0) must identify exactly one type for all code,
    /// including libraries. The deleter destroys objects of that type.
    pub unsafe fn register_type(&self, name: &str, wanted: i64, info: TypeInfo) -> Result<i64> {
        self.extension()?
            .register_type(name, wanted, info)
            .map_err(|error| error.within(format_args!("type '{name}'")))
    }

    /// Returns the number of the user type called `name`. If no library has registered it yet, it gets a new number,
    /// which libraries of this SDK use when they register the type. For a type whose objects a library owns (state),
    /// call this after the library registered it.
    ///
    /// # Errors
    /// Errors from the XLA copy.
    pub fn type_id(&self, name: &str) -> Result<i64> {
        let ask = |id| {
            // SAFETY: the name has no objects yet. It either gets a new number, or keeps the number it already has.
            unsafe { self.register_type(name, id, TypeInfo::default()) }
        };
        let refused = match ask(0) {
            Ok(id) => return Ok(id),
            Err(error) => error,
        };
        // The name is in use. It may only be registered again with its own number. Numbers start at 1, so the number
        // can be found by trying.
        (1..=MOST_TYPES).find_map(|id| ask(id).ok()).ok_or(refused)
    }

    /// Registers a user type by the symbols of its id and its `TypeInfo`, like [`Library::register_type`] on the
    /// embedded runtime. A library that already has its number keeps it.
    ///
    /// # Errors
    /// Missing symbols, and errors from the XLA copy.
    pub fn register_type_of(
        &self,
        library: &Library,
        name: &str,
        id: &str,
        info: Option<&str>,
    ) -> Result<i64> {
        library.register_type_with(name, id, info, |wanted, info| {
            // SAFETY: the library describes its own type.
            unsafe { self.register_type(name, wanted, info) }
        })
    }

    /// Registers the bootstrap handler, and compiles a program that calls it.
    fn bootstrap_program(&self) -> Result<Loaded> {
        bootstrap::check_platform(self.platform())?;
        let extension = self.extension()?;
        self.compile(bootstrap::register(&extension, self.platform())?)
    }

    /// Runs `job` with the XLA copy's function table, inside a call of the bootstrap handler.
    fn inside<R: Send + 'static>(
        &self,
        job: impl FnOnce(Table, &str) -> Result<R> + Send + 'static,
    ) -> Result<R> {
        let platform = self.shared.platform.clone();
        let program = match self.bootstrap.get() {
            Some(program) => program,
            None => {
                let made = self.bootstrap_program().map_err(|error| {
                    error.within("the handler of this program by which others are registered")
                })?;
                self.bootstrap.get_or_init(|| made)
            }
        };
        bootstrap::inside(program, move |table| job(table, &platform))
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client")
            .field("platform", &self.shared.platform)
            .finish_non_exhaustive()
    }
}
