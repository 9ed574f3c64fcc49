//! Random programs, arguments for them, and the only target that they call.
//!
//! Proptest generates and shrinks a [`Plan`]; [`Plan::program`] builds the program. Every call has the target
//! [`TARGET`], a typed handler ([`mix`]) that reads every byte of its arguments. The bytes of its results depend on
//! all arguments, on the call's attribute `seed`, and on the shapes. If two hosts return the same bytes, they
//! therefore called the handler with the same bytes, in the same order and layout.
#![allow(dead_code, reason = "each test file uses a part of it")]

use proptest::collection::vec;
use proptest::prelude::*;
use std::ffi::c_void;
use std::sync::{Mutex, MutexGuard, PoisonError};
use xla_ffi_programs::{ApiVersion, ArrayShape, Builder, CustomCall, Program, ValueShape};
use xla_ffi_runtime::{Attributes, Bundle, DType, Runtime, Shape, Tensor, Tree};
use xla_ffi_sys::{
    XLA_FFI_Buffer, XLA_FFI_ByteSpan, XLA_FFI_CallFrame, XLA_FFI_Error, XLA_FFI_Metadata_Extension,
    XLA_FFI_Scalar,
};

/// The name under which [`mix`] is registered.
pub(crate) const TARGET: &str = "mix";

/// The plan of a leaf: an index into the allowed element types, and the dimensions.
type LeafPlan = (usize, Vec<i64>);

/// The plan of an instruction. Numbers select existing items, modulo the number of items.
#[derive(Clone, Debug)]
enum Step {
    Parameter(Tree<LeafPlan>),
    Constant(LeafPlan, u64),
    Tuple(Vec<usize>),
    Element(usize, usize),
    Call {
        operands: Vec<usize>,
        result: Tree<LeafPlan>,
        /// The leaves of operands that additional outputs alias.
        aliases: Vec<usize>,
        /// The number of positions by which the dimensions are rotated in the layouts; 0 for no layouts.
        turn: usize,
        side_effect: bool,
    },
}

/// A plan, from which a random program is built.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    dtypes: Vec<DType>,
    steps: Vec<Step>,
    root: usize,
}

/// Returns a strategy for plans with arrays of these element types.
pub(crate) fn plans(dtypes: Vec<DType>) -> impl Strategy<Value = Plan> {
    let dims = vec(prop_oneof![12 => 1..5_i64, 1 => Just(0)], 0..4);
    let leaf = (any::<usize>(), dims).boxed();
    let tree = leaf
        .clone()
        .prop_map(Tree::Leaf)
        .prop_recursive(3, 8, 3, |inner| vec(inner, 0..4).prop_map(Tree::tuple));
    let tree = tree.boxed();
    let call = (
        vec(any::<usize>(), 0..4),
        tree.clone(),
        vec(any::<usize>(), 0..3),
        prop_oneof![2 => Just(0_usize), 1 => 1..6_usize],
        prop::bool::weighted(0.2),
    )
        .prop_map(
            |(operands, result, aliases, turn, side_effect)| Step::Call {
                operands,
                result,
                aliases,
                turn,
                side_effect,
            },
        );
    let step = prop_oneof![
        3 => tree.prop_map(Step::Parameter),
        2 => (leaf, any::<u64>()).prop_map(|(leaf, seed)| Step::Constant(leaf, seed)),
        2 => vec(any::<usize>(), 0..4).prop_map(Step::Tuple),
        3 => (any::<usize>(), any::<usize>()).prop_map(|(of, element)| Step::Element(of, element)),
        5 => call,
    ];
    (vec(step, 1..14), any::<usize>()).prop_map(move |(steps, root)| Plan {
        dtypes: dtypes.clone(),
        steps,
        root,
    })
}

/// Returns all element types that arrays can have in XLA.
pub(crate) fn dtypes() -> Vec<DType> {
    DType::all()
        .filter(|dtype| !matches!(dtype, DType::S1 | DType::U1 | DType::Token))
        .collect()
}

