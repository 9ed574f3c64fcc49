//! Renders the headers from the reflection data and the doc comments of ffi-sys.

use super::Entries;
use std::fmt::Write;
use xla_ffi_abi::declared::EDITIONS;
use xla_ffi_abi::model::{Abi, Header};
use xla_ffi_abi::spelling::{declaration, function_type};
use xla_ffi_sys as sys;
use xla_ffi_sys::{EnumLayout, Revision, Slot, StructLayout};

/// The properties by which the generated headers differ.
struct Of {
    guard: &'static str,
    about: &'static str,
    layouts: &'static [StructLayout],
    enums: &'static [EnumLayout],
    opaque: &'static [&'static str],
    /// A struct whose size changes if the struct is packed.
    padded: &'static str,
}

fn of(header: Header) -> Of {
    match header {
        Header::Record => Of {
            guard: "XLA_FFI_API_RECORD_C_API_H_",
            about: "The record extension (number 128), version 0.2: recording into a command buffer.",
            layouts: sys::RECORD_LAYOUTS,
            enums: sys::RECORD_ENUMS,
            opaque: &["XLA_FFI_RecordContext", "XLA_FFI_Command"],
            padded: "XLA_FFI_KernelArg",
        },
        Header::Collectives => Of {
            guard: "XLA_FFI_API_COLLECTIVES_C_API_H_",
            about: "The collectives extension (number 129), version 0.3: communicators, windows, device communicators.",
            layouts: sys::COLLECTIVES_LAYOUTS[2],
            enums: sys::COLLECTIVES_ENUMS,
            opaque: &[
                "XLA_FFI_CollectivesState",
                "XLA_FFI_Communicator",
                "XLA_FFI_Window",
                "XLA_FFI_DeviceCommunicator",
            ],
            padded: "XLA_FFI_Communicator_Request_Args",
        },
        Header::Main | Header::Other => Of {
            guard: "XLA_FFI_API_C_API_H_",
            about: "The C API between an XLA runtime and a custom call, revision r10 (version 0.5).",
            layouts: sys::LAYOUTS,
            enums: sys::ENUMS,
            opaque: &[
                "XLA_FFI_InternalApi",
                "XLA_FFI_InvokeContext",
                "XLA_FFI_Error",
                "XLA_FFI_Future",
            ],
            padded: "XLA_FFI_Buffer",
        },
    }
}

const REVISIONS: &str = "\
// Layouts of older revisions differ: `xla-ffi abi diff r0 r10` shows how. The rules, in short:
// * struct_size is the first field of nearly every struct. Whoever makes the struct fills it with
//   NAME_STRUCT_SIZE; whoever reads it reads a field only if struct_size covers it.
// * A function of the table may be missing on older runtimes: see \"From rN\" at each.
// * Errors: null means success. An error belongs to whoever received it last.
";

