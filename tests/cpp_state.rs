//! Types of state and user data in C++: what a library shows of them, which files share them, and whose id a type has.

mod cpp_support;

use cpp_support::Headers;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use xla_ffi_runtime::{Attributes, DType, Revision, Runtime, Shape, Stage};
use xla_ffi_testing::{compiler::cpp_compilers, compiler::works, skip};

fn out(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cpp_state");
    std::fs::create_dir_all(&folder).expect("the target folder");
    folder.join(name)
}

/// Runs a compiler over a text with these flags.
fn compile(compiler: &str, name: &str, text: &str, flags: &[&str]) -> Output {
    let source = out(&format!("{name}.cc"));
    std::fs::write(&source, text).expect("the target folder");
    let mut command = Command::new(compiler);
    command.args(["-std=c++17", "-Wall", "-Wextra", "-Wno-undefined-internal"]);
    command.args(["-pthread", "-fPIC"]);
    let command = command.args(flags).args(Headers::Ours.flags()).arg(&source);
    command.output().expect("the compiler runs")
}

/// The same, to a file.
fn built(compiler: &str, name: &str, text: &str, flags: &[&str], to: &str) -> PathBuf {
    let path = out(to);
    let mut all = flags.to_vec();
    all.extend(["-o", path.to_str().expect("UTF-8")]);
    let done = compile(compiler, name, text, &all);
    let told = String::from_utf8_lossy(&done.stderr);
    assert!(
        done.status.success() && told.is_empty(),
        "{compiler} {flags:?}: {told}"
    );
    path
}

/// Kinds and names of a file's symbols.
fn symbols(file: &Path, flags: &[&str]) -> Vec<(String, String)> {
    let table = Command::new("nm")
        .args(flags)
        .arg("--defined-only")
        .arg(file)
        .output();
    let table = String::from_utf8(table.expect("nm runs").stdout).expect("UTF-8");
    let words = |line: &str| -> Option<(String, String)> {
        let mut words = line.split_whitespace().skip(1);
        Some((words.next()?.to_owned(), words.next()?.to_owned()))
    };
    table.lines().filter_map(words).collect()
}

const HEAD: &str = "#include \"xla/ffi/api/ffi.h\"\nnamespace ffi = xla::ffi;\n";

const STATE: &str = "struct Session { static ffi::TypeId id; int64_t n = 5; };\n\
    ffi::TypeId Session::id = {};\n\
    static ffi::ErrorOr<std::unique_ptr<Session>> Make() { return std::make_unique<Session>(); }\n\
    static ffi::Error Use(Session* state, std::optional<Session*> data, ffi::ResultBufferR0<ffi::S64> y) {\n\
      *y->typed_data() = state->n + data.has_value(); return {}; }\n\
    XLA_FFI_DEFINE_HANDLER_SYMBOL(shown_make, Make, ffi::Ffi::BindInstantiate());\n\
    XLA_FFI_DEFINE_HANDLER_SYMBOL(shown, Use, ffi::Ffi::Bind().Ctx<ffi::State<Session>>()\n\
      .Ctx<std::optional<ffi::UserData<Session>>>().Ret<ffi::BufferR0<ffi::S64>>());\n";

const INTERNAL: &str = "#include \"xla/ffi/execution_context.h\"\n#include \"xla/ffi/ffi.h\"\nnamespace ffi = xla::ffi;\n\
    struct Session { int64_t n = 5; };\n\
    __attribute__((visibility(\"default\"))) ffi::Status Attach(ffi::ExecutionContext* context) {\n\
      return context->Emplace<Session>(); }\n\
    static ffi::StatusOr<std::unique_ptr<Session>> Make() { return std::make_unique<Session>(); }\n\
    static ffi::Status Use(Session* state, Session* data) { return state == data ? ffi::OkStatus() : ffi::InternalError(\"x\"); }\n\
    XLA_FFI_DEFINE_HANDLER_SYMBOL(shown_make, Make, ffi::Ffi::BindInstantiate());\n\
    XLA_FFI_DEFINE_HANDLER_SYMBOL(shown, Use, ffi::Ffi::Bind().Ctx<ffi::State<Session>>().Ctx<ffi::UserData<Session>>());\n";

