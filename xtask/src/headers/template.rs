//! The parts of the headers that cbindgen does not write: guards, macros, typedefs, function
//! types and the STRUCT_SIZE enumerators, all from the reflection data of ffi-sys.

use super::source::Source;
use std::collections::BTreeMap;
use std::fmt::{Display, Write};
use xla_ffi_abi::declared::Edition;
use xla_ffi_abi::spelling::function_type;
use xla_ffi_sys::{EnumLayout, Revision, Slot, StructLayout};

/// The three headers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Header {
    Main,
    Record,
    Collectives,
}

impl Header {
    pub(super) const ALL: [Self; 3] = [Self::Main, Self::Record, Self::Collectives];

    pub(super) fn file(self) -> &'static str {
        match self {
            Self::Main => "c_api.h",
            Self::Record => "record_c_api.h",
            Self::Collectives => "collectives_c_api.h",
        }
    }

    /// The header that declares what stands in the ffi-sys module `module`.
    pub(super) fn of_module(module: &str) -> Self {
        match module {
            "record" => Self::Record,
            "collectives" => Self::Collectives,
            _ => Self::Main,
        }
    }

    pub(super) fn layouts(self) -> &'static [StructLayout] {
        match self {
            Self::Main => xla_ffi_sys::LAYOUTS,
            Self::Record => xla_ffi_sys::RECORD_LAYOUTS,
            Self::Collectives => xla_ffi_sys::COLLECTIVES_LAYOUTS,
        }
    }

    pub(super) fn enums(self) -> &'static [EnumLayout] {
        match self {
            Self::Main => xla_ffi_sys::ENUMS,
            Self::Record => xla_ffi_sys::RECORD_ENUMS,
            Self::Collectives => xla_ffi_sys::COLLECTIVES_ENUMS,
        }
    }

    fn guard(self) -> &'static str {
        match self {
            Self::Main => "XLA_FFI_API_C_API_H_",
            Self::Record => "XLA_FFI_API_RECORD_C_API_H_",
            Self::Collectives => "XLA_FFI_API_COLLECTIVES_C_API_H_",
        }
    }

    /// A struct whose size changes when it is packed.
    fn padded(self) -> &'static StructLayout {
        let name = match self {
            Self::Main => "XLA_FFI_Buffer",
            Self::Record => "XLA_FFI_KernelArg",
            Self::Collectives => "XLA_FFI_Communicator_Request_Args",
        };
        let mut layouts = self.layouts().iter();
        let found = layouts.find(|is| is.name == name && is.until == Revision::NEWEST);
        found.expect("ffi-sys lists the struct")
    }

    fn about(self) -> &'static str {
        match self {
            Self::Main => {
                "// The C API between an XLA runtime and a custom call, revision r10 (version 0.5)."
            }
            Self::Record => {
                "// The record extension (number 128), version 0.2: recording into a command buffer."
            }
            Self::Collectives => {
                "// The collectives extension (number 129), version 0.2: communicators and windows."
            }
        }
    }
}

/// What cbindgen wrote, sorted.
#[derive(Default)]
pub(super) struct Body {
    /// Docstring and name.
    pub(super) opaque: Vec<(String, String)>,
    pub(super) structs: Vec<String>,
    pub(super) enum_text: String,
    pub(super) struct_text: String,
}

const REVISIONS: &str = "\
// Layouts of older revisions differ: `xla-ffi abi diff r0 r10` shows how. The rules, in short:
// * struct_size is the first field of nearly every struct. Whoever makes the struct fills it with
//   NAME_STRUCT_SIZE; whoever reads it reads a field only if struct_size covers it.
// * A function of the table may be missing on older runtimes: see \"From rN\" at each.
// * Errors: null means success. An error belongs to whoever received it last.
";

