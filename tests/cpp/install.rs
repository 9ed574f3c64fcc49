//! Tests `cargo xtask install` with projects that find the headers through CMake and pkg-config.

use std::path::{Path, PathBuf};
use std::process::Command;
use xla_ffi_runtime::{Attributes, DType, Revision, Runtime, Shape, Stage, Tensor};
use xla_ffi_testing::{blocks, compiler::works, page, skip};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns a fresh folder for a test.
fn fresh(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("install")
        .join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("the target folder");
    folder
}

fn run(command: &mut Command) {
    let output = command.output().expect("the program starts");
    assert!(
        output.status.success(),
        "{command:?}:\n{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

fn install(prefix: &Path) {
    install_with(prefix, &[]);
}

fn install_with(prefix: &Path, more: &[&str]) {
    let mut command = Command::new(env!("CARGO"));
    command
        .current_dir(root())
        .args(["run", "--quiet", "--package", "xtask", "--"]);
    run(command.args(["install", "--prefix"]).arg(prefix).args(more));
}

/// Runs a program of `c_examples/embed_project` and checks its output.
fn embeds(program: &Path) {
    let output = Command::new(program).output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stdout);
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {told}", program.display());
    assert!(said.ends_with("100000 calls from 4 threads\n"), "{said}");
}

/// Runs the program that uses the runtime's internal API, and checks its output.
fn serves(program: &Path, abseil: bool) {
    let output = Command::new(program).output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stdout);
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {told}", program.display());
    let statuses = if abseil { "Abseil" } else { "plain" };
    let wanted = format!("3 6 9 (run 7)\nthe table is empty: no file\nstatuses: {statuses}\n");
    assert_eq!(said, wanted, "{}", program.display());
}

/// Calls both handlers of the project's library.
fn try_out(library: &Path) {
    let runtime = Runtime::new(Revision::NEWEST);
    let library = runtime.open(library).expect("it loads");
    for (symbol, attributes, want) in [
        ("negate", "{}", vec![-1.0_f32, -2.0]),
        ("scale", "{by = 3.0 : f32}", vec![3.0, 6.0]),
    ] {
        let handler = library
            .handler(symbol, &[(Stage::Execute, symbol)])
            .expect("a handler");
        let outcome = handler
            .instantiate(&Attributes::parse(attributes).expect("attributes"))
            .expect("it instantiates")
            .call()
            .arg(Tensor::from_slice([2], &[1.0_f32, 2.0]).expect("a tensor"))
            .ret(Shape::new(DType::F32, [2]).expect("a shape"))
            .run()
            .expect("it runs");
        assert_eq!(outcome.rets[0].to_vec::<f32>(), Some(want), "{symbol}");
    }
}

#[test]
fn every_header_is_installed_and_self_contained() {
    let prefix = fresh("headers");
    install(&prefix);
    for file in [
        "include/xla/ffi/api/c_api.h",
        "include/xla/ffi/api/ffi.h",
        "include/xla_ffi/handler.h",
        "lib/cmake/xla_ffi/xla_ffi-config.cmake",
        "lib/cmake/xla_ffi/xla_ffi-config-version.cmake",
        "lib/pkgconfig/xla_ffi.pc",
    ] {
        let text = std::fs::read_to_string(prefix.join(file)).expect(file);
        assert!(!text.contains("@VERSION@"), "{file}");
    }
    if !works("g++") {
        skip("every_header_is_installed_and_self_contained", "no g++");
        return;
    }
    for header in ["api.h", "ffi.h", "record_api.h", "collectives_api.h"] {
        let path = prefix.join("include/xla/ffi/api").join(header);
        let mut command = Command::new("g++");
        command.args([
            "-std=c++17",
            "-Wall",
            "-Wextra",
            "-pedantic",
            "-Werror",
            "-fsyntax-only",
        ]);
        // A compiler warns about the include guard or `#pragma once` of a main file, so each header is included by a
        // different file.
        command
            .args(["-x", "c++", "/dev/null", "-include"])
            .arg(&path)
            .arg("-I");
        run(command.arg(prefix.join("include")));
    }
}

