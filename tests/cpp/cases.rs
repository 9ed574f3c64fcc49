//! Test cases written as comments next to the C++ handlers of `tests/cpp`, and their expected
//! results.

use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use xla_ffi_runtime::{
    Attribute, Attributes, DType, Error, HostAllocator, Library, Result, Revision, Stage, Stages,
    Stream, Tensor, UserData, spec,
};

/// The expected outcome of a case.
#[derive(Clone, Debug)]
pub(crate) enum Want {
    /// The values of each result.
    Values(Vec<Vec<f64>>),
    /// An error: its code, and a part of the message with our headers.
    Failure { code: String, text: String },
}

/// The headers with which a case runs: both sets, only ours, or only upstream's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum For {
    Both,
    Ours,
    Upstream,
}

/// A test case in a source.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) line: String,
    pub(crate) of: For,
    /// Whether the case runs after all other cases of its file.
    pub(crate) last: bool,
    pub(crate) stages: Vec<(Stage, String)>,
    options: Vec<(String, String)>,
    attributes: String,
    args: Vec<String>,
    rets: Vec<String>,
    pub(crate) want: Want,
}

/// Returns the cases of a source. Cases marked LAST are at the end.
pub(crate) fn cases(source: &Path) -> Vec<Case> {
    let text = std::fs::read_to_string(source).expect("the source");
    let mut found: Vec<Case> = text
        .lines()
        .filter_map(|line| {
            let line = line.trim().strip_prefix("// ")?;
            let (kind, rest) = line.split_once(' ')?;
            let (of, last) = match kind {
                "RUN" => (For::Both, false),
                "RUN-OURS" => (For::Ours, false),
                "RUN-UPSTREAM" => (For::Upstream, false),
                "LAST" => (For::Both, true),
                _ => return None,
            };
            Some(Case::parse(rest, of, last).unwrap_or_else(|| panic!("not a case: {line}")))
        })
        .collect();
    found.sort_by_key(|case| case.last);
    found
}

/// Returns the traits that handlers of a source must have, as symbol and bits.
pub(crate) fn traits(source: &Path) -> Vec<(String, u32)> {
    let text = std::fs::read_to_string(source).expect("the source");
    text.lines()
        .filter_map(|line| {
            let (symbol, bits) = line.trim().strip_prefix("// TRAITS ")?.split_once(' ')?;
            Some((symbol.to_owned(), bits.parse().expect("a number")))
        })
        .collect()
}

impl Case {
    fn parse(text: &str, of: For, last: bool) -> Option<Self> {
        let failure = text.split_once(" !! ");
        let values = text.split_once(" ==").filter(|_| failure.is_none());
        let (head, want) = match (values, failure) {
            (Some((head, values)), None) => {
                let results = values.trim();
                let parse = |list: &str| -> Vec<f64> {
                    list.split(',')
                        .filter(|number| !number.trim().is_empty())
                        .map(|number| number.trim().parse().expect("a number"))
                        .collect()
                };
                let values = results.split(';').map(parse).collect();
                (head, Want::Values(values))
            }
            (None, Some((head, failure))) => {
                let (code, text) = failure.split_once(' ').unwrap_or((failure, ""));
                let (code, text) = (code.to_owned(), text.replace("\\n", "\n"));
                (head, Want::Failure { code, text })
            }
            _ => return None,
        };
        let open = head.find(" {")? + 1;
        let mut depth = 0;
        let close = head[open..].char_indices().find_map(|(at, c)| {
            depth += i32::from(c == '{') - i32::from(c == '}');
            (depth == 0).then_some(open + at + 1)
        })?;
        let mut words = head[..open].split_whitespace();
        let stages = words
            .next()?
            .split(',')
            .map(|word| match word.split_once('=') {
                None => (Stage::Execute, word.to_owned()),
                Some((stage, symbol)) => {
                    (Stage::from_name(stage).expect("a stage"), symbol.to_owned())
                }
            })
            .collect();
        let options = words
            .map(|word| {
                let (name, value) = word.split_once('=').unwrap_or((word, ""));
                (name.to_owned(), value.to_owned())
            })
            .collect();
        let (args, rets) = head[close..].split_once("->")?;
        let list = |text: &str| text.split_whitespace().map(str::to_owned).collect();
        Some(Self {
            line: text.to_owned(),
            of,
            last,
            stages,
            options,
            attributes: head[open..close].to_owned(),
            args: list(args),
            rets: list(rets),
            want,
        })
    }

    /// Returns the value of an option in the case's `RUN` line.
    pub(crate) fn option(&self, name: &str) -> Option<&str> {
        self.options
            .iter()
            .find(|(is, _)| is == name)
            .map(|(_, value)| value.as_str())
    }

