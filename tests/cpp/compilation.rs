//! Checks that the headers compile without warnings, without exceptions and with hidden symbols, and that two sets of
//! headers are never mixed.

use crate::{Headers, folder, sources};
use std::path::{Path, PathBuf};
use std::process::Command;
use xla_ffi_testing::{compiler::cpp_compilers, compiler::works, headers, once, rust_examples};

const STRICT: [&str; 4] = ["-Wall", "-Wextra", "-pedantic", "-Werror"];

fn out(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cpp_build");
    std::fs::create_dir_all(&folder).expect("the target folder");
    folder.join(name)
}

/// Returns the examples with this extension, and the fixtures, which follow the same style rules.
fn examples(extension: &str) -> Vec<PathBuf> {
    in_folders(&["c_examples", "tests/fixtures"], extension)
}

/// Returns the files with this extension in some folders.
fn in_folders(folders: &[&str], extension: &str) -> Vec<PathBuf> {
    let mut found = vec![];
    for folder in folders {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
        let files = std::fs::read_dir(path).expect("the folder");
        let before = found.len();
        found.extend(
            files
                .map(|entry| entry.expect("an entry").path())
                .filter(|path| path.extension().is_some_and(|is| is == extension)),
        );
        assert!(found.len() > before, "no .{extension} in {folder}");
    }
    found
}

/// Runs a program and returns its output, or its stderr if it fails.
fn run(command: &mut Command) -> Result<String, String> {
    let output = command.output().expect("the program runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        Ok(text)
    } else {
        Err(format!(
            "{command:?}:\n{}",
            String::from_utf8_lossy(&output.stderr)
        ))
    }
}

/// The first line of every source. It is precompiled per compiler and flags.
const HEAD: &str = "#include \"xla/ffi/api/ffi.h\"\n";

/// Compiles a source with strict warnings. A success is cached until an input changes.
fn strictly(compiler: &str, flags: &[&str], source: &Path, object: Option<&Path>) {
    let flags: Vec<String> = flags
        .iter()
        .chain(&STRICT)
        .map(|flag| (*flag).to_owned())
        .chain(Headers::Ours.flags())
        .collect();
    let include = Path::new(env!("SDK_INCLUDE_DIR"));
    let head = once::precompiled(compiler, &flags, HEAD, &[include]);
    let head = head.unwrap_or_else(|error| panic!("{error}"));
    let mut command = Command::new(compiler);
    // Without this warning, a precompiled header that does not match is silently ignored.
    command.args(&flags).arg("-Winvalid-pch").args(head);
    match object {
        Some(_) => command.arg("-c"),
        None => command.arg("-fsyntax-only"),
    };
    // Sources include files of the folder that contains them.
    let beside = source.parent().expect("a folder");
    let inputs = [source, beside, include];
    let done = once::compile(command.arg(source), &inputs, object);
    done.unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn sources_compile_without_a_warning() {
    let compilers = cpp_compilers("sources_compile_without_a_warning");
    let compile = |standard: &str| {
        for compiler in &compilers {
            // The build script compiles the examples as C++17.
            let examples = if standard == "-std=c++20" {
                examples("cc")
            } else {
                vec![]
            };
            for source in sources().into_iter().chain(examples) {
                strictly(compiler, &[standard], &source, None);
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| compile("-std=c++20"));
        compile("-std=c++17");
    });
}

/// Optimized sources compile without warnings. Optimizers find more problems, such as uninitialized values and dropped
/// attributes.
#[test]
fn optimized_sources_compile_without_a_warning() {
    let mut sources = in_folders(&["c_examples", "tests/fixtures", "tools/benches/c"], "cc");
    sources.push(folder().join("attributes.cc"));
    sources.push(folder().join("operands.cc"));
    assert!(sources.len() > 6);
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for compiler in cpp_compilers("optimized_sources_compile_without_a_warning") {
        for source in &sources {
            // Clang reports its warnings from the front end, which is the same at every optimization
            // level.
            if compiler == "g++" {
                let path = source.strip_prefix(root).expect("one of ours");
                let name = path.to_string_lossy().replace('/', "-");
                let object = out(&format!("optimized-{name}.o"));
                strictly(
                    compiler,
                    &["-std=c++17", "-O2", "-fPIC"],
                    source,
                    Some(&object),
                );
            } else {
                strictly(compiler, &["-std=c++17"], source, None);
            }
        }
    }
}

#[test]
fn c_sources_compile_without_a_warning() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut sources = examples("c");
    sources.push(root.join("c_examples/cmake_project/my_calls_c.c"));
    for compiler in ["gcc", "clang"] {
        if !works(compiler) {
            xla_ffi_testing::skip(
                "c_sources_compile_without_a_warning",
                &format!("no {compiler}"),
            );
            continue;
        }
        for standard in ["-std=c99", "-std=c11", "-std=c17"] {
            for source in &sources {
                let mut command = Command::new(compiler);
                command.args([standard, "-fsyntax-only", "-Wstrict-prototypes"]);
                command.args([
                    "-Wmissing-prototypes",
                    "-Wshadow",
                    "-Wconversion",
                    "-Wformat=2",
                ]);
                command.args(STRICT);
                command.args(Headers::Ours.flags()).arg(source);
                let inputs = [source.as_path(), Path::new(env!("SDK_INCLUDE_DIR"))];
                let done = once::compile(&mut command, &inputs, None);
                done.unwrap_or_else(|e| panic!("{e}"));
            }
        }
    }
}

