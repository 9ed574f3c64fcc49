//! Tests equivalent handlers in Rust, C and C++ with random calls. All handlers must accept exactly the calls that
//! their declaration allows.

mod before_r0;
mod build_errors;
mod contracts;
mod mistakes;
mod revisions;
mod signatures;
mod type_ids;

use std::result::Result;
use xla_ffi::prelude::{Out, TokenOut};
use xla_ffi_runtime::{Attributes, DType, Executable, Library, Runtime, Shape, Stage, Tensor};
use xla_ffi_testing::compiler::{compiler, library_of_text};

/// The kind of an operand, without its dtype and rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Array,
    Optional,
    Many,
    Token,
}

/// Returns the C code that fetches an operand. `side` is `arg` or `ret`, and `of` is the operand's dtype and rank.
fn operand_in_c(kind: Kind, side: &str, at: usize, of: &str) -> String {
    let call = format!("(call, \"{side}{at}\", XLA_FFI_DataType_{of})");
    match kind {
        Kind::Array => format!("  xffi_{side}{call};\n"),
        Kind::Optional => format!("  xffi_optional_{side}{call};\n"),
        Kind::Many => format!("  while (xffi_optional_{side}{call}.present) continue;\n"),
        Kind::Token => format!("  xffi_{side}(call, \"{side}{at}\", XLA_FFI_DataType_TOKEN, 0);\n"),
    }
}

/// Returns the C++ code that binds an operand. `side` is `Arg` or `Ret`.
fn operand_in_cpp(kind: Kind, side: &str, of: &str) -> String {
    match kind {
        Kind::Array => format!(".{side}<{of}>()"),
        Kind::Optional => format!(".Optional{side}<{of}>()"),
        Kind::Many => format!(".Remaining{side}s()"),
        Kind::Token => format!(".{side}<ffi::Token>()"),
    }
}

fn handler_in_c(name: &str, body: &str) -> String {
    format!(
        "static XLA_FFI_Error* {name}_impl(xffi_call* call) {{\n{body}  return xffi_decoded(call);\n}}\n\
         XFFI_HANDLER({name}, {name}_impl);\n"
    )
}

fn handler_in_cpp(name: &str, binding: &str) -> String {
    format!(
        "XLA_FFI_DEFINE_HANDLER_SYMBOL({name}, [](auto...) {{ return ffi::Error::Success(); }},\n    \
         (ffi::Ffi::Bind(){binding}));\n"
    )
}

/// Writes zeros to results whose values are not checked.
trait Done {
    fn done(&mut self);
}

impl<T: xla_ffi::Element + Default, const RANK: usize> Done for Out<'_, T, RANK> {
    fn done(&mut self) {
        self.fill(T::default());
    }
}

impl<T: Done> Done for Option<T> {
    fn done(&mut self) {
        self.iter_mut().for_each(Done::done);
    }
}

impl Done for TokenOut<'_> {
    fn done(&mut self) {}
}

/// Builds a library with these handlers. Without a compiler, reports a skip and returns `None`.
fn library(runtime: &Runtime, test: &str, is_cpp: bool, handlers: &str) -> Option<Library> {
    let (head, flags) = match is_cpp {
        false => ("#include \"xla_ffi/handler.h\"", &["-O1"][..]),
        true => (
            "#include \"xla/ffi/api/ffi.h\"\nnamespace ffi = xla::ffi;",
            &["-std=c++17", "-O1"][..],
        ),
    };
    let program = compiler(is_cpp, test)?;
    let program = program.to_str().expect("a compiler's name");
    let folder = tempfile::tempdir().unwrap();
    let text = format!("{head}\n{handlers}");
    let path = library_of_text(folder.path(), "alike", program, &text, flags);
    Some(runtime.open(path.expect("it compiles")).expect("it loads"))
}

/// Equivalent handlers in every language.
struct Languages {
    runtime: Runtime,
    libraries: Vec<(&'static str, Library)>,
}

impl Languages {
    /// Registers the Rust handlers of this program, and compiles the C and C++ handlers from these sources.
    fn new(test: &str, c: &str, cpp: &str) -> Self {
        let runtime = Runtime::default();
        runtime.register_static().expect("the handlers in Rust");
        let mut libraries = vec![];
        for (is_cpp, text) in [(false, c), (true, cpp)] {
            let language = if is_cpp { "C++" } else { "C" };
            if let Some(library) = library(&runtime, test, is_cpp, text) {
                libraries.push((language, library));
            }
        }
        Self { runtime, libraries }
    }

    /// Returns an executable of a handler per language, with these attributes.
    fn handlers(&self, name: &str, attributes: &Attributes) -> Vec<(&'static str, Executable)> {
        let rust = self.runtime.find(name, "Host").expect("it is registered");
        let mut all = vec![("Rust", rust)];
        for (language, library) in &self.libraries {
            let handler = library.handler(name, &[(Stage::Execute, name)]);
            all.push((language, handler.expect("its symbol")));
        }
        let executables = all.into_iter().map(|(language, handler)| {
            let executable = handler.instantiate(attributes).expect("there is no state");
            (language, executable)
        });
        executables.collect()
    }
}

/// An operand of a call: its dtype and dimensions.
type Given = (DType, Vec<i64>);

/// Calls a handler with these operands and returns its error, if any.
fn takes(executable: &Executable, args: &[Given], rets: &[Given]) -> Result<(), String> {
    let shape = |(dtype, dims): &Given| match dtype {
        DType::Token => Shape::token(),
        dtype => Shape::new(*dtype, dims.clone()).expect("a small shape"),
    };
    let mut call = executable.call();
    for arg in args {
        call = call.arg(Tensor::zeros(shape(arg)).expect("a small tensor"));
    }
    for ret in rets {
        call = call.ret(shape(ret));
    }
    let outcome = call.run();
    outcome
        .map(drop)
        .map_err(|error| error.message().to_owned())
}
