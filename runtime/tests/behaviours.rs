//! The behaviours that upstream tests by name, each with a handler built against the headers of
//! jaxlib 0.12.0, on the embedded runtime.

mod support;

use std::sync::Arc;
use support::{build, headers, source};
use xla_ffi_runtime::spec::{Spec, parse_result};
use xla_ffi_runtime::{
    Attributes, Code, Collectives, Hazard, Library, Outcome, Recorded, Recorder, Result, Revision,
    Runtime, Stage, Stages, Tensor, TypeInfo, UserData,
};
use xla_ffi_sys::{XLA_FFI_Extension, XLA_FFI_ExtensionId};

/// Runtime and library, or `None`, told.
fn subject(test: &str) -> Option<(Runtime, Library)> {
    let newest = headers(test)?.pop()?;
    assert_eq!(newest.revision, Revision::NEWEST);
    let flags = [format!("-I{}", newest.include.display())];
    let path = build(
        "behaviours",
        &source("cxx/behaviours.cc"),
        "behaviours",
        &flags,
    )?;
    let runtime = Runtime::default();
    let library = runtime.open(path).unwrap();
    Some((runtime, library))
}

fn call(
    library: &Library,
    symbol: &str,
    args: &[&str],
    rets: &[&str],
    attrs: &str,
) -> Result<Outcome> {
    let attributes = Attributes::parse(attrs)?;
    let handler = library.handler(symbol, &[(Stage::Execute, symbol)])?;
    let mut call = handler.instantiate(&attributes)?.call().run_id(42);
    for arg in args {
        call = call.arg(Spec::parse(arg)?.tensor()?);
    }
    for ret in rets {
        call = call.ret(parse_result(ret)?);
    }
    call.run()
}

/// What has to come out: the results' values, or an error with a part of its text.
enum Expected {
    Values(&'static [&'static str]),
    Error(Code, &'static str),
}

use Code::{Aborted, DataLoss, Internal, InvalidArgument};
use Expected::{Error, Values};

/// The upstream test's name, the handler, arguments, results, attributes, and what comes out.
type Row = (
    &'static str,
    &'static str,
    &'static [&'static str],
    &'static [&'static str],
    &'static str,
    Expected,
);

const ARRAYS: &str = "{a = array<i8: 1>, b = array<i16: 2>, c = array<i32: 3>, d = array<i64: 4>, \
                      e = array<ui8: 5>, f = array<ui16: 6>, g = array<ui32: 7>, h = array<ui64: 8>, \
                      i = array<f32: 9.0>, j = array<f64: 10.0, 11.0>}";
const SCALARS: &str = "{flag = true, i8 = 2 : i8, u64 = 3 : ui64, f32 = 4.0 : f32, f64 = 5.0 : f64, \
                       c64 = (0.0, 6.0) : complex<f32>}";