/// The headers, and the templates that handlers instantiate, compile without the stricter warnings that some projects
/// enable.
#[test]
fn headers_are_clean_under_stricter_warnings() {
    const STRICTER: [&str; 5] = [
        "-Wformat=2",
        "-Wshadow",
        "-Wconversion",
        "-Wsign-conversion",
        "-Wold-style-cast",
    ];
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for compiler in cpp_compilers("headers_are_clean_under_stricter_warnings") {
        for source in [
            "tests/cpp/async.cc",
            "tests/cpp/declarations.cc",
            "c_examples/attributes.cc",
            "c_examples/legacy.cc",
        ] {
            let source = root.join(source);
            let mut command = Command::new(compiler);
            command.args(["-std=c++17", "-fsyntax-only"]).args(STRICTER);
            command
                .args(STRICT)
                .args(Headers::Ours.flags())
                .arg(&source);
            let beside = source.parent().expect("a folder");
            let inputs = [source.as_path(), beside, Path::new(env!("SDK_INCLUDE_DIR"))];
            once::compile(&mut command, &inputs, None).unwrap_or_else(|error| panic!("{error}"));
        }
    }
}

#[test]
fn headers_need_no_exceptions_and_no_rtti() {
    let text = "#include \"xla/ffi/api/ffi.h\"\n\
        #include \"xla/ffi/api/record_api.h\"\n\
        #include \"xla/ffi/api/collectives_api.h\"\n\
        namespace ffi = xla::ffi;\n\
        static ffi::Future Later(ffi::AnyBuffer, ffi::ThreadPool pool, int64_t, ffi::Dictionary) {\n\
          ffi::Promise promise; ffi::Future future(promise);\n\
          pool.Schedule([promise]() mutable { promise.SetAvailable(); }); return future; }\n\
        XLA_FFI_DEFINE_HANDLER_SYMBOL(later, Later, ffi::Ffi::Bind().Arg<ffi::AnyBuffer>()\n\
          .Ctx<ffi::ThreadPool>().Attr<int64_t>(\"n\").Attr<ffi::Dictionary>(\"d\"));\n";
    let source = out("plain.cc");
    std::fs::write(&source, text).expect("the target folder");
    for compiler in cpp_compilers("headers_need_no_exceptions_and_no_rtti") {
        let mut command = Command::new(compiler);
        command.args([
            "-std=c++17",
            "-fno-exceptions",
            "-fno-rtti",
            "-O1",
            "-c",
            "-o",
        ]);
        command
            .arg(out("plain.o"))
            .args(STRICT)
            .args(Headers::Ours.flags());
        run(command.arg(&source)).unwrap_or_else(|e| panic!("{e}"));
    }
}

