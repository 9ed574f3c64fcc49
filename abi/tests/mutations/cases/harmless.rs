//! Edits that change nothing.

use crate::edit::Edit::{self, Everywhere, Replace, Text};

/// Edits that change nothing.
pub(crate) const HARMLESS: &[(&str, Edit)] = &[
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
    (
        "functions of the header's own",
        Text(
            "typedef void XLA_FFI_Task",
            "static inline int XLA_FFI_Help(int a) { return a; } static int XLA_FFI_Own(void); \
             inline int XLA_FFI_Twice(int a) { return XLA_FFI_Help(a) + XLA_FFI_Help(a); } typedef void XLA_FFI_Task",
        ),
    ),
    (
        "functions that are not there",
        Text(
            "typedef void XLA_FFI_Task",
            "/* int XLA_FFI_Told(void); */\n#if 0\nint XLA_FFI_Left(void);\nint XLA_FFI_Out(void);\n#endif\ntypedef void XLA_FFI_Task",
        ),
    ),
    (
        "function declared by a macro",
        Text(
            "const XLA_FFI_Api* XLA_FFI_GetApi",
            "\n#define XLA_FFI_EXPORT(type) __attribute__((visibility(\"default\"))) type\nXLA_FFI_EXPORT(const XLA_FFI_Api*) XLA_FFI_GetApi",
        ),
    ),
];
