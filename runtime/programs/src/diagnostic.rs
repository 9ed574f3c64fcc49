//! The mistakes in a program that cannot be verified.

use std::fmt;
use xla_ffi_runtime::Error;

/// A rule for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Rule {
    /// Names consist of letters, digits, `_`, `-` and `.`, and are not the name of an element type.
    Name,
    /// No two instructions have the same name.
    UniqueName,
    /// Parameters are numbered from 0 without a gap.
    ParameterGap,
    /// No two parameters have the same number.
    ParameterTwice,
    /// Operands belong to the same builder.
    UnknownOperand,
    /// The root belongs to the same builder.
    UnknownRoot,
    /// Only a tuple has elements.
    NotATuple,
    /// A tuple's element exists.
    ElementRange,
    /// Tuples, and computations that call others, must not be nested too deep.
    Depth,
    /// Targets have a name.
    Target,
    /// An alias names an operand that exists.
    AliasOperand,
    /// An alias names an array in the operand and in the result.
    AliasIndex,
    /// Aliased arrays have the same element type, dimensions and layout.
    AliasShape,
    /// No array is aliased twice.
    AliasTwice,
    /// There is one layout for each operand.
    LayoutCount,
    /// Layouts match the operands' shapes.
    LayoutShape,
    /// A result has a layout only if the operands have layouts.
    ResultLayout,
    /// A typed FFI handler is configured with attributes.
    OpaqueWithTypedFfi,
    /// Only typed FFI handlers have attributes.
    AttributesWithLegacy,
    /// Constants are arrays with values.
    Constant,
}

/// A violation of one rule: the instruction, and the expected and actual values.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Diagnostic {
    /// The instruction's name; empty for the program as a whole.
    pub instruction: String,
    /// The violated rule.
    pub rule: Rule,
    /// The expected and the actual value.
    pub message: String,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.instruction.is_empty() {
            // An illegal name may contain any characters.
            write!(f, "'{}': ", self.instruction.escape_debug())?;
        }
        f.write_str(&self.message)
    }
}

/// The error of a program that cannot be built: all diagnostics, in the order of its instructions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramError {
    pub(super) program: String,
    pub(super) diagnostics: Vec<Diagnostic>,
}

impl ProgramError {
    /// Returns the diagnostics; there is at least one.
    #[must_use]
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics
    }

    /// Returns true if one of the diagnostics is about `rule`.
    #[must_use]
    pub fn breaks(&self, rule: Rule) -> bool {
        self.diagnostics
            .iter()
            .any(|diagnostic| diagnostic.rule == rule)
    }
}

impl fmt::Display for ProgramError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "program '{}' cannot be built:",
            self.program.escape_debug()
        )?;
        for diagnostic in &self.diagnostics {
            write!(f, "\n  {diagnostic}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ProgramError {}

impl From<ProgramError> for Error {
    fn from(error: ProgramError) -> Self {
        Self::invalid_argument(error.to_string()).with_source(error)
    }
}
