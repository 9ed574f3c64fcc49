//! The values of instructions while a program runs, with their memory and layouts.

use crate::instruction::{Kind, leaves};
use crate::{ArrayShape, CustomCall, Program, ValueShape};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_void;
use xla_ffi_runtime::scalar_codec::{load, store};
use xla_ffi_runtime::{Error, Result, Shape, Tensor, Tree};

/// The index of an instruction and the index of a leaf of its value.
pub(super) type Place = (usize, usize);
/// The caller's tensors to which calls write leaves of their results.
pub(super) type Places = BTreeMap<Place, Tensor>;

/// Returns, for each leaf of the program's result, the leaf of a call that is returned unchanged, if any.
pub(super) fn places(program: &Program) -> Vec<Option<Place>> {
    let instructions = &program.inner.instructions;
    let mut taken = BTreeSet::new();
    let count = program.result().leaves().count();
    (0..count)
        .map(|mut leaf| {
            let mut at = program.inner.root;
            loop {
                match &instructions[at].kind {
                    Kind::CustomCall(call) => {
                        let layout = call.shape.leaves().nth(leaf)?;
                        let place = (at, leaf);
                        return (layout.is_row_major() && taken.insert(place)).then_some(place);
                    }
                    Kind::Tuple(operands) => {
                        for &operand in operands {
                            let own = instructions[operand].shape.leaves().count();
                            at = operand;
                            if leaf < own {
                                break;
                            }
                            leaf -= own;
                        }
                    }
                    Kind::GetTupleElement { operand, element } => {
                        let Tree::Tuple(elements) = &instructions[*operand].shape else {
                            return None;
                        };
                        let before = elements.iter().take(*element);
                        leaf += before.map(|tree| tree.leaves().count()).sum::<usize>();
                        at = *operand;
                    }
                    _ => return None,
                }
            }
        })
        .collect()
}

/// Returns the pointer to an array for a legacy target. It is never null, because a null pointer may mark a hidden
/// node of a tuple.
pub(super) fn address(tensor: &Tensor) -> *mut c_void {
    tensor.bytes().as_ptr().cast_mut().cast()
}

/// Returns the value of an instruction. The last use removes the value from the list, so that its arrays have no
/// other owner.
pub(super) fn read(
    values: &mut [Option<Tree<Tensor>>],
    uses: &mut [usize],
    index: usize,
) -> Tree<Tensor> {
    uses[index] = uses[index].saturating_sub(1);
    let value = if uses[index] == 0 {
        values[index].take()
    } else {
        values[index].clone()
    };
    value.unwrap_or(Tree::tuple([]))
}

/// Returns a placeholder for the result of a call that does not run. Other instructions may use its empty arrays; the
/// other arrays have no memory.
pub(super) fn placeholder(shape: &ValueShape) -> Result<Tree<Tensor>> {
    shape.try_map(|leaf| {
        if leaf.is_empty() {
            Tensor::zeros(leaf.shape().clone())
        } else {
            Tensor::zeros(Shape::new(leaf.dtype(), [0])?)
        }
    })
}

/// Returns the operands' shapes, with the layouts in which the target receives them.
pub(super) fn operand_layouts(
    call: &CustomCall<usize>,
    operands: &[Tree<Tensor>],
) -> Vec<ValueShape> {
    operands
        .iter()
        .enumerate()
        .map(|(number, operand)| {
            let shape = operand.map(|tensor| ArrayShape::new(tensor.shape().clone()));
            call.laid_out(number, &shape).clone()
        })
        .collect()
}

/// Returns, for each operand, the index of its first leaf among the leaves of all operands.
pub(super) fn starts(operands: &[Tree<Tensor>]) -> Vec<usize> {
    let mut next = 0;
    operands
        .iter()
        .map(|operand| {
            let start = next;
            next += operand.leaves().count();
            start
        })
        .collect()
}

/// Returns, for each leaf of the result, the leaf of the operands whose memory it shares.
pub(super) fn alias_sources(
    call: &CustomCall<usize>,
    starts: &[usize],
    operands: &[ValueShape],
) -> Vec<Option<usize>> {
    let place = |shape: &ValueShape, wanted: &[usize]| {
        let (mut count, mut found) = (0, None);
        leaves(shape, &mut vec![], &mut |path| {
            if path == wanted {
                found = Some(count);
            }
            count += 1;
        });
        found
    };
    let mut sources = vec![None; call.shape.leaves().count()];
    for alias in &call.aliases {
        let operand = operands.get(alias.operand);
        let source = operand.and_then(|shape| place(shape, &alias.operand_index));
        if let (Some(output), Some(source)) = (place(&call.shape, &alias.output), source) {
            sources[output] = Some(starts[alias.operand] + source);
        }
    }
    sources
}

/// Converts results from the target's layouts to row-major. Also checks the results' shapes, because the caller's
/// closure may have changed the call, and later instructions rely on the shapes.
pub(super) fn to_row_major(call: &CustomCall<usize>, results: Vec<Tensor>) -> Result<Tree<Tensor>> {
    let mut results = results.into_iter();
    let tree = call.shape.try_map(|leaf| {
        let tensor = results.next().ok_or_else(|| {
            Error::invalid_argument("the call gave fewer results than its shape has")
        })?;
        if tensor.shape() != leaf.shape() {
            return Err(Error::invalid_argument(format!(
                "the call gave a result {} for {} of the program",
                tensor.shape(),
                leaf.shape()
            )));
        }
        if leaf.is_row_major() {
            Ok(tensor)
        } else {
            row_major(&tensor, leaf)
        }
    })?;
    match results.next() {
        None => Ok(tree),
        Some(_) => Err(Error::invalid_argument(
            "the call gave more results than its shape has",
        )),
    }
}

/// Returns the bytes of a row-major array in the order of `layout`. The dimensions do not change.
pub(super) fn to_layout(tensor: &Tensor, layout: &ArrayShape) -> Result<Tensor> {
    permuted(tensor, layout, |row_major, laid_out| (row_major, laid_out))
}

/// Returns a row-major array from an array whose bytes are in the order of `layout`.
pub(super) fn row_major(tensor: &Tensor, layout: &ArrayShape) -> Result<Tensor> {
    permuted(tensor, layout, |row_major, laid_out| (laid_out, row_major))
}

/// Copies elements from one order to a different order. `way` receives the position of an element in row-major order
/// and in the layout. It returns the positions in the source and in the destination.
fn permuted(
    tensor: &Tensor,
    layout: &ArrayShape,
    way: impl Fn(usize, usize) -> (usize, usize),
) -> Result<Tensor> {
    if layout.is_row_major() || tensor.shape().elements() == 0 {
        return Ok(tensor.clone());
    }
    let shape: &Shape = tensor.shape();
    let mut strides = vec![1; shape.dims().len()];
    let mut stride = 1;
    for &dim in layout.minor_to_major() {
        strides[dim] = stride;
        stride *= shape.dims()[dim] as usize;
    }
    let mut bytes = vec![0; shape.bytes()];
    let mut index = vec![0_usize; strides.len()];
    for row_major in 0..shape.elements() {
        let laid_out = index.iter().zip(&strides).map(|(i, s)| i * s).sum();
        let (from, to) = way(row_major, laid_out);
        let element = load(tensor.bytes(), shape.dtype(), from);
        store(&mut bytes, shape.dtype(), to, element);
        for (i, &dim) in index.iter_mut().zip(shape.dims()).rev() {
            *i += 1;
            if *i < dim as usize {
                break;
            }
            *i = 0;
        }
    }
    Tensor::from_bytes(shape.clone(), &bytes)
}