/// A variable that GCC makes for a user's type is one for the process, unless it is hidden: a library that has one is never
/// unloaded, and another library's type of that name would share it.
#[test]
fn what_is_made_for_a_type_is_hidden() {
    let test = "what_is_made_for_a_type_is_hidden";
    if !works("nm") {
        return skip(test, "no nm");
    }
    for compiler in cpp_compilers(test) {
        for level in ["-O0", "-O2"] {
            for (kind, text) in [
                ("external", format!("{HEAD}{STATE}")),
                ("internal", INTERNAL.to_owned()),
            ] {
                let name = format!("shown_{kind}");
                let to = format!("{name}_{compiler}{level}.so");
                let library = built(compiler, &name, &text, &["-shared", level], &to);
                let found = symbols(&library, &["-D"]);
                assert!(found.iter().any(|(_, name)| name == "shown"), "{found:?}");
                let ours = |name: &str| {
                    name.starts_with("_ZN3xla3ffi") || name.starts_with("_ZNK3xla3ffi")
                };
                // Others' own, such as the standard library's at -O0, are theirs.
                let shared: Vec<_> = found
                    .iter()
                    .filter(|(kind, name)| ours(name) || (kind == "u" && name.contains("Session")))
                    .collect();
                assert!(shared.is_empty(), "{compiler} {level} {kind}: {shared:?}");
            }
        }
    }
}

/// What a file with exceptions left as its state one without finds, and the other way round; named by the source or not.
#[test]
fn state_goes_between_files_with_and_without_exceptions() {
    let test = "state_goes_between_files_with_and_without_exceptions";
    let common = format!(
        "{HEAD}struct Counter {{ static ffi::TypeId id; int64_t n = 5; ~Counter(); }};\n\
         struct Named {{ static ffi::TypeId id; int64_t n = 6; }};\n"
    );
    let make = format!(
        "{common}ffi::TypeId Counter::id = {{}};\nffi::TypeId Named::id = {{}};\nCounter::~Counter() {{}}\n\
         static ffi::ErrorOr<std::unique_ptr<Counter>> Make() {{ return std::make_unique<Counter>(); }}\n\
         static ffi::ErrorOr<std::unique_ptr<Named>> MakeNamed(ffi::Context context) {{\n\
           static const XLA_FFI_TypeInfo info = ffi::MakeTypeInfo<Named>(); Named::id = {{}};\n\
           if (ffi::Ffi::RegisterTypeId(context.api(), \"cpp_state.named\", &Named::id, &info) != nullptr)\n\
             return ffi::Unexpected(ffi::Error::Internal(\"refused\"));\n\
           return std::make_unique<Named>(); }}\n\
         XLA_FFI_DEFINE_HANDLER_SYMBOL(make, Make, ffi::Ffi::BindInstantiate());\n\
         XLA_FFI_DEFINE_HANDLER_SYMBOL(make_named, MakeNamed, ffi::Ffi::BindInstantiate().Ctx<ffi::Context>());\n"
    );
    let take = format!(
        "{common}template <typename T> static ffi::Error Use(T* state, ffi::ResultBufferR0<ffi::S64> y) {{\n\
           *y->typed_data() = state->n; return {{}}; }}\n\
         XLA_FFI_DEFINE_HANDLER_SYMBOL(take, Use<Counter>, ffi::Ffi::Bind().Ctx<ffi::State<Counter>>()\n\
           .Ret<ffi::BufferR0<ffi::S64>>());\n\
         XLA_FFI_DEFINE_HANDLER_SYMBOL(take_named, Use<Named>, ffi::Ffi::Bind().Ctx<ffi::State<Named>>()\n\
           .Ret<ffi::BufferR0<ffi::S64>>());\n"
    );
    let kinds = ["-fexceptions", "-fno-exceptions"];
    for compiler in cpp_compilers(test) {
        for (maker, taker) in [(0, 1), (1, 0)] {
            let object = |name: &str, text: &str, kind: usize| {
                let to = format!("{name}_{kind}_{compiler}.o");
                built(compiler, name, text, &["-c", "-O1", kinds[kind]], &to)
            };
            let objects = [object("make", &make, maker), object("take", &take, taker)];
            let library = out(&format!("between_{maker}_{compiler}.so"));
            let linked = Command::new(compiler)
                .args(["-shared", "-pthread", "-o"])
                .arg(&library)
                .args(objects)
                .status();
            assert!(linked.expect("the linker runs").success());
            for revision in [Revision::R1, Revision::R5, Revision::NEWEST] {
                let runtime = Runtime::new(revision);
                let library = runtime.open(&library).expect("it loads");
                for (make, take, value) in [("make", "take", 5), ("make_named", "take_named", 6)] {
                    let stages = [(Stage::Instantiate, make), (Stage::Execute, take)];
                    let handler = library.handler(take, &stages).expect("it registers");
                    let executable = handler.instantiate(&Attributes::new());
                    let shape = Shape::new(DType::S64, []).expect("a shape");
                    let outcome = executable.expect("state").call().ret(shape).run();
                    let outcome =
                        outcome.unwrap_or_else(|e| panic!("{compiler} {maker} {revision}: {e}"));
                    assert_eq!(outcome.rets[0].to_vec(), Some(vec![value as i64]));
                }
                std::mem::forget(runtime);
            }
        }
    }
}

