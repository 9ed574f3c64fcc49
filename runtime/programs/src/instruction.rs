//! The instructions of a program.

use super::{CustomCall, ValueShape};
use xla_ffi_runtime::Tensor;

/// An instruction of a verified program: operands are places of earlier instructions.
#[derive(Clone, Debug)]
pub(super) struct Instruction {
    pub(super) name: String,
    pub(super) shape: ValueShape,
    pub(super) kind: Kind,
}

/// What an instruction does.
#[derive(Clone, Debug)]
pub(super) enum Kind {
    Parameter(usize),
    Constant(Tensor),
    Token,
    Tuple(Vec<usize>),
    GetTupleElement { operand: usize, element: usize },
    CustomCall(Box<CustomCall<usize>>),
}

impl Kind {
    /// HLO's word for it.
    pub(super) fn opcode(&self) -> &'static str {
        match self {
            Self::Parameter(_) => "parameter",
            Self::Constant(_) => "constant",
            Self::Token => "after-all",
            Self::Tuple(_) => "tuple",
            Self::GetTupleElement { .. } => "get-tuple-element",
            Self::CustomCall(_) => "custom-call",
        }
    }

    pub(super) fn operands(&self) -> &[usize] {
        match self {
            Self::Parameter(_) | Self::Constant(_) | Self::Token => &[],
            Self::Tuple(operands) => operands,
            Self::GetTupleElement { operand, .. } => std::slice::from_ref(operand),
            Self::CustomCall(call) => &call.operands,
        }
    }
}
