//! Targets of the original custom calls, as described in a manifest.

use super::check::{check_symbol, is_dtype};
use serde::Deserialize;
use std::fmt;

/// A target of the original custom calls, which is a function to which XLA passes only pointers, without types or
/// sizes.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct Target {
    /// The name under which the target is registered, without the library's name as a prefix.
    pub name: String,
    /// The platforms that the target supports, for example `"Host"`.
    pub platforms: Vec<String>,
    /// The calling convention of the function: `cpu`, `cpu_status`, `cpu_unified`, `gpu` or `gpu_status`.
    pub signature: String,
    /// The number of the calling convention in XLA's enumeration `CustomCallApiVersion`.
    pub api_version: u32,
    /// The exported symbol of the target's function.
    pub symbol: String,
    /// The arguments; `None` if they are unknown or depend on the call's opaque string.
    #[serde(default)]
    pub args: Option<Vec<Shape>>,
    /// The results; `None` if they are unknown or depend on the call's opaque string.
    #[serde(default)]
    pub rets: Option<Vec<Shape>>,
    /// The pointers that XLA passes for tuples: `leaves` or `roots`; `None` if the manifest does not declare this.
    #[serde(default)]
    pub tuples: Option<String>,
    /// The nesting of operands and results, such as `(_, _), _ -> (_, (_))`; `None` if the manifest does not declare
    /// the nesting.
    #[serde(default)]
    pub structure: Option<String>,
}

/// The element type and dimensions that a target assumes for an operand.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct Shape {
    /// The element type by its C name without a prefix. The list has exactly one item.
    pub dtypes: Vec<String>,
    /// The size of each dimension.
    pub dims: Vec<u64>,
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dims: Vec<String> = self.dims.iter().map(u64::to_string).collect();
        write!(f, "{}[{}]", self.dtypes.join("|"), dims.join(","))
    }
}

/// The calling conventions of original custom calls, each with its API version.
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
