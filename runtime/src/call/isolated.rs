//! A whole call in a child process, its results brought back.

use super::ret::bytes_to_write;
use super::{Call, Outcome, Ret};
use crate::process::isolate::isolated;
use crate::{Code, Error, Finding, Hazard, Result, Tensor};
use std::time::Duration;

impl Call {
    /// Runs the call in a child process: a crash, a hang, or an exception that nothing contains is the
    /// hazard [`Hazard::Crash`]. What the handler changes besides its results (its state, files aside)
    /// is lost with the child.
    ///
    /// # Errors
    /// As [`Call::run`], and the end of the child; `FAILED_PRECONDITION` for a call with an executor or a canceller,
    /// which stay in this process.
    pub fn run_isolated(self, limit: Duration) -> Result<Outcome> {
        self.check_nothing_stays_behind()?;
        let shapes = self.ret_shapes()?;
        // The child has a copy of it, and empties that.
        let mut call = Some(self);
        let bytes = isolated(limit, || match call.take().map(Self::run_here) {
            Some(Ok(outcome)) => {
                let mut bytes = vec![0];
                for ret in &outcome.rets {
                    bytes.extend_from_slice(ret.bytes());
                }
                bytes
            }
            Some(Err(error)) => {
                let hazard = error.findings().first().map(|finding| finding.hazard);
                let mut bytes = vec![1, error.code() as u8];
                bytes.push(u8::from(error.is_from_handler()));
                bytes.push(hazard.map_or(u8::MAX, |hazard| hazard as u8));
                bytes.extend_from_slice(error.message().as_bytes());
                bytes
            }
            None => vec![],
        })?;
        let asked = call.map(|mut call| std::mem::take(&mut call.request.rets));
        let asked = asked.unwrap_or_default();
        let mut rest = match bytes.split_first() {
            Some((0, rest)) => rest,
            Some((_, rest)) => return Err(answered(rest)),
            None => return Err(broken()),
        };
        let mut rets = vec![];
        for (number, (shape, ret)) in shapes.into_iter().zip(asked).enumerate() {
            let (bytes, behind) = rest.split_at_checked(shape.bytes()).ok_or_else(broken)?;
            rets.push(match ret {
                Ret::In(mut tensor) => {
                    bytes_to_write(&mut tensor, number)?.copy_from_slice(bytes);
                    tensor
                }
                Ret::New(_) | Ret::Alias(_) => Tensor::from_bytes(shape, bytes)?,
            });
            rest = behind;
        }
        Ok(Outcome { rets })
    }

    /// Refuses what a child process would wait for in vain: the handler would be blamed.
    fn check_nothing_stays_behind(&self) -> Result<()> {
        let parts = &self.request.parts;
        let what = match (&parts.executor, &parts.canceller) {
            (Some(Some(_)), _) => "executor runs no tasks",
            (_, Some(_)) => "canceller cancels nothing",
            _ => return Ok(()),
        };
        Err(Error::new(
            Code::FailedPrecondition,
            format!("the call's {what} in a child process: leave it out, or run the call here"),
        ))
    }
}

fn broken() -> Error {
    Error::new(Code::Internal, "the child process answered nonsense")
}

/// The error that a child has told.
fn answered(bytes: &[u8]) -> Error {
    let Some(([code, from_handler, hazard], text)) = bytes.split_first_chunk() else {
        return broken();
    };
    let code = Code::from_raw(xla_ffi_sys::XLA_FFI_Error_Code((*code).into()));
    let message = String::from_utf8_lossy(text).into_owned();
    let error = Error::new(code.unwrap_or(Code::Unknown), message.clone());
    let error = if *from_handler == 1 {
        error.handlers()
    } else {
        error
    };
    match Hazard::ALL.get(usize::from(*hazard)) {
        Some(hazard) => error.with_findings(vec![Finding::new(*hazard, message)]),
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Attributes, Bundle, DType, Runtime, Shape};
    use xla_ffi_sys::{XLA_FFI_Buffer, XLA_FFI_CallFrame, XLA_FFI_Error};

    /// y = x + 1; crashes for 7, hangs for 8. r0 does not ask for metadata.
    unsafe extern "C" fn odd(frame: *mut XLA_FFI_CallFrame) -> *mut XLA_FFI_Error {
        let operand = |list: *mut *mut std::ffi::c_void| {
            // SAFETY: the call has one argument and one result.
            let buffer = unsafe { list.read() }.cast::<XLA_FFI_Buffer>();
            // SAFETY: operands are buffers.
            unsafe { (*buffer).data }.cast::<i64>()
        };
        // SAFETY: the frame is a host's.
        let x = operand(unsafe { (*frame).args.args });
        // SAFETY: the frame is a host's.
        let y = operand(unsafe { (*frame).rets.rets });
        // SAFETY: one i64.
        let value = unsafe { x.read() };
        match value {
            // SAFETY: ends the child.
            7 => unsafe { libc::abort() },
            8 => loop {
                std::thread::sleep(Duration::from_secs(1));
            },
            // SAFETY: one i64.
            _ => unsafe { y.write(value + 1) },
        }
        std::ptr::null_mut()
    }

    #[test]
    fn results_come_back_and_crashes_stay_away() {
        let runtime = Runtime::new(crate::Revision::R0);
        // SAFETY: `odd` is a handler.
        let bundle = unsafe { Bundle::execute(odd) };
        let handler = runtime.handler("odd", bundle).unwrap();
        let executable = handler.instantiate(&Attributes::new()).unwrap();
        let run = |x: i64, limit| {
            executable
                .call()
                .arg(Tensor::from_slice([1], &[x]).unwrap())
                .ret(Shape::new(DType::S64, [1]).unwrap())
                .run_isolated(limit)
        };
        let outcome = run(1, Duration::from_secs(20)).unwrap();
        assert_eq!(outcome.rets[0].to_vec::<i64>().unwrap(), [2]);
        assert!(
            run(7, Duration::from_secs(20))
                .unwrap_err()
                .has(Hazard::Crash)
        );
        assert!(
            run(8, Duration::from_millis(100))
                .unwrap_err()
                .has(Hazard::Crash)
        );
        let error = executable
            .call()
            .ret_alias(3)
            .run_isolated(Duration::from_secs(20));
        assert_eq!(error.unwrap_err().code(), Code::InvalidArgument);
    }

    #[test]
    fn a_child_of_a_child_has_threads_of_its_own() {
        let _alone = crate::process::isolate::alone();
        let runtime = Runtime::default();
        let one_task = || {
            let (send, told) = std::sync::mpsc::channel();
            let pool = runtime.shared().pool().unwrap();
            pool.spawn(move || send.send(7).unwrap());
            told.recv_timeout(Duration::from_secs(10)) == Ok(7)
        };
        let limit = Duration::from_secs(20);
        let run = || {
            let first = one_task();
            let second = isolated(limit, || vec![u8::from(one_task())]).unwrap()[0];
            vec![u8::from(first), second]
        };
        assert_eq!(isolated(limit, run).unwrap(), [1, 1]);
    }

    #[test]
    fn errors_keep_code_and_hazard() {
        let error = answered(&[5, 1, 0, b'h', b'i']);
        assert_eq!((error.code(), error.message()), (Code::NotFound, "hi"));
        assert!(error.is_from_handler() && error.has(Hazard::ALL[0]));
        assert!(answered(&[5, 0, 255]).findings().is_empty());
        assert_eq!(answered(&[5]).code(), Code::Internal);
    }
}
