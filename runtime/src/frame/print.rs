//! Formats call frames as text, for debugging.
//!
//! If the environment variable `XLA_FFI_PRINT_FRAMES` is set to a value other than `0`, every frame is logged before
//! its handler runs. The text is sent to the program's logger (`log`, level info), or to standard error if the
//! program has no logger.

use super::{CallFrame, Stage, encoded};
use crate::process::read_memory_into;
use crate::value::{DType, scalar_codec};
use std::fmt::{self, Write};
use std::sync::OnceLock;
use xla_ffi_sys::{XLA_FFI_Buffer, XLA_FFI_CallFrame};

/// The maximum number of elements of a buffer in the text.
const SHOWN: usize = 8;

/// Returns true if frames must be logged. The environment variable is read once.
pub(crate) fn wanted() -> bool {
    static WANTED: OnceLock<bool> = OnceLock::new();
    *WANTED.get_or_init(|| {
        std::env::var_os("XLA_FFI_PRINT_FRAMES")
            .is_some_and(|value| value != "0" && !value.is_empty())
    })
}

/// Returns a description of a frame: stage, arguments with their first values, results, and attributes.
///
/// # Safety
/// The frame and the objects to which it points must be valid, except the data of buffers, which may have any
/// address. Null pointers are printed as null. Frames of hosts are valid, so a handler can print the frame that it
/// receives.
pub unsafe fn describe(frame: *const XLA_FFI_CallFrame) -> String {
    let mut text = String::new();
    // SAFETY: the frames of all revisions have this field.
    let stage = unsafe { (*frame).stage };
    let name = Stage::from_raw(stage.0).map_or_else(|| stage.0.to_string(), |s| s.to_string());
    // SAFETY: the frames of all revisions have this field.
    let extension = unsafe { (*frame).extension_start };
    let kind = if extension.is_null() {
        ""
    } else {
        ", metadata is asked"
    };
    // Writing to a `String` cannot fail.
    let _ = writeln!(text, "call frame, {name} stage{kind}");
    // SAFETY: the frames of all revisions have this field.
    let args = unsafe { (*frame).args };
    // SAFETY: the frames of all revisions have this field.
    let rets = unsafe { (*frame).rets };
    for (what, size, list, values) in [
        ("argument", args.size, args.args, true),
        ("result", rets.size, rets.rets, false),
    ] {
        if size < 0 || (size > 0 && list.is_null()) {
            let _ = writeln!(text, "  {size} {what}s, list at {list:p}");
            continue;
        }
        for index in 0..usize::try_from(size).unwrap_or(0) {
            let _ = write!(text, "  {what} {index}: ");
            // SAFETY: the list of buffers has `size` entries.
            let buffer = unsafe { list.wrapping_add(index).read() }.cast::<XLA_FFI_Buffer>();
            if buffer.is_null() {
                text.push_str("null\n");
                continue;
            }
            // SAFETY: the entries of the list point to buffers.
            let buffer = unsafe { buffer.read() };
            // SAFETY: the buffer is part of the host's frame, so its dimensions are valid.
            unsafe { describe_buffer(&mut text, &buffer, values) };
            text.push('\n');
        }
    }
    // SAFETY: the frames of all revisions have this field.
    let attributes = unsafe { (*frame).attrs };
    // SAFETY: the attributes are part of the host's frame, so they are valid.
    let attributes = unsafe { encoded::decode(&raw const attributes) };
    let _ = write!(text, "  attributes: {attributes}");
    text
}

