//! The instructions of a program.

use super::Program;
use super::{CustomCall, ValueShape};
use xla_ffi_runtime::Tensor;

/// An instruction of a verified program. Its operands are the indices of earlier instructions.
#[derive(Clone, Debug)]
pub(super) struct Instruction {
    pub(super) name: String,
    pub(super) shape: ValueShape,
    pub(super) kind: Kind,
}

/// The operation of an instruction.
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
    /// Returns HLO's name of the instruction's operation.
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

/// Returns, for each instruction, whether it runs. As in XLA, unused calls do not run unless they have side effects,
/// and an array without elements counts as a constant.
///
/// The behaviour was measured with jaxlib 0.12.0's CPU compiler: a call whose results are all unused or empty only
/// runs if it has side effects.
pub(super) fn live(program: &Program) -> Vec<bool> {
    let instructions = &program.inner.instructions;
    let mut live = vec![false; instructions.len()];
    let mut wanted: Vec<(usize, Vec<usize>)> = vec![];
    // The uses of the result are its arrays, as in StableHLO.
    leaves(program.result(), &mut vec![], &mut |path| {
        wanted.push((program.inner.root, path.to_vec()));
    });
    for (index, instruction) in instructions.iter().enumerate() {
        if let Kind::CustomCall(call) = &instruction.kind {
            if call.side_effect {
                live[index] = true;
                wanted.extend(call.operands.iter().map(|&operand| (operand, vec![])));
            }
        }
    }
    while let Some((index, path)) = wanted.pop() {
        let instruction = &instructions[index];
        if let Some(ValueShape::Leaf(leaf)) = instruction.shape.get(&path) {
            if leaf.is_empty() {
                continue;
            }
        }
        match &instruction.kind {
            Kind::Parameter(_) | Kind::Constant(_) | Kind::Token => live[index] = true,
            Kind::Tuple(operands) => match path.split_first() {
                Some((&element, rest)) => wanted.push((operands[element], rest.to_vec())),
                None => wanted.extend(operands.iter().map(|&operand| (operand, vec![]))),
            },
            Kind::GetTupleElement { operand, element } => {
                let path = [&[*element], path.as_slice()].concat();
                wanted.push((*operand, path));
            }
            Kind::CustomCall(call) => {
                if !std::mem::replace(&mut live[index], true) {
                    wanted.extend(call.operands.iter().map(|&operand| (operand, vec![])));
                }
            }
        }
    }
    live
}

/// Calls `f` with the path of each leaf of a shape.
pub(super) fn leaves(shape: &ValueShape, path: &mut Vec<usize>, f: &mut impl FnMut(&[usize])) {
    match shape {
        ValueShape::Leaf(_) => f(path),
        ValueShape::Tuple(elements) => {
            for (index, element) in elements.iter().enumerate() {
                path.push(index);
                leaves(element, path, f);
                path.pop();
            }
        }
    }
}