const ROWS: &[Row] = &[
    (
        "DataTypeEnumValue, DataTypeByteWidth, ErrorEnumValue, Expected",
        "constants",
        &[],
        &[],
        "",
        Values(&[]),
    ),
    (
        "AnyBufferArgument",
        "any_buffer",
        &["s8[2,3,1]=iota"],
        &["s64"],
        "",
        Values(&["s64[] 2003"]),
    ),
    (
        "BufferArgument",
        "ranked",
        &["f32[4,5]=ones"],
        &["s64"],
        "",
        Values(&["s64[] 405"]),
    ),
    (
        "ComplexBufferArgument",
        "complex_buffer",
        &["c64[2]=1+2i,3"],
        &["c64[2]"],
        "",
        Values(&["c64[2] [-2+1i, 0+3i]"]),
    ),
    (
        "TypedAndRankedBufferArgument, WrongRankBufferArgument",
        "ranked",
        &["f32[4]=ones"],
        &["s64"],
        "",
        Error(InvalidArgument, "rank"),
    ),
    (
        "WrongTypeBufferArgument",
        "ranked",
        &["f64[4,5]=ones"],
        &["s64"],
        "",
        Error(InvalidArgument, "F64"),
    ),
    (
        "MissingBufferArgument",
        "ranked",
        &[],
        &["s64"],
        "",
        Error(InvalidArgument, "arguments"),
    ),
    (
        "WrongNumberOfArguments, WrongNumArgs",
        "ranked",
        &["f32[1,1]=1", "f32[1,1]=1"],
        &["s64"],
        "",
        Error(InvalidArgument, "arguments"),
    ),
    (
        "AnyBufferResult",
        "any_result",
        &[],
        &["f32[1]"],
        "",
        Values(&["f32[1] [7]"]),
    ),
    (
        "TokenArgument",
        "token",
        &["token"],
        &["token"],
        "",
        Values(&["token"]),
    ),
    (
        "RemainingArgs",
        "remaining_args",
        &["f32[1]=1", "f32[1]=1", "s8[1]=1"],
        &["s64"],
        "",
        Values(&["s64[] 21"]),
    ),
    (
        "RemainingArgs (none)",
        "remaining_args",
        &["f32[1]=1"],
        &["s64"],
        "",
        Values(&["s64[] 0"]),
    ),
    (
        "RemainingRets",
        "remaining_rets",
        &[],
        &["s64", "f32[1]", "f32[1]"],
        "",
        Values(&["s64[] 2", "f32[1] [0]", "f32[1] [1]"]),
    ),
    (
        "OptionalArgs",
        "optional_arg",
        &["f32[1]=1"],
        &["s64"],
        "",
        Values(&["s64[] 1"]),
    ),
    (
        "OptionalArgs (absent)",
        "optional_arg",
        &[],
        &["s64"],
        "",
        Values(&["s64[] 0"]),
    ),
    (
        "OptionalArgs (two, after required)",
        "two_optional_args",
        &["f32[1]=1", "f32[1]=1"],
        &["s64"],
        "",
        Values(&["s64[] 10"]),
    ),
    (
        "OptionalArgs (two given)",
        "two_optional_args",
        &["f32[1]=1", "f32[1]=1", "f32[1]=1"],
        &["s64"],
        "",
        Values(&["s64[] 11"]),
    ),
    (
        "OptionalArgs (before remaining)",
        "optional_then_remaining",
        &["f32[1]=1", "s8[1]=1", "s8[1]=1"],
        &["s64"],
        "",
        Values(&["s64[] 12"]),
    ),
    (
        "OptionalRets",
        "optional_rets",
        &[],
        &["s64"],
        "",
        Values(&["s64[] 0"]),
    ),
    (
        "OptionalRets (one)",
        "optional_rets",
        &[],
        &["s64", "f32[1]"],
        "",
        Values(&["s64[] 10", "f32[1] [0]"]),
    ),
    (
        "OptionalRets (two)",
        "optional_rets",
        &[],
        &["s64", "f32[1]", "f32[1]"],
        "",
        Values(&["s64[] 11", "f32[1] [0]", "f32[1] [0]"]),
    ),
    (
        "OptionalRets (before remaining)",
        "optional_then_remaining_rets",
        &[],
        &["s64", "f32[1]", "s8[1]"],
        "",
        Values(&["s64[] 11", "f32[1] [0]", "s8[1] [0]"]),
    ),
    (
        "Match, Verify",
        "match",
        &["f32[2,3]=ones", "f32[2,3]=ones"],
        &["s64"],
        "",
        Values(&["s64[] 2"]),
    ),
    (
        "Match (dimension)",
        "match",
        &["f32[2,4]=ones", "f32[2,3]=ones"],
        &["s64"],
        "",
        Error(InvalidArgument, "'x'"),
    ),
    (
        "Verify (shape)",
        "match",
        &["f32[2,3]=ones", "f32[3,3]=ones"],
        &["s64"],
        "",
        Error(InvalidArgument, "'z'"),
    ),
    (
        "AutoBinding, AutoBindingResult, DefineAutoSymbol",
        "auto_binding",
        &["f32[2]=1,2"],
        &["f32[2]"],
        "{factor = 3.0 : f32}",
        Values(&["f32[2] [3, 6]"]),
    ),
    (
        "AutoBindingStructs",
        "auto_struct",
        &[],
        &["s64"],
        "{first = 3 : i32, second = 4.0 : f32}",
        Values(&["s64[] 7"]),
    ),
    (
        "AutoBindingDictionary, BuiltinAttributesAutoBinding",
        "auto_dictionary",
        &[],
        &["s64"],
        "{n = 4, other = \"x\"}",
        Values(&["s64[] 42"]),
    ),
    (
        "BuiltinAttributes",
        "scalars",
        &[],
        &["s64"],
        SCALARS,
        Values(&["s64[] 654321"]),
    ),
    (
        "DecodingErrors",
        "scalars",
        &[],
        &["s64"],
        "{flag = 1, i8 = 1, u64 = 1, f32 = 1.0, f64 = 1 : i8, c64 = 1}",
        Error(InvalidArgument, ""),
    ),
    (
        "WrongNumAttrs",
        "text",
        &[],
        &["s64"],
        "{text = \"a\", more = 1}",
        Error(InvalidArgument, "attributes"),
    ),
    (
        "IgnoreAttrs, AttrsAsDictionary",
        "all_attrs",
        &[],
        &["s64"],
        "{a = 1, b = \"x\", c = {d = 1}}",
        Values(&["s64[] 3"]),
    ),
    (
        "AttrsAsDictionary (empty)",
        "all_attrs",
        &[],
        &["s64"],
        "{}",
        Values(&["s64[] 0"]),
    ),
    (
        "ArrayAttr (10 element types)",
        "arrays",
        &[],
        &["s64"],
        ARRAYS,
        Values(&["s64[] 66"]),
    ),
    (
        "attribute maps: strings",
        "text",
        &[],
        &["s64"],
        "{text = \"a\\00b\"}",
        Values(&["s64[] 3"]),
    ),
    (
        "DictionaryAttr, attribute maps: nested",
        "nested",
        &[],
        &["s64"],
        "{outer = {inner = {n = 8 : i32}}}",
        Values(&["s64[] 8"]),
    ),
    (
        "DictionaryAttr (missing)",
        "nested",
        &[],
        &["s64"],
        "{outer = {}}",
        Error(Internal, "inner"),
    ),
    (
        "StructAttr",
        "struct_attr",
        &[],
        &["s64"],
        "{pair = {first = 3 : i32, second = 4.0 : f32}}",
        Values(&["s64[] 34"]),
    ),
    (
        "AttrsAsStruct",
        "attrs_as_struct",
        &[],
        &["s64"],
        "{first = 3 : i32, second = 4.0 : f32}",
        Values(&["s64[] 34"]),
    ),
    (
        "EnumAttr",
        "enumerated",
        &[],
        &["s64"],
        "{color = 2 : i32}",
        Values(&["s64[] 2"]),
    ),
    (
        "WrongEnumAttrType",
        "enumerated",
        &[],
        &["s64"],
        "{color = 2 : ui32}",
        Error(InvalidArgument, ""),
    ),
    (
        "VariantAttrDecoding (first)",
        "variant",
        &[],
        &["s64"],
        "{value = 2 : i32}",
        Values(&["s64[] 0"]),
    ),
    (
        "VariantAttrDecoding (second)",
        "variant",
        &[],
        &["s64"],
        "{value = 2.0 : f32}",
        Values(&["s64[] 1"]),
    ),
    (
        "VariantAttrDecoding (neither)",
        "variant",
        &[],
        &["s64"],
        "{value = 2.0 : f64}",
        Error(InvalidArgument, ""),
    ),
    (
        "ReturnError, ForwardError",
        "return_error",
        &[],
        &[],
        "",
        Error(Internal, "Test error"),
    ),
    (
        "RunIdViaContext",
        "run_id_via_context",
        &[],
        &["s64"],
        "",
        Values(&["s64[] 42"]),
    ),
    (
        "FutureSetAvailable, AsyncHandler",
        "set_available",
        &[],
        &[],
        "",
        Values(&[]),
    ),
    (
        "FutureSetError",
        "set_error",
        &[],
        &[],
        "",
        Error(Aborted, "broken promise"),
    ),
    (
        "FutureSetAvailableFromThreadPool",
        "set_available_from_pool",
        &[],
        &["s64"],
        "",
        Values(&["s64[] 99"]),
    ),
    (
        "FutureSetErrorFromThreadPool",
        "set_error_from_pool",
        &[],
        &[],
        "",
        Error(Aborted, "in the pool"),
    ),
    (
        "CountDownSuccess, CountDownSuccessFromThreadPool",
        "count_down",
        &[],
        &[],
        "{fail = false}",
        Values(&[]),
    ),
    (
        "CountDownError, CountDownErrorFromThreadPool",
        "count_down",
        &[],
        &[],
        "{fail = true}",
        Error(DataLoss, "of a hundred"),
    ),
];

