//! A handler says what to write instead as its callers in Python write it. Who reads it here writes MLIR
//! and `--arg`.

/// A handler's error with its advice as this command line takes it.
pub(crate) fn for_command_line(text: &str) -> String {
    let mut told = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, found)) = next(rest) {
        told.push_str(before);
        told.push_str(&found.told);
        rest = found.rest;
    }
    told.push_str(rest);
    told
}

struct Advice<'t> {
    told: String,
    rest: &'t str,
}

/// How an advice begins, and what makes another of the rest.
type Rule = (&'static str, for<'t> fn(&'t str) -> Option<Advice<'t>>);

/// The texts are those of `xla_ffi`'s `attribute.rs` and `entry/diagnose.rs`, and of `wording.rs` for C and C++.
const RULES: [Rule; 7] = [
    ("; pass np.asarray(", array),
    ("; pass np.", scalar),
    ("; pass bool(", boolean),
    ("; cast it: ", argument),
    ("; declare it as np.", result),
    (" (a Python float is F64: pass numpy.", unnamed),
    (" (a Python int is S64: pass numpy.", unnamed),
];

fn next(text: &str) -> Option<(&str, Advice<'_>)> {
    let mut found = RULES
        .iter()
        .filter_map(|&(begin, rule)| {
            text.match_indices(begin)
                .find_map(|(at, _)| Some((at, rule(&text[at + begin.len()..])?)))
        })
        .collect::<Vec<_>>();
    found.sort_by_key(|&(at, _)| at);
    let (at, advice) = found.into_iter().next()?;
    Some((&text[..at], advice))
}

/// MLIR's name of NumPy's type.
fn mlir(numpy: &str) -> Option<&'static str> {
    Some(match numpy {
        "int8" => "i8",
        "int16" => "i16",
        "int32" => "i32",
        "int64" => "i64",
        "uint8" => "ui8",
        "uint16" => "ui16",
        "uint32" => "ui32",
        "uint64" => "ui64",
        "float32" => "f32",
        "float64" => "f64",
        _ => return None,
    })
}

fn advice(told: String, rest: &str) -> Option<Advice<'_>> {
    Some(Advice { told, rest })
}

fn scalar(text: &str) -> Option<Advice<'_>> {
    let (numpy, text) = text.split_once('(')?;
    let (name, rest) = text.split_once(')')?;
    advice(format!("; write `{name} = … : {}`", mlir(numpy)?), rest)
}

fn array(text: &str) -> Option<Advice<'_>> {
    let (name, text) = text.split_once(", np.")?;
    let (numpy, rest) = text.split_once(')')?;
    let kind = mlir(numpy)?;
    let told = if kind.starts_with('u') {
        format!("; write `{name} = dense<[…]> : tensor<…x{kind}>`")
    } else {
        format!("; write `{name} = array<{kind}: …>`")
    };
    advice(told, rest)
}

fn boolean(text: &str) -> Option<Advice<'_>> {
    let (name, rest) = text.split_once(')')?;
    let told = format!("; write `{name} = true` or `{name} = false`");
    advice(told, rest)
}

fn argument(text: &str) -> Option<Advice<'_>> {
    let (_, text) = text.split_once(".astype(np.")?;
    let (numpy, rest) = text.split_once(')')?;
    advice(format!("; write `--arg '{}[…]=…'`", operand(numpy)?), rest)
}

fn result(text: &str) -> Option<Advice<'_>> {
    let end = text
        .find(|letter: char| !letter.is_ascii_alphanumeric())
        .unwrap_or(text.len());
    let (numpy, rest) = text.split_at(end);
    advice(format!("; write `--ret '{}[…]'`", operand(numpy)?), rest)
}

fn unnamed(text: &str) -> Option<Advice<'_>> {
    let (numpy, text) = text.split_once("(value) or the like)")?;
    let kind = mlir(numpy)?;
    advice(format!(" (write `value : {kind}` or the like)"), text)
}

/// An operand's element type: signed integers have XLA's letter.
fn operand(numpy: &str) -> Option<String> {
    let kind = mlir(numpy)?;
    Some(match kind.strip_prefix('u') {
        Some(bits) => format!("u{}", bits.trim_start_matches('i')),
        None => kind.replace('i', "s"),
    })
}

#[cfg(test)]
mod tests {
    use super::for_command_line;

    #[test]
    fn pythons_words_become_the_command_lines() {
        for (python, here) in [
            (
                "f (execute): S64; pass np.uint64(n)",
                "f (execute): S64; write `n = … : ui64`",
            ),
            (
                "F64; pass np.float32(eps), or let the handler narrow it: #[attr(narrow)]",
                "F64; write `eps = … : f32`, or let the handler narrow it: #[attr(narrow)]",
            ),
            (
                "S64; pass np.asarray(a, np.int8)",
                "S64; write `a = array<i8: …>`",
            ),
            (
                "S64; pass np.asarray(a, np.uint16)",
                "S64; write `a = dense<[…]> : tensor<…xui16>`",
            ),
            (
                "F32[2]; cast it: x.astype(np.uint8)",
                "F32[2]; write `--arg 'u8[…]=…'`",
            ),
            (
                "S64; pass bool(on)",
                "S64; write `on = true` or `on = false`",
            ),
            (
                "F64[2]; cast it: x.astype(np.int32)",
                "F64[2]; write `--arg 's32[…]=…'`",
            ),
            (
                "F64[2]; declare it as np.float32",
                "F64[2]; write `--ret 'f32[…]'`",
            ),
            (
                "F64[2]; declare it as np.uint32\n  attribute `b`: S64; pass np.int8(b)",
                "F64[2]; write `--ret 'u32[…]'`\n  attribute `b`: S64; write `b = … : i8`",
            ),
            (
                "got one of F64 (a Python float is F64: pass numpy.float32(value) or the like)",
                "got one of F64 (write `value : f32` or the like)",
            ),
            (
                "S64 (a Python int is S64: pass numpy.int32(value) or the like)",
                "S64 (write `value : i32` or the like)",
            ),
        ] {
            assert_eq!(for_command_line(python), here);
        }
    }

    #[test]
    fn other_words_stay() {
        for text in [
            "",
            "nothing; pass np.",
            "; pass np.nothing(a)",
            "; cast it: x",
            "; pass np.int8(a",
            "é; declare it as np.float3é",
        ] {
            assert_eq!(for_command_line(text), text);
        }
    }
}