/// The whole text of `header`.
pub(super) fn render(header: Header, body: &Body, docs: &BTreeMap<String, Vec<String>>) -> String {
    let (guard, file, about) = (header.guard(), header.file(), header.about());
    let ours = guard.replace("XLA_FFI_API_", "XLA_FFI_SDK_");
    let revisions = match header {
        Header::Main => format!("//\n{REVISIONS}"),
        _ => String::new(),
    };
    // Ours after upstream's: two definitions of everything, so stop with a reason. Upstream's after ours: its guard is
    // taken, it adds nothing, and every name it declares is here.
    let mut out = format!(
        "{about}
// Generated from ffi-sys by `cargo xtask headers`; do not edit.
{revisions}
#if defined({guard}) && !defined({ours})
#error \"XLA's own {file} came before this SDK's {file}: keep one of the two include directories\"
#endif

#ifndef {guard}
#define {guard}
#define {ours}

#include <stddef.h>
#include <stdint.h>

"
    );
    let text = &mut out;
    match header {
        Header::Main => {
            text.push_str(SUPPORTED);
            for (name, value) in [
                ("XLA_FFI_API_MAJOR", xla_ffi_sys::XLA_FFI_API_MAJOR),
                ("XLA_FFI_API_MINOR", xla_ffi_sys::XLA_FFI_API_MINOR),
            ] {
                let _ = writeln!(text, "#define {name} {value}");
            }
            text.push_str(MACROS);
        }
        Header::Record => extension_macros(
            text,
            "XLA_FFI_Extension_Record",
            xla_ffi_sys::XLA_FFI_Extension_Record,
            xla_ffi_sys::XLA_FFI_Extension_Record_MajorVersion,
            xla_ffi_sys::XLA_FFI_Extension_Record_MinorVersion,
        ),
        Header::Collectives => extension_macros(
            text,
            "XLA_FFI_Extension_Collectives",
            xla_ffi_sys::XLA_FFI_Extension_Collectives,
            xla_ffi_sys::XLA_FFI_Extension_Collectives_MajorVersion,
            xla_ffi_sys::XLA_FFI_Extension_Collectives_MinorVersion,
        ),
    }
    text.push_str("#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n");
    for (docs, name) in &body.opaque {
        let _ = writeln!(text, "{docs}typedef struct {name} {name};");
    }
    text.push('\n');
    for name in &body.structs {
        let _ = writeln!(text, "typedef struct {name} {name};");
    }
    let _ = writeln!(text, "\n{}\n", body.enum_text.trim());
    match header {
        Header::Main => main_typedefs(text, docs),
        Header::Collectives => collectives_functions(text, docs),
        Header::Record => {}
    }
    let StructLayout { name, size, .. } = header.padded();
    let _ = writeln!(text, "{}\n", body.struct_text.trim());
    let _ = writeln!(
        text,
        "// Packed structs, by a header that leaves `#pragma pack` open or by -fpack-struct (/Zp), have other layouts.
#if defined(__cplusplus)
static_assert(sizeof({name}) == {size}, \"{name} is packed: by an open #pragma pack or by -fpack-struct\");
#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
_Static_assert(sizeof({name}) == {size}, \"{name} is packed: by an open #pragma pack or by -fpack-struct\");
#else
typedef char {name}_is_packed[sizeof({name}) == {size} ? 1 : -1];
#endif
"
    );
    let _ = writeln!(
        text,
        "// Bytes up to the end of the last field that upstream counts, which is not always the last\n// one.\nenum {{"
    );
    for layout in header.layouts() {
        if layout.until == Revision::NEWEST
            && let Some((last, _)) = layout.struct_size
        {
            let name = layout.name;
            let _ = writeln!(
                text,
                "  {name}_STRUCT_SIZE = XLA_FFI_STRUCT_SIZE({name}, {last}),"
            );
        }
    }
    // C99 allows the comma after the last enumerator; C++03 did not, C++11 does.
    text.push_str("};\n\n");
    if header == Header::Main {
        text.push_str(
            "// The table of the program that this is linked into. No jaxlib exports it: a shared library
// takes the table from the call frame.
const XLA_FFI_Api* XLA_FFI_GetApi(void);

",
        );
    }
    let _ = writeln!(text, "#ifdef __cplusplus\n}}\n#endif\n\n#endif // {guard}");
    out
}

/// Refuses systems for which there is no jaxlib, and whose layouts nobody has compared.
const SUPPORTED: &str = "\
#if defined(UINTPTR_MAX) && UINTPTR_MAX != 0xFFFFFFFFFFFFFFFFu
#error \"XLA's FFI is laid out for 64-bit systems, and jaxlib has no 32-bit build\"
#endif
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error \"XLA's FFI is laid out for little-endian systems, and jaxlib has no big-endian build\"
#endif

// The version that a handler written to this header's whole extent would need. It is not the
// version to answer a runtime with: older ones refuse a newer version than their own.
";

const MACROS: &str = "
// Bytes from the start of a struct to the end of one of its fields.
#ifdef __cplusplus
#define XLA_FFI_STRUCT_SIZE(struct_type, last_field) \\
  (offsetof(struct_type, last_field) + sizeof(static_cast<struct_type*>(nullptr)->last_field))
#else
#define XLA_FFI_STRUCT_SIZE(struct_type, last_field) \\
  (offsetof(struct_type, last_field) + sizeof(((struct_type*)0)->last_field))
#endif

// For a struct of your own that travels with this API: declares its name and its STRUCT_SIZE.
#define XLA_FFI_DEFINE_STRUCT_TRAITS(sname, last_field) \\
  typedef struct sname sname; \\
  enum { sname##_STRUCT_SIZE = XLA_FFI_STRUCT_SIZE(sname, last_field) }

// No type.
#ifdef __cplusplus
#define XLA_FFI_UNKNOWN_TYPE_ID XLA_FFI_TypeId{0}
#else
#define XLA_FFI_UNKNOWN_TYPE_ID ((XLA_FFI_TypeId){0})
#endif

";

fn comment(text: &mut String, docs: Option<&Vec<String>>) {
    for doc in docs.into_iter().flatten() {
        let _ = writeln!(text, "//{doc}");
    }
}

fn extension_macros(
    text: &mut String,
    name: &str,
    id: impl Display,
    major: impl Display,
    minor: impl Display,
) {
    let _ = writeln!(
        text,
        "#include \"xla/ffi/api/c_api.h\"

// Number and version of the extension.
#define {name} {id}
#define {name}_MajorVersion {major}
#define {name}_MinorVersion {minor}
"
    );
}

fn main_typedefs(text: &mut String, docs: &BTreeMap<String, Vec<String>>) {
    for (name, declared) in [
        (
            "XLA_FFI_ExecutionContext",
            "typedef XLA_FFI_InvokeContext XLA_FFI_ExecutionContext;\n",
        ),
        (
            "XLA_FFI_Handler_Traits",
            "typedef uint32_t XLA_FFI_Handler_Traits;\n\n",
        ),
        (
            "XLA_FFI_Handler",
            "typedef XLA_FFI_Error* XLA_FFI_Handler(XLA_FFI_CallFrame* call_frame);\n",
        ),
        ("XLA_FFI_Task", "typedef void XLA_FFI_Task(void* data);\n\n"),
    ] {
        comment(text, docs.get(name));
        text.push_str(declared);
    }
    let newest = Edition::of_revision(Revision::NEWEST).declared();
    for slot in Slot::ALL {
        let name = slot.name(Revision::NEWEST);
        comment(text, docs.get(&format!("XLA_FFI_Api.{name}")));
        let declared = function_type(&newest.functions[name], name);
        let _ = writeln!(text, "{};", declared.replace("_Args*)", "_Args* args)"));
    }
    text.push('\n');
}

fn collectives_functions(text: &mut String, docs: &BTreeMap<String, Vec<String>>) {
    for (name, field) in [
        ("XLA_FFI_Communicator_Request", "request_communicator"),
        ("XLA_FFI_Communicator_Get", "get_communicator"),
        ("XLA_FFI_Window_Request", "request_window"),
        ("XLA_FFI_Window_Get", "get_window"),
    ] {
        let field = format!("XLA_FFI_Collectives_Extension.{field}");
        comment(text, docs.get(&field));
        let _ = writeln!(
            text,
            "typedef XLA_FFI_Error* {name}(const XLA_FFI_Collectives_Extension* self,\n    {name}_Args* args);"
        );
    }
    text.push('\n');
}

/// All docstrings of all files in one map.
pub(super) fn all_docs(sources: &[(String, Source)]) -> BTreeMap<String, Vec<String>> {
    sources
        .iter()
        .flat_map(|(_, source)| source.docs.clone())
        .collect()
}