    /// Returns the oldest revision on which the handler works.
    pub(crate) fn from(&self) -> Revision {
        self.option("from").map_or(Revision::R0, |name| {
            Revision::from_name(name).expect("a revision")
        })
    }

    /// Returns the oldest revision whose hosts accept the attributes of the case.
    pub(crate) fn parsed_from(&self) -> Revision {
        let attributes = Attributes::parse(&self.attributes).expect("attributes");
        let mut kinds = attributes.iter().map(|(_, value)| value);
        if self.attributes.contains("dense<") {
            Revision::R3
        } else if kinds.any(|kind| matches!(kind, Attribute::Dict(_))) {
            Revision::R2
        } else {
            Revision::R0
        }
    }

    /// Returns true if the case has attributes that JAX does not pass to handlers.
    pub(crate) fn is_beyond_jax(&self) -> bool {
        self.attributes.contains("xi1>") || self.attributes.contains("complex<")
    }

    /// Returns the oldest revision on which the case is meaningful.
    pub(crate) fn only(&self) -> Revision {
        self.option("only").map_or(Revision::R0, |name| {
            Revision::from_name(name).expect("a revision")
        })
    }

    /// Returns the case in the format of `tests/jax/differential.py`, or the reason why JAX cannot
    /// run it.
    pub(crate) fn in_jax(
        &self,
        library: &Path,
        target: &str,
    ) -> std::result::Result<Value, String> {
        let runs = [Stage::Instantiate, Stage::Execute];
        let late = self.stages.iter().find(|(stage, _)| !runs.contains(stage));
        if let Some((stage, _)) = late {
            return Err(format!("no {} stage on a CPU", stage.name()));
        }
        if self.attributes.contains("xi1>") {
            return Err("no attributes that are arrays of bool".to_owned());
        }
        if self.attributes.contains("complex<") {
            return Err("no complex attributes".to_owned());
        }
        for (name, value) in &self.options {
            match name.as_str() {
                "stream" => return Err("no stream on a CPU".to_owned()),
                "scratch" => return Err("no allocator for scratch memory on a CPU".to_owned()),
                "no-pool" => return Err("always a thread pool".to_owned()),
                "extension" => return Err("no extensions of others".to_owned()),
                "user-data" => return Err("no user data".to_owned()),
                "run-id" => return Err("no choice of the run id".to_owned()),
                "ordinal" if value != "0" => return Err("no choice of the device".to_owned()),
                "options" => return Err("no custom options".to_owned()),
                _ => {}
            }
        }
        let stages = self
            .stages
            .iter()
            .map(|(stage, symbol)| (stage.name().to_owned(), symbol.as_str().into()));
        let calls: u32 = self
            .option("calls")
            .map_or(1, |n| n.parse().expect("a number"));
        Ok(json!({
            "library": library,
            "target": target,
            "stages": Value::Object(stages.collect()),
            "attributes": self.attributes,
            "args": self.args,
            "rets": self.rets,
            "calls": calls,
        }))
    }

    /// Runs the case and returns the values of each result.
    pub(crate) fn run(&self, library: &Library) -> Result<Vec<Vec<f64>>> {
        let mut user_data = UserData::new(library.runtime());
        for name in ["type", "user-data"]
            .iter()
            .filter_map(|key| self.option(key))
        {
            let id = register(library, name)?;
            if self.option("user-data").is_some() {
                static NUMBER: i64 = 99;
                let object = std::ptr::from_ref(&NUMBER).cast_mut().cast();
                // SAFETY: the object is a static that is never written.
                unsafe { user_data.insert_borrowed(id, object) }?;
            }
        }
        let user_data = Arc::new(user_data);
        let stages: Vec<(Stage, &str)> = self
            .stages
            .iter()
            .map(|(stage, symbol)| (*stage, symbol.as_str()))
            .collect();
        let handler = library.handler(&self.stages[0].1, &stages)?;
        let attributes = Attributes::parse(&self.attributes)?;
        let executable = if self.is_beyond_jax() {
            handler.instantiate_any(&attributes)?
        } else {
            handler.instantiate(&attributes)?
        };
        let calls = self
            .option("calls")
            .map_or(1, |n| n.parse().expect("a number"));
        let extension = self.option("extension").map(Extension::new);
        let mut values = vec![];
        for _ in 0..calls {
            let mut call = executable
                .call()
                .stages(Stages::All)
                .user_data(user_data.clone());
            for arg in &self.args {
                call = call.arg(spec::Spec::parse(arg)?.tensor()?);
            }
            for ret in &self.rets {
                call = match ret.strip_prefix("alias:") {
                    Some(index) => call.ret_alias(index.parse().expect("a number")),
                    None => call.ret(spec::parse_result(ret)?),
                };
            }
            for (name, value) in &self.options {
                call = match name.as_str() {
                    "stream" => {
                        let address: usize = value.parse().expect("a number");
                        // SAFETY: the handlers never dereference the stream's address.
                        call.stream(unsafe { Stream::borrowed(address as *mut std::ffi::c_void) })
                    }
                    "scratch" => call.allocator(Arc::new(HostAllocator::default())),
                    "no-pool" => call.without_thread_pool(),
                    "run-id" => call.run_id(value.parse().expect("a number")),
                    "ordinal" => call.device_ordinal(value.parse().expect("a number")),
                    "options" => call.custom_options(&Attributes::parse(value)?),
                    // SAFETY: the extension outlives the calls, which run in this loop.
                    "extension" => unsafe {
                        call.extension(std::ptr::from_ref(extension.as_ref().expect("it")).cast())
                    },
                    "type" | "user-data" | "calls" | "from" | "only" => call,
                    other => panic!("no such option: {other}"),
                };
            }
            let outcome = call.run()?;
            values = outcome.rets.iter().map(numbers).collect();
        }
        Ok(values)
    }
}

