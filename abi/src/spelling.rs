//! Writes types of the model as C code.

use crate::model::Abi;

/// Returns a C declaration of `name` with the type `ty` of the model, such as `XLA_FFI_Error* (*name)(int32_t)`.
///
/// ```
/// use xla_ffi_abi::spelling::declaration;
///
/// assert_eq!(declaration("*mut *const char", "text"), "const char** text");
/// assert_eq!(declaration("[u8; 16]", "bytes"), "uint8_t bytes[16]");
/// assert_eq!(declaration("fn(*mut A, i32) -> *mut E", "call"), "E* (*call)(A*, int32_t)");
/// assert_eq!(declaration("[Mine {a: i32 at 0; b: [u8; 4] at 4}; 2]", "both"), "Mine both[2]");
/// ```
#[must_use]
pub fn declaration(ty: &str, name: &str) -> String {
    let ty = without_contents(ty);
    match bits(&ty) {
        Some((ty, width)) => format!("{} : {width}", declare(ty, name)),
        None => declare(&ty, name),
    }
}

/// Returns a type without its fields or values in braces: `Mine` for `Mine {a: i32 at 0}`.
fn without_contents(ty: &str) -> String {
    let mut out = String::with_capacity(ty.len());
    let mut depth = 0_usize;
    for c in ty.chars() {
        match c {
            '{' => {
                depth += 1;
                out.truncate(out.trim_end().len());
            }
            '}' => depth = depth.saturating_sub(1),
            _ if depth == 0 => out.push(c),
            _ => {}
        }
    }
    out
}

/// Returns the C typedef of a function type. `ty` is a pointer to the function, in the model's notation.
#[must_use]
pub fn function_type(ty: &str, name: &str) -> String {
    format!("typedef {}", prototype(ty, name))
}

/// Returns the C prototype of a function. `ty` is a pointer to the function, in the model's notation.
///
/// ```
/// use xla_ffi_abi::spelling::prototype;
///
/// assert_eq!(prototype("fn() -> *const A", "get"), "const A* get(void)");
/// assert_eq!(prototype("fn(Mine {a: f32 at 0; b: fn(u8, u8) at 8}) -> u8", "put"), "uint8_t put(Mine)");
/// ```
#[must_use]
pub fn prototype(ty: &str, name: &str) -> String {
    let pointer = declare(&without_contents(ty), name);
    pointer.replacen(&format!("(*{name})"), name, 1)
}

/// Returns the C typedef that declares `name` as a type other than a function.
#[must_use]
pub fn alias(ty: &str, name: &str) -> String {
    format!("typedef {}", declare(&without_contents(ty), name))
}

/// Returns the C declaration of a struct's field; `None` if the struct does not have the field.
pub(crate) fn field(abi: &Abi, owner: &str, name: &str) -> Option<String> {
    let field = abi.structs.get(owner)?.field(name)?;
    Some(declaration(&field.ty, &field.name))
}

/// Splits the type of a bit-field into its underlying type and its number of bits.
fn bits(ty: &str) -> Option<(&str, &str)> {
    let (ty, rest) = ty.split_once(": ")?;
    Some((ty, rest.split_once(" bits from bit ")?.0))
}

/// Returns a C declaration with the type `ty`. `inner` is the text in place of the declared name.
fn declare(ty: &str, inner: &str) -> String {
    let (qualifiers, ty) = qualifiers(ty);
    // In C, a pointer's qualifiers follow its star, and an array's qualifiers belong to its elements.
    let own = format!("{qualifiers}{inner}");
    if let Some(to) = ty.strip_prefix("*mut ") {
        return declare(to, &pointer(to, own.trim_end()));
    }
    if let Some(to) = ty.strip_prefix("*const ") {
        return declare(&format!("const {to}"), &pointer(to, own.trim_end()));
    }
    if let Some(to) = ty.strip_prefix('&') {
        return declare(to, &format!("&{inner}"));
    }
    if let Some((parameters, result)) = signature(ty) {
        let parameters: Vec<String> = parameters.iter().map(|ty| declare(ty, "")).collect();
        let parameters = match parameters.as_slice() {
            [] => "void".to_owned(),
            some => some.join(", "),
        };
        let function = format!("(*{})({parameters})", own.trim_end());
        return declare(result, &function);
    }
    if let Some((element, count)) = array(ty) {
        return declare(
            &format!("{qualifiers}{element}"),
            &format!("{inner}[{count}]"),
        );
    }
    // As in upstream's headers, stars are written next to the type instead of next to the name.
    let stars = inner.len() - inner.trim_start_matches('*').len();
    let (stars, name) = inner.split_at(stars);
    let name = name.trim_start().replace("const *", "const* ");
    let name = name.replace("volatile *", "volatile* ");
    let blank = if name.is_empty() || name.starts_with('[') {
        ""
    } else {
        " "
    };
    format!("{qualifiers}{}{stars}{blank}{name}", plain(ty))
}