#[test]
fn a_cmake_project() {
    if !works("cmake") || !works("g++") {
        skip("a_cmake_project", "no cmake or no g++");
        return;
    }
    let (prefix, build) = (fresh("cmake_prefix"), fresh("cmake_build"));
    install(&prefix);
    let mut command = Command::new("cmake");
    command
        .arg("-S")
        .arg(root().join("c_examples/cmake_project"))
        .arg("-B")
        .arg(&build);
    run(command.arg(format!("-DCMAKE_PREFIX_PATH={}", prefix.display())));
    run(Command::new("cmake").arg("--build").arg(&build));
    try_out(&build.join("libmy_calls.so"));
}

/// `FetchContent` works with the source distribution of `xla-ffi` and the CMakeLists.txt of the shipping guide.
#[test]
fn a_cmake_project_that_fetches_the_headers() {
    if ["cmake", "g++", "python3"].iter().any(|tool| !works(tool)) {
        skip(
            "a_cmake_project_that_fetches_the_headers",
            "no cmake, no g++ or no python3",
        );
        return;
    }
    let (archives, project) = (fresh("fetch_archives"), fresh("fetch"));
    let mut pack = Command::new("python3");
    pack.args([
        "-B",
        "-c",
        "import sys, build_backend as b; b.build_sdist(sys.argv[1])",
    ]);
    run(pack.arg(&archives).current_dir(root().join("python")));
    let blocks = blocks(&page("shipping.md"));
    let mut shown = blocks.iter().map(|block| block.text.as_str());
    let shown = shown
        .find(|text| text.contains("FetchContent"))
        .expect("an example");
    let text = shown.replace("/path/to", archives.to_str().expect("a path"));
    std::fs::write(project.join("CMakeLists.txt"), text).expect("the project");
    for file in ["my_calls.cc", "my_calls_c.c"] {
        let from = root().join("c_examples/cmake_project").join(file);
        std::fs::copy(from, project.join(file)).expect(file);
    }
    let build = project.join("build");
    let mut configure = Command::new("cmake");
    run(configure.arg("-S").arg(&project).arg("-B").arg(&build));
    run(Command::new("cmake").arg("--build").arg(&build));
    try_out(&build.join("libmy_calls.so"));
}

/// CMake finds the package in projects of several directories.
///
/// Covers two directories that search separately, a second search with a component, a C-only project with an older
/// standard, and configurations with a postfix.
#[test]
fn a_cmake_project_of_several_directories() {
    let test = "a_cmake_project_of_several_directories";
    if !works("cmake") || !works("g++") {
        return skip(test, "no cmake or no g++");
    }
    let (prefix, project) = (fresh("several_prefix"), fresh("several"));
    install(&prefix);
    // This component prints a message if a project requests it.
    let component = prefix.join("lib/cmake/xla_ffi/xla_ffi-runtime.cmake");
    std::fs::write(component, "message(STATUS \"asked for runtime\")\n").expect("the prefix");
    let write = |file: &str, text: &str| {
        let path = project.join(file);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("the project");
        std::fs::write(path, text).expect("the project");
    };
    let of_each = "find_package(xla_ffi 0.1 REQUIRED)\nxla_ffi_add_library(NAME ../handler.c)\n";
    write("a/CMakeLists.txt", &of_each.replace("NAME", "of_a"));
    write("b/CMakeLists.txt", &of_each.replace("NAME", "of_b"));
    write(
        "CMakeLists.txt",
        "cmake_minimum_required(VERSION 3.18)\n\
         project(several LANGUAGES C)\n\
         set(CMAKE_DEBUG_POSTFIX d)\nset(CMAKE_C_STANDARD 90)\nset(CMAKE_C_EXTENSIONS OFF)\n\
         add_subdirectory(a)\nadd_subdirectory(b)\n\
         find_package(xla_ffi 0.1 REQUIRED)\n\
         find_package(xla_ffi 0.1 REQUIRED COMPONENTS runtime)\n\
         if(NOT xla_ffi_runtime_FOUND)\n  message(FATAL_ERROR \"no runtime\")\nendif()\n\
         if(UNKNOWN)\n  find_package(xla_ffi 0.1 REQUIRED COMPONENTS nope)\nendif()\n",
    );
    write(
        "handler.c",
        "#include \"xla_ffi/handler.h\"\n\
         static XLA_FFI_Error* nothing_impl(xffi_call* call) {\n  \
           for (int i = 0; i < 1; ++i) { }\n  return xffi_decoded(call);\n}\n\
         XFFI_HANDLER(nothing, nothing_impl);\n",
    );
    let configure = |more: &str| {
        let mut command = Command::new("cmake");
        command.arg("-S").arg(&project).arg("-B");
        command.arg(project.join(format!("build{more}")));
        command.arg(format!("-DCMAKE_PREFIX_PATH={}", prefix.display()));
        command.args(["-DCMAKE_BUILD_TYPE=Debug", &format!("-DUNKNOWN={more}")]);
        command.output().expect("cmake starts")
    };
    let done = configure("");
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&done.stdout),
        String::from_utf8_lossy(&done.stderr)
    );
    assert!(done.status.success(), "{said}");
    assert!(said.contains("asked for runtime"), "{said}");
    let build = project.join("build");
    run(Command::new("cmake").arg("--build").arg(&build));
    for library in ["a/libof_a.so", "b/libof_b.so"] {
        assert!(build.join(library).exists(), "{library}");
    }
    let unknown = configure("ON");
    let said = String::from_utf8_lossy(&unknown.stderr);
    assert!(!unknown.status.success(), "{said}");
    assert!(said.contains("there is no component nope"), "{said}");
}