impl Plan {
    /// Builds the program of this plan.
    pub(crate) fn program(&self) -> Program {
        let mut b = Builder::new("generated");
        let mut ops = vec![];
        let mut parameters = 0;
        for (number, step) in self.steps.iter().enumerate() {
            let pick = |wanted: &usize| (!ops.is_empty()).then(|| ops[wanted % ops.len()]);
            let op = match step {
                Step::Parameter(shape) => {
                    parameters += 1;
                    let name = format!("p{}", parameters - 1);
                    b.parameter(parameters - 1, self.shape(shape), name)
                }
                Step::Constant(leaf, seed) => b.constant(noise(&self.array(leaf), *seed)),
                Step::Tuple(elements) => {
                    let elements: Vec<_> = elements.iter().filter_map(pick).collect();
                    b.tuple(elements)
                }
                Step::Element(of, element) => {
                    let tuples: Vec<_> = ops
                        .iter()
                        .copied()
                        .filter(|op| elements(&b, *op) > 0)
                        .collect();
                    if tuples.is_empty() {
                        continue;
                    }
                    let tuple = tuples[of % tuples.len()];
                    let element = element % elements(&b, tuple);
                    b.get_tuple_element(tuple, element)
                }
                Step::Call {
                    operands,
                    result,
                    aliases,
                    turn,
                    side_effect,
                } => {
                    let operands: Vec<_> = operands.iter().filter_map(pick).collect();
                    let result = self.shape(result);
                    let call = call(&b, &operands, result, aliases, *turn)
                        .attributes(Attributes::new().with("seed", number as i64));
                    b.custom_call(if *side_effect {
                        call.with_side_effect()
                    } else {
                        call
                    })
                }
            };
            ops.push(op);
        }
        let root = match ops.len() {
            0 => b.tuple([]),
            count => ops[self.root % count],
        };
        b.build(root).expect("plans are made of what is there")
    }

    fn array(&self, (dtype, dims): &LeafPlan) -> Shape {
        let dtype = self.dtypes[dtype % self.dtypes.len()];
        Shape::new(dtype, dims.clone()).expect("small dimensions")
    }

    fn shape(&self, plan: &Tree<LeafPlan>) -> ValueShape {
        plan.map(|leaf| ArrayShape::new(self.array(leaf)))
    }
}

fn elements(b: &Builder, op: xla_ffi_programs::Op) -> usize {
    b.shape(op).and_then(Tree::elements).map_or(0, <[_]>::len)
}

/// Adds a call on the given operands. Its result has the given shape, followed by one array per aliased leaf.
fn call(
    b: &Builder,
    operands: &[xla_ffi_programs::Op],
    result: ValueShape,
    aliases: &[usize],
    turn: usize,
) -> CustomCall {
    let shapes: Vec<ValueShape> = operands
        .iter()
        .map(|op| b.shape(*op).expect("of this builder").clone())
        .collect();
    let flat = result.leaf().is_some()
        || result
            .elements()
            .is_some_and(|all| all.iter().all(|e| !e.is_tuple()));
    let turned = turn > 0 && flat && shapes.iter().all(|shape| !shape.is_tuple());
    let turned_shape = |shape: &ValueShape| {
        shape.map(|leaf| {
            let mut order = (0..leaf.dims().len()).rev().collect::<Vec<_>>();
            if turned && !order.is_empty() {
                let by = turn % order.len();
                order.rotate_left(by);
            }
            ArrayShape::with_layout(leaf.shape().clone(), order).expect("an order")
        })
    };
    let laid_out: Vec<_> = shapes.iter().map(turned_shape).collect();
    let mut places = vec![];
    for (operand, shape) in laid_out.iter().enumerate() {
        paths(shape, &mut vec![], &mut |path, leaf| {
            places.push((operand, path.to_vec(), leaf.clone()));
        });
    }
    let mut chosen: Vec<usize> = vec![];
    if !places.is_empty() {
        for wanted in aliases {
            let place = wanted % places.len();
            if !chosen.contains(&place) {
                chosen.push(place);
            }
        }
    }
    let mut outputs = vec![];
    let shape = match chosen.as_slice() {
        [] => turned_shape(&result),
        // The result is a single array, in the memory of an operand.
        [one] if result.leaf().is_some() => {
            outputs.push(vec![]);
            Tree::Leaf(places[*one].2.clone())
        }
        many => {
            let mut elements = match turned_shape(&result) {
                Tree::Tuple(elements) => elements,
                leaf @ Tree::Leaf(_) => vec![leaf],
            };
            for place in many {
                outputs.push(vec![elements.len()]);
                elements.push(Tree::Leaf(places[*place].2.clone()));
            }
            Tree::tuple(elements)
        }
    };
    let mut call = CustomCall::ffi(TARGET, operands.iter().copied(), shape);
    if turned {
        call = call.operand_layouts(laid_out);
    }
    for (output, place) in outputs.into_iter().zip(&chosen) {
        let (operand, path, _) = &places[*place];
        call = call.alias(output, *operand, path.clone());
    }
    call
}

