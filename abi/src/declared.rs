//! The layouts of every ABI header that a jaxlib shipped, according to the Rust definitions of this project.

use crate::model::{Abi, Enum, Field, Header, Struct, function, integer, pointer_to};
use std::collections::BTreeMap;
use xla_ffi_sys as sys;
use xla_ffi_sys::{EnumLayout, Revision, Slot, StructLayout};

/// An edition: one distinct header that jaxlibs shipped. A revision whose header changed slightly has two editions.
/// Each version of an extension's header is an edition.
///
/// ```
/// use xla_ffi_abi::declared::Edition;
///
/// let edition = Edition::find("0.4.31").unwrap();
/// assert_eq!(edition.name(), "r0");
/// assert!(edition.declared().structs.contains_key("XLA_FFI_CallFrame"));
/// assert_eq!(Edition::find("r99"), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edition {
    /// The header file that the edition is a version of.
    pub header: Header,
    /// The first revision with this header.
    pub revision: Revision,
    /// The first jaxlib that shipped the header, or [`UNRELEASED`].
    pub first_jaxlib: &'static str,
    /// The last jaxlib that shipped the header; `None` if the newest jaxlib ships it.
    pub last_jaxlib: Option<&'static str>,
}

/// Returns the edition for a revision with only one header.
const fn only_edition(revision: Revision) -> Edition {
    Edition {
        header: Header::Main,
        revision,
        first_jaxlib: revision.first_jaxlib(),
        last_jaxlib: revision.last_jaxlib(),
    }
}

/// Returns the older of the two editions of a revision, which jaxlibs up to the version `last` shipped.
const fn earlier(revision: Revision, last: &'static str) -> Edition {
    Edition {
        last_jaxlib: Some(last),
        ..only_edition(revision)
    }
}

/// Returns the newer of the two editions of a revision, which jaxlibs from the version `first` on ship.
const fn later(revision: Revision, first: &'static str) -> Edition {
    Edition {
        first_jaxlib: first,
        ..only_edition(revision)
    }
}

/// Returns the edition of an extension's header in a revision.
const fn extension(header: Header, revision: Revision) -> Edition {
    Edition {
        header,
        first_jaxlib: match revision {
            // The first wheel of revision r9 did not contain the headers of extensions.
            Revision::R9 => "0.11.2",
            _ => revision.first_jaxlib(),
        },
        ..only_edition(revision)
    }
}

/// The value of [`Edition::first_jaxlib`] if XLA has the header but no released jaxlib does.
pub const UNRELEASED: &str = "unreleased";

/// All editions of the main header, oldest first, followed by the editions of the extensions' headers.
pub const EDITIONS: [Edition; 19] = [
    only_edition(Revision::R0),
    only_edition(Revision::R1),
    earlier(Revision::R2, "0.4.34"),
    later(Revision::R2, "0.4.35"),
    earlier(Revision::R3, "0.4.38"),
    later(Revision::R3, "0.5.0"),
    only_edition(Revision::R4),
    only_edition(Revision::R5),
    only_edition(Revision::R6),
    earlier(Revision::R7, "0.8.1"),
    later(Revision::R7, "0.8.2"),
    only_edition(Revision::R8),
    only_edition(Revision::R9),
    only_edition(Revision::R10),
    extension(Header::Record, Revision::R9),
    extension(Header::Record, Revision::R10),
    extension(Header::Collectives, Revision::R9),
    Edition {
        last_jaxlib: Some("0.12.0"),
        ..extension(Header::Collectives, Revision::R10)
    },
    Edition {
        first_jaxlib: UNRELEASED,
        ..extension(Header::Collectives, Revision::R10)
    },
];

impl Edition {
    /// The header before revision r0, which jaxlib 0.4.29, jaxlib 0.4.30 and TensorFlow 2.17 have.
    ///
    /// This project does not support that header. The edition is not in [`EDITIONS`], and only its snapshot has its
    /// layouts, because `ffi-sys` does not declare them. The edition's `revision` is r0, the first revision after the
    /// header.
    pub const BEFORE_R0: Self = Self {
        header: Header::Main,
        revision: Revision::R0,
        first_jaxlib: "0.4.29",
        last_jaxlib: Some("0.4.30"),
    };

