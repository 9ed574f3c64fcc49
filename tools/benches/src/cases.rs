//! The measured cases, and malformed frames that test whether handlers in all languages make the same checks.

use crate::frame::{Attrs, Frame, Host, frame};
use xla_ffi_sys::*;

/// The kind of a case, by the expected outcome of its call.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Success,
    /// A successful call with operands in device memory, for which the languages make different
    /// checks.
    Device,
    Error,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Device => "device",
            Self::Error => "error",
        }
    }
}

/// A handler and the frame of its call.
pub(crate) struct Case {
    /// The name of the case in the printed table.
    pub(crate) name: &'static str,
    /// The name of the handler's function in every library.
    pub(crate) symbol: &'static str,
    pub(crate) kind: Kind,
    /// Creates the frame of the case.
    pub(crate) frame: fn(&Host) -> Frame,
}

const FIELDS: [&str; 8] = [
    "alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta",
];

fn operands<const ARGS: usize, const RETS: usize>(host: &Host) -> Frame {
    frame(host, ARGS, RETS, Attrs::numbers(&[]))
}

fn attrs<const COUNT: usize>(host: &Host) -> Frame {
    frame(host, 0, 0, Attrs::numbers(&FIELDS[..COUNT]))
}

fn dictionary(host: &Host) -> Frame {
    frame(
        host,
        0,
        0,
        Attrs::dictionary("config", Attrs::numbers(&FIELDS)),
    )
}

fn mixed(host: &Host) -> Frame {
    frame(host, 1, 1, Attrs::numbers(&["alpha"]))
}

/// Returns an address that is not null as the stream, so that the operands count as device memory. The stream is never
/// used.
unsafe extern "C" fn stream_of_device(args: *mut XLA_FFI_Stream_Get_Args) -> *mut XLA_FFI_Error {
    // SAFETY: handlers pass valid arguments to the functions of their host.
    unsafe { (*args).stream = std::ptr::without_provenance_mut(0x5000) };
    std::ptr::null_mut()
}

fn on_device(host: &Host) -> Frame {
    let frame = mixed(host);
    let mut api = *host.api;
    api.XLA_FFI_Stream_Get = Some(stream_of_device);
    // SAFETY: the benchmark owns the frame, and no other code accesses the frame yet.
    unsafe { (*frame.raw).api = Box::leak(Box::new(api)) };
    frame
}

fn wrong_dtype(host: &Host) -> Frame {
    let frame = operands::<4, 0>(host);
    let third = frame.args[2];
    // SAFETY: the benchmark owns the buffer, and no other code accesses the buffer yet.
    unsafe { (*third).dtype = XLA_FFI_DataType::F64 };
    frame
}

/// Returns a frame in which one dimension is so large that the number of elements may overflow.
fn large(host: &Host) -> Frame {
    let frame = operands::<4, 0>(host);
    let third = frame.args[2];
    // SAFETY: the benchmark owns the buffer, and no other code accesses the buffer yet.
    unsafe { (*third).dims = dims([1 << 30, 4]) };
    frame
}

/// All cases, in the order of the table.
pub(crate) const CASES: [Case; 18] = {
    const fn case(name: &'static str, symbol: &'static str, frame: fn(&Host) -> Frame) -> Case {
        Case {
            name,
            symbol,
            kind: Kind::Success,
            frame,
        }
    }
    const fn error(name: &'static str, symbol: &'static str, frame: fn(&Host) -> Frame) -> Case {
        Case {
            name,
            symbol,
            kind: Kind::Error,
            frame,
        }
    }
    [
        case("1 argument", "args_1", operands::<1, 0>),
        case("4 arguments", "args_4", operands::<4, 0>),
        case("8 arguments", "args_8", operands::<8, 0>),
        case("16 arguments", "args_16", operands::<16, 0>),
        case("4 arguments, one of 2^30 rows", "args_4", large),
        case("8 results", "rets_8", operands::<0, 8>),
        case("8 arguments, 8 results", "args_8_rets_8", operands::<8, 8>),
        case("1 scalar attribute", "attrs_1", attrs::<1>),
        case("4 scalar attributes", "attrs_4", attrs::<4>),
        case("8 scalar attributes", "attrs_8", attrs::<8>),
        case(
            "struct of 8 from a dictionary",
            "struct_dictionary",
            dictionary,
        ),
        case(
            "struct of 8 from the attributes",
            "struct_attributes",
            attrs::<8>,
        ),
        case("1 argument, 1 result, 1 attribute", "mixed", mixed),
        case(
            "shape contract over 3 operands",
            "contract",
            operands::<2, 1>,
        ),
        case("async, completed inline", "async_inline", operands::<1, 0>),
        error("handler returns an error", "singular", operands::<1, 0>),
        error("wrong dtype", "args_4", wrong_dtype),
        Case {
            name: "1 of each on a device, its stream",
            symbol: "device",
            kind: Kind::Device,
            frame: on_device,
        },
    ]
};

type Spoil = fn(&mut XLA_FFI_Buffer);

