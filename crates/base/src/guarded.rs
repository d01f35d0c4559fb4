//! The contents of an index, reachable only through a check that it is not lost.

use crate::{Error, Result};
use std::borrow::Cow;

/// The contents of an index. The only access to them checks whether a change has failed half-way, so no call can forget
/// the check.
#[derive(Debug)]
pub struct Guarded<T> {
    contents: T,
    /// Why the contents are unknown.
    lost: Option<Cow<'static, str>>,
}

impl<T: Default> Default for Guarded<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> Guarded<T> {
    /// Contents that are known.
    pub fn new(contents: T) -> Self {
        Self { contents, lost: None }
    }

    /// The contents.
    ///
    /// # Errors
    /// [`Error::Lost`].
    pub fn get(&self) -> Result<&T> {
        self.check().map(|()| &self.contents)
    }

    /// The contents, for work that does not change what the index holds, such as making room. If that fails, they are
    /// unchanged.
    ///
    /// # Errors
    /// [`Error::Lost`].
    pub fn get_mut(&mut self) -> Result<&mut T> {
        self.check().map(|()| &mut self.contents)
    }

    /// Changes what the index holds. Everything that a change needs is allocated before. If it fails or panics, it is
    /// unknown how much of it was done, and the contents are lost.
    ///
    /// # Errors
    /// [`Error::Lost`].
    pub fn change<R>(&mut self, change: impl FnOnce(&mut T) -> Result<R>) -> Result<R> {
        self.change_copy(change).map_err(|error| self.check().err().unwrap_or(error))
    }

    /// As [`Guarded::change`], but with the error that the change has given: for contents that are somebody's copy, who
    /// will put others in their place.
    ///
    /// # Errors
    /// [`Error::Lost`] if they were lost before.
    pub fn change_copy<R>(&mut self, change: impl FnOnce(&mut T) -> Result<R>) -> Result<R> {
        self.check()?;
        self.lost = Some(Cow::Borrowed("a change of it panicked"));
        let result = change(&mut self.contents).inspect_err(|error| self.lose(error))?;
        self.lost = None;
        Ok(result)
    }

    /// Replaces the contents, lost or not.
    pub fn replace(&mut self, contents: T) {
        *self = Self::new(contents);
    }

    /// What was known of the contents before the change that failed: for sizes and shapes, from calls that return no
    /// errors.
    pub fn known(&self) -> &T {
        &self.contents
    }

    /// The contents, taken out.
    ///
    /// # Errors
    /// [`Error::Lost`].
    pub fn into_inner(self) -> Result<T> {
        self.check()?;
        Ok(self.contents)
    }

    /// Notes that the contents are unknown, and why.
    fn lose(&mut self, error: &Error) {
        let reason = match error {
            // Said once is enough.
            Error::Lost { reason } => reason.clone(),
            error => error.to_string(),
        };
        self.lost = Some(Cow::Owned(reason));
    }

    /// # Errors
    /// [`Error::Lost`].
    pub fn check(&self) -> Result<()> {
        match &self.lost {
            None => Ok(()),
            Some(reason) => Err(Error::Lost { reason: reason.to_string() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn a_change_that_fails_loses_the_contents_and_says_why_once() {
        let mut guarded = Guarded::new(1);
        assert_eq!(guarded.change(|it| Ok(core::mem::replace(it, 2))).unwrap(), 1);
        let fail = |it: &mut i32| -> Result<()> {
            *it = 3;
            Err(Error::Lost { reason: "no room".into() })
        };
        let first = guarded.change(fail).unwrap_err().to_string();
        assert_eq!(first.matches("is lost").count(), 1, "{first}");
        assert_eq!(guarded.get().unwrap_err().to_string(), first);
        assert_eq!(guarded.get_mut().unwrap_err().to_string(), first);
        assert_eq!(guarded.change(|it| Ok(*it)).unwrap_err().to_string(), first);
        guarded.replace(4);
        assert_eq!(*guarded.get().unwrap(), 4);
    }

    #[test]
    fn a_copy_that_fails_is_lost_and_the_caller_is_told_what_failed() {
        let mut guarded = Guarded::new(1);
        let fail = |_: &mut i32| -> Result<()> { Err(Error::BatchTooLarge { queries: 7 }) };
        let error = guarded.change_copy(fail).unwrap_err();
        assert!(matches!(error, Error::BatchTooLarge { queries: 7 }), "{error}");
        let lost = guarded.get().unwrap_err();
        assert!(matches!(lost, Error::Lost { .. }) && lost.to_string().contains(&error.to_string()), "{lost}");
        assert!(matches!(guarded.change_copy(|_| Ok(())), Err(Error::Lost { .. })));
    }

    #[test]
    fn a_change_that_panics_loses_the_contents() {
        let mut guarded = Guarded::new(1);
        let panics = || guarded.change(|_| -> Result<()> { panic!("half-way") });
        catch_unwind(AssertUnwindSafe(panics)).unwrap_err();
        assert!(matches!(guarded.get(), Err(Error::Lost { .. })));
    }
}