    /// Returns the revision's name; `None` for [`Self::BEFORE_R0`].
    #[must_use]
    pub fn revision_name(&self) -> Option<&'static str> {
        (*self != Self::BEFORE_R0).then(|| self.revision.name())
    }

    /// Returns the edition's short name, which is also the name of its snapshot file, such as `r2-0.4.35` or
    /// `record-0.1`.
    #[must_use]
    pub fn name(&self) -> String {
        let minor = self.extension_minor();
        match self.header {
            Header::Main if *self == Self::BEFORE_R0 => "before-r0".to_owned(),
            Header::Main if self.is_only_one() => self.revision.name().to_owned(),
            Header::Main => format!("{}-{}", self.revision, self.first_jaxlib),
            Header::Record => format!("record-0.{minor}"),
            Header::Collectives => format!("collectives-0.{minor}"),
            Header::Other => "another extension".to_owned(),
        }
    }

    /// Returns the minor version of an extension's header. Each edition of the header increases the version by one.
    fn extension_minor(&self) -> usize {
        let of_header = EDITIONS.iter().filter(|it| it.header == self.header);
        of_header.take_while(|it| *it != self).count() + 1
    }

    fn is_only_one(&self) -> bool {
        EDITIONS
            .iter()
            .filter(|other| other.header == self.header && other.revision == self.revision)
            .count()
            == 1
    }

    /// Returns the newest edition of the main header in `revision`.
    #[must_use]
    pub fn of_revision(revision: Revision) -> Self {
        let mut found = EDITIONS[0];
        for edition in EDITIONS {
            if edition.header == Header::Main && edition.revision == revision {
                found = edition;
            }
        }
        found
    }

    /// Returns the edition with this name.
    ///
    /// `name` is a revision (`r2`, its newest header), an edition (`r2-0.4.34`, `record-0.1`, `before-r0`) or a
    /// jaxlib version (`0.4.34`, its main header). The result is `None` for other names and for versions that are
    /// [not known yet](is_not_known_yet).
    #[must_use]
    pub fn find(name: &str) -> Option<Self> {
        EDITIONS
            .into_iter()
            .chain([Self::BEFORE_R0])
            .find(|edition| edition.name() == name)
            .or_else(|| Revision::from_name(name).map(Self::of_revision))
            .or_else(|| Self::of_jaxlib(Header::Main, name).filter(|_| !is_not_known_yet(name)))
    }

    /// Returns the range of jaxlibs that shipped the edition as text, such as `jaxlib 0.4.35 to 0.4.36`.
    #[must_use]
    pub fn jaxlibs(&self) -> String {
        match self.last_jaxlib {
            _ if self.first_jaxlib == UNRELEASED => "in no released jaxlib".to_owned(),
            Some(last) if last == self.first_jaxlib => format!("jaxlib {last}"),
            Some(last) => format!("jaxlib {} to {last}", self.first_jaxlib),
            None => format!("jaxlib {} and later", self.first_jaxlib),
        }
    }

    /// Returns the edition of `header` that jaxlib `version` shipped; `None` if the jaxlib did not ship this header.
    /// For versions newer than this table, the result is the newest edition.
    #[must_use]
    pub fn of_jaxlib(header: Header, version: &str) -> Option<Self> {
        // Withdrawn releases of jaxlib are in a separate table, because no revision's range of releases includes them.
        let mut yanked = sys::YANKED_JAXLIBS.into_iter();
        let yanked = yanked.find(|(known, _)| header == Header::Main && *known == version);
        if let Some((_, revision)) = yanked {
            return Some(Self::of_revision(revision));
        }
        let wanted = parse_version(version)?;
        let mut all = EDITIONS.into_iter().rev().chain([Self::BEFORE_R0]);
        all.find(|edition| {
            edition.header == header
                && parse_version(edition.first_jaxlib).is_some_and(|first| first <= wanted)
                && edition
                    .last_jaxlib
                    .is_none_or(|last| parse_version(last).is_some_and(|last| wanted <= last))
        })
    }

    /// Returns the layouts of this edition according to `ffi-sys`, for an edition in [`EDITIONS`].
    #[must_use]
    pub fn declared(&self) -> Abi {
        let (layouts, enums) = match self.header {
            Header::Main => (sys::LAYOUTS, sys::ENUMS),
            Header::Record => (sys::RECORD_LAYOUTS, sys::RECORD_ENUMS),
            Header::Collectives => (
                sys::COLLECTIVES_LAYOUTS[self.extension_minor() - 1],
                sys::COLLECTIVES_ENUMS,
            ),
            Header::Other => return Abi::default(),
        };
        let mut abi = Abi::default();
        let renames = Renames::in_revision(self.revision);
        for layout in layouts {
            let covers = layout.since <= self.revision && self.revision <= layout.until;
            if covers && layout.name != "XLA_FFI_Api" {
                let name = renames.apply(layout.name);
                abi.structs.insert(name, self.layout(layout, &renames));
            }
        }
        for layout in enums {
            if let Some(values) = self.enumeration(layout) {
                abi.enums.insert(renames.apply(layout.name), values);
            }
        }
        match self.header {
            Header::Main => self.main_parts(&mut abi, &renames),
            Header::Record => {
                abi.opaque = ["XLA_FFI_RecordContext", "XLA_FFI_Command"]
                    .map(str::to_owned)
                    .into();
                extension_constants(
                    &mut abi,
                    "XLA_FFI_Extension_Record",
                    sys::XLA_FFI_Extension_Record,
                    sys::XLA_FFI_Extension_Record_MajorVersion,
                    self.extension_minor(),
                );
            }
            Header::Collectives => self.collectives_parts(&mut abi),
            Header::Other => {}
        }
        abi.settle();
        abi
    }

    fn main_parts(&self, abi: &mut Abi, renames: &Renames) {
        let revision = self.revision;
        abi.structs
            .insert("XLA_FFI_Api".to_owned(), self.table(renames));
        for name in [
            "XLA_FFI_InternalApi",
            "XLA_FFI_InvokeContext",
            "XLA_FFI_Error",
        ] {
            abi.opaque.insert(renames.apply(name));
        }
        if revision >= Revision::R2 {
            abi.opaque.insert("XLA_FFI_Future".to_owned());
        }
        for slot in Slot::ALL {
            if slot.index(revision).is_some() {
                let name = slot.name(revision);
                abi.functions
                    .insert(name.to_owned(), slot_type(slot, revision, renames));
            }
        }
        let mut add = |name: &str, ty: &str| abi.functions.insert(name.to_owned(), ty.to_owned());
        add(
            "XLA_FFI_Handler",
            "fn(*mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error",
        );
        if revision >= Revision::R1 {
            add("XLA_FFI_Task", "fn(*mut void)");
        }
        let get_api = ("XLA_FFI_GetApi", "fn() -> *const XLA_FFI_Api");
        let traits = ("XLA_FFI_Handler_Traits", "u32");
        let context = ("XLA_FFI_ExecutionContext", "XLA_FFI_InvokeContext");
        let owned = |(name, ty): (&str, &str)| (name.to_owned(), ty.to_owned());
        abi.prototypes.extend([owned(get_api)]);
        abi.aliases.extend([owned(traits)]);
        abi.aliases
            .extend((revision >= Revision::R9).then(|| owned(context)));
        let version = [
            ("XLA_FFI_API_MAJOR", sys::XLA_FFI_API_MAJOR),
            ("XLA_FFI_API_MINOR", revision.minor_version()),
        ];
        let version = version.map(|(name, number)| (name.to_owned(), i64::from(number)));
        abi.constants.extend(version);
    }

    fn collectives_parts(&self, abi: &mut Abi) {
        let opaque = [
            "XLA_FFI_CollectivesState",
            "XLA_FFI_Communicator",
            "XLA_FFI_Window",
            "XLA_FFI_DeviceCommunicator",
        ];
        let minor = self.extension_minor();
        abi.opaque = opaque[..=minor].iter().map(|&name| name.into()).collect();
        // Each version of the extension's header added an opaque object, and two functions that request and return this
        // object.
        let objects = &opaque[1..=minor];
        let functions = objects
            .iter()
            .flat_map(|object| ["Request", "Get"].map(|verb| format!("{object}_{verb}")));
        for name in functions {
            let parameters = [
                "*const XLA_FFI_Collectives_Extension".to_owned(),
                format!("*mut {name}_Args"),
            ];
            abi.functions
                .insert(name, function(&parameters, "*mut XLA_FFI_Error"));
        }
        extension_constants(
            abi,
            "XLA_FFI_Extension_Collectives",
            sys::XLA_FFI_Extension_Collectives,
            sys::XLA_FFI_Extension_Collectives_MajorVersion,
            self.extension_minor(),
        );
    }

    fn layout(&self, layout: &StructLayout, renames: &Renames) -> Struct {
        Struct {
            size: layout.size as u64,
            align: layout.align as u64,
            struct_size: layout.struct_size.map(|(_, size)| size as u64),
            is_union: false,
            bases: Vec::new(),
            fields: layout
                .fields
                .iter()
                .map(|field| self.field(field, renames))
                .collect(),
        }
    }

    fn field(&self, field: &sys::FieldLayout, renames: &Renames) -> Field {
        let name = field.name.trim_start_matches("r#");
        let (mut name, mut ty) = (name.to_owned(), model_type(field.ty, renames));
        if self.revision == Revision::R0 && name == "extension_start" {
            (name, ty) = ("priv".to_owned(), "*mut void".to_owned());
        }
        // In jaxlib 0.8.2, the target of the pointer `internal_api` became `const`.
        if name == "internal_api" && parse_version(self.first_jaxlib) < parse_version("0.8.2") {
            ty = ty.replace("*const", "*mut");
        }
        Field {
            name,
            ty,
            offset: field.offset as u64,
            size: field.size as u64,
        }
    }

    /// Returns the layout of the function table: the fields before the functions, then the slots of this revision.
    fn table(&self, renames: &Renames) -> Struct {
        let newest = <sys::XLA_FFI_Api as sys::Layout>::LAYOUT;
        let mut fields: Vec<Field> = newest
            .fields
            .iter()
            .filter(|field| field.offset < 48)
            .map(|field| self.field(field, renames))
            .collect();
        for slot in Slot::ALL {
            if let Some(index) = slot.index(self.revision) {
                fields.push(Field {
                    name: slot.name(self.revision).to_owned(),
                    ty: slot_type(slot, self.revision, renames),
                    offset: 48 + 8 * index as u64,
                    size: 8,
                });
            }
        }
        Struct {
            size: self.revision.api_size() as u64,
            align: newest.align as u64,
            struct_size: Some(self.revision.api_struct_size() as u64),
            is_union: false,
            bases: Vec::new(),
            fields,
        }
    }

    fn enumeration(&self, layout: &EnumLayout) -> Option<Enum> {
        // An unreleased header has all enumerators, including those that released headers lack.
        let shipped = parse_version(self.first_jaxlib);
        let values: BTreeMap<String, i64> = layout
            .values
            .iter()
            .filter(|value| shipped.is_none() || parse_version(value.since) <= shipped)
            .map(|value| (value.name.to_owned(), i64::from(value.value)))
            .collect();
        (!values.is_empty()).then_some(Enum {
            size: 4,
            signed: None,
            values,
        })
    }
}

