//! The manifest: what a library made with `library!` says about itself, read from the file
//! without running any of it. `docs/manifest.md` is the format's definition.

use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol};
use serde::Deserialize;
use std::collections::BTreeSet;
use xla_ffi_sys::{Revision, XLA_FFI_ExecutionStage};

/// What every manifest starts with.
pub const MAGIC: &[u8; 8] = b"XLAFFIMF";
/// The only format version so far.
pub const VERSION: u32 = 1;
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
    #[error("manifest format {found} is not known; this tool reads format {VERSION}, so update it")]
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

/// One library's description of itself.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct Manifest {
    /// Name of the library.
    pub library: String,
    /// Version of the SDK that made it.
    pub sdk: String,
    /// Symbol of the registration entry point; libraries in plain C may have none.
    #[serde(default)]
    pub register: Option<String>,
    /// Its handlers.
    pub handlers: Vec<Handler>,
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
    /// Operands.
    pub args: Vec<Operand>,
    /// Results.
    pub rets: Vec<Operand>,
    /// Attributes.
    pub attrs: Vec<Attribute>,
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
    let mut manifests = Vec::new();
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
            manifests.push(read_one(bytes, 0, name)?.0);
        }
    }
    Ok(manifests)
}

/// Reads the manifests of a section that lies at `address`.
///
/// # Errors
/// [`Error`] when the section holds something else.
pub fn read_section(bytes: &[u8], address: u64) -> Result<Vec<Manifest>, Error> {
    let mut manifests = Vec::new();
    let mut at = 0;
    // Every manifest starts at a multiple of 16; what lies between is zero.
    let skew = (address % 16) as usize;
    while at < bytes.len() {
        if bytes[at] == 0 {
            at += 1;
        } else if (at + skew).is_multiple_of(16) {
            let (manifest, end) = read_one(bytes, at, &format!("section {SECTION}"))?;
            manifests.push(manifest);
            at = end;
        } else {
            return Err(magic_error(bytes, at, &format!("section {SECTION}")));
        }
    }
    if manifests.is_empty() {
        return Err(Error::Empty);
    }
    Ok(manifests)
}

fn magic_error(bytes: &[u8], at: usize, place: &str) -> Error {
    let end = bytes.len().min(at + MAGIC.len());
    Error::Magic {
        at,
        place: place.to_owned(),
        found: String::from_utf8_lossy(&bytes[at.min(end)..end]).into_owned(),
    }
}

/// Reads the manifest at byte `at`; also gives the byte behind it.
fn read_one(bytes: &[u8], at: usize, place: &str) -> Result<(Manifest, usize), Error> {
    let rest = &bytes[at..];
    let head = rest
        .first_chunk::<HEAD>()
        .filter(|head| head.starts_with(MAGIC))
        .ok_or_else(|| magic_error(bytes, at, place))?;
    let word = |from: usize| {
        u32::from_le_bytes([head[from], head[from + 1], head[from + 2], head[from + 3]])
    };
    let version = word(8);
    if version != VERSION {
        return Err(Error::Version { found: version });
    }
    let stated = word(12) as usize;
    let payload = rest[HEAD..].get(..stated).ok_or(Error::Length {
        at,
        stated,
        there: rest.len() - HEAD,
    })?;
    Ok((parse(payload)?, at + HEAD + stated))
}

/// Reads a payload.
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
    let manifest: Manifest = serde_json::from_slice(payload)?;
    let fail = |what: String| Error::Content {
        library: manifest.library.clone(),
        what,
    };
    if let Some(register) = &manifest.register {
        check_symbol(register).map_err(|what| fail(format!("\"register\" {what}")))?;
    }
    let mut names = BTreeSet::new();
    for handler in &manifest.handlers {
        if !names.insert(handler.name.as_str()) {
            return Err(fail(format!("handler {:?} is listed twice", handler.name)));
        }
        check_handler(handler)
            .map_err(|what| fail(format!("handler {:?}: {what}", handler.name)))?;
    }
    Ok(manifest)
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

    fn twice() -> Vec<u8> {
        let mut section = bytes(PAYLOAD);
        section.resize(section.len().next_multiple_of(16) + 16, 0);
        section.extend(bytes(PAYLOAD));
        section
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
        newer[8] = 2;
        assert!(matches!(
            read_section(&newer, 0),
            Err(Error::Version { found: 2 })
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