/// Registers a type that a library describes with two exported functions.
///
/// Programs that host handlers built with XLA's own headers register types in the same way.
pub(crate) fn register(library: &Library, name: &str) -> Result<i64> {
    let info = format!("{name}_type_info");
    library.register_type(name, &format!("{name}_type_id"), Some(&info))
}

/// The extension that `tests/cpp/context.cc` looks for.
#[repr(C)]
struct Extension {
    head: xla_ffi_sys::XLA_FFI_Extension,
    payload: i64,
}

impl Extension {
    fn new(version: &str) -> Self {
        let (major, minor) = version.split_once('.').expect("MAJOR.MINOR");
        Self {
            head: xla_ffi_sys::XLA_FFI_Extension {
                struct_size: size_of::<Self>(),
                id: xla_ffi_sys::XLA_FFI_ExtensionId {
                    extension_type: 4711,
                    major_version: major.parse().expect("a number"),
                    minor_version: minor.parse().expect("a number"),
                },
                next: std::ptr::null(),
            },
            payload: 33,
        }
    }
}

/// Returns a tensor's elements as numbers.
fn numbers(tensor: &Tensor) -> Vec<f64> {
    fn of<T: xla_ffi_runtime::Element>(tensor: &Tensor, to: impl Fn(T) -> f64) -> Vec<f64> {
        let elements = tensor.to_vec::<T>().expect("the element type");
        elements.into_iter().map(to).collect()
    }
    match tensor.shape().dtype() {
        DType::F32 => of::<f32>(tensor, f64::from),
        DType::F64 => of::<f64>(tensor, |v| v),
        DType::S64 => of::<i64>(tensor, |v| v as f64),
        DType::S32 => of::<i32>(tensor, f64::from),
        DType::U8 => of::<u8>(tensor, f64::from),
        other => panic!("no numbers of {other:?} in these tests"),
    }
}

/// The error of a failed call, on the embedded runtime or in JAX.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) code: String,
    pub(crate) message: String,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self {
            code: error.code().name().to_owned(),
            message: error.message().to_owned(),
        }
    }
}

/// Checks an outcome; `text` and `code` select whether the message and the code are compared.
pub(crate) fn check(
    case: &Case,
    outcome: std::result::Result<Vec<Vec<f64>>, Failure>,
    code: bool,
    text: bool,
) -> std::result::Result<(), String> {
    match (&case.want, outcome) {
        (Want::Values(want), Ok(got)) => {
            let empty = want.iter().all(Vec::is_empty) && got.iter().all(Vec::is_empty);
            if empty || *want == got {
                Ok(())
            } else {
                Err(format!("expected {want:?}, got {got:?}"))
            }
        }
        (Want::Values(want), Err(Failure { code, message })) => {
            Err(format!("expected {want:?}, got {code}: {message}"))
        }
        (Want::Failure { code, .. }, Ok(got)) => Err(format!("expected {code}, got {got:?}")),
        (
            Want::Failure {
                code: want,
                text: part,
            },
            Err(error),
        ) => {
            let Failure { code: got, message } = error;
            if code && got != *want {
                return Err(format!("expected {want}, got {got}: {message}"));
            }
            if text && !message.contains(part.as_str()) {
                return Err(format!("expected {part:?} in {message:?}"));
            }
            Ok(())
        }
    }
}