/// Parallel loops of files with and without exceptions work in either link order. The linker keeps only one definition
/// of each name.
#[test]
fn files_with_and_without_exceptions_in_one_library() {
    use xla_ffi_runtime::{Attributes, DType, Revision, Runtime, Shape, Stage};
    let test = "files_with_and_without_exceptions_in_one_library";
    let text = "#include \"xla/ffi/api/ffi.h\"\nnamespace ffi = xla::ffi;\n\
        static ffi::Error Add(ffi::ThreadPool pool, ffi::ResultBufferR1<ffi::S64> y, int64_t throws) {\n\
          pool.ForEachRange(y->element_count(), 1, [&](int64_t begin, int64_t end) {\n\
            if (throws != 0) FAIL;\n\
            for (; begin < end; ++begin) y->typed_data()[begin] = begin + y->dimensions()[0]; });\n\
          return {}; }\n\
        XLA_FFI_DEFINE_HANDLER_SYMBOL(NAME, Add, ffi::Ffi::Bind().Ctx<ffi::ThreadPool>()\n\
          .Ret<ffi::BufferR1<ffi::S64>>().Attr<int64_t>(\"throws\"));\n";
    let source = out("both.cc");
    std::fs::write(&source, text).expect("the target folder");
    for compiler in cpp_compilers(test) {
        let kinds = [
            ("with", "-fexceptions", "throw std::runtime_error(\"told\")"),
            ("without", "-fno-exceptions", "return"),
        ];
        let objects = kinds.map(|(name, flag, fail)| {
            let object = out(&format!("both_{name}_{compiler}.o"));
            let mut command = Command::new(compiler);
            command.args(["-std=c++17", "-O0", "-fPIC", "-pthread", "-c", flag, "-o"]);
            command
                .arg(&object)
                .args(STRICT)
                .args(Headers::Ours.flags());
            command.args([format!("-DNAME={name}"), format!("-DFAIL={fail}")]);
            run(command.arg(&source)).unwrap_or_else(|error| panic!("{error}"));
            object
        });
        for (first, second) in [(0, 1), (1, 0)] {
            let library = out(&format!("both_{first}_{compiler}.so"));
            let mut command = Command::new(compiler);
            command.args(["-shared", "-pthread", "-o"]).arg(&library);
            command.args([&objects[first], &objects[second]]);
            run(&mut command).unwrap_or_else(|error| panic!("{error}"));
            let runtime = Runtime::new(Revision::NEWEST);
            let library = runtime.open(&library).expect("it loads");
            for (name, throws) in [("with", 0), ("without", 0), ("with", 1), ("without", 1)] {
                let handler = library.handler(name, &[(Stage::Execute, name)]);
                let attributes = Attributes::new().with("throws", throws as i64);
                let executable = handler.expect("it registers").instantiate(&attributes);
                let shape = Shape::new(DType::S64, [64]).expect("a shape");
                let outcome = executable.expect("it instantiates").call().ret(shape).run();
                match outcome {
                    Err(error) => assert!(
                        name == "with" && throws == 1 && error.to_string().contains("told"),
                        "{name}: {error}"
                    ),
                    Ok(outcome) => assert!(
                        throws == 1 || outcome.rets[0].to_vec() == Some((64..128_i64).collect())
                    ),
                }
            }
            std::mem::forget(runtime);
        }
    }
}

