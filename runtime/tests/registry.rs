//! Tests that handlers and types are registered by the same rules as in XLA.

mod support;

use std::path::Path;
use support::{Function, error, metadata, slot};
use xla_ffi_runtime::{
    Attributes, Bundle, ErrorCode, Hazard, Library, Revision, Runtime, Stage, Traits, TypeInfo,
};
use xla_ffi_sys::{
    XLA_FFI_ByteSpan, XLA_FFI_CallFrame, XLA_FFI_Error, XLA_FFI_Handler_Bundle_R0,
    XLA_FFI_Handler_Register_Args_R0, XLA_FFI_Type_Register_Args, XLA_FFI_TypeId, XLA_FFI_TypeInfo,
};
use xla_ffi_testing::compiler::library_of_text;
use xla_ffi_testing::skip;

unsafe extern "C" fn one(frame: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error {
    // SAFETY: `frame` is a call frame of a host.
    unsafe { metadata(frame, 1, 0) };
    std::ptr::null_mut()
}

unsafe extern "C" fn capturable(frame: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error {
    // SAFETY: `frame` is a call frame of a host.
    unsafe { metadata(frame, 1, 1) };
    std::ptr::null_mut()
}

unsafe extern "C" fn refuses_metadata(frame: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error {
    // SAFETY: since version 0.2, the frames of metadata queries have a function table.
    unsafe { error(frame, 9, c"not today") }
}

fn bundle(handler: xla_ffi_sys::XLA_FFI_Handler) -> Bundle {
    // SAFETY: the callers pass handlers of this file.
    unsafe { Bundle::execute(handler) }
}

#[test]
fn a_runtime_ends_with_its_handles_whatever_is_registered() {
    let runtime = Runtime::default();
    runtime.register("one", "Host", bundle(one)).unwrap();
    let internal_api = runtime.internal_api();
    let handler = runtime.find("one", "cpu").unwrap();
    drop(runtime);
    assert!(Runtime::from_internal_api(internal_api).is_some());
    drop(handler);
    assert!(Runtime::from_internal_api(internal_api).is_none());
}

#[test]
fn a_file_that_replaced_a_loaded_one_is_loaded() {
    let test = "a_file_that_replaced_a_loaded_one_is_loaded";
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    std::fs::create_dir_all(&folder).unwrap();
    // The variable in the library is a unique symbol (STB_GNU_UNIQUE), which exists once per process.
    let build = |number: i32| {
        let text = format!("inline int number = {number};\nint* at() {{ return &number; }}\n");
        let name = format!("number_{number}");
        library_of_text(&folder, &name, "g++", &text, &["-std=c++17"])
    };
    let (Some(old), Some(new)) = (build(1), build(2)) else {
        return skip(test, "g++ is not there");
    };
    let runtime = Runtime::default();
    let number = |library: &Library| {
        let at = library.symbol("number").unwrap().cast::<i32>();
        // SAFETY: the symbol is an `int`.
        (at, unsafe { at.read() })
    };
    let path = folder.join("replaced.so");
    std::fs::rename(old, &path).unwrap();
    let before = runtime.open(&path).unwrap();
    assert_eq!(number(&runtime.open(&path).unwrap()), number(&before));
    std::fs::rename(new, &path).unwrap();
    let after = runtime.open(&path).unwrap();
    assert_eq!((number(&before).1, number(&after).1), (1, 2));
    assert_eq!(number(&runtime.open(&path).unwrap()), number(&after));
    let files = std::fs::read_dir(&folder).unwrap();
    let is_library = |file: &std::fs::DirEntry| file.path().extension() == Some("so".as_ref());
    let left = files.filter(|file| is_library(file.as_ref().unwrap()));
    assert_eq!(left.count(), 1, "the copy is deleted");
}

#[test]
fn equal_registrations_are_fine_and_others_are_not() {
    let runtime = Runtime::default();
    runtime.register("one", "cpu", bundle(one)).unwrap();
    runtime.register("one", "Host", bundle(one)).unwrap();
    let code = |result: xla_ffi_runtime::Result<()>| result.unwrap_err().code();
    assert_eq!(
        code(runtime.register("one", "cpu", bundle(capturable))),
        ErrorCode::InvalidArgument
    );
    assert_eq!(
        code(runtime.register("one", "cpu", bundle(one).with_traits(1.into()))),
        ErrorCode::InvalidArgument
    );
    runtime.register("one", "cuda", bundle(capturable)).unwrap();
    assert_eq!(
        code(runtime.register("none", "cpu", Bundle::default())),
        ErrorCode::InvalidArgument
    );
}

#[test]
fn traits_are_joined() {
    let runtime = Runtime::default();
    let joined = |name: &str, handler, traits| {
        runtime
            .register(name, "cpu", bundle(handler).with_traits(traits))
            .unwrap();
        let handler = runtime.find(name, "cpu").unwrap();
        handler.metadata().unwrap().is_command_buffer_compatible()
    };
    assert!(!joined("none", one, Traits::NONE));
    assert!(joined("given", one, Traits::COMMAND_BUFFER_COMPATIBLE));
    assert!(joined("answered", capturable, Traits::NONE));
}

#[test]
fn an_error_in_the_metadata_call_refuses_the_handler() {
    let runtime = Runtime::new(Revision::R8);
    let error = runtime
        .register("f", "cpu", bundle(refuses_metadata))
        .unwrap_err();
    assert_eq!(error.code(), ErrorCode::FailedPrecondition);
    assert!(error.message().contains("not today"));
    // Hosts of r0 make no metadata query and accept every handler.
    Runtime::new(Revision::R0)
        .register("f", "cpu", bundle(refuses_metadata))
        .unwrap();
}

/// A handler that registers a second handler and a type during its call.
unsafe extern "C" fn registers(frame: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error {
    // SAFETY: `frame` is a call frame of a host.
    if unsafe { metadata(frame, 1, 0) } {
        return std::ptr::null_mut();
    }
    let span = |text: &'static str| XLA_FFI_ByteSpan {
        ptr: text.as_ptr().cast(),
        len: text.len(),
    };
    // SAFETY: the function in slot 3 has this type.
    let register: Function<XLA_FFI_Handler_Register_Args_R0> = unsafe { slot(frame, 3) };
    let mut args = XLA_FFI_Handler_Register_Args_R0 {
        struct_size: 84,
        extension_start: std::ptr::null_mut(),
        name: span("inner"),
        platform: span("Host"),
        bundle: XLA_FFI_Handler_Bundle_R0 {
            instantiate: None,
            prepare: None,
            initialize: None,
            execute: Some(one),
        },
        traits: 1,
    };
    // SAFETY: the arguments struct is complete.
    let refused = unsafe { register(&raw mut args) };
    if !refused.is_null() {
        return refused;
    }
    // SAFETY: the function in slot 5 has this type.
    let register: Function<XLA_FFI_Type_Register_Args> = unsafe { slot(frame, 5) };
    let mut id = XLA_FFI_TypeId { type_id: 0 };
    let info = XLA_FFI_TypeInfo {
        struct_size: 24,
        extension_start: std::ptr::null_mut(),
        deleter: None,
    };
    let mut args = XLA_FFI_Type_Register_Args {
        struct_size: 40,
        extension_start: std::ptr::null_mut(),
        name: span("inner type"),
        type_id: &raw mut id,
        type_info: &raw const info,
    };
    // SAFETY: the arguments struct is complete.
    unsafe { register(&raw mut args) }
}

#[test]
fn a_handler_may_register_from_inside_its_call() {
    for revision in Revision::ALL {
        let runtime = Runtime::new(revision);
        let other = Runtime::new(revision);
        let handler = runtime.handler("registers", bundle(registers)).unwrap();
        let executable = handler.instantiate(&Attributes::new()).unwrap();
        executable.call().prepare().unwrap().invoke().unwrap();
        let inner = runtime.find("inner", "cpu").unwrap();
        if let Some(metadata) = inner.metadata() {
            assert_eq!(
                metadata.traits.bits(),
                1,
                "{revision}: the 84-byte layout keeps its traits"
            );
        }
        assert!(runtime.type_id("inner type").unwrap() > 0, "{revision}");
        assert!(
            other.find("inner", "cpu").is_err(),
            "{revision}: the other runtime is untouched"
        );
        // The type is already registered. Since r5, a registration with the same number would succeed.
        assert!(executable.call().run().is_err(), "{revision}");
    }
}

/// A handler that registers a type as libraries for r1 to r6 do: without type information in the arguments.
unsafe extern "C" fn registers_old(frame: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error {
    // SAFETY: `frame` is a call frame of a host.
    if unsafe { metadata(frame, 1, 0) } {
        return std::ptr::null_mut();
    }
    // SAFETY: the function in slot 5 has this type.
    let register: Function<[usize; 6]> = unsafe { slot(frame, 5) };
    let name = "old";
    let mut id = 0_i64;
    let stray = 0x1234_5678_usize;
    let mut args = [
        40,
        0,
        name.as_ptr() as usize,
        name.len(),
        &raw mut id as usize,
        stray,
    ];
    // SAFETY: the first five words are a complete arguments struct. The sixth word represents arbitrary stack
    // contents.
    unsafe { register(&raw mut args) }
}

#[test]
fn a_type_without_info_is_a_hazard_from_version_0_2() {
    for revision in Revision::ALL {
        let runtime = Runtime::new(revision);
        let handler = runtime.handler("f", bundle(registers_old)).unwrap();
        let outcome = handler
            .instantiate(&Attributes::new())
            .unwrap()
            .call()
            .run();
        match outcome {
            Ok(_) => assert!(revision < Revision::R7, "{revision}"),
            Err(error) => {
                assert!(revision >= Revision::R7, "{revision}: {error}");
                assert!(error.has(Hazard::TypeInfo), "{revision}: {error}");
            }
        }
    }
}

xla_ffi_runtime::register_handler!("static one", "Host", Execute = one, Initialize = one);
xla_ffi_runtime::register_handler!("static capturable", "CPU", Execute = capturable);

#[test]
fn static_handlers_are_found_under_every_spelling_of_their_platform() {
    let runtime = Runtime::default();
    let wanted = |runtime: &Runtime, name, platform| {
        let error = runtime.find(name, platform).unwrap_err();
        error.message().to_owned()
    };
    let told = wanted(&runtime, "static one", "Host");
    assert!(told.contains("linked with it: register_static"), "{told}");
    let told = wanted(&runtime, "static one", "cuda");
    assert!(!told.contains("register_static"), "{told}");
    runtime.register_static().unwrap();
    let one = runtime.find("static one", "Cpu").unwrap();
    assert!(one.bundle().get(Stage::Initialize).is_some());
    let capturable = runtime.find("static capturable", "Host").unwrap();
    assert!(
        capturable
            .metadata()
            .unwrap()
            .is_command_buffer_compatible()
    );
    // A repeated registration of the same handlers has no effect.
    runtime.register_static().unwrap();
}

/// C and C++ handlers of a program register themselves in the program's global runtime. An error mentions them.
#[test]
fn what_the_programs_own_runtime_has_is_told() {
    let told = || {
        let error = Runtime::default().find("of the program", "Host");
        error.unwrap_err().message().to_owned()
    };
    assert!(!told().contains("own runtime"), "{}", told());
    let global = Runtime::global();
    let known = global.register("of the program", "Host", bundle(one));
    known.unwrap();
    assert!(told().contains("xffi_rt_global()"), "{}", told());
    assert!(global.find("of the program", "Host").is_ok());
}

#[test]
fn types_are_looked_up_by_name_and_number() {
    unsafe extern "C" fn nothing(_: *mut std::ffi::c_void) {}
    let runtime = Runtime::default();
    assert_eq!(
        runtime.type_id("t").unwrap_err().code(),
        ErrorCode::NotFound
    );
    let info = TypeInfo::new(Some(nothing));
    // SAFETY: no objects of this type exist.
    let id = unsafe { runtime.get_or_register_type("t", info) }.unwrap();
    // SAFETY: no objects of this type exist.
    let again = unsafe { runtime.get_or_register_type("t", TypeInfo::default()) };
    assert_eq!(again.unwrap(), id);
    assert_eq!(runtime.type_id("t").unwrap(), id);
    assert!(runtime.type_info(id).unwrap().deleter().is_some());
    assert_eq!(
        runtime.type_info(id + 1).unwrap_err().code(),
        ErrorCode::Internal
    );
    // SAFETY: no objects of this type exist.
    let taken = unsafe { runtime.register_type("t", 0, info) }.unwrap_err();
    assert_eq!(taken.code(), ErrorCode::Internal);
    // The message is that of XLA. Libraries that share a type parse the type's number in the message.
    let text = format!("Type name t already registered with type id {id}");
    assert_eq!(taken.message(), text);
}

#[test]
fn runtimes_have_their_own_types_and_tables() {
    let one = Runtime::default();
    let two = Runtime::default();
    assert_ne!(one.api(), two.api());
    let register = |runtime: &Runtime, name| {
        // SAFETY: no objects of this type exist.
        unsafe { runtime.register_type(name, 0, TypeInfo::default()) }.unwrap()
    };
    register(&one, "a");
    let first = register(&one, "t");
    let second = register(&two, "t");
    assert_ne!(first, second);
    let found = Runtime::from_internal_api(one.internal_api()).unwrap();
    assert_eq!(found.api(), one.api());
    assert!(Runtime::from_internal_api(one.api().cast()).is_none());
}
