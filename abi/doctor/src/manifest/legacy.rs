//! What a manifest says of a target of the original custom calls.

use super::check::{check_symbol, is_dtype};
use serde::Deserialize;
use std::fmt;

/// A bare function under a name, which XLA calls with pointers alone.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct Target {
    /// Name under which it is registered, without the library's.
    pub name: String,
    /// Platforms that it is for, `"Host"` for instance.
    pub platforms: Vec<String>,
    /// Its convention: `cpu`, `cpu_status`, `cpu_unified`, `gpu` or `gpu_status`.
    pub signature: String,
    /// The number of XLA's `CustomCallApiVersion` under which a call reaches it.
    pub api_version: u32,
    /// Its exported symbol.
    pub symbol: String,
    /// Its operands; `None` where the function is a bare one or the opaque bytes tell.
    #[serde(default)]
    pub args: Option<Vec<Shape>>,
    /// Its results.
    #[serde(default)]
    pub rets: Option<Vec<Shape>>,
    /// How its tuples reach it: `leaves` or `roots`; `None` where it declares none.
    #[serde(default)]
    pub tuples: Option<String>,
    /// Its tuples, `(_, _), _ -> (_, (_))`; `None` where it declares none.
    #[serde(default)]
    pub structure: Option<String>,
}

/// The type and the sizes that a target takes for granted.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct Shape {
    /// One element type, by its C name without prefix.
    pub dtypes: Vec<String>,
    /// Its dimensions.
    pub dims: Vec<u64>,
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dims: Vec<String> = self.dims.iter().map(u64::to_string).collect();
        write!(f, "{}[{}]", self.dtypes.join("|"), dims.join(","))
    }
}

/// The conventions, each with the API version under which it is called.
const SIGNATURES: [(&str, u32); 5] = [
    ("cpu", 1),
    ("cpu_status", 2),
    ("cpu_unified", 3),
    ("gpu", 1),
    ("gpu_status", 2),
];

pub(super) fn check_target(target: &Target) -> Result<(), String> {
    if target.name.is_empty() {
        return Err("\"name\" is empty".to_owned());
    }
    check_symbol(&target.symbol)?;
    let signature = target.signature.as_str();
    let Some((_, version)) = SIGNATURES.iter().find(|(known, _)| *known == signature) else {
        let known = SIGNATURES.map(|(known, _)| known).join(", ");
        return Err(format!(
            "\"signature\" is {signature:?}; expected one of {known}"
        ));
    };
    if target.api_version != *version {
        return Err(format!(
            "\"api_version\" is {}, and {signature} is called under {version}",
            target.api_version
        ));
    }
    match (target.tuples.as_deref(), &target.structure) {
        (None, None) | (Some("leaves" | "roots"), Some(_)) => {}
        (form, structure) => {
            return Err(format!(
                "\"tuples\" is {form:?} and \"structure\" {structure:?}; expected \"leaves\" or \"roots\", and a \
                 structure, or neither"
            ));
        }
    }
    let shapes = [&target.args, &target.rets].into_iter().flatten().flatten();
    for shape in shapes {
        match shape.dtypes.as_slice() {
            [dtype] if is_dtype(dtype) => {}
            [dtype] => return Err(format!("no revision has the dtype {dtype:?}")),
            _ => return Err(format!("an operand has one element type, not {shape}")),
        }
    }
    Ok(())
}