#[test]
fn two_kinds_of_headers_in_one_source_are_refused() {
    let Some(upstream) = headers::newest("two_kinds_of_headers_in_one_source_are_refused") else {
        return;
    };
    let ours = Path::new(env!("SDK_INCLUDE_DIR"));
    let header = |folder: &Path, name: &str| {
        format!(
            "#include \"{}\"\n",
            folder.join("xla/ffi/api").join(name).display()
        )
    };
    for compiler in cpp_compilers("two_kinds_of_headers_in_one_source_are_refused") {
        for (first, second) in [(upstream.as_path(), ours), (ours, upstream.as_path())] {
            let source = out("mixed.cc");
            // The first set of headers is included completely. Of the second set, only headers that the first set lacks
            // are included.
            let name = if first == ours { "api.h" } else { "ffi.h" };
            let text = header(first, name) + &header(second, "ffi.h");
            std::fs::write(&source, text).expect("the target folder");
            let mut command = Command::new(compiler);
            command
                .args(["-std=c++17", "-fsyntax-only", "-w", "-I"])
                .arg(first);
            let error = run(command.arg(&source)).expect_err("two kinds in one source");
            assert!(
                error.contains("#error") || error.contains("error:"),
                "{error}"
            );
            let why = if first == ours {
                "cannot be included together"
            } else {
                "keep one of"
            };
            assert!(error.contains(why), "{error}");
        }
    }
}

