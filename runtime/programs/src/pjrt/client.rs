//! A client of a plugin: its devices, its compiled programs, and the registries of its XLA copy.

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

/// A serialised `CompileOptionsProto` with one replica, one partition, and the default device (-1).
const COMPILE_OPTIONS: [u8; 17] = [
    0x1A, 15, 0x08, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01, 0x20, 1, 0x28, 1,
];
/// The largest type number that is tried in the search for the number of a registered type.
const MOST_TYPES: i64 = 4096;
/// PJRT's name of the program format StableHLO, as text or byte code.
const FORMAT: &str = "mlir";

/// A client of a plugin. Clones are the same client. The client is destroyed when the last object created from it is
/// dropped.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
    bootstrap: Arc<OnceLock<Loaded>>,
}

impl Client {
    pub(super) fn new(api: Api) -> Result<Self> {
        let mut made = ClientCreate::new();
        // SAFETY: the arguments contain no options and no key-value store.
        unsafe { api.call(&mut made) }?;
        let mut shared = Shared {
            api,
            client: made.client,
            device: std::ptr::null_mut(),
            platform: String::new(),
        };
        let mut asked = ClientPlatformName::new();
        asked.client = shared.client;
        // SAFETY: the client is not destroyed yet.
        unsafe { api.call(&mut asked) }?;
        // SAFETY: the plugin's text is valid as long as the client.
        let name = unsafe {
            std::slice::from_raw_parts(asked.platform_name.cast::<u8>(), asked.platform_name_size)
        };
        shared.platform = canonical_platform(&String::from_utf8_lossy(name));
        let mut asked = ClientAddressableDevices::new();
        asked.client = shared.client;
        // SAFETY: the client is not destroyed yet.
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

    /// Returns the canonical name of the platform, as [`canonical_platform`] returns it: `cpu`, `cuda`.
    #[must_use]
    pub fn platform(&self) -> &str {
        &self.shared.platform
    }

    /// Compiles StableHLO, as text or byte code, for one device.
    ///
    /// # Errors
    /// Errors of the compiler, and of the handlers' instantiate stages.
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
        // SAFETY: the program and the options outlive the call.
        unsafe { self.shared.api.call(&mut args) }?;
        // SAFETY: the plugin has just created the executable, and this code owns it.
        unsafe { Loaded::new(self.shared.clone(), args.executable) }
    }

    /// Copies an array to the device.
    ///
    /// # Errors
    /// `UNIMPLEMENTED` for element types that PJRT lacks, and errors of the plugin.
    pub fn upload(&self, tensor: &Tensor) -> Result<Buffer> {
        Buffer::upload(&self.shared, tensor)
    }

    /// Registers all stages of a bundle as the handler `name` for the client's platform. The plugin's XLA makes
    /// metadata queries. A repeated registration of the same bundle succeeds.
    ///
    /// The FFI extension of plugins only accepts an execute stage, and does not report refusals. This function
    /// therefore registers the bundle through the function table of handlers, from inside a call.
    ///
    /// # Errors
    /// `NOT_FOUND` for a bundle without an execute stage. Errors of the plugin's XLA, with its FFI version.
    /// `UNIMPLEMENTED` for a record stage if this version is less than 0.4. `UNIMPLEMENTED` on platforms other than
    /// `cpu`, whose operands are in device memory.
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

    /// Registers all handlers of a library for the client's platform, under their names. This function calls the
    /// library's `xla_ffi_register`, which Rust libraries export. For C and C++ libraries (`XFFI_LIBRARY`,
    /// `XLA_FFI_LIBRARY`), it registers the handlers in the manifest. If a handler is refused, the remaining handlers
    /// are still registered.
    ///
    /// # Errors
    /// `NOT_FOUND` if the library has neither `xla_ffi_register` nor a manifest, or no handler for the platform. If
    /// handlers are refused, an error with one line per refused handler.
    pub fn register_library(&self, library: &Library) -> Result<()> {
        let Ok(entry) = library.symbol("xla_ffi_register") else {
            let platform = &self.shared.platform;
            return library.register_described(Some(platform), |name, _, bundle| {
                self.register(name, &bundle)
            });
        };
        // SAFETY: in libraries of this SDK, the symbol with this name is a registration function.
        let entry =
            unsafe { std::mem::transmute::<*mut std::ffi::c_void, bootstrap::Entry>(entry) };
        let api = self.shared.api;
        self.inside(move |table, platform| {
            table
                .enter(entry, platform)
                .map_err(|error| named(api, error))
        })
    }

    /// Registers a user type with the plugin's XLA and returns its number. If `wanted` is 0, XLA chooses a new
    /// number.
    ///
    /// # Errors
    /// Errors of the plugin's XLA if the name is already registered.
    ///
    /// # Safety
    /// In the plugin's XLA, all code, including libraries, must use the name and the number `wanted` for the same
    /// type. The deleter must destroy objects of this type.
    pub unsafe fn register_type(&self, name: &str, wanted: i64, info: TypeInfo) -> Result<i64> {
        self.extension()?
            .register_type(name, wanted, info)
            .map_err(|error| error.within(format_args!("type '{name}'")))
    }

    /// Returns the number of the user type called `name`. If the type is not registered, registers it with a new
    /// number; libraries of this SDK use this number when they register the type. For a type of state, whose objects
    /// the library destroys, call this function after the library has registered the type.
    ///
    /// # Errors
    /// Errors of the plugin's XLA.
    pub fn type_id(&self, name: &str) -> Result<i64> {
        let ask = |id| {
            // SAFETY: no objects of a new type exist. A registered type keeps its number.
            unsafe { self.register_type(name, id, TypeInfo::default()) }
        };
        let refused = match ask(0) {
            Ok(id) => return Ok(id),
            Err(error) => error,
        };
        // A registered name can only be registered again with the same number. Numbers start at 1, so the number is
        // found by trying.
        (1..=MOST_TYPES).find_map(|id| ask(id).ok()).ok_or(refused)
    }

    /// Registers a library's user type by the symbols of its id and its `TypeInfo`, like [`Library::register_type`]
    /// on the embedded runtime. If the library's id already has a number, the type gets this number.
    ///
    /// # Errors
    /// Errors for missing symbols, and errors of the plugin's XLA.
    pub fn register_type_of(
        &self,
        library: &Library,
        name: &str,
        id: &str,
        info: Option<&str>,
    ) -> Result<i64> {
        library.register_type_with(name, id, info, |wanted, info| {
            // SAFETY: the library declares the type, its id and its deleter.
            unsafe { self.register_type(name, wanted, info) }
        })
    }

    /// Registers the bootstrap handler, and compiles the program that calls it.
    fn bootstrap_program(&self) -> Result<Loaded> {
        bootstrap::check_platform(self.platform())?;
        let extension = self.extension()?;
        self.compile(bootstrap::register(&extension, self.platform())?)
    }

    /// Runs `job` inside a call of the bootstrap handler, and passes it the function table of the plugin's XLA.
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
