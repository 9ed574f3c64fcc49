//! A conformance library on one runtime, and checks of its calls.

use std::path::Path;
use std::sync::OnceLock;
use xla_ffi_runtime::spec::Spec;
use xla_ffi_runtime::{
    Attributes, Bundle, DType, Element, Error, Executable, Handler, Library, Outcome, Revision,
    Runtime, Shape, Stage, Stages, Tensor,
};

pub(crate) type Check = Result<(), Failure>;

/// The reason why a feature fails.
#[derive(Debug)]
pub(crate) enum Failure {
    /// An error of the handler or the runtime.
    Answer(Error),
    /// A wrong result.
    Wrong(String),
    /// The language does not have the feature.
    Moot,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Answer(error)
    }
}

pub(crate) fn expect<T: PartialEq + std::fmt::Debug>(got: T, wanted: T) -> Check {
    if got == wanted {
        return Ok(());
    }
    Err(Failure::Wrong(format!("expected {wanted:?}, got {got:?}")))
}

/// A function that wraps every handler before its registration. Set at most once per process.
pub(crate) static WRAP: OnceLock<fn(Bundle, Stage) -> Bundle> = OnceLock::new();

/// A conformance library and its twin on one runtime.
pub(crate) struct Subject {
    pub(crate) runtime: Runtime,
    pub(crate) library: Library,
    pub(crate) twin: Library,
    /// The handler that calls a registration function with the function table of its own call.
    pub(crate) bootstrap: Library,
    /// The newest revision that the libraries know.
    pub(crate) newest: Revision,
}

impl Subject {
    /// Opens a conformance library, its twin and the library of [`bootstrap`](super::bootstrap) on a runtime.
    pub(crate) fn open(
        runtime: Runtime,
        [library, twin]: [&Path; 2],
        bootstrap: &Path,
        newest: Revision,
    ) -> Self {
        let open = |path| runtime.open(path).expect("the library opens");
        Self {
            library: open(library),
            twin: open(twin),
            bootstrap: open(bootstrap),
            newest,
            runtime,
        }
    }

    /// Returns the revision that the libraries assume for their host.
    pub(crate) fn seen(&self) -> Revision {
        seen(self.newest, self.runtime.revision())
    }

    pub(crate) fn executable_of(
        library: &Library,
        name: &str,
        attrs: &str,
    ) -> Result<Executable, Error> {
        let instantiate = format!("{name}_instantiate");
        let mut stages = vec![(Stage::Execute, name)];
        if library.symbol(&instantiate).is_ok() {
            stages.push((Stage::Instantiate, instantiate.as_str()));
        }
        let attributes = Attributes::parse(attrs).expect("the test's attributes parse");
        Self::handler(library, name, &stages)?.instantiate(&attributes)
    }

    pub(crate) fn handler(
        library: &Library,
        name: &str,
        stages: &[(Stage, &str)],
    ) -> Result<Handler, Error> {
        let mut bundle = library.bundle(stages)?;
        if let Some(wrap) = WRAP.get() {
            for (stage, _) in stages {
                bundle = wrap(bundle, *stage);
            }
        }
        library.runtime().handler(name, bundle)
    }

    pub(crate) fn executable(&self, name: &str, attrs: &str) -> Result<Executable, Error> {
        Self::executable_of(&self.library, name, attrs)
    }

    pub(crate) fn call(
        &self,
        name: &str,
        attrs: &str,
        args: Vec<Tensor>,
        rets: &[(DType, &[i64])],
    ) -> Result<Outcome, Error> {
        run(&self.executable(name, attrs)?, args, rets)
    }
}

/// Returns the revision that a library assumes for `host` if it knows revisions up to `newest`. Before r5,
/// libraries can only determine a table's contents from its length.
pub(crate) fn seen(newest: Revision, host: Revision) -> Revision {
    match newest {
        _ if host <= newest => host,
        Revision::R0 => Revision::R0,
        _ if newest < Revision::R5 => Revision::R1,
        _ => newest,
    }
}

