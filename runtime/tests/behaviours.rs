//! Tests of the behaviours that XLA's tests name, on the embedded runtime. The handlers are built with the headers of
//! jaxlib 0.12.0.

mod support;

use std::sync::Arc;
use support::{build, source};
use xla_ffi_runtime::spec::{Spec, parse_result};
use xla_ffi_runtime::{
    Attributes, Call, CallFrame, Collectives, DType, ErrorCode, Executable, Hazard, HostAllocator,
    Library, Recorded, Recorder, Revision, Runtime, Shape, Stage, Stages, Stream, TypeInfo,
    UserData,
};
use xla_ffi_sys::{XLA_FFI_Extension, XLA_FFI_ExtensionId};
use xla_ffi_testing::headers;

/// Returns the runtime and the library. If the library cannot be built, prints the reason and returns `None`.
fn subject(test: &str) -> Option<(Runtime, Library)> {
    let newest = headers::all(test)?.pop()?;
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
    // `start` does not wait, so the execution may be open until `wait`.
    for _ in 0..200 {
        if !prepared.start().unwrap() {
            assert_eq!(
                prepared.start().unwrap_err().code(),
                ErrorCode::FailedPrecondition
            );
        }
        prepared.wait().unwrap();
    }
}

#[test]
fn what_is_done_when_it_is_started_is_not_waited_for() {
    let Some((_runtime, library)) = subject("what_is_done_when_it_is_started_is_not_waited_for")
    else {
        return;
    };
    for fail in [false, true] {
        let attrs = Attributes::parse(&format!("{{fail = {fail}}}")).unwrap();
        let handler = library
            .handler("done", &[(Stage::Execute, "done")])
            .unwrap();
        let executable = handler.instantiate(&attrs).unwrap();
        let mut prepared = executable.call().prepare().unwrap();
        // The call runs twice. The second run is possible because the first execution is already complete.
        for _ in 0..2 {
            match prepared.start() {
                Ok(done) => assert!(done && !fail),
                Err(error) => {
                    assert!(fail);
                    assert_eq!(error.message(), "failed before the handler returned");
                }
            }
        }
        prepared.wait().unwrap();
        assert_eq!(prepared.into_rets().unwrap().len(), 0);
    }
}

#[test]
fn user_data_reaches_a_handler_by_either_id() {
    let Some((runtime, library)) = subject("user_data_reaches_a_handler_by_either_id") else {
        return;
    };
    let given = library
        .register_type("Given", "_ZN5Given2idE", None)
        .unwrap();
    let chosen = library
        .register_type("Chosen", "_ZN6Chosen2idE", None)
        .unwrap();
    assert_eq!(chosen, 4242);
    let (mut one, mut two) = (31_i64, 32_i64);
    let mut data = UserData::new(&runtime);
    // SAFETY: the numbers outlive the calls of this test.
    unsafe { data.insert_borrowed(given, (&raw mut one).cast()) }.unwrap();
    // SAFETY: the numbers outlive the calls of this test.
    unsafe { data.insert_borrowed(chosen, (&raw mut two).cast()) }.unwrap();
    let data = Arc::new(data);
    for (symbol, number) in [("user_data", 31), ("user_data_chosen", 32)] {
        let call = plain(&library, symbol).user_data(data.clone());
        assert_eq!(only(call), format!("s64[] {number}"));
    }
    drop(runtime);
}

#[test]
fn a_copied_frame_outlives_its_original() {
    let Some((runtime, library)) = subject("a_copied_frame_outlives_its_original") else {
        return;
    };
    let attributes = Attributes::parse("{factor = 3.0 : f32}").unwrap();
    let shape = Shape::new(DType::F32, [2]).unwrap();
    let (mut x, mut y) = ([1.0_f32, 2.0], [0.0_f32; 2]);
    let (mut u, mut v) = ([5.0_f32, 6.0], [0.0_f32; 2]);
    let at = |array: &mut [f32; 2]| array.as_mut_ptr().cast();
    let (x_at, y_at, u_at, v_at) = (at(&mut x), at(&mut y), at(&mut u), at(&mut v));
    let original = CallFrame::new(
        runtime.revision(),
        &[(shape.clone(), x_at)],
        &[(shape, y_at)],
    )
    .unwrap()
    .attributes(&attributes);
    let copy = original.copy_with(&[u_at], &[v_at]).unwrap();
    drop(original);
    let symbols = [(Stage::Execute, "auto_binding")];
    let handler = library.handler("auto_binding", &symbols).unwrap();
    let call = handler.instantiate(&attributes).unwrap().call();
    // SAFETY: the arrays outlive the calls.
    let mut prepared = unsafe { call.prepare_on(copy) }.unwrap();
    prepared.invoke().unwrap();
    // SAFETY: the arrays outlive the calls.
    unsafe { prepared.update(&[x_at], &[y_at]) }.unwrap();
    prepared.invoke().unwrap();
    drop(prepared);
    assert_eq!((v, y), ([15.0, 18.0], [3.0, 6.0]));
}

