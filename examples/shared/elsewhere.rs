//! A future that needs another thread.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A future that is done after another thread has woken it.
pub(crate) fn elsewhere() -> impl Future<Output = ()> + Send {
    struct Elsewhere(bool);
    impl Future for Elsewhere {
        type Output = ();

        fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
            if self.0 {
                return Poll::Ready(());
            }
            self.0 = true;
            let waker = context.waker().clone();
            std::thread::spawn(move || waker.wake());
            Poll::Pending
        }
    }
    Elsewhere(false)
}