fn extension_constants(abi: &mut Abi, name: &str, id: i64, major: i32, minor: usize) {
    abi.constants.insert(name.to_owned(), id);
    abi.constants
        .insert(format!("{name}_MajorVersion"), i64::from(major));
    abi.constants
        .insert(format!("{name}_MinorVersion"), minor as i64);
}

/// Returns the function type of a slot, which is that of the newest revision with the names of `revision`.
fn slot_type(slot: Slot, revision: Revision, renames: &Renames) -> String {
    let newest = slot.name(Revision::NEWEST);
    let fields = <sys::XLA_FFI_Api as sys::Layout>::LAYOUT.fields;
    let field = fields.iter().find(|field| field.name == newest);
    let ty = field.map_or("", |field| field.ty);
    model_type(&ty.replace(newest, slot.name(revision)), renames)
}

/// A map from the names of types in the newest revision to their names in a different revision.
struct Renames(BTreeMap<String, String>);

impl Renames {
    fn in_revision(revision: Revision) -> Self {
        Self(
            sys::RENAMES
                .iter()
                .filter(|rename| revision <= rename.until)
                .map(|rename| (rename.new.to_owned(), rename.old.to_owned()))
                .collect(),
        )
    }

    fn apply(&self, name: &str) -> String {
        self.0.get(name).map_or(name, String::as_str).to_owned()
    }
}

