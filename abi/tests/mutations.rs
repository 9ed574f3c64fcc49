//! The checker under test: single edits to a header, each of which has to be caught and put into
//! the right class, and edits that change nothing, which must not be flagged.
//!
//! The edits are made to our committed header and, where it is there, to the one of jaxlib
//! 0.12.0; both are brought into one form first, so that one list serves.

mod edit;

use edit::{Edit, apply, normal};
use std::path::{Path, PathBuf};
use std::process::Command;
use xla_ffi_abi::declared::Edition;
use xla_ffi_abi::diff::{Change, Class};
use xla_ffi_abi::dwarf;
use xla_ffi_abi::header::{Error, Source};
use xla_ffi_abi::mirror::{Layout, Names};
use xla_ffi_abi::reader::Reader;
use xla_ffi_abi::snapshot::{self, Verdict};
use xla_ffi_testing::compiler::works;
use xla_ffi_testing::headers::{self, api_folder};
use xla_ffi_testing::{root, skip};

use Class::{
    AddedAtEnd, ConstantChanged, EnumValueAdded, EnumValueChanged, EnumValueRemoved,
    EnumValueRenamed, Inserted, Moved, Removed, Renamed, Resized, Retyped, SizeMacroChanged,
};
use edit::Edit::{Append, Before, Everywhere, Remove, Rename, Replace, Swap, Text};

