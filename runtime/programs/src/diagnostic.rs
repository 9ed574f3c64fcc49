//! What is wrong with a program that does not verify.

use std::fmt;
use xla_ffi_runtime::Error;

/// Which rule a program breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Rule {
    /// Names are made of letters, digits, `_`, `-` and `.`, and are no element type's.
    Name,
    /// No two instructions have the same name.
    UniqueName,
    /// Parameters are numbered from 0 without a gap.
    ParameterGap,
    /// No two parameters have the same number.
    ParameterTwice,
    /// Operands come from the same builder.
    UnknownOperand,
    /// The root comes from the same builder.
    UnknownRoot,
    /// Only a tuple has elements.
    NotATuple,
    /// A tuple's element exists.
    ElementRange,
    /// Tuples, and computations that call others, do not nest absurdly deep.
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
    /// Layouts are those of the operands' shapes.
    LayoutShape,
    /// A result has a layout only where its operands have.
    ResultLayout,
    /// A typed FFI handler is configured with attributes.
    OpaqueWithTypedFfi,
    /// Only typed FFI handlers have attributes.
    AttributesWithLegacy,
    /// Constants are arrays with values.
    Constant,
}

/// One broken rule: where, what was expected, and what came.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Diagnostic {
    /// The instruction's name; empty where the program as a whole is meant.
    pub instruction: String,
    /// Which rule it breaks.
    pub rule: Rule,
    /// What was expected and what came.
    pub message: String,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.instruction.is_empty() {
            // A name that is none may be anything.
            write!(f, "'{}': ", self.instruction.escape_debug())?;
        }
        f.write_str(&self.message)
    }
}

/// Why a program cannot be built: all diagnostics, in the order of its instructions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramError {
    pub(super) program: String,
    pub(super) diagnostics: Vec<Diagnostic>,
}

impl ProgramError {
    /// The diagnostics; there is at least one.
    #[must_use]
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics
    }

    /// Whether one of the diagnostics breaks `rule`.
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