/// Converts a Rust type in a `layout!` line of `ffi-sys` to the model's notation. Text that does not parse is returned
/// unchanged, so that the comparison fails.
fn model_type(rust: &str, renames: &Renames) -> String {
    // `stringify!` may put line breaks into long types.
    let rust = rust.split_whitespace().collect::<Vec<_>>().join(" ");
    let rust = rust.as_str();
    if let Some(rest) = rust.strip_prefix("*mut ") {
        return pointer_to(&model_type(rest, renames));
    }
    if let Some(rest) = rust.strip_prefix("*const ") {
        return pointer_to(&format!("const {}", model_type(rest, renames)));
    }
    if let Some(inner) = rust
        .strip_prefix("Option<")
        .and_then(|rest| rest.strip_suffix('>'))
    {
        if let Some((_, signature)) = inner.split_once("fn(") {
            let (parameters, result) = signature.split_once(')').unwrap_or((signature, ""));
            let parameters: Vec<String> = parameters
                .split(',')
                .filter(|parameter| !parameter.trim().is_empty())
                .map(|parameter| model_type(parameter, renames))
                .collect();
            let result = result
                .trim()
                .strip_prefix("->")
                .map_or_else(|| "void".to_owned(), |result| model_type(result, renames));
            return function(&parameters, &result);
        }
    }
    match rust.rsplit("::").next().unwrap_or(rust) {
        "c_void" => "void".to_owned(),
        "c_char" => "char".to_owned(),
        "usize" => integer(8, false),
        "XLA_FFI_Handler_Traits" => "u32".to_owned(),
        name => {
            // The names of Rust structs for older revisions end with the revision, such as `_R3`.
            let plain = name
                .rsplit_once("_R")
                .filter(|(_, digits)| digits.bytes().all(|b| b.is_ascii_digit()))
                .map_or(name, |(plain, _)| plain);
            renames.apply(plain)
        }
    }
}

