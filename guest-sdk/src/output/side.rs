//! Side outputs: further ports of an operator, read in a job as `operator.name`.

use crate::bindings::types::{self, OutputDeclaration};
use crate::declare::{Handle, NoOptions, Registry};
use crate::output::OutputBuffer;
use crate::{Emission, Output, Scope, WholeRecords};
use std::any::Any;
use std::marker::PhantomData;

/// A side output of rows `O`, named by its field: `late: Side<()>` for records that pass, `quiet: Side<Summary>` for rows of its
/// own.
pub struct Side<O> {
    index: usize,
    rows: PhantomData<fn(O)>,
}

impl<O: Output> Side<O> {
    /// Sends a row, with the key of `at`, and its timestamp unless an [`Emission`] says another.
    #[inline]
    pub fn emit<'r>(&self, at: &Scope<'_>, row: impl Into<Emission<O::Row<'r>>>) {
        let (facts, number) = (at.facts, at.number);
        at.call.side::<O>(self.index).emit(facts, number, row.into());
    }

    /// Sends the record on as it came, at no cost.
    #[inline]
    pub fn pass(&self, at: &Scope<'_>)
    where
        O: WholeRecords,
    {
        at.call.passing();
        let number = at.number;
        at.call.side::<O>(self.index).pass(number);
    }
}

impl<O: Output> Handle for Side<O> {
    type Options = NoOptions;

    fn declare(registry: &mut Registry, name: &'static str, _: NoOptions) -> Self {
        let outputs = &mut registry.sides;
        outputs.push(OutputDeclaration { name: name.to_owned(), columns: O::declare() });
        Self { index: outputs.len() - 1, rows: PhantomData }
    }
}

/// The rows of a side output, whatever their type.
pub(crate) trait SideBuffer {
    fn as_any(&mut self) -> &mut dyn Any;
    fn finish(self: Box<Self>, port: u32) -> Option<types::Output>;
}

impl<O: Output> SideBuffer for OutputBuffer<O> {
    fn as_any(&mut self) -> &mut dyn Any {
        self
    }

    fn finish(self: Box<Self>, port: u32) -> Option<types::Output> {
        OutputBuffer::finish(*self, port)
    }
}
