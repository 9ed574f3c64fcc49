//! JPEG and PNG for JAX: decodes files to pixels, on separate threads.
#![forbid(unsafe_code)]

use image::error::ImageError;
use image::imageops::FilterType;
use image::{DynamicImage, ImageDecoder, ImageFormat, ImageReader};
use std::io::Cursor;
use std::mem::MaybeUninit;
use std::sync::{Mutex, PoisonError};
use xla_ffi::{Attribute, ErrorCode, prelude::*};

/// How images whose size differs from the size of the result are treated.
#[derive(Attribute, Clone, Copy, PartialEq)]
#[attr(strings)]
enum Fit {
    Exact,
    Resize,
}

fn lost(why: impl ToString) -> Error {
    Error::new(ErrorCode::DataLoss, why.to_string())
}

/// Returns an error whose message contains the index `i` of the image.
fn of(i: usize, error: &Error) -> Error {
    Error::new(error.code(), format!("image {i}: {}", error.message()))
}

fn told(error: ImageError) -> Error {
    match error {
        ImageError::Decoding(error) => lost(error),
        ImageError::IoError(error) => lost(error),
        ImageError::Limits(error) => Error::resource_exhausted(error.to_string()),
        error => Error::invalid_argument(error.to_string()),
    }
}

/// Returns the decoder of an image. Fails if the bytes are not an image or are truncated.
fn decoder(bytes: &[u8], length: i32) -> Result<impl ImageDecoder + '_> {
    let length = usize::try_from(length).ok();
    let bytes = length
        .and_then(|length| bytes.get(..length))
        .ok_or_else(|| {
            Error::invalid_argument(format!("a length that {} bytes do not have", bytes.len()))
        })?;
    let reader = ImageReader::new(Cursor::new(bytes)).with_guessed_format()?;
    // The JPEG decoder fills missing data, so this function must detect truncated files.
    let end = bytes.len() - bytes.iter().rev().take_while(|byte| **byte == 0).count();
    if reader.format() == Some(ImageFormat::Jpeg) && !bytes[..end].ends_with(&[0xff, 0xd9]) {
        return Err(lost("it is truncated: its end marker is missing"));
    }
    reader.into_decoder().map_err(told)
}

fn pixels(bytes: &[u8], length: i32, size: [u32; 3], fit: Fit) -> Result<Vec<u8>> {
    let decoder = decoder(bytes, length)?;
    let [height, width, channels] = size;
    let (own_width, own_height) = decoder.dimensions();
    let same = (own_width, own_height) == (width, height);
    if fit == Fit::Exact && !same {
        return Err(Error::invalid_argument(format!(
            "it is {own_height} pixels high and {own_width} wide, expected {height} and {width}: \
             fit=\"resize\" takes any"
        )));
    }
    let mut image = DynamicImage::from_decoder(decoder).map_err(told)?;
    if !same {
        image = image.resize_exact(width, height, FilterType::Triangle);
    }
    match channels {
        1 => Ok(image.into_luma8().into_raw()),
        3 => Ok(image.into_rgb8().into_raw()),
        4 => Ok(image.into_rgba8().into_raw()),
        _ => Err(Error::unimplemented(format!(
            "{channels} channels: expected 1, 3 or 4"
        ))),
    }
}

/// Decodes images whose bytes are padded to one length. Fails if one of the images is invalid.
#[xla_ffi::handler(shape = "... n, ... -> ... height width channels")]
async fn decode(
    bytes: Buffer<u8>,
    lengths: Buffer<i32>,
    mut out: Out<u8>,
    height: u32,
    width: u32,
    #[attr(default = 3)] channels: u32,
    #[attr(default = Fit::Exact)] fit: Fit,
) -> Result<()> {
    let size = [height, width, channels];
    let row = size
        .iter()
        .map(|size| *size as usize)
        .product::<usize>()
        .max(1);
    let padded = bytes.dims().last().map_or(1, |n| *n);
    let one = |i: usize, out: &mut [MaybeUninit<u8>]| -> Result<()> {
        let found = pixels(&bytes[i * padded..][..padded], lengths[i], size, fit);
        let found = found.map_err(|error| of(i, &error))?;
        for (out, byte) in out.iter_mut().zip(found) {
            out.write(byte);
        }
        Ok(())
    };
    let images = Mutex::new(out.as_uninit().chunks_exact_mut(row).enumerate());
    let next = || images.lock().unwrap_or_else(PoisonError::into_inner).next();
    let work = || std::iter::from_fn(next).try_for_each(|(i, out)| one(i, out));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let others = 1..threads.min(lengths.len());
        let others: Vec<_> = others.map(|_| scope.spawn(work)).collect();
        let own = work();
        let ended = others.into_iter().map(|other| other.join());
        let ended = ended.map(|end| end.unwrap_or_else(|_| Err(Error::internal("a panic"))));
        ended.fold(own, Result::and)
    })
}

/// Reads the height, width and channels of each image from its first bytes.
#[xla_ffi::handler(shape = "... n, ... -> ... 3")]
fn sizes(bytes: Buffer<u8>, lengths: Buffer<i32>, mut sizes: Out<i32>) -> Result<()> {
    let padded = bytes.dims().last().map_or(1, |n| *n);
    for (i, size) in sizes.rows_uninit().enumerate() {
        let found = decoder(&bytes[i * padded..][..padded], lengths[i]);
        let found = found.map_err(|error| of(i, &error))?;
        let ((width, height), channels) = (found.dimensions(), found.color_type().channel_count());
        for (size, is) in size.iter_mut().zip([height, width, channels.into()]) {
            size.write(is as i32);
        }
    }
    Ok(())
}

xla_ffi::library! { decode, sizes }
