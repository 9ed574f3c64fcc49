//! Calls that were dropped while their handlers were at work.

use super::super::body::Body;
use crate::handler::Executable;
use crate::host::futures::Completion;
use crate::process::guard::discard;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What handlers may still touch that were not done when their call was dropped. It is freed when they
/// are: on a thread of its own, not on that of the handler, whose own state is among it.
static LEFT_OPEN: Mutex<Vec<LeftOpen>> = Mutex::new(Vec::new());

fn left_open() -> MutexGuard<'static, Vec<LeftOpen>> {
    LEFT_OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

struct LeftOpen {
    completion: Arc<Completion>,
    // Gone before the executable, whose library destroys its state.
    body: Box<Body>,
    _executable: Executable,
}

/// Keeps what belongs to a call that was dropped open until its handler is done.
pub(in crate::call) fn leave_open(
    completion: Arc<Completion>,
    body: Box<Body>,
    executable: Executable,
) {
    let told = completion.clone();
    // Who waits for calls has what they used back afterwards.
    let progress = body.context.progress().clone();
    progress.stay();
    left_open().push(LeftOpen {
        completion,
        body,
        _executable: executable,
    });
    // First: a callback of the caller's may wait for calls, this one among them.
    told.on_done_first(Box::new(move |_| {
        let sweeper = std::thread::Builder::new().name("xla-ffi-sweep".into());
        // Where there is no thread to be had, the next call that ends late frees it.
        if sweeper.spawn(sweep).is_err() {
            progress.stay_no_longer();
        }
    }));
}

/// Frees what is over by now.
fn sweep() {
    let mut left = left_open();
    let (over, open): (Vec<_>, Vec<_>) = std::mem::take(&mut *left)
        .into_iter()
        .partition(|left| left.completion.is_done());
    *left = open;
    // Libraries destroy their state here, in whatever way they do.
    drop(left);
    for left in over {
        // A panic of what goes with one must not take the others along, whose streams have not been waited for.
        let free = std::panic::AssertUnwindSafe(move || {
            let mut left = left;
            left.body.forget_future();
            if let Err(error) = left.body.synchronize() {
                crate::host::log::warn(format_args!("{error}"));
            }
        });
        if let Err(payload) = std::panic::catch_unwind(free) {
            discard(payload);
            crate::host::log::warn(format_args!(
                "a panic left what was freed behind a call that was dropped open"
            ));
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::{Attributes, Bundle, Call, CpuStream, DType, DeviceStream, Runtime, Shape, Tensor};
    use std::any::Any;
    use std::sync::mpsc;
    use std::time::Duration;
    use xla_ffi_sys::{Revision, XLA_FFI_CallFrame, XLA_FFI_Error};

    unsafe extern "C" fn nothing(_frame: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error {
        std::ptr::null_mut()
    }

    /// Goes without the hook.
    struct Panics;

    impl Drop for Panics {
        fn drop(&mut self) {
            std::panic::resume_unwind(Box::new("on purpose"));
        }
    }

    /// Says that it went.
    struct Witness(mpsc::Sender<&'static str>);

    impl Drop for Witness {
        fn drop(&mut self) {
            self.0.send("freed").unwrap();
        }
    }

    /// Drops the call as one whose future is open.
    fn leave(call: Call, owner: impl Any + Send + Sync) -> Arc<Completion> {
        let memory: *mut u128 = Box::into_raw(Box::new(0));
        let shape = Shape::new(DType::U8, [16]).unwrap();
        // SAFETY: 16 bytes, which stay.
        let y = unsafe { Tensor::from_raw(shape, memory.cast(), owner) }.unwrap();
        let mut call = call.ret_in(y).prepare().unwrap();
        let completion = Arc::new(Completion::default());
        call.open = Some(completion.clone());
        completion
    }

    #[test]
    fn a_panic_takes_no_other_call_along() {
        let _alone = crate::process::alone();
        // SAFETY: `nothing` is a handler.
        let bundle = unsafe { Bundle::execute(nothing) };
        let handler = Runtime::new(Revision::R0)
            .handler("nothing", bundle)
            .unwrap();
        let executable = handler.instantiate(&Attributes::new()).unwrap();
        let (freed, told) = mpsc::channel();
        let stream = CpuStream::new().unwrap();
        let panics = leave(executable.call(), Panics);
        let other = executable.call().stream(stream.stream());
        let other = leave(other, Witness(freed.clone()));
        stream.enqueue(Box::new(move || {
            std::thread::sleep(Duration::from_millis(50));
            freed.send("ran").unwrap();
        }));
        // Both are over when the first sweeper looks.
        let left = left_open();
        panics.complete(Ok(())).unwrap();
        other.complete(Ok(())).unwrap();
        drop(left);
        let next = || told.recv_timeout(Duration::from_secs(20)).unwrap();
        assert_eq!([next(), next()], ["ran", "freed"]);
    }
}
