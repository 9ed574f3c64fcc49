//! The manifest: what a library made with `library!` says about itself, read from the file
//! without running any of it. `docs/manifest.md` is the format's definition.

use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol};
use serde::Deserialize;
use std::collections::BTreeSet;
use xla_ffi_sys::{Revision, XLA_FFI_ExecutionStage};

/// What every manifest starts with.
pub const MAGIC: &[u8; 8] = b"XLAFFIMF";
/// The newest version of the format; older ones are read too.
pub const VERSION: u32 = 2;
/// The section that holds manifests.
pub const SECTION: &str = ".xla_ffi_manifest";
/// The symbol of the manifest in a `cdylib`; the end of the symbol's name elsewhere.
pub const SYMBOL: &str = "xla_ffi_manifest";

const HEAD: usize = 16;

/// Why bytes that should hold a manifest hold none.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file is no object file that can be read.
    #[error("not a shared library that can be read: {0}")]
    Object(#[from] object::Error),
    /// The section is there and holds nothing.
    #[error("section {SECTION} holds no manifest; expected the magic XLAFFIMF")]
    Empty,
    /// Something else stands where a manifest should start.
    #[error("no manifest at byte {at} of {place}: expected the magic XLAFFIMF, found {found:?}")]
    Magic {
        /// Byte in the section.
        at: usize,
        /// Section or symbol.
        place: String,
        /// What stands there.
        found: String,
    },
    /// A format version that this reader does not know.
    #[error(
        "manifest format {found} is not known; this tool reads the formats 1 to {VERSION}, so update it"
    )]
    Version {
        /// The version that the manifest states.
        found: u32,
    },
    /// The stated length reaches past the end.
    #[error("manifest at byte {at} states {stated} bytes of payload, {there} are there")]
    Length {
        /// Byte in the section.
        at: usize,
        /// What the manifest states.
        stated: usize,
        /// What is there.
        there: usize,
    },
    /// The payload is not the JSON of the format.
    #[error("manifest payload does not parse: {0}")]
    Json(#[from] serde_json::Error),
    /// The payload parses but says something that cannot be.
    #[error("manifest of library {library:?}: {what}")]
    Content {
        /// The library's name.
        library: String,
        /// What is wrong.
        what: String,
    },
}

/// One library's description of itself, put together from the records of a file that describe it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Manifest {
    /// Name of the library.
    pub library: String,
    /// Version of the SDK that made it.
    pub sdk: String,
    /// Symbol of the registration entry point; libraries in plain C may have none.
    pub register: Option<String>,
    /// Its handlers.
    pub handlers: Vec<Handler>,
}

/// What stands at one place of a file: a library, or a part of one.
#[derive(Debug, Deserialize)]
struct Record {
    /// The library that it describes; from version 2 on it may belong to the only one of the file.
    #[serde(default)]
    library: Option<String>,
    #[serde(default)]
    sdk: Option<String>,
    #[serde(default)]
    register: Option<String>,
    handlers: Vec<Handler>,
}

/// One handler: a target name with the functions behind it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct Handler {
    /// Target name.
    pub name: String,
    /// Platforms it is for, `"cpu"` for instance.
    pub platforms: Vec<String>,
    /// The exported symbol of each stage.
    pub stages: Stages,
    /// What its author says about it.
    #[serde(default)]
    pub doc: String,
    /// Whether its operands and attributes are described; where not, they have to be told by the caller.
    #[serde(default = "yes")]
    pub described: bool,
    /// Operands.
    #[serde(default)]
    pub args: Vec<Operand>,
    /// Results.
    #[serde(default)]
    pub rets: Vec<Operand>,
    /// Attributes.
    #[serde(default)]
    pub attrs: Vec<Attribute>,
    /// The handlers that compute its derivatives.
    #[serde(default)]
    pub gradient: Option<Gradient>,
    /// How calls may be batched, where the contract is not to decide.
    #[serde(default)]
    pub batch: Option<Batch>,
    /// Whether attributes that are not listed are ignored instead of refused.
    #[serde(default)]
    pub open_attrs: bool,
    /// The shape contract.
    #[serde(default)]
    pub shape: Option<String>,
    /// What it takes from its context.
    #[serde(default)]
    pub context: Vec<String>,
    /// Traits, by name.
    #[serde(default)]
    pub traits: Vec<String>,
    /// Whether it completes after it returns.
    #[serde(default, rename = "async")]
    pub is_async: bool,
    /// The type of its state.
    #[serde(default)]
    pub state: Option<State>,
    /// The oldest revision on which it can do all of its work, `"r1"` for instance; see
    /// [`Handler::floor_revision`].
    pub floor: String,
}