/// The defects of a buffer that handlers must reject.
const BUFFERS: [(&str, Spoil); 10] = [
    ("struct size", |b| b.struct_size -= 1),
    ("dtype", |b| b.dtype = XLA_FFI_DataType::S32),
    ("rank 1", |b| b.rank = 1),
    ("rank 3", |b| b.rank = 3),
    ("null dims", |b| b.dims = std::ptr::null_mut()),
    ("negative dimension", |b| b.dims = dims([-1, 4])),
    ("overflow of elements", |b| {
        b.dims = dims([1 << 40, 1 << 40])
    }),
    ("overflow of bytes", |b| b.dims = dims([1 << 31, 1 << 31])),
    ("null data", |b| b.data = std::ptr::null_mut()),
    ("misaligned data", |b| b.data = b.data.wrapping_byte_add(2)),
];

fn dims(dims: [i64; 2]) -> *mut i64 {
    Box::leak(Box::new(dims)).as_mut_ptr()
}

/// Returns frames of a case, each with one defect, which handlers that make all checks reject.
pub(crate) fn malformed(case: &Case, host: &Host) -> Vec<(String, Frame)> {
    let mut all = Vec::new();
    let good = (case.frame)(host);
    let mut add = |what: &str, spoil: &dyn Fn(&mut XLA_FFI_CallFrame)| {
        let frame = (case.frame)(host);
        // SAFETY: the benchmark owns the frame, and no other code accesses the frame yet.
        spoil(unsafe { &mut *frame.raw });
        all.push((what.to_owned(), frame));
    };
    add("frame's struct size", &|f| f.struct_size -= 1);
    add("arguments' struct size", &|f| f.args.struct_size -= 1);
    add("results' struct size", &|f| f.rets.struct_size -= 1);
    add("attributes' struct size", &|f| f.attrs.struct_size -= 1);
    add("stage", &|f| f.stage = XLA_FFI_ExecutionStage::INITIALIZE);
    add("an argument too many", &|f| f.args.size += 1);
    add("a result too many", &|f| f.rets.size += 1);
    add("an attribute too many", &|f| f.attrs.size += 1);
    add("negative counts", &|f| {
        (f.args.size, f.rets.size, f.attrs.size) = (-1, -1, -1);
    });
    // SAFETY: the benchmark owns the frame.
    let attrs = unsafe { (*good.raw).attrs.size } as usize;
    for index in 0..attrs {
        add(&format!("type of attribute {index}"), &|f| {
            // SAFETY: the index is within the frame's list.
            let kind = unsafe { f.attrs.types.add(index) };
            // SAFETY: the pointer is to an element of the frame's list.
            unsafe { *kind = XLA_FFI_AttrType::ARRAY };
        });
        add(&format!("name of attribute {index}"), &|f| {
            // SAFETY: the index is within the frame's list.
            let name = unsafe { f.attrs.names.add(index) };
            // SAFETY: the pointer is to an element of the frame's list.
            let name = unsafe { *name };
            // SAFETY: the benchmark owns the name, which becomes one byte shorter and stays valid.
            unsafe { (*name).len -= 1 };
        });
        add(&format!("null attribute {index}"), &|f| {
            // SAFETY: the index is within the frame's list.
            let value = unsafe { f.attrs.attrs.add(index) };
            // SAFETY: the pointer is to an element of the frame's list.
            unsafe { *value = std::ptr::null_mut() };
        });
        if case.symbol != "struct_dictionary" {
            add(&format!("dtype of attribute {index}"), &|f| {
                // SAFETY: the index is within the frame's list.
                let scalar = unsafe { f.attrs.attrs.add(index) };
                // SAFETY: the pointer is to an element of the frame's list.
                let scalar = unsafe { *scalar };
                // SAFETY: the attributes of all other cases are scalars.
                unsafe { (*scalar.cast::<XLA_FFI_Scalar>()).dtype = XLA_FFI_DataType::F32 };
            });
        }
    }
    for index in 0..good.args.len() + good.rets.len() {
        for (what, spoil) in BUFFERS {
            let frame = (case.frame)(host);
            let buffers: Vec<_> = frame.operands().collect();
            let buffer = buffers[index];
            // SAFETY: the benchmark owns the buffer, and no other code accesses the buffer yet.
            spoil(unsafe { &mut *buffer });
            all.push((format!("operand {index}: {what}"), frame));
        }
    }
    // For each pair of results, adds a frame in which both results have the same address.
    for ret in 0..good.rets.len() {
        for other in good.args.len()..good.args.len() + ret {
            let frame = (case.frame)(host);
            let buffers: Vec<_> = frame.operands().collect();
            // SAFETY: the benchmark owns the buffer, and no other code accesses the buffer yet.
            let data = unsafe { (*buffers[other]).data };
            let result = buffers[good.args.len() + ret];
            // SAFETY: the benchmark owns the buffer, and no other code accesses the buffer yet.
            unsafe { (*result).data = data };
            all.push((
                format!("result {ret} in the place of operand {other}"),
                frame,
            ));
        }
    }
    all
}

/// Returns frames of a case in which one result has the same address and size as one argument.
pub(crate) fn coincident(case: &Case, host: &Host) -> Vec<(String, Frame)> {
    let good = (case.frame)(host);
    let mut all = Vec::new();
    for ret in 0..good.rets.len() {
        for arg in 0..good.args.len() {
            let frame = (case.frame)(host);
            let result = frame.rets[ret];
            // SAFETY: the benchmark owns the buffer, and no other code accesses the buffer yet.
            let data = unsafe { (*frame.args[arg]).data };
            // SAFETY: the benchmark owns the buffer, and no other code accesses the buffer yet.
            unsafe { (*result).data = data };
            all.push((
                format!("result {ret} in the place of argument {arg}"),
                frame,
            ));
        }
    }
    all
}