#[test]
fn custom_options_reach_a_handler() {
    let Some((_runtime, library)) = subject("custom_options_reach_a_handler") else {
        return;
    };
    let options = Attributes::parse("{a = 1, b = \"x\"}").unwrap();
    let call = plain(&library, "custom_options").custom_options(&options);
    assert_eq!(only(call), "s64[] 2");
}

#[test]
fn scratch_memory_and_streams_reach_a_handler() {
    let Some((_runtime, library)) = subject("scratch_memory_and_streams_reach_a_handler") else {
        return;
    };
    let allocator = Arc::new(HostAllocator::default());
    let call = plain(&library, "scratch").allocator(allocator.clone());
    assert_eq!(only(call), "s64[] 3");
    assert_eq!(allocator.living(), 0);
    // SAFETY: the handler does not dereference the handle, but only returns it.
    let stream = unsafe { Stream::borrowed(0x77 as *mut _) };
    let call = plain(&library, "streamed").stream(stream);
    assert_eq!(only(call), format!("s64[] {}", 0x77));
}

#[test]
fn state_types_are_told_apart() {
    let Some((_runtime, library)) = subject("state_types_are_told_apart") else {
        return;
    };
    for name in ["Count", "Uncounted"] {
        let (id, info) = (
            format!("_ZN{}{name}2idE", name.len()),
            format!("{}_info", name.to_lowercase()),
        );
        library.register_type(name, &id, Some(&info)).unwrap();
    }
    let symbols = [
        (Stage::Instantiate, "count_instantiate"),
        (Stage::Execute, "other_state"),
    ];
    let handler = library.handler("other_state", &symbols).unwrap();
    let attributes = Attributes::parse("{start = 1}").unwrap();
    let call = handler.instantiate(&attributes).unwrap().call();
    let error = call.ret(parse_result("s64").unwrap()).run().unwrap_err();
    assert_eq!(error.code(), ErrorCode::InvalidArgument, "{error}");
}

#[test]
fn types_are_registered_by_object_and_by_function() {
    let Some((runtime, library)) = subject("types_are_registered_by_object_and_by_function") else {
        return;
    };
    let (id, info) = ("count_type_id", "count_type_info");
    let number = library.register_type("Count", id, Some(info)).unwrap();
    // The function and the object of this symbol describe the same type.
    let again = library.register_type("Count", "_ZN5Count2idE", Some("count_info"));
    assert_eq!(again.unwrap(), number);
    assert!(runtime.type_info(number).unwrap().deleter().is_some());
    let code = |id: &str, info| library.register_type("Other", id, info).unwrap_err();
    let error = code("null_type_id", None);
    assert!(error.message().contains("returns null"), "{error}");
    assert_eq!(code("nowhere", None).code(), ErrorCode::NotFound);
}

/// Returns a call of a handler that has only an execute stage, with one number as the result and no arguments or
/// attributes.
fn plain(library: &Library, symbol: &str) -> Call {
    let handler = library
        .handler(symbol, &[(Stage::Execute, symbol)])
        .unwrap();
    let call = handler.instantiate(&Attributes::new()).unwrap().call();
    call.ret(parse_result("s64").unwrap())
}

/// Runs the call and returns its only result as text.
fn only(call: Call) -> String {
    call.run().unwrap().rets[0].to_string()
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
    // SAFETY: the symbol is a function without parameters that returns an `i64`.
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
    // The states of the three stages are 1, 1 + 10, and 1 + 11 + 100. The result is their sum.
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
        (ErrorCode::Unavailable, "not here")
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
    assert_eq!(metadata("nothing").traits.bits(), 0);
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
            // SAFETY: the extension outlives the call.
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
    let executable = |symbol: &str| {
        let symbols = [
            (Stage::Execute, "recorded_execute"),
            (Stage::Record, symbol),
        ];
        let handler = library.handler("recorded", &symbols).unwrap();
        handler.instantiate(&Attributes::new()).unwrap()
    };
    let prepared = |executable: &Executable| {
        let call = executable
            .call()
            .arg(Spec::parse("f32[2]=1,2").unwrap().tensor().unwrap());
        call.ret(parse_result("f32[2]").unwrap()).prepare().unwrap()
    };
    let recorded = |symbol| prepared(&executable(symbol));
    let mut recorder = Recorder::new(Revision::R10, 3).unwrap();
    let all = executable("record_all");
    let mut call = prepared(&all);
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

    // The first recording of a different call creates commands; the second recording updates them.
    let mut another = prepared(&all);
    for (index, updates) in [(3, [1, 1, 0, 0, 0, 0]), (4, [1, 1, 0, 1, 1, 0])] {
        another.record(&mut recorder).unwrap();
        let commands = recorder.commands();
        let updated: Vec<_> = commands.iter().map(|c| c.updates).collect();
        assert_eq!(updated, updates, "the recording {index}");
    }
    // The commands of a dropped call remain. A third call does not reuse them, even if it is at the same address.
    drop(another);
    prepared(&all).record(&mut recorder).unwrap();
    assert_eq!(recorder.commands().len(), 9);

    let mut small = Recorder::new(Revision::R10, 2).unwrap();
    let error = recorded("record_all").record(&mut small).unwrap_err();
    assert_eq!(error.code(), ErrorCode::ResourceExhausted, "{error}");
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
        ErrorCode::FailedPrecondition
    );
}

