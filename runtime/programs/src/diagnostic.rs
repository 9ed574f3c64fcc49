//! The rules for programs, and the errors for programs that break a rule.

use std::fmt;
use xla_ffi_runtime::Error;

/// A rule that every program must follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Rule {
    /// Names consist of letters, digits, `_`, `-` and `.`, and are not names of element types.
    Name,
    /// Each instruction has a different name.
    UniqueName,
    /// The parameters are numbered from 0 without a gap.
    ParameterGap,
    /// Each parameter has a different number.
    ParameterTwice,
    /// Operands are instructions of the same builder.
    UnknownOperand,
    /// The root is an instruction of the same builder.
    UnknownRoot,
    /// `get-tuple-element` is only used on tuples.
    NotATuple,
    /// The index of `get-tuple-element` is less than the number of elements.
    ElementRange,
    /// Tuples, and computations that call computations, are not nested too deeply.
    Depth,
    /// The target of a custom call has a name.
    Target,
    /// An alias refers to an existing operand.
    AliasOperand,
    /// An alias refers to an existing array in the operand and in the result.
    AliasIndex,
    /// The two arrays of an alias have the same element type, dimensions and layout.
    AliasShape,
    /// Each array is part of at most one alias.
    AliasTwice,
    /// A call with layouts has one layout per operand.
    LayoutCount,
    /// The layouts of a call match the shapes of its operands.
    LayoutShape,
    /// A result may only have a layout if the operands have layouts.
    ResultLayout,
    /// The configuration of a typed FFI handler is a dictionary of attributes.
    OpaqueWithTypedFfi,
    /// Only typed FFI handlers have attributes; legacy targets have opaque bytes.
    AttributesWithLegacy,
    /// Constants are arrays, not tokens.
    Constant,
}

/// A violation of a rule: the instruction, and the expected and actual values.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Diagnostic {
    /// The instruction's name; empty if the violation concerns the whole program.
    pub instruction: String,
    /// The rule that the program breaks.
    pub rule: Rule,
    /// The expected and the actual value, as text.
    pub message: String,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.instruction.is_empty() {
            // The name is escaped, because an illegal name may contain any characters.
            write!(f, "'{}': ", self.instruction.escape_debug())?;
        }
        f.write_str(&self.message)
    }
}

/// The error for a program that cannot be built, with all diagnostics in the order of the instructions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramError {
    pub(super) program: String,
    pub(super) diagnostics: Vec<Diagnostic>,
}

impl ProgramError {
    /// Returns the diagnostics, at least one.
    #[must_use]
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics
    }

    /// Returns true if a diagnostic is about `rule`.
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
