//! What handlers answer when hosts ask about them, and what hosts make of it.

use crate::kit::{bundle, handler, load};
use std::ffi::{CStr, CString, c_char};
use xla_ffi::__private::Handler;
use xla_ffi::{Extension, RawCall, prelude::*};
use xla_ffi_runtime::{Code, Revision, Runtime};

#[xla_ffi::handler]
fn plain(_x: Buffer<f32>) -> Result<()> {
    Ok(())
}

#[xla_ffi::handler(command_buffer_compatible)]
fn traits() -> Result<()> {
    Ok(())
}

#[xla_ffi::handler]
fn needs_r9(_extension: Extension<128>) -> Result<()> {
    Ok(())
}

#[xla_ffi::handler]
fn needs_r10(_options: CustomOptions) -> Result<()> {
    Ok(())
}

#[xla_ffi::handler(floor = "r8")]
fn says_r8() -> Result<()> {
    Ok(())
}

#[xla_ffi::handler(name = "elsewhere", platforms = ["cuda"])]
fn on_devices() -> Result<()> {
    Ok(())
}

struct State;

#[xla_ffi::stateful(name = "with_state")]
impl State {
    fn instantiate() -> Self {
        Self
    }

    fn execute(&self) {}
}

/// Metadata: the host's version, raised to the floor; what is raised is refused with its reason.
#[test]
fn versions_are_negotiated() {
    for revision in Revision::ALL {
        let runtime = Runtime::new(revision);
        let answered = |handler: xla_ffi_runtime::Handler| handler.metadata().map(|m| m.version);
        let expected = (revision > Revision::R0).then_some((0, revision.minor_version()));
        assert_eq!(answered(handler::<plain>(&runtime)), expected, "{revision}");
        for (bundle, floor) in [
            (bundle::<needs_r9>(), Revision::R9),
            (bundle::<needs_r10>(), Revision::R10),
            (bundle::<says_r8>(), Revision::R8),
        ] {
            let result = runtime.handler("h", bundle);
            if revision == Revision::R0 || revision.minor_version() >= floor.minor_version() {
                assert_eq!(answered(result.unwrap()), expected);
            } else {
                let error = result.unwrap_err();
                let answer = format!("it answers version 0.{}", floor.minor_version());
                assert_eq!(error.code(), Code::InvalidArgument);
                assert!(error.message().contains(&answer), "{revision}: {error}");
            }
        }
    }
    assert_eq!(<plain as Handler>::INFO.floor(), Revision::R0);
    assert_eq!(<says_r8 as Handler>::INFO.floor(), Revision::R8);
    assert_eq!(<State as Handler>::INFO.floor(), Revision::R1);
}

/// MetadataTraits, and the type of the state where hosts have room for it.
#[test]
fn traits_and_types_are_told() {
    for revision in Revision::ALL.into_iter().skip(1) {
        let runtime = Runtime::new(revision);
        assert!(
            handler::<traits>(&runtime)
                .metadata()
                .unwrap()
                .is_command_buffer_compatible()
        );
        assert!(
            !handler::<plain>(&runtime)
                .metadata()
                .unwrap()
                .is_command_buffer_compatible()
        );
        let id = handler::<State>(&runtime).metadata().unwrap().state_type_id;
        assert_eq!(id != 0, revision >= Revision::R7, "{revision}");
        assert!(runtime.take_findings().is_empty());
    }
}

/// Calls the library's registration function with the table of the call's host.
#[xla_ffi::handler]
fn registers(platform: Option<&str>, call: RawCall) -> Result<()> {
    unsafe extern "C" {
        fn metadata__xla_ffi_register(
            api: *const xla_ffi::sys::XLA_FFI_Api,
            platform: *const c_char,
        ) -> *mut xla_ffi::sys::XLA_FFI_Error;
    }
    let platform = platform.map(|platform| CString::new(platform).unwrap());
    let pointer = platform.as_ref().map_or(std::ptr::null(), |p| p.as_ptr());
    // SAFETY: the host's table and a C string or null.
    let error = unsafe { metadata__xla_ffi_register(call.api(), pointer) };
    if error.is_null() {
        return Ok(());
    }
    let table = call.api();
    let mut args = xla_ffi::sys::XLA_FFI_Error_GetDetails_Args {
        struct_size: 36,
        extension_start: std::ptr::null_mut(),
        error,
        message: std::ptr::null(),
        errc: xla_ffi::RawErrorCode(0),
    };
    // SAFETY: the newest revision's table, which has the slot.
    let details = unsafe { (*table).XLA_FFI_Error_GetDetails }.unwrap();
    // SAFETY: the arguments of this slot; the error is alive.
    unsafe { details(&raw mut args) };
    // SAFETY: the error's own text, alive until it is destroyed.
    let text = unsafe { CStr::from_ptr(args.message) }
        .to_string_lossy()
        .into_owned();
    let mut destroy = xla_ffi::sys::XLA_FFI_Error_Destroy_Args {
        struct_size: 24,
        extension_start: std::ptr::null_mut(),
        error,
    };
    // SAFETY: as above.
    let end = unsafe { (*table).XLA_FFI_Error_Destroy }.unwrap();
    // SAFETY: destroyed once.
    unsafe { end(&raw mut destroy) };
    Err(Error::new(ErrorCode::from_raw(args.errc).unwrap(), text))
}

fn register(runtime: &Runtime, platform: Option<&str>) -> std::result::Result<(), (Code, String)> {
    let attrs = platform.map_or("{}".to_owned(), |name| format!("{{platform = \"{name}\"}}"));
    let call = load::<registers>(runtime, &attrs).unwrap().call();
    let result = call.run();
    result
        .map(drop)
        .map_err(|error| (error.code(), error.message().to_owned()))
}

/// The registration function: everything made for the platform, twice without harm, failures told
/// a line each.
#[test]
fn a_library_registers_itself() {
    let runtime = Runtime::default();
    register(&runtime, Some("Host")).unwrap();
    register(&runtime, Some("cpu")).unwrap();
    for name in [
        "plain",
        "traits",
        "needs_r9",
        "needs_r10",
        "says_r8",
        "with_state",
    ] {
        let found = runtime.find(name, "Cpu").unwrap();
        assert_eq!(found.name(), name);
    }
    assert!(runtime.find("elsewhere", "cpu").is_err());
    register(&runtime, Some("CUDA")).unwrap();
    assert!(runtime.find("elsewhere", "cuda").is_ok());
    let (code, text) = register(&runtime, None).unwrap_err();
    assert_eq!(code, Code::InvalidArgument);
    assert_eq!(text, "metadata: no platform given, \"cpu\" for instance");
    let (code, text) = register(&runtime, Some("tpu")).unwrap_err();
    assert_eq!(code, Code::NotFound);
    assert_eq!(text, "metadata: no handler is made for platform \"tpu\"");

    let other = Runtime::default();
    other
        .register("plain", "cpu", bundle::<traits>(), 0)
        .unwrap();
    let (code, text) = register(&other, Some("cpu")).unwrap_err();
    // jaxlib's code for a second handler under one name.
    assert_eq!(code, Code::InvalidArgument);
    assert!(
        text.starts_with("metadata: 1 of 7 handlers not registered\n  plain: "),
        "{text}"
    );
    assert!(other.find("says_r8", "cpu").is_ok(), "the others are there");
}

xla_ffi::library! {
    name = "metadata";
    plain, traits, needs_r9, needs_r10, says_r8, on_devices, State, registers
}