pub(crate) fn run(
    executable: &Executable,
    args: Vec<Tensor>,
    rets: &[(DType, &[i64])],
) -> Result<Outcome, Error> {
    let mut call = executable
        .call()
        .stages(Stages::Cpu)
        .run_id(77)
        .device_ordinal(2048)
        .args(args);
    for (dtype, dims) in rets {
        call = call.ret(Shape::new(*dtype, *dims)?);
    }
    call.run()
}

/// Checks that a call with these arguments has a single result with these dimensions and values.
pub(crate) fn gives<T: Element + Clone + PartialEq + std::fmt::Debug>(
    s: &Subject,
    name: &str,
    attrs: &str,
    args: Vec<Tensor>,
    dims: &[i64],
    wanted: &[T],
) -> Check {
    let out = s.call(name, attrs, args, &[(DType::of::<T>(), dims)])?;
    expect(&values::<T>(&out, 0)[..], wanted)
}

/// Checks that a handler that only has attributes returns these values.
pub(crate) fn tells<T: Element + Clone + PartialEq + std::fmt::Debug>(
    s: &Subject,
    name: &str,
    attrs: &str,
    wanted: &[T],
) -> Check {
    gives(s, name, attrs, vec![], &[wanted.len() as i64], wanted)
}

/// Checks that a handler without attributes returns this number.
pub(crate) fn number<T: Element + Clone + PartialEq + std::fmt::Debug>(
    s: &Subject,
    name: &str,
    wanted: T,
) -> Check {
    gives(s, name, "{}", vec![scalar()], &[], &[wanted])
}

/// Returns the error of a failed outcome. A success is a failure of the check.
pub(crate) fn refused<T>(outcome: Result<T, Error>) -> Result<Error, Failure> {
    let none = || Failure::Wrong("no error".to_owned());
    outcome.err().ok_or_else(none)
}

pub(crate) fn f32s(values: &[f32]) -> Tensor {
    Tensor::from_slice([values.len() as i64], values).expect("a vector")
}

pub(crate) fn scalar() -> Tensor {
    Tensor::from_slice([], &[1.0_f32]).expect("a scalar")
}

pub(crate) fn values<T: Element + Clone>(outcome: &Outcome, index: usize) -> Vec<T> {
    outcome.rets[index]
        .to_vec::<T>()
        .expect("the result's type")
}

/// Checks an odd number of packed elements: their sizes, and the values that `handler` unpacks.
pub(crate) fn packed(s: &Subject, handler: &str, spec: &str, wanted: &[i8]) -> Check {
    let x = Spec::parse(spec)
        .expect("the test's SPEC parses")
        .tensor()?;
    let (count, bytes) = (wanted.len() as i64, x.bytes().len() as i64);
    let rets: &[(DType, &[i64])] = &[(DType::S8, &[count])];
    let out = s.call(handler, "{}", vec![x.clone()], rets)?;
    expect(values::<i8>(&out, 0), wanted.to_vec())?;
    let out = s.call("describe", "{}", vec![x], &[(DType::S64, &[8])])?;
    expect(
        values::<i64>(&out, 0)[1..5].to_vec(),
        vec![1, count, bytes, count],
    )
}

/// Checks six elements of a type: their sizes, and the copy that the handler makes.
pub(crate) fn copied(s: &Subject, dtype: DType) -> Check {
    let shape = Shape::new(dtype, [2, 3])?;
    let size = 6 * dtype.bits() / 8;
    let bytes: Vec<u8> = (1..=size as u8)
        .map(|byte| if dtype == DType::Pred { byte % 2 } else { byte })
        .collect();
    let x = Tensor::from_bytes(shape, &bytes)?;
    let out = s.call("copy", "{}", vec![x.clone()], &[(dtype, &[2, 3])])?;
    expect(out.rets[0].bytes(), x.bytes())?;
    let out = s.call("describe", "{}", vec![x], &[(DType::S64, &[8])])?;
    expect(
        values::<i64>(&out, 0)[1..6].to_vec(),
        vec![2, 6, size as i64, 2, 3],
    )
}
