//! Prints programs as HLO text, in XLA's format.

use super::custom_call::Config;
use super::instruction::{Instruction, Kind};
use super::{ApiVersion, CustomCall, Program, Schedule, literal};
use std::fmt::Write;
use xla_ffi_runtime::__programs::Indices;
use xla_ffi_runtime::{Error, ErrorCode, Result};

impl Program {
    /// Prints the program as an HLO module.
    ///
    /// The text contains all parts of the program: layouts, aliases, literals, schedules and called computations.
    /// Opaque bytes are escaped as in C. Attributes are printed as an MLIR dictionary.
    ///
    /// # Errors
    /// `UNIMPLEMENTED` for attributes that MLIR cannot express (complex numbers, one-bit integers), and for empty
    /// arrays whose text would have too many brackets.
    pub fn to_hlo(&self) -> Result<String> {
        let computations = self.computations();
        let parameters: Vec<_> = self
            .parameters()
            .map(|(_, shape)| shape.to_string())
            .collect();
        let mut text = format!(
            "HloModule {}, entry_computation_layout={{({})->{}}}\n",
            self.name(),
            parameters.join(", "),
            self.result()
        );
        for (computation, name) in &computations {
            computation.print(&mut text, "", name, &computations)?;
        }
        self.print(&mut text, "ENTRY ", "main", &computations)?;
        Ok(text)
    }

    fn print(
        &self,
        text: &mut String,
        prefix: &str,
        name: &str,
        computations: &[(Self, String)],
    ) -> Result<()> {
        let parameters: Vec<_> = self
            .parameters()
            .map(|(name, shape)| format!("{name}: {}", shape.without_layouts()))
            .collect();
        let result = self.result().without_layouts();
        let _ = writeln!(
            text,
            "\n{prefix}%{name} ({}) -> {result} {{",
            parameters.join(", ")
        );
        for (index, instruction) in self.inner.instructions.iter().enumerate() {
            let root = if index == self.inner.root {
                "ROOT "
            } else {
                ""
            };
            let what = self.right_side(instruction, computations)?;
            let _ = writeln!(
                text,
                "  {root}%{} = {} {what}",
                instruction.name, instruction.shape
            );
        }
        text.push_str("}\n");
        Ok(())
    }

    /// Writes the text of an instruction after its name and shape.
    fn right_side(
        &self,
        instruction: &Instruction,
        computations: &[(Self, String)],
    ) -> Result<String> {
        let operands: Vec<_> = instruction
            .kind
            .operands()
            .iter()
            .map(|&operand| format!("%{}", self.instruction(operand).name))
            .collect();
        let opcode = instruction.kind.opcode();
        let inside = match &instruction.kind {
            Kind::Parameter(number) => number.to_string(),
            Kind::Constant(tensor) => {
                literal::hlo(tensor).map_err(|why| unprintable("HLO", &instruction.name, &why))?
            }
            _ => operands.join(", "),
        };
        let mut text = format!("{opcode}({inside})");
        match &instruction.kind {
            Kind::GetTupleElement { element, .. } => {
                let _ = write!(text, ", index={element}");
            }
            Kind::CustomCall(call) => {
                for attribute in self.call_attributes(instruction, call, computations)? {
                    text += ", ";
                    text += &attribute;
                }
            }
            _ => {}
        }
        Ok(text)
    }

    fn call_attributes(
        &self,
        instruction: &Instruction,
        call: &CustomCall<usize>,
        computations: &[(Self, String)],
    ) -> Result<Vec<String>> {
        let mut attributes = vec![format!(
            "custom_call_target={}",
            quoted(call.target.as_bytes())
        )];
        let mut add = |condition: bool, text: &dyn Fn() -> String| {
            if condition {
                attributes.push(text());
            }
        };
        // If one call of a program has layouts, XLA chooses the layouts of calls without layouts. Row-major layouts
        // are therefore written explicitly.
        let layouts = call.operands.iter().enumerate().map(|(place, &operand)| {
            match call.operand_layouts.as_deref() {
                Some(layouts) => layouts[place].to_string(),
                None => self.instruction(operand).shape.row_major().to_string(),
            }
        });
        let layouts = list(layouts);
        add(true, &|| {
            format!("operand_layout_constraints={{{layouts}}}")
        });
        add(!call.called.is_empty(), &|| {
            let names = call.called.iter().map(|called| {
                let found = computations.iter().find(|(known, _)| known.is(called));
                format!("%{}", found.map_or("", |(_, name)| name))
            });
            format!("called_computations={{{}}}", list(names))
        });
        add(call.side_effect, &|| {
            "custom_call_has_side_effect=true".to_owned()
        });
        if let Some(literal) = &call.literal {
            let shape = super::ArrayShape::new(literal.shape().clone());
            let text =
                literal::hlo(literal).map_err(|why| unprintable("HLO", &instruction.name, &why))?;
            add(true, &|| format!("literal={shape} {text}"));
        }
        add(!call.aliases.is_empty(), &|| {
            let aliases = call.aliases.iter().map(|alias| {
                let (output, index) = (Indices(&alias.output), Indices(&alias.operand_index));
                format!("{output}: ({}, {index})", alias.operand)
            });
            format!("output_to_operand_aliasing={{{}}}", list(aliases))
        });
        add(call.schedule != Schedule::None, &|| {
            format!("schedule={}", call.schedule)
        });
        add(call.api_version != ApiVersion::Original, &|| {
            format!("api_version={}", call.api_version)
        });
        match &call.config {
            Config::Opaque(opaque) if opaque.is_empty() => {}
            Config::Opaque(opaque) => {
                attributes.push(format!("backend_config={}", quoted(opaque)));
            }
            Config::Attributes(dictionary) => {
                let text = literal::mlir_dictionary(dictionary)
                    .map_err(|why| unprintable("HLO", &instruction.name, &why))?;
                attributes.push(format!("backend_config={text}"));
            }
        }
        Ok(attributes)
    }
}

pub(super) fn unprintable(language: &str, instruction: &str, why: &str) -> Error {
    Error::new(
        ErrorCode::Unimplemented,
        format!("'{instruction}' cannot be printed as {language}: {why}"),
    )
}

fn list(items: impl Iterator<Item = String>) -> String {
    items.collect::<Vec<_>>().join(", ")
}

/// Returns bytes as a quoted string with the escapes of C. Bytes that are not ASCII become three octal digits.
fn quoted(bytes: &[u8]) -> String {
    let mut text = "\"".to_owned();
    for &byte in bytes {
        match byte {
            b'"' => text += "\\\"",
            b'\\' => text += "\\\\",
            b'\n' => text += "\\n",
            b'\r' => text += "\\r",
            b'\t' => text += "\\t",
            0x20..=0x7E => text.push(byte.into()),
            _ => {
                let _ = write!(text, "\\{byte:03o}");
            }
        }
    }
    text + "\""
}