/// Returns a short summary of the changes that `revision` introduced.
#[must_use]
pub const fn summary(revision: Revision) -> &'static str {
    match revision {
        Revision::R0 => "first release; no metadata call, no extension chain",
        Revision::R1 => "extension chain, metadata, ThreadPool_Schedule",
        Revision::R2 => "futures; CallFrame.future",
        Revision::R3 => "ThreadPool_NumThreads inserted before the future slots",
        Revision::R4 => "RunId_Get",
        Revision::R5 => "DeviceOrdinal_Get; the table's struct_size becomes its true size",
        Revision::R6 => "TypeInfo; Metadata.state_type_id",
        Revision::R7 => "Type_Register takes a type_info; State_Set loses its deleter",
        Revision::R8 => "stage inserted into the state arguments",
        Revision::R9 => "Error_GetDetails, extensions, the record stage",
        Revision::R10 => "CustomOptions_Get",
    }
}

/// Parses a version such as `0.4.31` into numbers; `None` if the text is not a version.
#[must_use]
pub fn parse_version(version: &str) -> Option<Vec<u32>> {
    let parts: Option<Vec<u32>> = version.split('.').map(|part| part.parse().ok()).collect();
    parts.filter(|parts| parts.len() >= 2)
}

/// Returns true if a jaxlib is newer than the newest known release, so that its headers are unknown. A fourth number in
/// a version does not count, because such releases do not change headers.
#[must_use]
pub fn is_not_known_yet(version: &str) -> bool {
    let release = |version: &str| {
        let mut numbers = parse_version(version)?;
        numbers.resize(3, 0);
        Some(numbers)
    };
    let newest = sys::JAXLIBS.iter().filter_map(|known| release(known)).max();
    release(version).is_some_and(|wanted| newest.is_some_and(|newest| wanted > newest))
}