/// Splits a type into its qualifiers and the rest. A blank follows each qualifier.
fn qualifiers(ty: &str) -> (&str, &str) {
    let mut rest = ty;
    for word in ["const ", "volatile "] {
        rest = rest.strip_prefix(word).unwrap_or(rest);
    }
    ty.split_at(ty.len() - rest.len())
}

/// Adds a star for a pointer to a declarator. A pointer to an array needs parentheses, because brackets bind more
/// tightly than stars.
fn pointer(to: &str, inner: &str) -> String {
    match array(to) {
        Some(_) => format!("(*{inner})"),
        None => format!("*{inner}"),
    }
}

/// Returns the type of a parameter, without the blank after the preceding comma.
fn parameter(text: &str) -> &str {
    text.strip_prefix(' ').unwrap_or(text)
}

/// Returns the types of the parameters and the type of the result; `None` if `ty` is not a pointer to a function.
pub(crate) fn signature(ty: &str) -> Option<(Vec<&str>, &str)> {
    let rest = ty.strip_prefix("fn(")?;
    let mut depth = 0_usize;
    let mut start = 0;
    let mut parameters = Vec::new();
    for (at, byte) in rest.bytes().enumerate() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' if depth == 0 => {
                let last = parameter(&rest[start..at]);
                if !last.is_empty() {
                    parameters.push(last);
                }
                let result = rest[at + 1..].strip_prefix(" -> ").unwrap_or("void");
                return Some((parameters, result));
            }
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                parameters.push(parameter(&rest[start..at]));
                start = at + 1;
            }
            _ => {}
        }
    }
    None
}

pub(crate) fn array(ty: &str) -> Option<(&str, &str)> {
    let rest = ty.strip_prefix('[')?.strip_suffix(']')?;
    Some(rest.rsplit_once("; ").unwrap_or((rest, "")))
}

fn plain(ty: &str) -> String {
    let width = |rest: &str| matches!(rest, "8" | "16" | "32" | "64");
    match (ty.strip_prefix('i'), ty.strip_prefix('u')) {
        (Some("128"), _) => "__int128".to_owned(),
        (_, Some("128")) => "unsigned __int128".to_owned(),
        (Some(bits), _) if width(bits) => format!("int{bits}_t"),
        (_, Some(bits)) if width(bits) => format!("uint{bits}_t"),
        _ => match ty {
            "f16" => "_Float16".to_owned(),
            "f32" => "float".to_owned(),
            "f64" => "double".to_owned(),
            "f128" => "long double".to_owned(),
            other => match other.strip_prefix("complex ") {
                // C has no complex numbers of complex numbers, so `complex` must not be repeated.
                Some(part) if !part.starts_with("complex ") => {
                    format!("_Complex {}", plain(part))
                }
                _ => other.to_owned(),
            },
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_spelled_as_in_c() {
        for (ty, expected) in [
            ("*mut void", "void* x"),
            ("*const i64", "const int64_t* x"),
            ("*const *mut void", "void* const* x"),
            ("*mut *mut XLA_FFI_Buffer", "XLA_FFI_Buffer** x"),
            ("*const *const char", "const char* const* x"),
            ("fn(*mut void)", "void (*x)(void*)"),
            ("fn()", "void (*x)(void)"),
            // Empty parameters and names with non-ASCII letters occur only in damaged snapshot files.
            ("fn(u8,é,,u8, )", "void (*x)(uint8_t, é, , uint8_t)"),
            ("*mut fn(i32) -> u8", "uint8_t (**x)(int32_t)"),
            (
                "fn(fn(*mut void), f32, ...) -> *const E",
                "const E* (*x)(void (*)(void*), float, ...)",
            ),
            ("[[i32; 4]; 2]", "int32_t x[2][4]"),
            ("[*mut A; 2]", "A* x[2]"),
            ("*mut [f64; 3]", "double (*x)[3]"),
            ("fn() -> fn(u8)", "void (*(*x)(void))(uint8_t)"),
            ("u32: 3 bits from bit 2", "uint32_t x : 3"),
            ("XLA_FFI_DataType", "XLA_FFI_DataType x"),
            ("const u32", "const uint32_t x"),
            // If a type does not parse, its text is unchanged.
            ("fn(", "fn( x"),
            ("complex complex f32", "complex complex f32 x"),
        ] {
            assert_eq!(declaration(ty, "x"), expected, "{ty}");
        }
        assert_eq!(
            function_type("fn(*mut A) -> *mut E", "F"),
            "typedef E* F(A*)"
        );
        assert_eq!(alias("u32", "T"), "typedef uint32_t T");
    }
}