#[test]
fn a_pkg_config_project() {
    if !works("pkg-config") || !works("make") || !works("g++") {
        skip("a_pkg_config_project", "no pkg-config, no make or no g++");
        return;
    }
    let (prefix, build) = (fresh("pc_prefix"), fresh("pc_build"));
    install(&prefix);
    let project = root().join("c_examples/cmake_project");
    for file in ["Makefile", "my_calls.cc", "my_calls_c.c"] {
        std::fs::copy(project.join(file), build.join(file)).expect(file);
    }
    let mut command = Command::new("make");
    run(command
        .current_dir(&build)
        .env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig")));
    try_out(&build.join("libmy_calls.so"));
}

/// The code that surrounds the snippets of `docs/cpp.md`: functions that the page omits, and handlers that use every
/// description on the page.
const AROUND: &str = r#"
static ffi::Error RmsNorm(ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> y, std::optional<float> eps) {
  float sum = eps.value_or(1e-5f);
  for (size_t i = 0; i < x.element_count(); ++i) sum += x.typed_data()[i];
  std::fill_n(y->typed_data(), y->element_count(), sum);
  return ffi::Error::Success();
}
static ffi::Error Backward(ffi::Buffer<ffi::F32>, ffi::Buffer<ffi::F32>, ffi::ResultBuffer<ffi::F32>,
                           std::optional<float>) {
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(rms_norm_backward, Backward,
                              ffi::Ffi::Bind()
                                  .Arg<ffi::Buffer<ffi::F32>>("x")
                                  .Arg<ffi::Buffer<ffi::F32>>("dy")
                                  .Ret<ffi::Buffer<ffi::F32>>("dx")
                                  .Attr<std::optional<float>>("eps"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(dotted, Backward,
                              ffi::Ffi::Bind()
                                  .Arg<ffi::Buffer<ffi::F32>>("x")
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Ret<ffi::Buffer<ffi::F32>>()
                                  .Attr<std::optional<float>>("eps"));
"#;
const DOTS: &str = r#"
XLA_FFI_LIBRARY(dots,
                XLA_FFI_HANDLER(dotted).Name("named").Platforms("cuda").Doc("It says.").Default("eps", "1e-5")
                    .Layout("x", "column").Nondeterministic().Forward("forward").Jvp("jvp").Transpose("transpose")
                    .Linear().Residuals("x").Batch("sequential"),
                XLA_FFI_HANDLER(scale).BatchedBy("batched").Vjp("vjp"));
"#;

/// The code of the C++ chapter compiles with the chapter's command against the installed headers, and produces the
/// documented errors.
#[test]
fn the_chapter_on_cpp() {
    let test = "the_chapter_on_cpp";
    if !works("pkg-config") || !works("c++") {
        return skip(test, "no pkg-config or no C++ compiler");
    }
    let blocks = blocks(&page("cpp.md"));
    let of = |language: &str| -> Vec<&str> {
        let found = blocks.iter().filter(|block| block.language == language);
        found.map(|block| block.text.as_str()).collect()
    };
    let ([handler, library], [compile, told]) = (&of("cpp")[..], &of("")[..]) else {
        panic!("other blocks than before");
    };
    // The chapter's CMake code is part of a project that another test builds.
    let project = std::fs::read_to_string(root().join("c_examples/cmake_project/CMakeLists.txt"));
    let project = project.expect("the project");
    for line in of("cmake").concat().lines() {
        let line = line.trim_end_matches(')');
        assert!(project.contains(line), "{line}");
    }

    let (prefix, build) = (fresh("chapter_prefix"), fresh("chapter_build"));
    install(&prefix);
    let source = format!("{handler}{AROUND}{library}{DOTS}");
    std::fs::write(build.join("my_calls.cc"), source).expect("the source");
    let strict = compile.replace("-shared", "-shared -Wall -Wextra -Werror");
    run(Command::new("sh")
        .args(["-c", &strict])
        .current_dir(&build)
        .env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig")));

    let path = build.join("libmy_calls.so");
    let bytes = std::fs::read(&path).expect("the library");
    let text = String::from_utf8_lossy(&bytes);
    for said in [
        r#""library": "rms_norm""#,
        r#""default": 1e-5"#,
        r#""shape": "... n -> ... n""#,
        "host_only",
        r#""name": "named""#,
        r#""platforms": ["cuda"]"#,
        "It says.",
        r#""layout": "column""#,
        "nondeterministic",
        r#""forward": "forward""#,
        r#""jvp": "jvp""#,
        r#""transpose": "transpose""#,
        r#""linear": true"#,
        r#""residuals": ["x"]"#,
        r#""batch": "sequential""#,
        r#""batch": {"handler": "batched"}"#,
        r#""vjp": "rms_norm_backward""#,
        // The default names of unnamed operands.
        r#""name": "x1""#,
        r#""name": "y0""#,
    ] {
        assert!(text.contains(said), "the library does not say {said}");
    }

    let runtime = Runtime::new(Revision::NEWEST);
    let library = runtime.open(&path).expect("it loads");
    let call = |symbol: &str, attributes: &str, x: Tensor| {
        let handler = library.handler(symbol, &[(Stage::Execute, symbol)])?;
        let attributes = Attributes::parse(attributes).expect("attributes");
        let call = handler.instantiate(&attributes)?.call();
        call.arg(x).ret(Shape::new(DType::F32, [2])?).run()
    };
    let floats = || Tensor::from_slice([2], &[1.0_f32, 2.0]).expect("a tensor");
    for (symbol, attributes, wanted) in [
        ("scale", "{by = 3.0 : f32}", vec![3.0_f32, 6.0]),
        ("rms_norm", "{eps = 1.0 : f32}", vec![4.0, 4.0]),
    ] {
        let outcome = call(symbol, attributes, floats()).expect("it runs");
        assert_eq!(outcome.rets[0].to_vec::<f32>(), Some(wanted), "{symbol}");
    }
    let ints = Tensor::from_slice([2], &[1_i32, 2]).expect("a tensor");
    let error = call("scale", "{by = 3.0}", ints).expect_err("two problems");
    assert_eq!(error.message(), told.trim_end());
}

#[test]
fn programs_that_embed_the_runtime() {
    let test = "programs_that_embed_the_runtime";
    if !works("cmake") || !works("g++") || !works("pkg-config") || !works("make") {
        skip(test, "no cmake, no g++, no pkg-config or no make");
        return;
    }
    let (prefix, build) = (fresh("runtime_prefix"), fresh("runtime_build"));
    install_with(&prefix, &["--runtime"]);
    let project = root().join("c_examples/embed_project");
    let mut command = Command::new("cmake");
    command.arg("-S").arg(&project).arg("-B").arg(&build);
    run(command.arg(format!("-DCMAKE_PREFIX_PATH={}", prefix.display())));
    run(Command::new("cmake").arg("--build").arg(&build));
    for program in ["first_c", "first_cc"] {
        let output = Command::new(build.join(program)).output();
        assert_eq!(output.expect("it runs").stdout, b"2 3\n", "{program}");
    }
    embeds(&build.join("embedding_c"));
    embeds(&build.join("embedding_cc"));
    let has_abseil = Command::new("pkg-config")
        .args(["--exists", "absl_statusor"])
        .status();
    let has_abseil = has_abseil.is_ok_and(|status| status.success());
    serves(&build.join("internal_cc"), has_abseil);
    let library = xla_ffi_testing::rust_examples().join("libexecution.so");
    run(Command::new(build.join("server_cc")).arg(library));
    // Loaders search for the shared library by its SONAME.
    let links = Command::new("readelf")
        .arg("-d")
        .arg(build.join("embedding_c"))
        .output();
    if let Ok(links) = links {
        let links = String::from_utf8_lossy(&links.stdout);
        assert!(links.contains("[libxla_ffi_runtime.so.0]"), "{links}");
    }

    let made = fresh("runtime_made");
    for file in [
        "Makefile",
        "embedding.c",
        "embedding.cc",
        "internal.cc",
        "server.cc",
    ] {
        std::fs::copy(project.join(file), made.join(file)).expect(file);
    }
    let mut command = Command::new("make");
    run(command
        .current_dir(&made)
        .env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig")));
    for program in ["embedding_c", "embedding_cc", "embedding_pie"] {
        embeds(&made.join(program));
    }
    serves(&made.join("internal_cc"), false);
    // The linker omits parts of the archive that the programs do not use.
    for (file, has_programs) in [
        (prefix.join("lib/libxla_ffi_runtime.a"), true),
        (build.join("embedding_cc"), false),
        (build.join("internal_cc"), false),
        (made.join("internal_cc"), false),
    ] {
        let bytes = std::fs::read(&file).expect("it was built");
        let symbol = b"xffi_rt_program_stablehlo\0";
        let found = bytes.windows(symbol.len()).any(|bytes| bytes == symbol);
        assert_eq!(found, has_programs, "{}", file.display());
    }
    match has_abseil {
        false => skip(test, "no Abseil (libabsl-dev)"),
        true => {
            let mut command = Command::new("make");
            run(command
                .current_dir(&made)
                .env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"))
                .args(["-B", "internal_cc", "INTERNAL=xla_ffi_internal_absl"]));
            serves(&made.join("internal_cc"), true);
        }
    }
    if !works("valgrind") {
        skip(test, "no valgrind");
        return;
    }
    for program in ["embedding_c", "embedding_cc"] {
        run(Command::new("valgrind")
            .args(["--quiet", "--leak-check=full", "--error-exitcode=9"])
            .args(["--errors-for-leak-kinds=definite", "--read-var-info=no"])
            .arg(made.join(program)));
    }
}

#[test]
fn a_missing_runtime_is_reported() {
    if !works("cmake") {
        skip("a_missing_runtime_is_reported", "no cmake");
        return;
    }
    let (prefix, build) = (fresh("without_prefix"), fresh("without_build"));
    install(&prefix);
    let output = Command::new("cmake")
        .arg("-S")
        .arg(root().join("c_examples/embed_project"))
        .arg("-B")
        .arg(&build)
        .arg(format!("-DCMAKE_PREFIX_PATH={}", prefix.display()))
        .output()
        .expect("cmake starts");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{told}");
    assert!(told.contains("pip install 'xla-ffi[tools]'"), "{told}");
}