/// The numbers of a type are one variable, of whatever kind the files are that ask for it.
#[test]
fn every_kind_of_file_has_the_numbers_of_a_type_in_common() {
    let test = "every_kind_of_file_has_the_numbers_of_a_type_in_common";
    if !works("nm") {
        return skip(test, "no nm");
    }
    for compiler in cpp_compilers(test) {
        for kind in ["-fexceptions", "-fno-exceptions"] {
            for (name, text) in [
                ("external", format!("{HEAD}{STATE}")),
                ("internal", INTERNAL.to_owned()),
            ] {
                let to = format!("kind_{name}{kind}_{compiler}.o");
                let object = built(compiler, &format!("kind_{name}"), &text, &["-c", kind], &to);
                let found = symbols(&object, &[]);
                let has = |part: &str| {
                    let name = format!("_ZN3xla3ffi13sdk_shared_v1{part}I7SessionEE");
                    found.iter().any(|(_, found)| *found == name)
                };
                assert!(has("9own_types"), "{compiler} {kind} {name}");
                if name == "internal" {
                    assert!(
                        has("8type_tag") && has("14own_user_types"),
                        "{compiler} {kind}"
                    );
                }
            }
        }
    }
}

/// A type with an inherited id would be given objects of the class that has it, whichever of the two asked first.
#[test]
fn user_data_of_an_inherited_id_does_not_compile() {
    let types = "struct Plain { static ffi::TypeId id; int64_t n; };\n\
        struct Derived : Plain { int64_t more[64]; };\n\
        namespace { struct Hidden { static ffi::TypeId id; }; struct Seen : Hidden {}; }\n\
        namespace ns { inline namespace v1 {\n\
          template <typename T, typename U = int> struct Typed {\n\
            static inline ffi::TypeId id; struct In { static inline ffi::TypeId id; }; };\n\
          struct Session { static ffi::TypeId id; }; }\n\
        template <int n, typename T> struct Sized { static inline ffi::TypeId id; };\n\
        struct Own : Typed<Own> {}; struct Deeper : Own {};\n\
        struct Again : Plain { static inline ffi::TypeId id; }; }\n\
        namespace ns { template <typename T> struct Box { static inline ffi::TypeId id; };\n\
          template <typename T> struct Box<T*> : Box<T> { int more[100]; };\n\
          template <typename... Ts> struct Pack { static inline ffi::TypeId id; };\n\
          template <typename T, typename... Ts> struct Pack<T, T, Ts...> : Pack<T, Ts...> {};\n\
          template <> struct Pack<char> : Pack<> {};\n\
          template <int n> struct Step : Step<n - 1> {}; template <> struct Step<0> { static inline ffi::TypeId id; };\n\
          enum class Mode { kA, kB }; template <Mode mode> struct Per { static inline ffi::TypeId id; };\n\
          template <> struct Per<Mode::kB> : Per<Mode::kA> {};\n\
          template <char c> struct Of { static inline ffi::TypeId id; };\n\
          template <typename T> struct Outer { struct In { static inline ffi::TypeId id; }; };\n\
          template <typename T> struct Outer<T*> { struct In : Outer<T>::In {}; };\n\
          template <typename T> struct Self : Typed<Self<T>> {}; }\n\
        namespace other { struct Session : ns::Session {}; struct Box : ns::Box<int> {};\n\
          template <typename T> struct Pack : ns::Pack<T> {}; }\n";
    let own = [
        "Plain",
        "const Plain",
        "Hidden",
        "ns::Session",
        "ns::Own",
        "ns::Again",
        "ns::Typed<Plain>",
        "ns::Typed<std::string, const char*>::In",
        "ns::Sized<(3 > 2), std::pair<Hidden, Plain>>",
        "ns::Box<std::string>",
        "ns::Box<std::vector<ns::Box<int>>>",
        "ns::Pack<int, char>",
        "ns::Pack<>",
        "ns::Step<0>",
        "ns::Per<ns::Mode::kA>",
        "ns::Per<ns::Mode(7)>",
        "ns::Of<'>'>",
        "ns::Of<','>",
        "ns::Of<'\\''>",
        "ns::Outer<const char>::In",
        "ns::Self<std::string>",
    ];
    let inherited = [
        "Derived",
        "const Derived",
        "Seen",
        "ns::Deeper",
        "other::Session",
        "other::Box",
        "other::Pack<int>",
        "ns::Box<int*>",
        "ns::Box<std::string*>",
        "ns::Pack<int, int>",
        "ns::Pack<int, int, char>",
        "ns::Pack<char>",
        "ns::Step<1>",
        "ns::Per<ns::Mode::kB>",
        "ns::Outer<char*>::In",
    ];
    // Other compilers leave out arguments, or write values in another way, at one of the two places.
    let spelled = [
        ("A<B<char> >", "A<B<char, C<char>, 3>>", true),
        (
            "A<B<D<char>>>::In",
            "A<B<D<char, int>, C<D<char>>>>::In",
            true,
        ),
        ("A<(Mode)0>", "A<Mode::kA>", true),
        ("A<1, int>", "A<true,int>", true),
        ("A<'>'>", "A<62>", true),
        ("A<int>", "A<int, int>", false),
        ("A<1>", "A<2>", false),
        ("A<1>", "A<true, 2>", false),
        ("A<1", "A<>", false),
        ("A<int", "A<int>", false),
        ("A<int>", "A<int>::In", false),
        ("A", "ns::A", false),
        ("A", "", false),
    ];
    for compiler in cpp_compilers("user_data_of_an_inherited_id_does_not_compile") {
        let mut text = format!("{HEAD}{types}");
        for (list, not) in [(&own[..], "!"), (&inherited, "")] {
            for name in list {
                text += &format!("static_assert({not}ffi::internal::inherits_id_v<{name}>);\n");
            }
        }
        for (one, other, alike) in spelled {
            for (a, b) in [(one, other), (other, one)] {
                text += &format!(
                    "static_assert(ffi::internal::IsOneClass(\"{a}\", \"{b}\") == {alike});\n"
                );
            }
        }
        let done = compile(compiler, "whose", &text, &["-fsyntax-only"]);
        let told = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{compiler}: {told}");
        for (name, good) in [("Plain", true), ("Derived", false), ("ns::Own", true)] {
            for tag in ["ffi::UserData<T>", "std::optional<ffi::UserData<T>>"] {
                let text = format!(
                    "{HEAD}{types}using T = {name};\n\
                     static ffi::Error F(ffi::Context context) {{ auto found = context.get<{tag}>();\n\
                       return found ? ffi::Error() : found.error(); }}\n\
                     XLA_FFI_DEFINE_HANDLER_SYMBOL(f, F, ffi::Ffi::Bind().Ctx<ffi::Context>());\n"
                );
                let done = compile(compiler, "asks", &text, &["-fsyntax-only"]);
                let told = String::from_utf8_lossy(&done.stderr);
                assert_eq!(done.status.success(), good, "{compiler} {name}: {told}");
                assert!(
                    good || told.contains("this type inherits its `id`"),
                    "{told}"
                );
            }
        }
    }
}