fn yes() -> bool {
    true
}

/// The handlers that compute derivatives, by name.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct Gradient {
    /// Cotangents of the arguments from those of the results.
    #[serde(default)]
    pub vjp: Option<String>,
    /// What is called in the handler's place where a gradient is wanted.
    #[serde(default)]
    pub forward: Option<String>,
    /// Tangents of the results from those of the arguments.
    #[serde(default)]
    pub jvp: Option<String>,
    /// The transpose of the map from tangents to tangents.
    #[serde(default)]
    pub transpose: Option<String>,
    /// Whether the handler is its own `jvp`.
    #[serde(default)]
    pub linear: bool,
    /// The operands that these handlers get first; all arguments without it.
    #[serde(default)]
    pub residuals: Option<Vec<String>>,
}

/// How calls may be batched.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum Batch {
    /// `leading`, `sequential` or `none`.
    Word(String),
    /// `leading` or `shared` for each argument.
    Each(Vec<String>),
    /// By another handler.
    Handler {
        /// Its name.
        handler: String,
    },
}

/// The order of an operand's elements in memory.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum Layout {
    /// `row` or `column`.
    Word(String),
    /// The dimensions from the slowest to the fastest.
    Order(Vec<usize>),
}

impl Handler {
    /// The floor; `None` for a revision that is newer than this tool.
    #[must_use]
    pub fn floor_revision(&self) -> Option<Revision> {
        Revision::from_name(&self.floor)
    }
}

/// The exported symbols of a handler's stages.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct Stages {
    /// Instantiate.
    #[serde(default)]
    pub instantiate: Option<String>,
    /// Prepare.
    #[serde(default)]
    pub prepare: Option<String>,
    /// Initialize.
    #[serde(default)]
    pub initialize: Option<String>,
    /// Execute; always there.
    pub execute: String,
    /// Record.
    #[serde(default)]
    pub record: Option<String>,
}

impl Stages {
    /// Name and symbol of each stage that there is, in the order in which hosts run them.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &str)> {
        use XLA_FFI_ExecutionStage as Stage;
        [
            (Stage::INSTANTIATE, self.instantiate.as_deref()),
            (Stage::PREPARE, self.prepare.as_deref()),
            (Stage::INITIALIZE, self.initialize.as_deref()),
            (Stage::EXECUTE, Some(self.execute.as_str())),
            (Stage::RECORD, self.record.as_deref()),
        ]
        .into_iter()
        .filter_map(|(stage, symbol)| Some((stage.lower_name()?, symbol?)))
    }
}

/// What an operand or result is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Kind {
    /// An array.
    Buffer,
    /// An ordering token.
    Token,
}

/// An operand or a result.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct Operand {
    /// Name of the parameter.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// Accepted element types by their C names without prefix; `None` accepts all.
    pub dtypes: Option<Vec<String>>,
    /// Number of dimensions; `None` for any.
    pub rank: Option<u32>,
    /// Whether it may be missing.
    #[serde(default)]
    pub optional: bool,
    /// Whether it stands for all that remain.
    #[serde(default)]
    pub variadic: bool,
    /// Whether a result shares the memory of the argument of the same name.
    #[serde(default)]
    pub inout: bool,
    /// The order of its elements; the last dimension varies fastest without it.
    #[serde(default)]
    pub layout: Option<Layout>,
    /// What its author says about it.
    #[serde(default)]
    pub doc: String,
}