fn paths(shape: &ValueShape, path: &mut Vec<usize>, f: &mut impl FnMut(&[usize], &ArrayShape)) {
    match shape {
        Tree::Leaf(leaf) => f(path, leaf),
        Tree::Tuple(elements) => {
            for (index, element) in elements.iter().enumerate() {
                path.push(index);
                paths(element, path, f);
                path.pop();
            }
        }
    }
}

/// Returns arguments with pseudorandom bytes for a program.
pub(crate) fn arguments(program: &Program) -> Vec<Tree<Tensor>> {
    let mut seed = 0x5EED;
    program
        .parameters()
        .map(|(_, shape)| {
            shape.map(|leaf| {
                seed += 1;
                noise(leaf.shape(), seed)
            })
        })
        .collect()
}

/// Returns an array of reproducible pseudorandom bytes. Booleans are 0 or 1, and the unused bits in the last byte of
/// packed types are 0.
pub(crate) fn noise(shape: &Shape, seed: u64) -> Tensor {
    let mut bytes = vec![0; shape.bytes()];
    fill(&mut bytes, shape.dtype(), shape.elements(), seed);
    Tensor::from_bytes(shape.clone(), &bytes).expect("as many bytes")
}

fn fill(bytes: &mut [u8], dtype: DType, elements: usize, seed: u64) {
    let mut state = seed;
    for byte in &mut *bytes {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        *byte = (state >> 56) as u8;
        if dtype == DType::Pred {
            *byte &= 1;
        }
    }
    // A copy through a register may change signalling NaNs to quiet NaNs.
    quiet(bytes, dtype);
    let used = elements * dtype.bits() % 8;
    if used > 0
        && let Some(last) = bytes.last_mut()
    {
        *last &= (1 << used) - 1;
    }
}

/// Clears the highest exponent bit of all floats, so that the array contains no infinities and NaNs.
fn quiet(bytes: &mut [u8], dtype: DType) {
    let width = match dtype {
        DType::F16 | DType::BF16 => 2,
        DType::F32 | DType::C64 => 4,
        DType::F64 | DType::C128 => 8,
        DType::F8E5M2
        | DType::F8E3M4
        | DType::F8E4M3
        | DType::F8E4M3FN
        | DType::F8E4M3B11FNUZ
        | DType::F8E5M2FNUZ
        | DType::F8E4M3FNUZ
        | DType::F8E8M0FNU => 1,
        _ => return,
    };
    for number in bytes.chunks_exact_mut(width) {
        number[width - 1] &= 0x3F;
    }
}

static CALLED: Mutex<Vec<i64>> = Mutex::new(Vec::new());

