//! Why a row cannot be processed. The row goes where the job's `on_error` says, with this reason; the others of its batch go on.

use std::error::Error;
use std::fmt;

/// This row cannot be processed, for the reason inside. `?` makes one of any error, with the chain of its sources.
pub struct Bad(Box<str>);

impl Bad {
    /// Says what is wrong with the row; the reason ends in the dead letter.
    pub fn new(reason: impl Into<String>) -> Self {
        Self(reason.into().into_boxed_str())
    }

    /// The reason.
    pub fn reason(&self) -> &str {
        &self.0
    }

    /// The same with its place in front: `place: reason`.
    pub fn within(self, place: impl fmt::Display) -> Self {
        Self::new(format!("{place}: {}", self.0))
    }

    pub(crate) fn into_reason(self) -> String {
        self.0.into_string()
    }
}

impl<E: Error> From<E> for Bad {
    #[cold]
    fn from(error: E) -> Self {
        let mut reason = error.to_string();
        let mut source = error.source();
        while let Some(error) = source {
            reason.push_str(": ");
            reason.push_str(&error.to_string());
            source = error.source();
        }
        Self::new(reason)
    }
}

impl fmt::Debug for Bad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bad({:?})", self.0)
    }
}

impl fmt::Display for Bad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