/// An attribute.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct Attribute {
    /// Its name.
    pub name: String,
    /// `bool`, `i8` … `c128`, `str`, `[T]`, `dict` or `any`.
    #[serde(rename = "type")]
    pub ty: String,
    /// Whether it may be missing.
    #[serde(default)]
    pub optional: bool,
    /// The literal default, or null.
    #[serde(default)]
    pub default: serde_json::Value,
    /// Whether wider types are converted where the value fits.
    #[serde(default)]
    pub narrow: bool,
    /// The dictionary that it belongs to.
    #[serde(default)]
    pub from: Option<String>,
    /// What its author says about it.
    #[serde(default)]
    pub doc: String,
}

/// The type of a handler's state.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct State {
    /// The name under which the type is registered.
    #[serde(rename = "type")]
    pub ty: String,
}

/// Reads all manifests of a library; an empty list says that the library has none.
///
/// # Errors
/// [`Error`] when `file` is no library or holds something that is no manifest where one should be.
pub fn read(file: &[u8]) -> Result<Vec<Manifest>, Error> {
    let object = object::File::parse(file)?;
    if let Some(section) = object.section_by_name(SECTION) {
        return read_section(section.data()?, section.address());
    }
    let mut records = Vec::new();
    let mut seen = BTreeSet::new();
    for symbol in object.dynamic_symbols().chain(object.symbols()) {
        let Ok(name) = symbol.name() else { continue };
        let is_ours = name == SYMBOL
            || name
                .strip_suffix(SYMBOL)
                .is_some_and(|rest| rest.ends_with("__"));
        // An alias and its target, or both symbol tables, name the same bytes.
        if is_ours && symbol.is_definition() && seen.insert(symbol.address()) {
            let bytes = object
                .segments()
                .find_map(|segment| {
                    let start = symbol.address().checked_sub(segment.address())?;
                    let data = segment.data().ok()?;
                    data.get(usize::try_from(start).ok()?..)
                })
                .unwrap_or_default();
            records.push(read_one(bytes, 0, name)?.0);
        }
    }
    join(records)
}

/// Reads the manifests of a section that lies at `address`.
///
/// # Errors
/// [`Error`] when the section holds something else.
pub fn read_section(bytes: &[u8], address: u64) -> Result<Vec<Manifest>, Error> {
    let mut records = Vec::new();
    let mut at = 0;
    // Every manifest starts at a multiple of 16; what lies between is zero.
    let skew = (address % 16) as usize;
    while at < bytes.len() {
        if bytes[at] == 0 {
            at += 1;
        } else if (at + skew).is_multiple_of(16) {
            let (record, end) = read_one(bytes, at, &format!("section {SECTION}"))?;
            records.push(record);
            at = end;
        } else {
            return Err(magic_error(bytes, at, &format!("section {SECTION}")));
        }
    }
    if records.is_empty() {
        return Err(Error::Empty);
    }
    join(records)
}

/// Puts the records of a file together, by library, in the order of the file.
fn join(records: Vec<Record>) -> Result<Vec<Manifest>, Error> {
    let mut manifests: Vec<Manifest> = Vec::new();
    for name in records.iter().filter_map(|record| record.library.as_ref()) {
        if manifests.iter().all(|known| known.library != *name) {
            manifests.push(Manifest {
                library: name.clone(),
                sdk: String::new(),
                register: None,
                handlers: Vec::new(),
            });
        }
    }
    for record in records {
        let count = manifests.len();
        let manifest = match &record.library {
            Some(name) => manifests.iter_mut().find(|known| known.library == *name),
            None if count == 1 => manifests.first_mut(),
            None => None,
        };
        let Some(manifest) = manifest else {
            return Err(Error::Content {
                library: String::new(),
                what: format!(
                    "a record names no library, and the other records of the file name {count}"
                ),
            });
        };
        manifest.add(record)?;
    }
    Ok(manifests)
}