/// The contents of two `Collectives` that are not shared can be swapped. After the swap, each records only the requests
/// of calls that use it.
#[test]
fn communicators_belong_to_their_request() {
    let test = "communicators_belong_to_their_request";
    let Some((_runtime, library)) = subject(test) else {
        return;
    };
    let symbols = [
        (Stage::Prepare, "collectives_prepare"),
        (Stage::Execute, "collectives_execute"),
    ];
    let handler = library.handler("collectives", &symbols).unwrap();
    let executable = handler.instantiate(&Attributes::new()).unwrap();
    let run = |collectives: &Arc<Collectives>| {
        let call = executable.call().collectives(collectives.clone());
        let x = Spec::parse("f32[2]=1,2").unwrap().tensor().unwrap();
        call.arg(x).ret(parse_result("s64").unwrap()).run().unwrap()
    };
    let new = || Collectives::new(Revision::R10, |_| 12 as *mut _).unwrap();
    let (mut one, mut other) = (new(), new());
    let both = (Arc::get_mut(&mut one), Arc::get_mut(&mut other));
    let (Some(mine), Some(others)) = both else {
        panic!("nobody else has them")
    };
    std::mem::swap(mine, others);
    run(&one);
    assert_eq!((one.requested().len(), other.requested().len()), (1, 0));
    // A collectives object can also be moved to a new allocation.
    let moved = Arc::new(Arc::into_inner(other).unwrap());
    run(&moved);
    assert_eq!((one.requested().len(), moved.requested().len()), (1, 1));
}

#[test]
fn user_data_is_owned_or_borrowed_and_found_by_type() {
    let runtime = Runtime::default();
    let dropped = Arc::new(());
    let mut data = UserData::new(&runtime);
    // SAFETY: no library reads the object.
    unsafe { data.insert("kept", dropped.clone()) }.unwrap();
    let id = runtime.type_id("kept").unwrap();
    assert_eq!(Arc::strong_count(&dropped), 2);
    // SAFETY: no library reads the object.
    let twice = unsafe { data.insert("kept", dropped.clone()) }.unwrap_err();
    assert_eq!(twice.code(), ErrorCode::AlreadyExists);
    // SAFETY: no library reads the object.
    let smaller = unsafe { data.insert("kept", 1_i32) }.unwrap_err();
    assert_eq!(smaller.code(), ErrorCode::InvalidArgument);
    assert!(smaller.message().contains("8 bytes"), "{smaller}");
    let mut number = 5_i64;
    let object = (&raw mut number).cast();
    // SAFETY: the number outlives the data.
    let again = unsafe { data.insert_borrowed(id, object) }.unwrap_err();
    assert_eq!(again.code(), ErrorCode::AlreadyExists);
    // SAFETY: only this test uses the type.
    let other = unsafe { runtime.register_type("other", 77, TypeInfo::default()) }.unwrap();
    assert_eq!(other, 77);
    // SAFETY: the type has no deleter, and the number outlives the data.
    unsafe { data.insert_owned(other, object) }.unwrap();
    // SAFETY: `insert_owned` returns an error before it accesses the object.
    let unknown = unsafe { data.insert_owned(1234, object) }.unwrap_err();
    assert_eq!(unknown.code(), ErrorCode::Internal);
    drop(data);
    assert_eq!(Arc::strong_count(&dropped), 1);
}

#[test]
fn a_state_handler_without_its_type_is_told() {
    let Some((_runtime, library)) = subject("a_state_handler_without_its_type_is_told") else {
        return;
    };
    // In this runtime, the type is not registered, although other runtimes may have a number for it.
    let runtime = Runtime::default();
    let library = runtime.open(library.path()).unwrap();
    let symbols = [
        (Stage::Instantiate, "stages_instantiate"),
        (Stage::Execute, "nothing"),
    ];
    // If a different test has given the type a number, only the host reports the mistake, and not the header.
    let outcome = library
        .handler("untyped", &symbols)
        .and_then(|handler| handler.instantiate(&Attributes::new()));
    let error = outcome.unwrap_err();
    let told = [ErrorCode::Internal, ErrorCode::FailedPrecondition].contains(&error.code());
    assert!(told && error.message().contains("registered"), "{error}");
    assert!(!error.has(Hazard::StateLayout), "{error}");
}
