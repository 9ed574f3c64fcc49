//! What may cross threads and what may not.

use static_assertions::{assert_impl_all, assert_not_impl_any};
use xla_ffi::prelude::*;
use xla_ffi::{
    AnyDeviceBuffer, AttrValue, DeviceBuffer, DeviceOut, Extension, Future, Host, KeptAnyBuffer,
    KeptBuffer, KeptInOut, KeptOut, Later, OneOf, Packed, Part, Pointer, Promise, RawCall, S4,
};

struct Data;

assert_impl_all!(Buffer<'_, f32>: Send, Sync, Copy);
assert_impl_all!(Out<'_, f32>: Send, Sync);
assert_impl_all!(InOut<'_, f32>: Send, Sync);
assert_impl_all!(AnyBuffer<'_>: Send, Sync, Copy);
assert_impl_all!(AnyOut<'_>: Send, Sync);
assert_impl_all!(OneOf<'_, (f32, f64)>: Send, Sync, Copy);
assert_impl_all!(Packed<'_, S4>: Send, Sync, Copy);
assert_impl_all!(RemainingArgs<'_>: Send, Sync, Copy);
assert_impl_all!(RemainingRets<'_>: Send, Sync);
assert_impl_all!(Dictionary<'_>: Send, Sync, Copy);
assert_impl_all!(AttrValue<'_>: Send, Sync, Copy);
assert_impl_all!(UserData<'_, Data>: Send, Sync, Copy);
assert_impl_all!(StateRef<'_, Data>: Send, Sync, Copy);
assert_impl_all!(DeviceBuffer<'_, f32>: Send, Sync);
assert_impl_all!(DeviceOut<'_, f32>: Send, Sync);
assert_impl_all!(AnyDeviceBuffer<'_>: Send, Sync);
assert_impl_all!(Host: Send, Sync, Copy);
assert_impl_all!(Error: Send, Sync, std::error::Error);
assert_impl_all!(RunId: Send, Sync, Copy);
assert_impl_all!(Promise<(KeptBuffer<f32, 1>, KeptOut<f32, 1>)>: Send);
assert_impl_all!(Promise<(KeptInOut<f32, 1>, KeptAnyBuffer)>: Send);
assert_impl_all!(Part: Send);
assert_impl_all!(Part<(KeptBuffer<f32, 1>, KeptOut<f32, 1>)>: Send);
assert_impl_all!(Part<KeptAnyBuffer, Vec<f32>>: Send);
assert_not_impl_any!(Part<KeptOut<f32, 1>>: Clone);

// Results are unique.
assert_not_impl_any!(Out<'_, f32>: Copy, Clone);
assert_not_impl_any!(InOut<'_, f32>: Copy, Clone);
assert_not_impl_any!(AnyOut<'_>: Copy, Clone);
assert_not_impl_any!(RemainingRets<'_>: Copy, Clone);
assert_not_impl_any!(Promise<()>: Clone);
assert_not_impl_any!(Later<'_>: Copy, Clone, Send, Sync);
// What the context lends belongs to the call, and so to its thread.
assert_not_impl_any!(Future: Send, Sync);
assert_not_impl_any!(ThreadPool<'_>: Send, Sync);
assert_not_impl_any!(Scratch<'_>: Send, Sync);
assert_not_impl_any!(Stream<'_>: Send, Sync);
assert_not_impl_any!(RawCall<'_>: Send, Sync);
assert_not_impl_any!(Extension<'_, 128>: Send, Sync);
assert_not_impl_any!(Pointer<u8>: Send, Sync);
