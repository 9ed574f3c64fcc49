//! Call frames in the C layout. The frames are never freed, because there are only a few.

use std::ffi::c_void;
use xla_ffi_sys::*;

/// The dimensions of every buffer.
const DIMS: [i64; 2] = [4, 4];

/// The minimum distance in bytes between the start addresses of two buffers.
const STEP: usize = 64;

fn leak<T>(value: T) -> *mut T {
    Box::leak(Box::new(value))
}

fn leak_all<T>(values: Vec<T>) -> *mut T {
    values.leak().as_mut_ptr()
}

/// The memory of one buffer.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([f32; STEP / 4]);

/// Returns a buffer of type `F32[4,4]`.
fn buffer(data: *mut Line) -> *mut XLA_FFI_Buffer {
    leak(XLA_FFI_Buffer {
        struct_size: XLA_FFI_Buffer::STRUCT_SIZE,
        extension_start: std::ptr::null_mut(),
        dtype: XLA_FFI_DataType::F32,
        data: data.cast(),
        rank: 2,
        dims: leak_all(DIMS.to_vec()),
    })
}

/// A pseudo-random number generator with a fixed seed (SplitMix64).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// Returns a pseudo-random number below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) as usize % end
    }
}

/// Returns buffers in memory aligned to 64 bytes. The seed determines the order of the buffers in memory, and the gaps
/// between them.
fn shuffled(count: usize, seed: u64) -> Vec<*mut XLA_FFI_Buffer> {
    let mut random = Random(seed);
    let mut order: Vec<usize> = (0..count).collect();
    for place in (1..count).rev() {
        order.swap(place, random.below(place + 1));
    }
    let memory = leak_all(vec![Line([1.0; STEP / 4]); 4 * count]);
    let mut buffers = vec![std::ptr::null_mut(); count];
    let mut line = 0;
    for operand in order {
        line += random.below(3);
        buffers[operand] = buffer(memory.wrapping_add(line));
        line += 1;
    }
    buffers
}

/// Attributes, sorted by name as hosts pass them.
///
/// All lists of a frame have a spare element at the end, so that a test can increase the stated size by one.
pub(crate) struct Attrs(pub(crate) XLA_FFI_Attrs);

impl Attrs {
    fn new(mut entries: Vec<(&str, XLA_FFI_AttrType, *mut c_void)>) -> Self {
        entries.sort_by_key(|(name, ..)| *name);
        let size = entries.len() as i64;
        let spare = XLA_FFI_Scalar {
            dtype: XLA_FFI_DataType::S32,
            value: leak(0).cast(),
        };
        entries.push(("zzz", XLA_FFI_AttrType::SCALAR, leak(spare).cast()));
        let names = entries.iter().map(|(name, ..)| {
            let bytes = name.as_bytes().to_vec();
            leak(XLA_FFI_ByteSpan {
                len: bytes.len(),
                ptr: leak_all(bytes).cast_const().cast(),
            })
        });
        Self(XLA_FFI_Attrs {
            struct_size: XLA_FFI_Attrs::STRUCT_SIZE,
            extension_start: std::ptr::null_mut(),
            size,
            types: leak_all(entries.iter().map(|(_, kind, _)| *kind).collect()),
            names: leak_all(names.collect()),
            attrs: leak_all(entries.iter().map(|(.., value)| *value).collect()),
        })
    }

    /// Returns one `i32` attribute per name.
    pub(crate) fn numbers(names: &[&'static str]) -> Self {
        let entries = names.iter().zip(3i32..).map(|(name, value)| {
            let scalar = XLA_FFI_Scalar {
                dtype: XLA_FFI_DataType::S32,
                value: leak(value).cast(),
            };
            (*name, XLA_FFI_AttrType::SCALAR, leak(scalar).cast())
        });
        Self::new(entries.collect())
    }

    /// Returns attributes that consist of a single dictionary.
    pub(crate) fn dictionary(name: &str, entries: Self) -> Self {
        Self::new(vec![(
            name,
            XLA_FFI_AttrType::DICTIONARY,
            leak(entries.0).cast(),
        )])
    }
}

/// The host that calls the handlers: its API table, and the settings of its frames.
#[derive(Clone, Copy)]
pub(crate) struct Host {
    pub(crate) api: &'static XLA_FFI_Api,
    /// The seed for the order of operands in memory.
    pub(crate) seed: u64,
}

/// A call frame, and pointers to its operands, with which a test can make the frame invalid.
pub(crate) struct Frame {
    pub(crate) raw: *mut XLA_FFI_CallFrame,
    pub(crate) args: Vec<*mut XLA_FFI_Buffer>,
    pub(crate) rets: Vec<*mut XLA_FFI_Buffer>,
}

impl Frame {
    /// Returns the buffers of the arguments, followed by the buffers of the results.
    pub(crate) fn operands(&self) -> impl Iterator<Item = *mut XLA_FFI_Buffer> + '_ {
        self.args.iter().chain(&self.rets).copied()
    }
}

/// Returns a frame of the execute stage, whose arguments and results are interleaved in memory.
pub(crate) fn frame(host: &Host, args: usize, rets: usize, attrs: Attrs) -> Frame {
    let mut buffers = shuffled(args + rets + 1, host.seed);
    let spare = buffers.pop();
    let rets = buffers.split_off(args);
    let args = buffers;
    let pointers = |buffers: &[*mut XLA_FFI_Buffer]| {
        let with_spare = buffers.iter().copied().chain(spare);
        leak_all(with_spare.map(<*mut XLA_FFI_Buffer>::cast).collect())
    };
    let raw = leak(XLA_FFI_CallFrame {
        struct_size: XLA_FFI_CallFrame::STRUCT_SIZE,
        extension_start: std::ptr::null_mut(),
        api: host.api,
        ctx: std::ptr::null_mut(),
        stage: XLA_FFI_ExecutionStage::EXECUTE,
        args: XLA_FFI_Args {
            struct_size: XLA_FFI_Args::STRUCT_SIZE,
            extension_start: std::ptr::null_mut(),
            size: args.len() as i64,
            types: leak_all(vec![XLA_FFI_ArgType::BUFFER; args.len() + 1]),
            args: pointers(&args),
        },
        rets: XLA_FFI_Rets {
            struct_size: XLA_FFI_Rets::STRUCT_SIZE,
            extension_start: std::ptr::null_mut(),
            size: rets.len() as i64,
            types: leak_all(vec![XLA_FFI_RetType::BUFFER; rets.len() + 1]),
            rets: pointers(&rets),
        },
        attrs: attrs.0,
        future: std::ptr::null_mut(),
    });
    Frame { raw, args, rets }
}