#[test]
fn every_row_comes_out_as_upstream_has_it() {
    let Some((_runtime, library)) = subject("every_row_comes_out_as_upstream_has_it") else {
        return;
    };
    let mut wrong = vec![];
    for (name, symbol, args, rets, attrs, expected) in ROWS {
        let got = call(&library, symbol, args, rets, attrs);
        let fits = match (&got, expected) {
            (Ok(outcome), Values(values)) => {
                outcome
                    .rets
                    .iter()
                    .map(Tensor::to_string)
                    .collect::<Vec<_>>()
                    == *values
            }
            (Err(error), Error(code, text)) => {
                error.is_from_handler() && error.code() == *code && error.message().contains(text)
            }
            _ => false,
        };
        if !fits {
            wrong.push(format!("{name}: {got:?}"));
        }
    }
    println!("{} behaviours", ROWS.len());
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn futures_race_with_their_completion() {
    let Some((_runtime, library)) = subject("futures_race_with_their_completion") else {
        return;
    };
    let handler = library
        .handler("race", &[(Stage::Execute, "race")])
        .unwrap();
    let executable = handler.instantiate(&Attributes::new()).unwrap();
    let mut prepared = executable.call().prepare().unwrap();
    for _ in 0..2000 {
        prepared.invoke().unwrap();
    }
    // The same without waiting at once: the execution is open until it is waited for.
    for _ in 0..200 {
        if !prepared.start().unwrap() {
            assert_eq!(
                prepared.start().unwrap_err().code(),
                Code::FailedPrecondition
            );
        }
        prepared.wait().unwrap();
    }
}

#[test]
fn pointers_reach_handlers() {
    let Some((_runtime, library)) = subject("pointers_reach_handlers") else {
        return;
    };
    let pointee = library.symbol("the_pointee").unwrap();
    // SAFETY: the symbol is a function without parameters that gives a pointer.
    let pointee: extern "C" fn() -> i64 = unsafe { std::mem::transmute(pointee) };
    let attrs = format!("{{pointer = {} : i64}}", pointee());
    let outcome = call(&library, "pointer", &[], &["s64"], &attrs).unwrap();
    assert_eq!(outcome.rets[0].to_string(), "s64[] 4711");
}

#[test]
fn every_stage_may_leave_state() {
    let Some((_runtime, library)) = subject("every_stage_may_leave_state") else {
        return;
    };
    library
        .register_type("Stages", "_ZN6Stages2idE", Some("stages_info"))
        .unwrap();
    let living = library.symbol("stages_living").unwrap();
    // SAFETY: the symbol is a function without parameters that gives an i64.
    let living: extern "C" fn() -> i64 = unsafe { std::mem::transmute(living) };
    let symbols = [
        (Stage::Instantiate, "stages_instantiate"),
        (Stage::Prepare, "stages_prepare"),
        (Stage::Initialize, "stages_initialize"),
        (Stage::Execute, "stages_execute"),
    ];
    let handler = library.handler("stages", &symbols).unwrap();
    assert_ne!(handler.metadata().unwrap().state_type_id, 0);
    let executable = handler.instantiate(&Attributes::new()).unwrap();
    assert_eq!(living(), 1);
    let call = || executable.call().ret(parse_result("s64").unwrap());
    // 1, then 1 + 10, then 1 + 11 + 100, and their sum.
    assert_eq!(call().run().unwrap().rets[0].to_string(), "s64[] 124");
    assert_eq!(
        living(),
        1,
        "prepared and initialized state end with the execution"
    );
    let prepared = call().prepare().unwrap();
    assert_eq!(living(), 3);
    drop(prepared);
    drop(executable);
    assert_eq!(living(), 0);

    let symbols = [
        (Stage::Instantiate, "refuses_to_instantiate"),
        (Stage::Execute, "nothing"),
    ];
    let handler = library.handler("refuses", &symbols).unwrap();
    let error = handler.instantiate(&Attributes::new()).unwrap_err();
    assert_eq!(
        (error.code(), error.message()),
        (Code::Unavailable, "not here")
    );
}

#[test]
fn metadata_has_version_and_traits() {
    let Some((_runtime, library)) = subject("metadata_has_version_and_traits") else {
        return;
    };
    let metadata = |symbol: &str| {
        *library
            .handler(symbol, &[(Stage::Execute, symbol)])
            .unwrap()
            .metadata()
            .unwrap()
    };
    assert_eq!(metadata("nothing").version, (0, 5));
    assert_eq!(metadata("nothing").traits, 0);
    assert!(metadata("with_traits").is_command_buffer_compatible());
}

#[test]
fn extensions_are_found_by_number_and_version() {
    let Some((_runtime, library)) = subject("extensions_are_found_by_number_and_version") else {
        return;
    };
    let run = |extension: Option<(i64, i32)>| {
        let handler = library
            .handler("extended", &[(Stage::Execute, "extended")])
            .unwrap();
        let mut call = handler.instantiate(&Attributes::new()).unwrap().call();
        call = call.ret(parse_result("s64").unwrap());
        let links = extension.map(|(number, minor_version)| XLA_FFI_Extension {
            struct_size: 32,
            id: XLA_FFI_ExtensionId {
                extension_type: number,
                major_version: 1,
                minor_version,
            },
            next: std::ptr::null(),
        });
        if let Some(link) = &links {
            // SAFETY: the link outlives the call.
            call = unsafe { call.extension(link) };
        }
        call.run().map(|outcome| outcome.rets[0].to_string())
    };
    assert_eq!(run(Some((4242, 2))).unwrap(), "s64[] 4242");
    assert!(
        run(Some((4242, 3)))
            .unwrap_err()
            .message()
            .contains("mismatch")
    );
    assert!(
        run(Some((7, 2)))
            .unwrap_err()
            .message()
            .contains("not found")
    );
    assert!(run(None).unwrap_err().message().contains("not found"));
}

#[test]
fn commands_are_recorded_and_updated() {
    let Some((runtime, library)) = subject("commands_are_recorded_and_updated") else {
        return;
    };
    let recorded = |symbol: &str| {
        let symbols = [
            (Stage::Execute, "recorded_execute"),
            (Stage::Record, symbol),
        ];
        let handler = library.handler("recorded", &symbols).unwrap();
        let executable = handler.instantiate(&Attributes::new()).unwrap();
        let call = executable
            .call()
            .arg(Spec::parse("f32[2]=1,2").unwrap().tensor().unwrap());
        call.ret(parse_result("f32[2]").unwrap()).prepare().unwrap()
    };
    let mut recorder = Recorder::new(Revision::R10, 3).unwrap();
    let mut call = recorded("record_all");
    call.record(&mut recorder).unwrap();
    let commands = recorder.commands();
    assert_eq!(commands.len(), 3);
    let Recorded::Launch {
        kernel, dims, args, ..
    } = &commands[0].what
    else {
        panic!("{commands:?}")
    };
    assert_eq!((kernel.as_str(), dims.grid.z, args.len()), ("kernel", 3, 2));
    assert!(matches!(commands[1].what, Recorded::Memcpy { size: 4, .. }));
    assert_eq!(commands[1].after, [0]);
    assert_eq!(
        (&commands[2].what, &commands[2].after[..]),
        (&Recorded::Empty, &[0, 1][..])
    );
    call.record(&mut recorder).unwrap();
    let commands = recorder.commands();
    assert_eq!(
        commands.iter().map(|c| c.updates).collect::<Vec<_>>(),
        [1, 1, 0]
    );
    assert!(matches!(commands[1].what, Recorded::Memcpy { size: 8, .. }));

    let mut small = Recorder::new(Revision::R10, 2).unwrap();
    let error = recorded("record_all").record(&mut small).unwrap_err();
    assert_eq!(error.code(), Code::ResourceExhausted, "{error}");
    let mut older = Recorder::new(Revision::R9, 3).unwrap();
    let error = recorded("record_all").record(&mut older).unwrap_err();
    assert!(error.message().contains("mismatch"), "{error}");
    let mut capture = Recorder::new(Revision::R10, 1).unwrap();
    recorded("record_capture").record(&mut capture).unwrap();
    assert!(capture.wants_stream_capture() && capture.commands().is_empty());
    drop(runtime);
}

#[test]
fn communicators_are_requested_in_prepare_and_fetched_later() {
    let test = "communicators_are_requested_in_prepare_and_fetched_later";
    let Some((_runtime, library)) = subject(test) else {
        return;
    };
    let run = |stages| {
        let symbols = [
            (Stage::Prepare, "collectives_prepare"),
            (Stage::Execute, "collectives_execute"),
        ];
        let handler = library.handler("collectives", &symbols).unwrap();
        let executable = handler.instantiate(&Attributes::new()).unwrap();
        let collectives = Collectives::new(Revision::R10, |key| {
            assert_eq!((key.mode, key.id, &key.groups[1][..]), (3, 7, &[2, 3][..]));
            12 as *mut _
        });
        let call = executable
            .call()
            .collectives(collectives.unwrap())
            .stages(stages);
        let x = Spec::parse("f32[2]=1,2").unwrap().tensor().unwrap();
        call.arg(x).ret(parse_result("s64").unwrap()).run()
    };
    assert_eq!(run(Stages::All).unwrap().rets[0].to_string(), "s64[] 124");
    assert_eq!(
        run(Stages::Cpu).unwrap_err().code(),
        Code::FailedPrecondition
    );
}

#[test]
fn user_data_is_owned_or_borrowed_and_found_by_type() {
    let runtime = Runtime::default();
    let dropped = Arc::new(());
    let mut data = UserData::new();
    let id = data.emplace(&runtime, "kept", dropped.clone()).unwrap();
    assert_eq!(runtime.type_id("kept").unwrap(), id);
    assert_eq!(Arc::strong_count(&dropped), 2);
    assert_eq!(
        data.emplace(&runtime, "kept", 1_i32).unwrap_err().code(),
        Code::Internal
    );
    let mut number = 5_i64;
    let object = (&raw mut number).cast();
    // SAFETY: the number outlives the data.
    let again = unsafe { data.insert_borrowed(id, object) }.unwrap_err();
    assert_eq!(again.code(), Code::AlreadyExists);
    let other = runtime
        .register_type("other", 77, TypeInfo::default())
        .unwrap();
    assert_eq!(other, 77);
    // SAFETY: the type has no deleter; the number outlives the data.
    unsafe { data.insert_owned(&runtime, other, object) }.unwrap();
    // SAFETY: refused before the object is looked at.
    let unknown = unsafe { data.insert_owned(&runtime, 1234, object) }.unwrap_err();
    assert_eq!(unknown.code(), Code::Internal);
    drop(data);
    assert_eq!(Arc::strong_count(&dropped), 1);
}

#[test]
fn a_state_handler_without_its_type_is_told() {
    let Some((_runtime, library)) = subject("a_state_handler_without_its_type_is_told") else {
        return;
    };
    // A runtime of its own: the type is not registered there, whatever number it has elsewhere.
    let runtime = Runtime::default();
    let library = runtime.open(library.path()).unwrap();
    let symbols = [
        (Stage::Instantiate, "stages_instantiate"),
        (Stage::Execute, "nothing"),
    ];
    // Where another test has given the type a number, the header does not notice and the host does.
    let outcome = library
        .handler("untyped", &symbols)
        .and_then(|handler| handler.instantiate(&Attributes::new()));
    let error = outcome.unwrap_err();
    let told = [Code::Internal, Code::FailedPrecondition].contains(&error.code());
    assert!(told && error.message().contains("registered"), "{error}");
    assert!(!error.has(Hazard::StateLayout), "{error}");
}