/// What an edit is, and the changes of their own that it has to be told as.
type Case = (&'static str, Edit, &'static [(Class, &'static str)]);

const CASES: &[Case] = &[
    // Two fields swapped.
    (
        "swap same types",
        Swap("XLA_FFI_Handler_Register_Args", "name", "platform"),
        &[
            (Moved, "XLA_FFI_Handler_Register_Args.name"),
            (Moved, "XLA_FFI_Handler_Register_Args.platform"),
        ],
    ),
    (
        "swap different types",
        Swap("XLA_FFI_Buffer", "data", "rank"),
        &[
            (Moved, "XLA_FFI_Buffer.data"),
            (Moved, "XLA_FFI_Buffer.rank"),
        ],
    ),
    (
        "swap far apart",
        Swap("XLA_FFI_DeviceMemory_Allocate_Args", "size", "data"),
        &[
            (Moved, "XLA_FFI_DeviceMemory_Allocate_Args.size"),
            (Moved, "XLA_FFI_DeviceMemory_Allocate_Args.data"),
        ],
    ),
    (
        "swap slots",
        Swap("XLA_FFI_Api", "XLA_FFI_State_Set", "XLA_FFI_State_Get"),
        &[
            (Moved, "XLA_FFI_Api.XLA_FFI_State_Set"),
            (Moved, "XLA_FFI_Api.XLA_FFI_State_Get"),
        ],
    ),
    (
        "swap stages of a bundle",
        Swap("XLA_FFI_Handler_Bundle", "prepare", "initialize"),
        &[
            (Moved, "XLA_FFI_Handler_Bundle.prepare"),
            (Moved, "XLA_FFI_Handler_Bundle.initialize"),
        ],
    ),
    (
        "swap value and its type",
        Swap("XLA_FFI_Scalar", "dtype", "value"),
        &[
            (Moved, "XLA_FFI_Scalar.dtype"),
            (Moved, "XLA_FFI_Scalar.value"),
        ],
    ),
    (
        "swap versions",
        Swap("XLA_FFI_Api_Version", "major_version", "minor_version"),
        &[
            (Moved, "XLA_FFI_Api_Version.major_version"),
            (Moved, "XLA_FFI_Api_Version.minor_version"),
        ],
    ),
    // A field grows into padding, or out of it.
    (
        "grow into padding",
        Replace(
            "XLA_FFI_DeviceOrdinal_Get_Args",
            "device_ordinal",
            "int64_t device_ordinal",
        ),
        &[(Resized, "XLA_FFI_DeviceOrdinal_Get_Args.device_ordinal")],
    ),
    (
        "grow traits into padding",
        Replace("XLA_FFI_Metadata", "traits", "uint64_t traits"),
        &[(Resized, "XLA_FFI_Metadata.traits")],
    ),
    (
        "grow stage into padding",
        Replace("XLA_FFI_CallFrame", "stage", "int64_t stage"),
        &[(Resized, "XLA_FFI_CallFrame.stage")],
    ),
    (
        "shrink",
        Replace("XLA_FFI_Buffer", "rank", "int32_t rank"),
        &[(Resized, "XLA_FFI_Buffer.rank")],
    ),
    (
        "shrink a length",
        Replace("XLA_FFI_ByteSpan", "len", "uint32_t len"),
        &[(Resized, "XLA_FFI_ByteSpan.len")],
    ),
    (
        "fill a hole",
        Before("XLA_FFI_Buffer", "data", "uint32_t flags"),
        &[(Inserted, "XLA_FFI_Buffer.flags")],
    ),
    (
        "fill the hole at the end",
        Append("XLA_FFI_RunId_Get_Args", "int8_t more"),
        &[(AddedAtEnd, "XLA_FFI_RunId_Get_Args.more")],
    ),
    (
        "fill a hole behind the last field",
        Append("XLA_FFI_DeviceOrdinal_Get_Args", "int32_t more"),
        &[(AddedAtEnd, "XLA_FFI_DeviceOrdinal_Get_Args.more")],
    ),
    // Enumerations.
    (
        "enum value changed",
        Text("XLA_FFI_DataType_F32 = 11,", "XLA_FFI_DataType_F32 = 111,"),
        &[(EnumValueChanged, "XLA_FFI_DataType.XLA_FFI_DataType_F32")],
    ),
    (
        "stage renumbered",
        Text(
            "XLA_FFI_ExecutionStage_RECORD = 4",
            "XLA_FFI_ExecutionStage_RECORD = 5",
        ),
        &[(
            EnumValueChanged,
            "XLA_FFI_ExecutionStage.XLA_FFI_ExecutionStage_RECORD",
        )],
    ),
    (
        "attribute kind renumbered",
        Text("XLA_FFI_AttrType_STRING = 4", "XLA_FFI_AttrType_STRING = 0"),
        &[(EnumValueChanged, "XLA_FFI_AttrType.XLA_FFI_AttrType_STRING")],
    ),
    (
        "trait bit moved",
        Text(
            "XLA_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE = 1",
            "XLA_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE = 2",
        ),
        &[(
            EnumValueChanged,
            "XLA_FFI_Handler_TraitsBits.XLA_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE",
        )],
    ),
    (
        "enum value negative",
        Text(
            "XLA_FFI_Error_Code_UNKNOWN = 2,",
            "XLA_FFI_Error_Code_UNKNOWN = -2,",
        ),
        &[(
            EnumValueChanged,
            "XLA_FFI_Error_Code.XLA_FFI_Error_Code_UNKNOWN",
        )],
    ),
    (
        "enum value added",
        Text(
            "XLA_FFI_DataType_F64 = 12,",
            "XLA_FFI_DataType_F64 = 12, XLA_FFI_DataType_F128 = 99,",
        ),
        &[(EnumValueAdded, "XLA_FFI_DataType.XLA_FFI_DataType_F128")],
    ),
    (
        "argument kind added",
        Text(
            "XLA_FFI_ArgType_BUFFER = 1,",
            "XLA_FFI_ArgType_BUFFER = 1, XLA_FFI_ArgType_TUPLE = 2,",
        ),
        &[(EnumValueAdded, "XLA_FFI_ArgType.XLA_FFI_ArgType_TUPLE")],
    ),
    (
        "enum value removed",
        Text("XLA_FFI_DataType_U1 = 31,", ""),
        &[(EnumValueRemoved, "XLA_FFI_DataType.XLA_FFI_DataType_U1")],
    ),
    (
        "enum value renamed",
        Text(
            "XLA_FFI_DataType_BF16 = 16",
            "XLA_FFI_DataType_BFLOAT16 = 16",
        ),
        &[(
            EnumValueRenamed,
            "XLA_FFI_DataType.XLA_FFI_DataType_BFLOAT16",
        )],
    ),
    // Slots.
    (
        "slot in the middle",
        Before(
            "XLA_FFI_Api",
            "XLA_FFI_Future_Create",
            "XLA_FFI_Error* (*XLA_FFI_Extra)(void* args)",
        ),
        &[(Inserted, "XLA_FFI_Api.XLA_FFI_Extra")],
    ),
    (
        "slot first",
        Before(
            "XLA_FFI_Api",
            "XLA_FFI_Error_Create",
            "void (*XLA_FFI_Extra)(void)",
        ),
        &[(Inserted, "XLA_FFI_Api.XLA_FFI_Extra")],
    ),
    (
        "slot at the end",
        Append("XLA_FFI_Api", "XLA_FFI_Error* (*XLA_FFI_Extra)(void* args)"),
        &[(AddedAtEnd, "XLA_FFI_Api.XLA_FFI_Extra")],
    ),
    (
        "slot removed",
        Remove("XLA_FFI_Api", "XLA_FFI_Stream_Get"),
        &[(Removed, "XLA_FFI_Api.XLA_FFI_Stream_Get")],
    ),
    (
        "slot takes something else",
        Replace(
            "XLA_FFI_Api",
            "XLA_FFI_RunId_Get",
            "XLA_FFI_Error* (*XLA_FFI_RunId_Get)(XLA_FFI_Stream_Get_Args* args)",
        ),
        &[(Retyped, "XLA_FFI_Api.XLA_FFI_RunId_Get")],
    ),
    (
        "slot answers nothing",
        Replace(
            "XLA_FFI_Api",
            "XLA_FFI_State_Set",
            "void (*XLA_FFI_State_Set)(XLA_FFI_State_Set_Args* args)",
        ),
        &[(Retyped, "XLA_FFI_Api.XLA_FFI_State_Set")],
    ),
    // const.
    (
        "const dropped from text",
        Replace("XLA_FFI_ByteSpan", "ptr", "char* ptr"),
        &[(Retyped, "XLA_FFI_ByteSpan.ptr")],
    ),
    (
        "const dropped from the table",
        Replace("XLA_FFI_CallFrame", "api", "XLA_FFI_Api* api"),
        &[(Retyped, "XLA_FFI_CallFrame.api")],
    ),
    (
        "const dropped from an out pointer",
        Replace(
            "XLA_FFI_CustomOptions_Get_Args",
            "attrs",
            "XLA_FFI_Attrs* attrs",
        ),
        &[(Retyped, "XLA_FFI_CustomOptions_Get_Args.attrs")],
    ),
    (
        "const added",
        Replace("XLA_FFI_Buffer", "dims", "const int64_t* dims"),
        &[(Retyped, "XLA_FFI_Buffer.dims")],
    ),
    (
        "const pointer",
        Replace("XLA_FFI_Buffer", "dims", "int64_t* const dims"),
        &[(Retyped, "XLA_FFI_Buffer.dims")],
    ),
    // Pointers.
    (
        "pointer's target",
        Replace("XLA_FFI_Args", "types", "XLA_FFI_RetType* types"),
        &[(Retyped, "XLA_FFI_Args.types")],
    ),
    (
        "pointer's width of target",
        Replace("XLA_FFI_Buffer", "dims", "int32_t* dims"),
        &[(Retyped, "XLA_FFI_Buffer.dims")],
    ),
    (
        "one star less",
        Replace("XLA_FFI_Attrs", "names", "XLA_FFI_ByteSpan* names"),
        &[(Retyped, "XLA_FFI_Attrs.names")],
    ),
    (
        "void instead of a type",
        Replace("XLA_FFI_CallFrame", "ctx", "void* ctx"),
        &[(Retyped, "XLA_FFI_CallFrame.ctx")],
    ),
    (
        "a number instead of a pointer",
        Replace("XLA_FFI_Stream_Get_Args", "stream", "uint64_t stream"),
        &[(Retyped, "XLA_FFI_Stream_Get_Args.stream")],
    ),
    (
        "deleter's argument",
        Replace(
            "XLA_FFI_TypeInfo",
            "deleter",
            "void (*deleter)(const void* object)",
        ),
        &[(Retyped, "XLA_FFI_TypeInfo.deleter")],
    ),
    (
        "deleter's result",
        Replace(
            "XLA_FFI_TypeInfo",
            "deleter",
            "int (*deleter)(void* object)",
        ),
        &[(Retyped, "XLA_FFI_TypeInfo.deleter")],
    ),
    // Signedness and kind of number.
    (
        "sign of a rank",
        Replace("XLA_FFI_Buffer", "rank", "uint64_t rank"),
        &[(Retyped, "XLA_FFI_Buffer.rank")],
    ),
    (
        "sign of a size",
        Replace("XLA_FFI_DeviceMemory_Free_Args", "size", "int64_t size"),
        &[(Retyped, "XLA_FFI_DeviceMemory_Free_Args.size")],
    ),
    (
        "sign of a type id",
        Replace("XLA_FFI_TypeId", "type_id", "uint64_t type_id"),
        &[(Retyped, "XLA_FFI_TypeId.type_id")],
    ),
    (
        "a float",
        Replace("XLA_FFI_RunId_Get_Args", "run_id", "double run_id"),
        &[(Retyped, "XLA_FFI_RunId_Get_Args.run_id")],
    ),
    (
        "a number instead of an enumeration",
        Replace("XLA_FFI_Buffer", "dtype", "uint32_t dtype"),
        &[(Retyped, "XLA_FFI_Buffer.dtype")],
    ),
    (
        "another enumeration",
        Replace(
            "XLA_FFI_Error_Create_Args",
            "errc",
            "XLA_FFI_InternalExtension_Type errc",
        ),
        &[(Retyped, "XLA_FFI_Error_Create_Args.errc")],
    ),
    // Array length.
    (
        "an array",
        Replace("XLA_FFI_Array", "data", "void* data[1]"),
        &[(Retyped, "XLA_FFI_Array.data")],
    ),
    (
        "a longer array",
        Replace("XLA_FFI_Array", "data", "void* data[4]"),
        &[(Resized, "XLA_FFI_Array.data")],
    ),
    (
        "bits",
        Replace(
            "XLA_FFI_Api_Version",
            "major_version",
            "int major_version : 16",
        ),
        &[(Retyped, "XLA_FFI_Api_Version.major_version")],
    ),
    // STRUCT_SIZE.
    (
        "STRUCT_SIZE counts more",
        Text("(XLA_FFI_CallFrame, attrs)", "(XLA_FFI_CallFrame, future)"),
        &[(SizeMacroChanged, "XLA_FFI_CallFrame")],
    ),
    (
        "STRUCT_SIZE counts less",
        Text("(XLA_FFI_Buffer, dims)", "(XLA_FFI_Buffer, rank)"),
        &[(SizeMacroChanged, "XLA_FFI_Buffer")],
    ),
    (
        "STRUCT_SIZE of the table",
        Text(
            "(XLA_FFI_Api, XLA_FFI_CustomOptions_Get)",
            "(XLA_FFI_Api, XLA_FFI_Stream_Get)",
        ),
        &[(SizeMacroChanged, "XLA_FFI_Api")],
    ),
    (
        "STRUCT_SIZE of metadata",
        Text(
            "(XLA_FFI_Metadata, traits)",
            "(XLA_FFI_Metadata, state_type_id)",
        ),
        &[(SizeMacroChanged, "XLA_FFI_Metadata")],
    ),
    // Fields.
    (
        "field at the end",
        Append("XLA_FFI_CallFrame", "void* more"),
        &[(AddedAtEnd, "XLA_FFI_CallFrame.more")],
    ),
    (
        "field in the middle",
        Before("XLA_FFI_State_Set_Args", "state", "int64_t more"),
        &[(Inserted, "XLA_FFI_State_Set_Args.more")],
    ),
    (
        "field in front",
        Before("XLA_FFI_Rets", "struct_size", "size_t magic"),
        &[(Inserted, "XLA_FFI_Rets.magic")],
    ),
    (
        "field removed",
        Remove("XLA_FFI_State_Set_Args", "stage"),
        &[(Removed, "XLA_FFI_State_Set_Args.stage")],
    ),
    (
        "last field removed",
        Remove("XLA_FFI_CallFrame", "future"),
        &[(Removed, "XLA_FFI_CallFrame.future")],
    ),
    (
        "part of others grows",
        Append("XLA_FFI_Handler_Bundle", "XLA_FFI_Handler* finish"),
        &[(AddedAtEnd, "XLA_FFI_Handler_Bundle.finish")],
    ),
    (
        "field renamed",
        Replace("XLA_FFI_Buffer", "data", "void* bytes"),
        &[(Renamed, "XLA_FFI_Buffer.bytes")],
    ),
    // Whole things.
    (
        "struct renamed",
        Everywhere("XLA_FFI_Buffer", "XLA_FFI_Tensor"),
        &[(Renamed, "XLA_FFI_Tensor")],
    ),
    (
        "opaque type renamed",
        Rename("XLA_FFI_Future", "XLA_FFI_Promise"),
        &[(Renamed, "XLA_FFI_Promise")],
    ),
    (
        "enumeration renamed",
        Rename("XLA_FFI_RetType", "XLA_FFI_ResType"),
        &[(Renamed, "XLA_FFI_ResType")],
    ),
    (
        "function type",
        Text(
            "typedef void XLA_FFI_Task(void* data);",
            "typedef int XLA_FFI_Task(void* data);",
        ),
        &[(Retyped, "XLA_FFI_Task")],
    ),
    (
        "handler's argument",
        Text(
            "XLA_FFI_Handler(XLA_FFI_CallFrame* call_frame)",
            "XLA_FFI_Handler(const XLA_FFI_CallFrame* call_frame)",
        ),
        &[(Retyped, "XLA_FFI_Handler")],
    ),
    (
        "traits grow",
        Text(
            "typedef uint32_t XLA_FFI_Handler_Traits;",
            "typedef uint64_t XLA_FFI_Handler_Traits;",
        ),
        &[(Retyped, "XLA_FFI_Handler_Traits")],
    ),
    (
        "struct packed",
        Text(
            "XLA_FFI_Scalar {",
            "__attribute__((packed)) XLA_FFI_Scalar {",
        ),
        &[(Moved, "XLA_FFI_Scalar.value")],
    ),
    (
        "struct aligned",
        Text(
            "XLA_FFI_TypeId {",
            "__attribute__((aligned(16))) XLA_FFI_TypeId {",
        ),
        &[(Resized, "XLA_FFI_TypeId")],
    ),
    (
        "minor version",
        Text("#define XLA_FFI_API_MINOR 5", "#define XLA_FFI_API_MINOR 6"),
        &[(ConstantChanged, "XLA_FFI_API_MINOR")],
    ),
    (
        "version removed",
        Text("#define XLA_FFI_API_MAJOR 0", ""),
        &[(Removed, "XLA_FFI_API_MAJOR")],
    ),
];

/// Edits that change nothing.
const HARMLESS: &[(&str, Edit)] = &[
    (
        "comment",
        Text(
            "size_t struct_size;",
            "size_t struct_size; // XLA_FFI_DataType_F32 = 12\n",
        ),
    ),
    (
        "block comment",
        Text(
            "typedef void XLA_FFI_Task",
            "/* struct XLA_FFI_Buffer { int a; }; */ typedef void XLA_FFI_Task",
        ),
    ),
    ("formatting", Everywhere("{ size_t", "{\n\n\tsize_t")),
    (
        "guard renamed",
        Everywhere("XLA_FFI_API_C_API_H_", "MY_COPY_OF_C_API_H_"),
    ),
    (
        "more includes",
        Text(
            "#include <stddef.h>",
            "#include <stdbool.h>\n#include <stdarg.h>\n#include <string.h>\n#include <stddef.h>",
        ),
    ),
    (
        "guard by pragma",
        Text("#include <stddef.h>", "#pragma once\n#include <stddef.h>"),
    ),
    (
        "parameter renamed",
        Text(
            "XLA_FFI_Handler(XLA_FFI_CallFrame* call_frame)",
            "XLA_FFI_Handler(XLA_FFI_CallFrame* frame)",
        ),
    ),
    (
        "other spelling of a number",
        Replace("XLA_FFI_Buffer", "rank", "signed long rank"),
    ),
    (
        "typedef of a number",
        Replace("XLA_FFI_TypeId", "type_id", "ptrdiff_t type_id"),
    ),
    (
        "tag before a name",
        Replace("XLA_FFI_CallFrame", "args", "struct XLA_FFI_Args args"),
    ),
    (
        "function type behind a typedef",
        Replace(
            "XLA_FFI_ThreadPool_Schedule_Args",
            "task",
            "void (*task)(void*)",
        ),
    ),
    (
        "enumerator in hexadecimal",
        Text("XLA_FFI_DataType_F32 = 11,", "XLA_FFI_DataType_F32 = 0xB,"),
    ),
    (
        "order of typedefs",
        Text(
            "typedef struct XLA_FFI_Error XLA_FFI_Error;",
            "typedef struct XLA_FFI_Future XLA_FFI_Future; typedef struct XLA_FFI_Error XLA_FFI_Error;",
        ),
    ),
    (
        "order of enumerators",
        Text(
            "XLA_FFI_AttrType_ARRAY = 1, XLA_FFI_AttrType_DICTIONARY = 2,",
            "XLA_FFI_AttrType_DICTIONARY = 2, XLA_FFI_AttrType_ARRAY = 1,",
        ),
    ),
    (
        "assertion",
        Text(
            "typedef void XLA_FFI_Task",
            "static_assert(sizeof(size_t) == 8, \"\"); typedef void XLA_FFI_Task",
        ),
    ),
    (
        "foreign declarations",
        Text(
            "typedef void XLA_FFI_Task",
            "struct Mine { int a; }; typedef void XLA_FFI_Task",
        ),
    ),
    (
        "declaration twice",
        Text(
            "typedef struct XLA_FFI_Error XLA_FFI_Error;",
            "typedef struct XLA_FFI_Error XLA_FFI_Error; typedef struct XLA_FFI_Error XLA_FFI_Error;",
        ),
    ),
    (
        "empty macro",
        Text(
            "#include <stddef.h>",
            "#define XLA_FFI_MINE\n#include <stddef.h>",
        ),
    ),
    ("carriage returns", Everywhere("\n", "\r\n")),
];

/// The headers to edit.
fn subjects() -> Vec<(&'static str, String)> {
    let mut subjects = Vec::new();
    let ours = root().join("include/xla/ffi/api/c_api.h");
    subjects.push(("ours", std::fs::read_to_string(ours).unwrap()));
    match headers::folder() {
        Some(headers) => {
            let path = api_folder(&headers, "0.12.0").join("c_api.h");
            subjects.push(("jaxlib 0.12.0", std::fs::read_to_string(path).unwrap()));
        }
        None => skip(
            "edits to the header of jaxlib 0.12.0",
            "XLA_FFI_JAXLIB_HEADERS is not set (cargo xtask test sets it)",
        ),
    }
    for (_, text) in &mut subjects {
        *text = normal(text);
    }
    subjects
}

/// What the checker makes of a text; `None` where nothing here can read a header.
fn verdict(text: String) -> Option<Verdict> {
    let source = Source::from_text(&PathBuf::from("edited.h"), text.clone());
    match source.opinions() {
        Ok(opinions) => {
            assert!(
                opinions.disagreement.is_empty(),
                "the two opinions differ: {:#?}",
                opinions.disagreement
            );
            Some(snapshot::identify(&opinions.abi).unwrap())
        }
        Err(Error::NoReader { .. }) => None,
        Err(error) => panic!("{error}\nin\n{text}"),
    }
}

fn own(changes: &[Change]) -> Vec<(Class, String)> {
    changes
        .iter()
        .filter(|change| !change.follows)
        .map(|change| (change.class, change.path()))
        .collect()
}

#[test]
fn every_edit_is_caught_and_classified() {
    assert!(CASES.len() >= 40);
    let mut wrong = Vec::new();
    for (subject, text) in subjects() {
        match verdict(text.clone()) {
            Some(Verdict::Known(known)) => assert_eq!(known.edition.name(), "r10", "{subject}"),
            Some(Verdict::Unknown { changes, .. }) => {
                panic!("{subject}, normalised, is flagged: {changes:#?}")
            }
            None => {
                skip(
                    "every_edit_is_caught_and_classified",
                    "nothing here can read a header",
                );
                return;
            }
        }
        for (what, edit, expected) in CASES {
            println!("{subject}: {what}");
            match verdict(apply(edit, &text)) {
                Some(Verdict::Unknown { nearest, changes }) => {
                    let mut told = own(&changes);
                    let mut expected: Vec<_> = expected
                        .iter()
                        .map(|(class, path)| (*class, (*path).to_owned()))
                        .collect();
                    told.sort();
                    expected.sort();
                    if nearest.edition.name() != "r10" || told != expected {
                        wrong.push(format!(
                            "{subject}, {what}: expected {expected:?}, told {told:?} from {}",
                            nearest.edition.name()
                        ));
                    }
                }
                Some(Verdict::Known(known)) => wrong.push(format!(
                    "{subject}, {what}: taken for {}",
                    known.edition.name()
                )),
                None => unreachable!("a reader was there a moment ago"),
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    println!("{} edits caught and classified", CASES.len());
}

#[test]
fn harmless_edits_are_not_flagged() {
    let mut wrong = Vec::new();
    for (subject, text) in subjects() {
        for (what, edit) in HARMLESS {
            println!("{subject}: {what}");
            match verdict(apply(edit, &text)) {
                Some(Verdict::Known(known)) if known.edition.name() == "r10" => {}
                Some(Verdict::Known(known)) => {
                    wrong.push(format!("{subject}, {what}: {}", known.edition.name()));
                }
                Some(Verdict::Unknown { changes, .. }) => {
                    wrong.push(format!("{subject}, {what}: {:?}", own(&changes)));
                }
                None => {
                    skip(
                        "harmless_edits_are_not_flagged",
                        "nothing here can read a header",
                    );
                    return;
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The library that a compiler makes of a header, with the debug information of all that it declares.
fn compiled(folder: &Path, text: &str) -> Vec<u8> {
    let (header, library) = (folder.join("edited.h"), folder.join("libedited.so"));
    std::fs::write(&header, text).unwrap();
    let output = Command::new("g++")
        .args([
            "-shared",
            "-fPIC",
            "-g",
            "-w",
            "-x",
            "c++",
            "-fno-eliminate-unused-debug-types",
        ])
        .arg("-o")
        .args([&library, &header])
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    std::fs::read(library).unwrap()
}

/// What a mirror's layout says of a change; `None` for what no layout states: types of the same size, what
/// `STRUCT_SIZE` counts up to, names that have no bytes.
fn stated(class: Class, path: &str, is_field: bool, is_opaque: bool) -> Option<String> {
    let told = match class {
        Moved => "is at byte",
        Resized if is_field => "takes",
        Resized => "is",
        Inserted | AddedAtEnd | Renamed if is_field => "is no field of this revision",
        Renamed if !is_opaque => "is nothing of this revision",
        Removed if is_field => "is missing",
        EnumValueAdded | EnumValueRenamed => "is no value of this revision",
        EnumValueRemoved => "is missing",
        EnumValueChanged => "is",
        ConstantChanged => "is",
        _ => return None,
    };
    Some(format!("{path} {told}"))
}

#[test]
fn every_form_judges_an_edit_alike() {
    let name = "every_form_judges_an_edit_alike";
    if !works("g++") {
        return skip(name, "g++ is not there");
    }
    let text =
        normal(&std::fs::read_to_string(root().join("include/xla/ffi/api/c_api.h")).unwrap());
    let abi = Edition::find("r10").unwrap().declared();
    let names = Names::default();
    let expected = Layout::of(&abi, &names);
    let (mut wrong, mut expressed) = (Vec::new(), 0);
    for (what, edit, changes) in CASES {
        let edited = apply(edit, &text);
        let source = Source::from_text(&PathBuf::from("edited.h"), edited.clone());
        let read = match source.read(Reader::Clang) {
            Ok(read) => read,
            Err(Error::Missing(why)) => return skip(name, &why),
            Err(error) => panic!("{what}: {error}"),
        };
        // What a program prints of its own layouts, through JSON as `--layout` reads it.
        let printed = serde_json::to_string(&Layout::of(&read, &names)).unwrap();
        let layout = Layout::parse(&printed).unwrap().compare(&abi, &names);
        let folder = tempfile::tempdir().unwrap();
        let library = compiled(folder.path(), &edited);
        let dwarf = dwarf::read_mirror(&library, &expected).unwrap();
        assert_eq!(dwarf.len(), 1, "{what}");
        let dwarf = dwarf[0].compare(&abi, &names);
        let wanted: Vec<String> = changes
            .iter()
            .filter_map(|(class, path)| {
                let member = path
                    .split_once('.')
                    .is_some_and(|(owner, _)| abi.structs.contains_key(owner));
                stated(*class, path, member, read.opaque.contains(*path))
            })
            .collect();
        expressed += usize::from(!wanted.is_empty());
        for wanted in &wanted {
            if !layout.mistakes.iter().any(|told| told.starts_with(wanted)) {
                wrong.push(format!(
                    "{what}: the layout does not say {wanted}: {:?}",
                    layout.mistakes
                ));
            }
        }
        // A typedef has no bytes; the fields that have its type do.
        let is_alias = |(_, path): &(Class, &str)| abi.aliases.contains_key(*path);
        let follows = changes.iter().any(is_alias);
        if wanted.is_empty() && !follows && !layout.mistakes.is_empty() {
            wrong.push(format!(
                "{what}: no layout states it, and yet: {:?}",
                layout.mistakes
            ));
        }
        // Debug information has no macros and tells no alignment; a type of another name is not looked for, and not
        // judged then.
        let is_in_dwarf = |told: &&String| {
            let name = told.split([' ', '.']).next().unwrap_or_default();
            (abi.structs.contains_key(name) || abi.enums.contains_key(name))
                && !told.contains(" is aligned to ")
        };
        let seen: Vec<&String> = layout.mistakes.iter().filter(is_in_dwarf).collect();
        let told: Vec<&String> = dwarf.mistakes.iter().collect();
        if seen != told {
            wrong.push(format!(
                "{what}: the layout says {seen:?}, the library {told:?}"
            ));
        }
        let gone = |told: &Vec<String>| {
            told.iter()
                .filter(|name| !layout.absent.contains(name))
                .count()
        };
        if gone(&dwarf.absent) > 0 {
            wrong.push(format!("{what}: not in the library: {:?}", dwarf.absent));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(expressed > 40, "{expressed}");
    println!("{expressed} of {} edits in three forms", CASES.len());
}

/// Which of the possible edits to all fields of all headers are tried: one in so many, always the
/// same ones. (All 1625 were tried once, and caught.)
const STRIDE: usize = 23;

#[test]
fn edits_to_any_field_of_any_header_are_caught() {
    let Some(headers) = headers::folder() else {
        return skip(
            "edits_to_any_field_of_any_header_are_caught",
            "XLA_FFI_JAXLIB_HEADERS is not set (cargo xtask test sets it)",
        );
    };
    let mut number = 0;
    let mut tried = 0;
    for (version, file) in [
        ("0.4.31", "c_api.h"),
        ("0.4.34", "c_api.h"),
        ("0.9.1", "c_api.h"),
        ("0.12.0", "record_c_api.h"),
        ("0.12.0", "collectives_c_api.h"),
    ] {
        let folder = api_folder(&headers, version);
        let include = folder.ancestors().nth(3).unwrap().to_owned();
        let text = normal(&std::fs::read_to_string(folder.join(file)).unwrap());
        let read = |text: String| {
            Source::from_text(Path::new("edited.h"), text)
                .include(&include)
                .opinions()
        };
        let base = match read(text.clone()).map(|opinions| snapshot::identify(&opinions.abi)) {
            Ok(Ok(Verdict::Known(base))) => base,
            Err(Error::NoReader { .. }) => {
                return skip(
                    "edits_to_any_field_of_any_header_are_caught",
                    "nothing here can read a header",
                );
            }
            other => panic!("jaxlib {version} {file}: {other:?}"),
        };
        for (name, layout) in &base.abi.structs {
            for (at, field) in layout.fields.iter().enumerate() {
                let (owner, member) = (leak(name), leak(&field.name));
                let other = leak(&format!("double* {member}"));
                let class = if field.size == 8 { Retyped } else { Resized };
                let mut edits = vec![
                    (Before(owner, member, "double xtra"), Inserted),
                    (Remove(owner, member), Removed),
                    (Replace(owner, member, other), class),
                ];
                if let Some(next) = layout.fields.get(at + 1) {
                    edits.push((Swap(owner, member, leak(&next.name)), Moved));
                }
                for (edit, class) in edits {
                    number += 1;
                    if number % STRIDE != 0 {
                        continue;
                    }
                    let opinions = match read(apply(&edit, &text)) {
                        Ok(opinions) => opinions,
                        // STRUCT_SIZE names a field that was removed, for instance.
                        Err(Error::Parse { .. }) => continue,
                        Err(error) => panic!("{name}.{member}: {error}"),
                    };
                    tried += 1;
                    assert!(opinions.disagreement.is_empty(), "{name}.{member}");
                    match snapshot::identify(&opinions.abi).unwrap() {
                        Verdict::Unknown { nearest, changes } => {
                            let told = own(&changes);
                            assert_eq!(nearest.edition, base.edition, "{name}.{member}: {told:?}");
                            assert!(
                                told.iter().any(|(told, _)| *told == class) && told.len() <= 2,
                                "{version} {file}, {name}.{member}, {class}: {told:?}"
                            );
                        }
                        Verdict::Known(known) => panic!(
                            "{version} {file}, {name}.{member}, {class}: taken for {}",
                            known.edition.name()
                        ),
                    }
                }
            }
        }
    }
    println!("{tried} edits caught");
    assert!(tried > 40);
}

/// The list of edits is made for names that are written down; these are read.
fn leak(name: &str) -> &'static str {
    Box::leak(name.to_owned().into_boxed_str())
}

#[test]
fn what_is_no_such_header_is_told() {
    let read = |text: &str| Source::from_text(Path::new("given.h"), text.to_owned()).opinions();
    match read("struct GLFWwindow { int a; };\n") {
        Err(Error::Foreign { .. } | Error::NoReader { .. }) => {}
        other => panic!("{other:?}"),
    }
    match read("") {
        Err(Error::Foreign { .. } | Error::NoReader { .. }) => {}
        other => panic!("{other:?}"),
    }
    for broken in [
        "struct XLA_FFI_Buffer {",
        "#include \"not/there.h\"\nstruct XLA_FFI_Buffer { int a; };",
        "#error no\n",
        "struct XLA_FFI_Buffer { struct XLA_FFI_Buffer b; };",
        "\u{1}\u{2}\u{3}",
    ] {
        match read(broken) {
            Err(Error::Parse { messages, .. }) => assert!(!messages.is_empty(), "{broken}"),
            Err(Error::NoReader { .. }) => {}
            other => panic!("{broken}: {other:?}"),
        }
    }
}