/// Returns the complete text of `header`.
pub(super) fn render(header: Header, entries: &Entries) -> String {
    let Of {
        guard,
        about,
        layouts,
        enums,
        opaque,
        padded,
    } = of(header);
    let file = header.file_name();
    let ours = guard.replace("XLA_FFI_API_", "XLA_FFI_SDK_");
    let mut newest = EDITIONS.iter().rev().filter(|it| it.header == header);
    let abi = newest.next().map_or_else(Abi::default, |it| it.declared());
    let layouts = layouts.iter().filter(|it| it.until == Revision::NEWEST);
    let revisions = match header {
        Header::Main => format!("//\n{REVISIONS}"),
        _ => String::new(),
    };
    // If this project's header follows upstream's header, everything would be defined twice, so an `#error` explains
    // the reason. In the other order, upstream's include guard is already defined, and this project's header declares
    // every name.
    let mut out = format!(
        "// {about}
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
        Header::Record => extension_macros(
            text,
            "XLA_FFI_Extension_Record",
            sys::XLA_FFI_Extension_Record,
            sys::XLA_FFI_Extension_Record_MajorVersion,
            sys::XLA_FFI_Extension_Record_MinorVersion,
        ),
        Header::Collectives => extension_macros(
            text,
            "XLA_FFI_Extension_Collectives",
            sys::XLA_FFI_Extension_Collectives,
            sys::XLA_FFI_Extension_Collectives_MajorVersion,
            sys::XLA_FFI_Extension_Collectives_MinorVersion,
        ),
        Header::Main | Header::Other => {
            let (major, minor) = (sys::XLA_FFI_API_MAJOR, sys::XLA_FFI_API_MINOR);
            let _ = write!(
                text,
                "{SUPPORTED}#define XLA_FFI_API_MAJOR {major}\n#define XLA_FFI_API_MINOR {minor}\n{MACROS}"
            );
        }
    }
    text.push_str("#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n");
    for name in opaque {
        comment(text, "", entries, name);
        let _ = writeln!(text, "typedef struct {name} {name};");
    }
    text.push('\n');
    for StructLayout { name, .. } in layouts.clone() {
        let _ = writeln!(text, "typedef struct {name} {name};");
    }
    text.push('\n');
    for layout in enums {
        enumeration(text, layout, entries);
    }
    match header {
        Header::Main => main_typedefs(text, &abi, entries),
        Header::Collectives => collectives_functions(text, entries),
        _ => {}
    }
    for layout in layouts.clone() {
        structure(text, layout, &abi, entries);
    }
    let size = abi.structs[padded].size;
    let _ = writeln!(
        text,
        "// Packed structs, by a header that leaves `#pragma pack` open or by -fpack-struct (/Zp), have other layouts.
#if defined(__cplusplus)
static_assert(sizeof({padded}) == {size}, \"{padded} is packed: by an open #pragma pack or by -fpack-struct\");
#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
_Static_assert(sizeof({padded}) == {size}, \"{padded} is packed: by an open #pragma pack or by -fpack-struct\");
#else
typedef char {padded}_is_packed[sizeof({padded}) == {size} ? 1 : -1];
#endif

// Bytes up to the end of the last field that upstream counts, which is not always the last\n// one.
enum {{"
    );
    for StructLayout {
        name, struct_size, ..
    } in layouts
    {
        if let Some((last, _)) = struct_size {
            let _ = writeln!(
                text,
                "  {name}_STRUCT_SIZE = XLA_FFI_STRUCT_SIZE({name}, {last}),"
            );
        }
    }
    // C99 and C++11 allow the comma after the last enumerator; C++03 does not.
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

/// Rejects systems for which no jaxlib exists, because their layouts were never compared.
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

/// Writes the doc comment of an item, if the item has a doc comment.
fn comment(text: &mut String, indent: &str, entries: &Entries, key: &str) {
    for doc in entries.get(key).into_iter().flat_map(|it| &it.docs) {
        let _ = writeln!(text, "{indent}//{doc}");
    }
}

fn enumeration(text: &mut String, layout: &EnumLayout, entries: &Entries) {
    let name = layout.name;
    comment(text, "", entries, name);
    let _ = writeln!(text, "enum {name} {{");
    for value in layout.values {
        // If a type is not declared with `enumeration!`, its enumerators are associated constants in the source.
        let is_its = |key: &&String| {
            let constant = key.strip_prefix(name).and_then(|key| key.strip_prefix('.'));
            constant.is_some_and(|constant| value.name.ends_with(constant))
        };
        let constant = entries.keys().find(is_its);
        comment(text, "  ", entries, constant.map_or(value.name, |key| key));
        let _ = writeln!(text, "  {} = {},", value.name, value.value);
    }
    let _ = writeln!(text, "}};\ntypedef enum {name} {name};\n");
}

fn structure(text: &mut String, layout: &StructLayout, abi: &Abi, entries: &Entries) {
    let name = layout.name;
    comment(text, "", entries, name);
    let _ = writeln!(text, "struct {name} {{");
    for (field, own) in abi.structs[name].fields.iter().zip(layout.fields) {
        let key = format!("{name}.{}", field.name);
        comment(text, "  ", entries, &key);
        // The model replaces type aliases by plain numbers, so some types are taken from the source.
        let mut declared = match own.ty {
            "usize" => format!("size_t {}", field.name),
            "XLA_FFI_Handler_Traits" => format!("{} {}", own.ty, field.name),
            _ => declaration(&field.ty, &field.name),
        };
        if let Some((head, types)) = declared.split_once(")(") {
            let names = entries.get(&key).map_or(&[][..], |it| &it.parameters);
            let types = types.trim_end_matches(')').split(", ");
            let named = types
                .zip(names)
                .map(|(ty, name)| format!("{} {name}", ty.trim_end()));
            let named: Vec<String> = named.collect();
            declared = format!("{head})({})", named.join(",\n      "));
        }
        let _ = writeln!(text, "  {declared};");
    }
    text.push_str("};\n\n");
}

fn extension_macros(text: &mut String, name: &str, id: i64, major: i32, minor: i32) {
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

fn main_typedefs(text: &mut String, abi: &Abi, entries: &Entries) {
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
        comment(text, "", entries, name);
        text.push_str(declared);
    }
    for slot in Slot::ALL {
        let name = slot.name(Revision::NEWEST);
        comment(text, "", entries, &format!("XLA_FFI_Api.{name}"));
        let declared = function_type(&abi.functions[name], name);
        let _ = writeln!(text, "{};", declared.replace("_Args*)", "_Args* args)"));
    }
    text.push('\n');
}

fn collectives_functions(text: &mut String, entries: &Entries) {
    for (name, field) in [
        ("XLA_FFI_Communicator_Request", "request_communicator"),
        ("XLA_FFI_Communicator_Get", "get_communicator"),
        ("XLA_FFI_Window_Request", "request_window"),
        ("XLA_FFI_Window_Get", "get_window"),
        (
            "XLA_FFI_DeviceCommunicator_Request",
            "request_device_communicator",
        ),
        ("XLA_FFI_DeviceCommunicator_Get", "get_device_communicator"),
    ] {
        let field = format!("XLA_FFI_Collectives_Extension.{field}");
        comment(text, "", entries, &field);
        let _ = writeln!(
            text,
            "typedef XLA_FFI_Error* {name}(const XLA_FFI_Collectives_Extension* self,\n    {name}_Args* args);"
        );
    }
    text.push('\n');
}