impl Manifest {
    fn add(&mut self, record: Record) -> Result<(), Error> {
        let fail = |library: &str, what: String| Error::Content {
            library: library.to_owned(),
            what,
        };
        for handler in record.handlers {
            if self.handlers.iter().any(|known| known.name == handler.name) {
                let what = format!("handler {:?} is listed twice", handler.name);
                return Err(fail(&self.library, what));
            }
            self.handlers.push(handler);
        }
        match (&self.register, record.register) {
            (Some(one), Some(other)) if *one != other => {
                let what =
                    format!("its records name two registration functions, {one} and {other}");
                return Err(fail(&self.library, what));
            }
            (None, register) => self.register = register,
            _ => {}
        }
        if let Some(sdk) = record.sdk {
            self.sdk = sdk;
        }
        Ok(())
    }
}

fn magic_error(bytes: &[u8], at: usize, place: &str) -> Error {
    let end = bytes.len().min(at + MAGIC.len());
    Error::Magic {
        at,
        place: place.to_owned(),
        found: String::from_utf8_lossy(&bytes[at.min(end)..end]).into_owned(),
    }
}

/// Reads the record at byte `at`; also gives the byte behind it.
fn read_one(bytes: &[u8], at: usize, place: &str) -> Result<(Record, usize), Error> {
    let rest = &bytes[at..];
    let head = rest
        .first_chunk::<HEAD>()
        .filter(|head| head.starts_with(MAGIC))
        .ok_or_else(|| magic_error(bytes, at, place))?;
    let word = |from: usize| {
        u32::from_le_bytes([head[from], head[from + 1], head[from + 2], head[from + 3]])
    };
    let version = word(8);
    if !(1..=VERSION).contains(&version) {
        return Err(Error::Version { found: version });
    }
    let stated = word(12) as usize;
    let payload = rest[HEAD..].get(..stated).ok_or(Error::Length {
        at,
        stated,
        there: rest.len() - HEAD,
    })?;
    let record = read_record(payload)?;
    if version == 1 && record.library.is_none() {
        return Err(Error::Content {
            library: String::new(),
            what: "a record of version 1 names its library".to_owned(),
        });
    }
    Ok((record, at + HEAD + stated))
}

/// Reads the payload of a lone record.
///
/// # Errors
/// [`Error::Json`] or [`Error::Content`].
///
/// ```
/// use xla_ffi_doctor::manifest;
///
/// let text = br#"{"library": "mine", "sdk": "0.1.0", "handlers": [{
///     "name": "f", "platforms": ["cpu"], "stages": {"execute": "mine__f"},
///     "args": [], "rets": [], "attrs": [], "floor": "r0"}]}"#;
/// let mine = manifest::parse(text)?;
/// assert_eq!(mine.handlers[0].stages.iter().next(), Some(("execute", "mine__f")));
/// assert!(manifest::parse(b"{}").is_err());
/// # Ok::<(), manifest::Error>(())
/// ```
pub fn parse(payload: &[u8]) -> Result<Manifest, Error> {
    let joined = join(vec![read_record(payload)?])?;
    joined.into_iter().next().ok_or(Error::Empty)
}

fn read_record(payload: &[u8]) -> Result<Record, Error> {
    let value: serde_json::Value = serde_json::from_slice(payload)?;
    let library = value["library"].as_str().unwrap_or_default().to_owned();
    let fail = |what: String| Error::Content {
        library: library.clone(),
        what,
    };
    for handler in value["handlers"].as_array().into_iter().flatten() {
        let missing = ["args", "rets", "attrs"]
            .into_iter()
            .find(|key| handler[key].is_null() && handler["described"] != false);
        if let Some(key) = missing {
            let name = &handler["name"];
            return Err(fail(format!(
                "handler {name} is described, but has no \"{key}\""
            )));
        }
    }
    let record = Record::deserialize(value)?;
    if let Some(register) = &record.register {
        check_symbol(register).map_err(|what| fail(format!("\"register\" {what}")))?;
    }
    for handler in &record.handlers {
        check_handler(handler)
            .map_err(|what| fail(format!("handler {:?}: {what}", handler.name)))?;
    }
    Ok(record)
}