/// Returns jaxlib releases that together shipped every edition. These are the releases in `listed`, and the first
/// release of each edition that `listed` does not cover.
#[must_use]
pub fn witnesses(listed: &[&'static str]) -> Vec<&'static str> {
    let mut versions = listed.to_vec();
    for edition in EDITIONS {
        let covered = versions
            .iter()
            .any(|version| Edition::of_jaxlib(edition.header, version) == Some(edition));
        if !covered && edition.first_jaxlib != UNRELEASED {
            versions.push(edition.first_jaxlib);
        }
    }
    versions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct_and_told_by_jaxlib() {
        let names: std::collections::BTreeSet<String> =
            EDITIONS.iter().map(Edition::name).collect();
        assert_eq!(names.len(), EDITIONS.len());
        let of = |version| Edition::of_jaxlib(Header::Main, version).map(|e| e.name());
        assert_eq!(of("0.4.36").as_deref(), Some("r2-0.4.35"));
        assert_eq!(of("0.9.0.1").as_deref(), Some("r7-0.8.2"));
        assert_eq!(of("99.1").as_deref(), Some(Revision::NEWEST.name()));
        assert_eq!(of("0.4.30").as_deref(), Some("before-r0"));
        assert_eq!(of("0.4.28"), None);
        assert_eq!(Edition::of_jaxlib(Header::Record, "0.11.1"), None);
    }

    #[test]
    fn releases_that_nobody_has_seen_are_no_editions() {
        for version in ["99.1.2", "99.0"] {
            assert!(is_not_known_yet(version), "{version}");
            assert_eq!(Edition::find(version), None, "{version}");
        }
        for version in ["0.12.0", "0.12.0.1", "0.9.2"] {
            assert!(!is_not_known_yet(version), "{version}");
            assert!(Edition::find(version).is_some(), "{version}");
        }
    }

    #[test]
    fn editions_agree_with_revisions() {
        for revision in Revision::ALL {
            let mut editions = EDITIONS
                .iter()
                .filter(|e| e.header == Header::Main && e.revision == revision);
            let first = editions.next().unwrap();
            let last = editions.next_back().unwrap_or(first);
            assert_eq!(first.first_jaxlib, revision.first_jaxlib());
            assert_eq!(last.last_jaxlib, revision.last_jaxlib());
        }
    }

    #[test]
    fn types_are_spelled_in_one_notation() {
        let renames = Renames::in_revision(Revision::R0);
        assert_eq!(
            model_type(
                "Option<unsafe extern \"C\" fn(*mut XLA_FFI_InvokeContext, *const *const X) -> \
                 *mut c_void>",
                &renames
            ),
            "fn(*mut XLA_FFI_ExecutionContext, *const *const X) -> *mut void"
        );
        assert_eq!(
            model_type("XLA_FFI_Handler_Bundle_R0", &renames),
            "XLA_FFI_Handler_Bundle"
        );
    }
}