/// Returns a lock for tests that call [`mix`]. Tests run in parallel, and the counter of the calls is shared.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the seeds of the calls since the last call of this function, in order.
pub(crate) fn take_called() -> Vec<i64> {
    std::mem::take(&mut *CALLED.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Registers [`mix`] with a runtime as the handler [`TARGET`].
pub(crate) fn register(runtime: &Runtime) {
    // SAFETY: `mix` is a handler.
    let bundle = unsafe { Bundle::execute(mix) };
    runtime
        .register(TARGET, "Host", bundle)
        .expect("a registration");
}

/// The target of all generated calls, for any host; see the module documentation.
pub(crate) unsafe extern "C" fn mix(frame: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error {
    // SAFETY: hosts pass a valid frame.
    let extension = unsafe { (*frame).extension_start };
    if !extension.is_null() {
        // SAFETY: hosts pass no extension other than the metadata extension.
        let metadata = unsafe { (*extension.cast::<XLA_FFI_Metadata_Extension>()).metadata };
        // SAFETY: the host's metadata is writable.
        unsafe { (*metadata).api_version.major_version = 0 };
        // SAFETY: the host's metadata is writable.
        unsafe { (*metadata).api_version.minor_version = 1 };
        return std::ptr::null_mut();
    }
    // SAFETY: hosts pass a valid frame, whose fields have the same offsets in every revision.
    let args = unsafe { &(*frame).args };
    // SAFETY: hosts pass a valid frame, whose fields have the same offsets in every revision.
    let rets = unsafe { &(*frame).rets };
    // SAFETY: the list of arguments has `size` buffers.
    let args: Vec<_> = unsafe { operands(args.args, args.size) };
    // SAFETY: the list of results has `size` buffers.
    let rets: Vec<_> = unsafe { operands(rets.rets, rets.size) };
    // SAFETY: hosts pass a valid frame.
    let number = unsafe { seed(frame) };
    CALLED
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(number);
    let mut sum = number as u64 ^ 0xCBF2_9CE4_8422_2325;
    let mut eat = |byte: u8| sum = (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3);
    for (dtype, dims, bytes) in &args {
        eat(dtype.raw().0 as u8);
        dims.iter().for_each(|dim| eat(*dim as u8));
        let used = dims.iter().product::<i64>() as usize * dtype.bits() % 8;
        for offset in 0..bytes.1 {
            // SAFETY: the offset is inside the buffer, whose bytes are initialised.
            let byte = unsafe { bytes.0.wrapping_add(offset).read() };
            // In XLA's constants, the bits after the last packed element are arbitrary.
            let last = used > 0 && offset + 1 == bytes.1;
            eat(if last { byte & ((1 << used) - 1) } else { byte });
        }
    }
    for (index, (dtype, dims, (data, size))) in rets.into_iter().enumerate() {
        let elements = dims.iter().product::<i64>() as usize;
        let mut bytes = vec![0; size];
        fill(&mut bytes, dtype, elements, sum.wrapping_add(index as u64));
        if size > 0 {
            // SAFETY: a result's buffer has the size of its shape.
            unsafe { data.copy_from_nonoverlapping(bytes.as_ptr(), size) };
        }
    }
    std::ptr::null_mut()
}

type Operand = (DType, Vec<i64>, (*mut u8, usize));

/// Returns the operands of a list.
///
/// # Safety
/// The list must have `count` buffers.
unsafe fn operands(list: *mut *mut c_void, count: i64) -> Vec<Operand> {
    (0..count as usize)
        .map(|index| {
            // SAFETY: the caller upholds this function's safety contract.
            let buffer = unsafe { list.wrapping_add(index).read() }.cast::<XLA_FFI_Buffer>();
            // SAFETY: the operands are buffers, whose layout is the same in every revision.
            let buffer = unsafe { &*buffer };
            let (dtype, rank) = (buffer.dtype, buffer.rank as usize);
            let (dims, data) = (buffer.dims, buffer.data);
            let dims = if rank == 0 {
                vec![]
            } else {
                // SAFETY: the buffer has `rank` dimensions.
                unsafe { std::slice::from_raw_parts(dims, rank) }.to_vec()
            };
            let dtype = DType::from_raw(dtype).expect("an element type");
            let shape = Shape::new(dtype, dims.clone()).expect("a shape");
            (dtype, dims, (data.cast(), shape.bytes()))
        })
        .collect()
}

/// Returns the attribute `seed` of a call.
///
/// # Safety
/// `frame` must belong to a call of [`mix`].
unsafe fn seed(frame: *mut XLA_FFI_CallFrame) -> i64 {
    // SAFETY: hosts pass a valid frame.
    let attrs = unsafe { &(*frame).attrs };
    for index in 0..attrs.size as usize {
        // SAFETY: the list of names has `size` entries.
        let name: *const XLA_FFI_ByteSpan = unsafe { attrs.names.wrapping_add(index).read() };
        // SAFETY: names are byte spans.
        let name = unsafe { &*name };
        // SAFETY: hosts pass valid spans.
        let name = unsafe { std::slice::from_raw_parts(name.ptr.cast::<u8>(), name.len) };
        if name == b"seed" {
            // SAFETY: the list of attributes has `size` entries.
            let scalar = unsafe { attrs.attrs.wrapping_add(index).read() }.cast::<XLA_FFI_Scalar>();
            // SAFETY: the attribute `seed` is a scalar.
            let value = unsafe { (*scalar).value };
            // SAFETY: the scalar has 64 bits.
            return unsafe { value.cast::<i64>().read() };
        }
    }
    panic!("the call has no seed");
}

/// The API version of all generated calls.
pub(crate) const API_VERSION: ApiVersion = ApiVersion::TypedFfi;