fn check_handler(handler: &Handler) -> Result<(), String> {
    if handler.name.is_empty() {
        return Err("\"name\" is empty".to_owned());
    }
    for (stage, symbol) in handler.stages.iter() {
        check_symbol(symbol).map_err(|what| format!("stage {stage} {what}"))?;
    }
    if handler
        .floor
        .strip_prefix('r')
        .is_none_or(|digits| digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()))
    {
        return Err(format!(
            "\"floor\" is {:?}; expected a revision such as \"r1\"",
            handler.floor
        ));
    }
    for attribute in &handler.attrs {
        check_type(&attribute.ty)
            .map_err(|what| format!("attribute {:?}: {what}", attribute.name))?;
    }
    if let Some(gradient) = &handler.gradient {
        check_gradient(gradient).map_err(|what| format!("its gradient {what}"))?;
    }
    check_batch(handler)?;
    for operand in handler.args.iter().chain(&handler.rets) {
        check_layout(operand).map_err(|what| format!("operand {:?}: {what}", operand.name))?;
    }
    for ret in &handler.rets {
        if ret.inout && !handler.args.iter().any(|arg| arg.name == ret.name) {
            return Err(format!(
                "result {:?} is inout, but no argument has that name",
                ret.name
            ));
        }
    }
    Ok(())
}

fn check_gradient(gradient: &Gradient) -> Result<(), &'static str> {
    let ways = [
        gradient.vjp.is_some(),
        gradient.jvp.is_some(),
        gradient.linear,
    ];
    if ways.into_iter().filter(|way| *way).count() != 1 {
        return Err("has to have one of \"vjp\", \"jvp\" and \"linear\"");
    }
    if gradient.vjp.is_some() && gradient.transpose.is_some() {
        return Err("has a \"transpose\", which belongs to \"jvp\" or \"linear\", not to \"vjp\"");
    }
    if gradient.forward.is_some() && gradient.vjp.is_none() {
        return Err("has a \"forward\", which belongs to \"vjp\"");
    }
    Ok(())
}

fn check_batch(handler: &Handler) -> Result<(), String> {
    let known = match &handler.batch {
        None | Some(Batch::Handler { .. }) => true,
        Some(Batch::Word(word)) => matches!(word.as_str(), "leading" | "sequential" | "none"),
        Some(Batch::Each(words)) => {
            words.len() == handler.args.len()
                && words
                    .iter()
                    .all(|word| matches!(word.as_str(), "leading" | "shared"))
        }
    };
    if known {
        return Ok(());
    }
    Err(format!(
        "\"batch\" is {:?}; expected \"leading\", \"sequential\", \"none\", a list with \"leading\" or \"shared\" \
         for each argument, or {{\"handler\": NAME}}",
        handler.batch
    ))
}

fn check_layout(operand: &Operand) -> Result<(), String> {
    let known = match &operand.layout {
        None => true,
        Some(Layout::Word(word)) => matches!(word.as_str(), "row" | "column"),
        Some(Layout::Order(axes)) => {
            let mut sorted = axes.clone();
            sorted.sort_unstable();
            sorted.into_iter().eq(0..axes.len())
                && operand.rank.is_none_or(|rank| rank as usize == axes.len())
        }
    };
    if known {
        return Ok(());
    }
    Err(format!(
        "\"layout\" is {:?}; expected \"row\", \"column\" or the dimensions from the slowest to the fastest",
        operand.layout
    ))
}

/// A loader looks symbols up by name: a name that no linker writes is a mistake or a trap.
fn check_symbol(symbol: &str) -> Result<(), String> {
    let fits = !symbol.is_empty()
        && symbol.len() < 4096
        && symbol
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'$' | b'.'));
    if fits {
        Ok(())
    } else {
        Err(format!("names no symbol: {symbol:?}"))
    }
}

