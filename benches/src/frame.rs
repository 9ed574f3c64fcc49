//! Call frames, laid out in C. They are few and live for ever.

use std::ffi::c_void;
use xla_ffi_sys::*;

/// Elements along each dimension of every buffer.
const DIMS: [i64; 2] = [4, 4];

fn leak<T>(value: T) -> *mut T {
    Box::leak(Box::new(value))
}

fn leak_all<T>(values: Vec<T>) -> *mut T {
    values.leak().as_mut_ptr()
}

/// Memory of a buffer.
#[repr(C, align(64))]
struct Data([f32; 16]);

/// A buffer of 64-byte aligned memory, `F32[4,4]`.
fn buffer() -> *mut XLA_FFI_Buffer {
    leak(XLA_FFI_Buffer {
        struct_size: XLA_FFI_Buffer::STRUCT_SIZE,
        extension_start: std::ptr::null_mut(),
        dtype: XLA_FFI_DataType::F32,
        data: leak(Data([1.0; 16])).cast(),
        rank: 2,
        dims: leak_all(DIMS.to_vec()),
    })
}

/// Attributes, sorted by name as hosts give them. Behind the last one lies a spare one, as in all
/// lists here, so that a test can add one to the size.
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

    /// One `i32` a name.
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

    /// One dictionary.
    pub(crate) fn dictionary(name: &str, entries: Self) -> Self {
        Self::new(vec![(
            name,
            XLA_FFI_AttrType::DICTIONARY,
            leak(entries.0).cast(),
        )])
    }
}

/// A call frame with its parts, so that a test can spoil them.
pub(crate) struct Frame {
    pub(crate) raw: *mut XLA_FFI_CallFrame,
    pub(crate) args: Vec<*mut XLA_FFI_Buffer>,
    pub(crate) rets: Vec<*mut XLA_FFI_Buffer>,
}

impl Frame {
    /// The arguments, then the results.
    pub(crate) fn operands(&self) -> impl Iterator<Item = *mut XLA_FFI_Buffer> + '_ {
        self.args.iter().chain(&self.rets).copied()
    }
}

/// A frame of the execute stage.
pub(crate) fn frame(api: &XLA_FFI_Api, args: usize, rets: usize, attrs: Attrs) -> Frame {
    let args: Vec<_> = (0..args).map(|_| buffer()).collect();
    let rets: Vec<_> = (0..rets).map(|_| buffer()).collect();
    let pointers = |buffers: &[*mut XLA_FFI_Buffer]| {
        let with_spare = buffers.iter().copied().chain([buffer()]);
        leak_all(with_spare.map(<*mut XLA_FFI_Buffer>::cast).collect())
    };
    let raw = leak(XLA_FFI_CallFrame {
        struct_size: XLA_FFI_CallFrame::STRUCT_SIZE,
        extension_start: std::ptr::null_mut(),
        api,
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