/// Appends the description of a buffer to `text`, with its first values if `values` is set.
///
/// # Safety
/// The dimensions of the buffer must be valid.
unsafe fn describe_buffer(text: &mut String, buffer: &XLA_FFI_Buffer, values: bool) {
    let dtype = DType::from_raw(buffer.dtype);
    match dtype {
        Some(dtype) => text.push_str(dtype.name()),
        None => {
            let _ = write!(text, "dtype {}", buffer.dtype.0);
        }
    }
    let rank = usize::try_from(buffer.rank).unwrap_or(0);
    let dims: &[i64] = if rank == 0 || buffer.dims.is_null() {
        &[]
    } else {
        // SAFETY: the buffer has `rank` dimensions.
        unsafe { std::slice::from_raw_parts(buffer.dims, rank) }
    };
    if dims.len() as i64 != buffer.rank {
        let _ = write!(text, " of rank {}, dims at {:p}", buffer.rank, buffer.dims);
        return;
    }
    let list: Vec<_> = dims.iter().map(i64::to_string).collect();
    let _ = write!(text, "[{}] at {:p}", list.join(","), buffer.data);
    let elements = dims.iter().try_fold(1_usize, |all, dim| {
        all.checked_mul(usize::try_from(*dim).ok()?)
    });
    let (Some(dtype), Some(elements)) = (dtype, elements) else {
        return;
    };
    if !values || buffer.data.is_null() || elements == 0 || dtype == DType::Token {
        return;
    }
    let shown = elements.min(SHOWN);
    let mut bytes = vec![0; dtype.bytes_for(shown).unwrap_or(0)];
    // The operating system copies the values, because this process may not be able to read device memory.
    if !read_memory_into(buffer.data as usize, &mut bytes) {
        text.push_str(", which the host cannot read");
        return;
    }
    let list: Vec<_> = (0..shown)
        .map(|i| scalar_codec::shortest(dtype, scalar_codec::load(&bytes, dtype, i)))
        .collect();
    let _ = write!(
        text,
        " = {}{}",
        list.join(", "),
        if elements > shown { ", …" } else { "" }
    );
}

impl fmt::Display for CallFrame {
    /// Formats the operands without their values, and the attributes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (what, buffers) in [
            ("argument", self.arg_buffers()),
            ("result", self.ret_buffers()),
        ] {
            for (index, buffer) in buffers.iter().enumerate() {
                let mut text = String::new();
                // SAFETY: the frame owns the dimensions, and `false` omits the values.
                unsafe { describe_buffer(&mut text, buffer, false) };
                writeln!(f, "{what} {index}: {text}")?;
            }
        }
        // SAFETY: the frame owns its attributes.
        write!(f, "attributes: {}", unsafe {
            encoded::decode(self.raw_attributes())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::{Attributes, Shape, Tensor};
    use xla_ffi_sys::Revision;

    #[test]
    fn frames_read_well() {
        let x = Tensor::from_slice([3], &[1.0_f32, 2.5, -3.0]).unwrap();
        let y = Shape::new(DType::S4, [2, 20]).unwrap();
        let attributes = Attributes::new().with("eps", 1e-5_f32).with("name", "a\"b");
        let mut frame = CallFrame::new(
            Revision::R10,
            &[(x.shape().clone(), x.data())],
            &[(y, 0x40 as *mut _)],
        )
        .unwrap()
        .attributes(&attributes);
        let shown = frame.to_string();
        assert!(shown.contains("result 0: s4[2,20] at 0x40"), "{shown}");
        let mut raw = frame.raw(std::ptr::null(), std::ptr::null_mut(), Stage::Execute);
        // SAFETY: the frame is complete, and the tensor of its argument exists.
        let text = unsafe { describe(raw.as_mut_ptr()) };
        assert!(
            text.starts_with("call frame, execute stage\n  argument 0: f32[3] at "),
            "{text}"
        );
        assert!(text.contains("= 1, 2.5, -3\n"), "{text}");
        let device = [(x.shape().clone(), 0x40 as *mut _)];
        let mut frame = CallFrame::new(Revision::R10, &device, &[]).unwrap();
        let mut raw = frame.raw(std::ptr::null(), std::ptr::null_mut(), Stage::Execute);
        // SAFETY: the frame is complete. The data of buffers may have any address.
        let elsewhere = unsafe { describe(raw.as_mut_ptr()) };
        let told = "argument 0: f32[3] at 0x40, which the host cannot read\n";
        assert!(elsewhere.contains(told), "{elsewhere}");
        assert!(
            text.ends_with(r#"attributes: {eps = 1.0e-5 : f32, name = "a\"b"}"#),
            "{text}"
        );
    }
}