fn check_type(ty: &str) -> Result<(), String> {
    const SCALARS: [&str; 14] = [
        "bool", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f32", "f64", "c64", "c128",
        "str",
    ];
    let element = ty
        .strip_prefix('[')
        .map_or(Some(ty), |rest| rest.strip_suffix(']'));
    let known =
        element.is_some_and(|element| SCALARS.contains(&element)) || matches!(ty, "dict" | "any");
    if known {
        Ok(())
    } else {
        Err(format!(
            "type {ty:?} is not known; expected bool, i8 … u64, f32, f64, c64, c128, str, [T], \
             dict or any"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAYLOAD: &str = r#"{"library": "l", "sdk": "0.1.0", "register": "l__xla_ffi_register",
        "later": 1,
        "handlers": [{"name": "h", "platforms": ["cpu"], "stages": {"execute": "l__h"},
        "args": [{"name": "x", "kind": "buffer", "dtypes": ["F32"], "rank": null}],
        "rets": [{"name": "x", "kind": "buffer", "dtypes": null, "rank": 2, "inout": true}],
        "attrs": [{"name": "eps", "type": "f32", "optional": true, "default": 1e-5}],
        "async": true, "state": {"type": "S"}, "floor": "r1"}]}"#;

    fn bytes(payload: &str) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend((payload.len() as u32).to_le_bytes());
        bytes.extend(payload.as_bytes());
        bytes
    }

    fn both(first: &str, second: &str) -> Vec<u8> {
        let mut section = bytes(first);
        section.resize(section.len().next_multiple_of(16) + 16, 0);
        section.extend(bytes(second));
        section
    }

    /// Two libraries.
    fn twice() -> Vec<u8> {
        both(
            PAYLOAD,
            &PAYLOAD.replacen(r#""library": "l""#, r#""library": "m""#, 1),
        )
    }

    #[test]
    fn records_of_one_library_are_joined() {
        let part = |library: &str, handler: &str| {
            format!(
                r#"{{"library": {library}, "handlers": [{{"name": "{handler}", "platforms": ["cpu"],
                "stages": {{"execute": "{handler}"}}, "described": false, "floor": "r0"}}]}}"#
            )
        };
        for library in [r#""l""#, "null"] {
            let joined = read_section(&both(&part(library, "g"), PAYLOAD), 0).unwrap();
            let names: Vec<_> = joined[0]
                .handlers
                .iter()
                .map(|handler| &*handler.name)
                .collect();
            assert_eq!((joined.len(), names), (1, vec!["g", "h"]));
            assert_eq!(joined[0].register.as_deref(), Some("l__xla_ffi_register"));
            assert!(!joined[0].handlers[0].described);
        }
        let error = |section: &[u8]| read_section(section, 0).unwrap_err().to_string();
        assert!(error(&both(PAYLOAD, PAYLOAD)).contains("listed twice"));
        assert!(error(&bytes(&part("null", "g"))).contains("names no library"));
        let mut three = twice();
        three.resize(three.len().next_multiple_of(16), 0);
        three.extend(bytes(&part("null", "g")));
        assert!(error(&three).contains("name 2"));
        let mut old = bytes(&part("null", "g"));
        old[8] = 1;
        assert!(error(&old).contains("version 1"));
        let bare = PAYLOAD.replacen(r#""attrs""#, r#""atrs""#, 1);
        assert!(error(&bytes(&bare)).contains("no \"attrs\""));
    }

    #[test]
    fn transformations_are_read_and_judged() {
        let with = |key: &str, value: &str| {
            let text = format!(r#""{key}": {value}, "async": true"#);
            parse(PAYLOAD.replacen(r#""async": true"#, &text, 1).as_bytes())
        };
        let said = with("gradient", r#"{"vjp": "b", "residuals": ["x"]}"#).unwrap();
        assert_eq!(
            said.handlers[0].gradient.as_ref().unwrap().vjp.as_deref(),
            Some("b")
        );
        for batch in [r#""none""#, r#"["leading"]"#, r#"{"handler": "b"}"#] {
            assert!(with("batch", batch).unwrap().handlers[0].batch.is_some());
        }
        for (key, value, told) in [
            ("gradient", r#"{"vjp": "b", "jvp": "c"}"#, "one of"),
            ("gradient", "{}", "one of"),
            ("gradient", r#"{"vjp": "b", "transpose": "c"}"#, "transpose"),
            ("gradient", r#"{"linear": true, "forward": "c"}"#, "forward"),
            ("batch", r#""sometimes""#, "sometimes"),
            ("batch", r#"["leading", "shared"]"#, "each argument"),
        ] {
            let error = with(key, value).unwrap_err().to_string();
            assert!(error.contains(told), "{error}");
        }
        for layout in [r#""diagonal""#, "[0, 0]", "[0]"] {
            let text = format!(r#""rank": 2, "layout": {layout}, "inout": true"#);
            let payload = PAYLOAD.replacen(r#""rank": 2, "inout": true"#, &text, 1);
            let error = parse(payload.as_bytes()).unwrap_err().to_string();
            assert!(error.contains("layout"), "{error}");
        }
    }

    #[test]
    fn a_section_may_hold_several() {
        let manifests = read_section(&twice(), 0x1000).unwrap();
        assert_eq!(manifests.len(), 2);
        let handler = &manifests[1].handlers[0];
        assert!(handler.is_async && handler.rets[0].inout);
        assert_eq!(handler.floor_revision(), Some(Revision::R1));
        assert_eq!(
            handler.stages.iter().collect::<Vec<_>>(),
            [("execute", "l__h")]
        );
    }

    #[test]
    fn the_stages_are_those_of_the_abi() {
        let known = XLA_FFI_ExecutionStage::ENUM.values.iter();
        let known = known.filter_map(|stage| XLA_FFI_ExecutionStage(stage.value).lower_name());
        let named: serde_json::Map<String, serde_json::Value> =
            known.map(|name| (name.to_owned(), name.into())).collect();
        let stages: Stages = serde_json::from_value(named.clone().into()).unwrap();
        assert!(stages.iter().all(|(name, symbol)| name == symbol));
        assert_eq!(stages.iter().count(), named.len());
    }

    #[test]
    fn what_lies_between_is_zero() {
        let mut section = twice();
        let hole = bytes(PAYLOAD).len();
        section[hole] = 7;
        assert!(matches!(
            read_section(&section, 0),
            Err(Error::Magic { at, .. }) if at == hole
        ));
        // The same bytes at an odd address: the second one does not start on a multiple of 16.
        assert!(matches!(
            read_section(&twice(), 8),
            Err(Error::Magic { at: 0, .. })
        ));
    }

    #[test]
    fn lies_are_told() {
        let mut long = bytes(PAYLOAD);
        long[12..16].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(matches!(read_section(&long, 0), Err(Error::Length { .. })));
        let mut newer = bytes(PAYLOAD);
        newer[8] = 3;
        assert!(matches!(
            read_section(&newer, 0),
            Err(Error::Version { found: 3 })
        ));
        assert!(matches!(read_section(&[0; 32], 0), Err(Error::Empty)));
        assert!(matches!(
            read_section(&bytes(PAYLOAD)[..10], 0),
            Err(Error::Magic { .. })
        ));
        for (from, to, told) in [
            (r#""execute": "l__h""#, r#""prepare": "p""#, "execute"),
            (r#""l__h""#, r#""l\u0000h""#, "names no symbol"),
            (r#""r1""#, r#""new""#, "floor"),
            (r#""type": "f32""#, r#""type": "[[f32]]""#, "[[f32]]"),
            (r#""kind": "buffer""#, r#""kind": "array""#, "array"),
            (
                r#""rets": [{"name": "x""#,
                r#""rets": [{"name": "y""#,
                "inout",
            ),
        ] {
            let payload = PAYLOAD.replacen(from, to, 1);
            assert_ne!(payload, PAYLOAD);
            let error = parse(payload.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(told), "{error}");
        }
    }

    #[test]
    fn deep_nesting_is_an_error() {
        let deep = "[".repeat(100_000);
        assert!(matches!(parse(deep.as_bytes()), Err(Error::Json(_))));
    }
}