/// Handlers from our headers, from XLA's own, in plain C and in Rust work alternately in one process.
///
/// Covers results, errors and state.
#[test]
fn handlers_of_every_kind_in_one_process() {
    use xla_ffi_runtime::{Attributes, DType, Revision, Runtime, Shape, Stage, Tensor};
    let test = "handlers_of_every_kind_in_one_process";
    let Some(upstream) = headers::newest(test) else {
        return;
    };
    let Some(compiler) = cpp_compilers(test).first().copied() else {
        return;
    };
    let cpp = "#include \"xla/ffi/api/ffi.h\"\n\
        namespace ffi = xla::ffi;\n\
        struct Calls { static ffi::TypeId id; float made; };\n\
        ffi::TypeId Calls::id = {};\n\
        XLA_FFI_DECLARE_TYPE_ID_SYMBOL(ID); ffi::TypeId* ID() { return &Calls::id; }\n\
        XLA_FFI_DECLARE_TYPE_INFO_SYMBOL(INFO); const ffi::TypeInfo* INFO() {\n\
          static ffi::TypeInfo info = ffi::MakeTypeInfo<Calls>(); return &info; }\n\
        static ffi::ErrorOr<std::unique_ptr<Calls>> Make(float factor) {\n\
          return std::make_unique<Calls>(Calls{factor}); }\n\
        static ffi::Error Scale(Calls* calls, ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> y, float) {\n\
          if (x.element_count() != y->element_count()) return ffi::Error::InvalidArgument(\"shapes\");\n\
          for (size_t i = 0; i < x.element_count(); ++i) y->typed_data()[i] = x.typed_data()[i] * calls->made;\n\
          return ffi::Error::Success(); }\n\
        XLA_FFI_DEFINE_HANDLER_SYMBOL(MAKE, Make, ffi::Ffi::BindInstantiate().Attr<float>(\"factor\"));\n\
        XLA_FFI_DEFINE_HANDLER_SYMBOL(NAME, Scale, ffi::Ffi::Bind().Ctx<ffi::State<Calls>>()\n\
          .Arg<ffi::Buffer<ffi::F32>>().Ret<ffi::Buffer<ffi::F32>>().Attr<float>(\"factor\"));\n";
    let c = "#include \"xla_ffi/handler.h\"\n\
        static XLA_FFI_Error* scale(xffi_call* call) {\n\
          xffi_buffer x = xffi_arg(call, \"x\", XLA_FFI_DataType_F32, XFFI_ANY_RANK);\n\
          xffi_buffer y = xffi_ret(call, \"y\", XLA_FFI_DataType_F32, XFFI_ANY_RANK);\n\
          const float factor = xffi_attr_f32(call, \"factor\"); XLA_FFI_Error* error;\n\
          xffi_same_shape(call, \"x\", &x, \"y\", &y);\n\
          if ((error = xffi_decoded(call)) != NULL) return error;\n\
          for (int64_t i = 0; i < x.count; ++i) ((float*)y.data)[i] = factor * ((const float*)x.data)[i];\n\
          return NULL; }\n\
        XFFI_HANDLER(scale_c, scale);\n";
    let mut objects = vec![];
    let theirs = Headers::Upstream(upstream);
    let c_compiler = if compiler == "g++" { "gcc" } else { "clang" };
    for (kind, compiler, standard, text, headers) in [
        ("ours", compiler, "-std=c++17", cpp, &Headers::Ours),
        ("theirs", compiler, "-std=c++17", cpp, &theirs),
        ("c", c_compiler, "-std=c99", c, &Headers::Ours),
    ] {
        let extension = if kind == "c" { "c" } else { "cc" };
        let source = out(&format!("scale_{kind}.{extension}"));
        std::fs::write(&source, text).expect("the target folder");
        let object = out(&format!("scale_{kind}.o"));
        let mut command = Command::new(compiler);
        command
            .args([standard, "-O1", "-fPIC", "-w", "-c", "-o"])
            .arg(&object);
        for (name, value) in [
            ("NAME", format!("scale_{kind}")),
            ("MAKE", format!("make_{kind}")),
            ("ID", format!("{kind}_type_id")),
            ("INFO", format!("{kind}_type_info")),
            // Each of the two C++ sources is a library with its own types.
            ("Calls", format!("Calls_{kind}")),
        ] {
            command.arg(format!("-D{name}={value}"));
        }
        run(command.args(headers.flags()).arg(&source)).unwrap_or_else(|e| panic!("{e}"));
        objects.push(object);
    }
    let library = out("mixed.so");
    let mut command = Command::new(compiler);
    command
        .args(["-shared", "-pthread", "-o"])
        .arg(&library)
        .args(&objects);
    run(&mut command).unwrap_or_else(|e| panic!("{e}"));

    let runtime = Runtime::new(Revision::NEWEST);
    let mixed = runtime.open(&library).expect("it loads");
    let rust = rust_examples().join("libconformance.so");
    let rust = runtime.open(&rust).expect("it loads");
    crate::cases::register(&mixed, "theirs").expect("the type that theirs needs");
    let stateful = |kind: &str| {
        let (make, name) = (format!("make_{kind}"), format!("scale_{kind}"));
        let stages = [
            (Stage::Instantiate, make.as_str()),
            (Stage::Execute, name.as_str()),
        ];
        mixed.handler(&name, &stages).expect("it registers")
    };
    let handlers = [
        stateful("ours"),
        stateful("theirs"),
        mixed
            .handler("scale_c", &[(Stage::Execute, "scale_c")])
            .expect("it registers"),
        rust.handler("scale", &[(Stage::Execute, "scale")])
            .expect("it registers"),
    ];
    for round in 1..=3_u8 {
        let factor = f32::from(round);
        let text = format!("{{factor = {factor:?} : f32}}");
        let attributes = Attributes::parse(&text).expect("attributes");
        for handler in &handlers {
            let executable = handler.instantiate(&attributes).expect("it instantiates");
            let call = |shape: [i64; 1]| {
                executable
                    .call()
                    .arg(Tensor::from_slice([2], &[1.0_f32, 2.0]).expect("a tensor"))
                    .ret(Shape::new(DType::F32, shape).expect("a shape"))
                    .run()
            };
            let outcome = call([2]).expect("it runs");
            assert_eq!(
                outcome.rets[0].to_vec::<f32>(),
                Some(vec![factor, 2.0 * factor])
            );
            let error = call([3]).expect_err("another shape");
            assert_eq!(error.code().name(), "INVALID_ARGUMENT", "{error}");
        }
    }
}
