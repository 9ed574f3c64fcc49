//! A client: devices, what is compiled for them, and the registries of the XLA copy behind it.

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

/// `CompileOptionsProto` as its wire bytes: one replica, one partition, no device chosen (-1).
const COMPILE_OPTIONS: [u8; 17] = [
    0x1A, 15, 0x08, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01, 0x20, 1, 0x28, 1,
];
/// How many types are looked through.
const MOST_TYPES: i64 = 4096;
/// StableHLO, as text or as byte code.
const FORMAT: &str = "mlir";

/// A client of a plugin. Clones are the same client; it ends with the last of what was made with it.
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
        // SAFETY: the plugin's text lives as long as the client.
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

    /// The platform's name as [`canonical_platform`] spells it: `cpu`, `cuda`.
    #[must_use]
    pub fn platform(&self) -> &str {
        &self.shared.platform
    }

    /// Compiles StableHLO, text or byte code, for one device.
    ///
    /// # Errors
    /// What the compiler says, and what the instantiate stages of the handlers answer.
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
        // SAFETY: the executable is new and ours.
        unsafe { Loaded::new(self.shared.clone(), args.executable) }
    }

    /// Copies an array to the device.
    ///
    /// # Errors
    /// `UNIMPLEMENTED` for element types that PJRT does not have, and what the plugin answers.
    pub fn upload(&self, tensor: &Tensor) -> Result<Buffer> {
        Buffer::upload(&self.shared, tensor)
    }

    /// Registers functions as the custom call `name` of this platform, all stages that there are.
    /// The XLA copy asks them what they need; equal registrations are fine.
    ///
    /// The extension of plugins takes an execute stage alone and does not tell when it refuses it, so
    /// this goes through the function table that handlers see, from inside a call.
    ///
    /// # Errors
    /// `NOT_FOUND` without an execute stage; what the XLA copy says, with its own version; `UNIMPLEMENTED`
    /// for a record stage where its version is below 0.4, and on platforms other than `cpu`, whose operands lie in a
    /// device's memory.
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

    /// Registers all handlers of a library that are for this platform, under their own names: by its
    /// `xla_ffi_register`, which Rust's libraries have, or where there is none those that its manifest
    /// describes, as C's and C++'s do (`XFFI_LIBRARY`, `XLA_FFI_LIBRARY`). All are tried.
    ///
    /// # Errors
    /// `NOT_FOUND` where the library has neither, or no handler for this platform; what is refused, one
    /// line a handler.
    pub fn register_library(&self, library: &Library) -> Result<()> {
        let Ok(entry) = library.symbol("xla_ffi_register") else {
            let platform = &self.shared.platform;
            return library.register_described(Some(platform), |name, _, bundle| {
                self.register(name, &bundle)
            });
        };
        // SAFETY: the symbol of this name is a registration entry, by the SDK's documents.
        let entry =
            unsafe { std::mem::transmute::<*mut std::ffi::c_void, bootstrap::Entry>(entry) };
        let api = self.shared.api;
        self.inside(move |table, platform| {
            table
                .enter(entry, platform)
                .map_err(|error| named(api, error))
        })
    }

    /// Registers a user type and says its number: `wanted` 0 asks for one.
    ///
    /// # Errors
    /// What the XLA copy answers when the name is taken.
    ///
    /// # Safety
    /// In this XLA copy the name, and the number if one is asked for, stand for one type alone: whoever
    /// finds objects by them, libraries included, means the same. The deleter destroys objects of it.
    pub unsafe fn register_type(&self, name: &str, wanted: i64, info: TypeInfo) -> Result<i64> {
        self.extension()?
            .register_type(name, wanted, info)
            .map_err(|error| error.within(format_args!("type '{name}'")))
    }

    /// The number of the user type called `name`: the one that a library has registered it with, or a
    /// new one, which libraries of this SDK take over when they come to register the type. Of a type
    /// that a library registers to own its objects (state), ask after that.
    ///
    /// # Errors
    /// What the XLA copy answers.
    pub fn type_id(&self, name: &str) -> Result<i64> {
        let ask = |id| {
            // SAFETY: a name without objects; it gets a number of its own, or is known by the one asked
            // for already.
            unsafe { self.register_type(name, id, TypeInfo::default()) }
        };
        let refused = match ask(0) {
            Ok(id) => return Ok(id),
            Err(error) => error,
        };
        // The name is taken. Registering it again is fine with its own number alone, and numbers are
        // given from 1 on: that tells it.
        (1..=MOST_TYPES).find_map(|id| ask(id).ok()).ok_or(refused)
    }

    /// Registers a user type by the symbols of its id and its `TypeInfo`, as
    /// [`Library::register_type`] does on the embedded runtime. A library that has its number
    /// already keeps it.
    ///
    /// # Errors
    /// Missing symbols, and what the XLA copy answers.
    pub fn register_type_of(
        &self,
        library: &Library,
        name: &str,
        id: &str,
        info: Option<&str>,
    ) -> Result<i64> {
        library.register_type_with(name, id, info, |wanted, info| {
            // SAFETY: what the library says of its own type.
            unsafe { self.register_type(name, wanted, info) }
        })
    }

    /// Registers the handler of this program, and compiles its call.
    fn bootstrap_program(&self) -> Result<Loaded> {
        bootstrap::check_platform(self.platform())?;
        let extension = self.extension()?;
        self.compile(bootstrap::register(&extension, self.platform())?)
    }

    /// Runs `job` with the XLA copy's function table, inside a call of a handler of ours.
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
