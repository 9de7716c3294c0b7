//! What happens when a guest fails. A fault costs what it touched, not the job: the rows of the call are run singly, in order, on a
//! fresh instance, each made real as it succeeds. A row that fails alone is guilty and goes where the job says; if none does,
//! nothing was guilty but the batch, and batches are kept small for a while.

use super::call::Outcome;
use super::settings::OnError;
use super::{GuestOperator, TIMERS_AT_ONCE};
use crate::dead_letter::DeadLetter;
use crate::engine::Fault;
use crate::operator::{Context, Due};
use crate::state::timers::Firings;
use anyhow::bail;
use dataflow::record::Batch;
use dataflow::restart::Permanent;
use dataflow::time::Clock;

/// Calls for which batches stay small after one that only failed as a whole; then they double.
const CAREFUL_CALLS: u32 = 64;

/// How careful to be: sizes of calls, and guilty rows in a row.
pub(super) struct Caution {
    rows_limit: usize,
    rows: usize,
    careful_calls: u32,
    guilty_in_a_row: u32,
}

impl Caution {
    pub(super) fn new(rows_limit: usize) -> Self {
        let rows_limit = rows_limit.max(1);
        Self { rows_limit, rows: rows_limit, careful_calls: 0, guilty_in_a_row: 0 }
    }

    fn succeeded(&mut self) {
        self.guilty_in_a_row = 0;
        if self.rows < self.rows_limit {
            self.careful_calls = self.careful_calls.saturating_sub(1);
            if self.careful_calls == 0 {
                self.rows = (self.rows * 2).min(self.rows_limit);
                self.careful_calls = CAREFUL_CALLS;
            }
        }
    }

    /// A call of so many rows failed, though none of them fails alone.
    fn shrink(&mut self, rows: usize) {
        self.rows = (rows / 2).clamp(1, self.rows_limit);
        self.careful_calls = CAREFUL_CALLS;
    }
}

impl GuestOperator {
    /// Runs all rows of a batch, in order.
    pub(super) fn run(&mut self, input: usize, batch: Batch, context: &mut Context<'_>) -> anyhow::Result<()> {
        // What is left to do, the first rows last.
        let mut left = vec![batch];
        while let Some(mut batch) = left.pop() {
            let rows = batch.len();
            if rows > self.caution.rows {
                split(&batch, self.caution.rows, &mut left);
                continue;
            }
            match self.call_batch(input, &mut batch, context)? {
                Outcome::Done => self.caution.succeeded(),
                Outcome::Cut(at) => split(&batch, at, &mut left),
                Outcome::Bad(bad) => left.extend(self.without(&batch, bad, context)?),
                Outcome::Fault(fault) => self.run_singly(input, &batch, &fault, context)?,
            }
        }
        Ok(())
    }

    /// Puts the bad rows aside and gives the rest.
    fn without(
        &mut self,
        batch: &Batch,
        bad: Vec<(u32, String)>,
        context: &mut Context<'_>,
    ) -> anyhow::Result<Option<Batch>> {
        let good: Vec<u32> =
            (0..batch.len() as u32).filter(|row| bad.binary_search_by_key(row, |(row, _)| *row).is_err()).collect();
        for (row, reason) in bad {
            self.put_aside(DeadLetter::of_row(self.name(), batch, row as usize, reason), None, context)?;
        }
        Ok((!good.is_empty()).then(|| batch.select(&good)))
    }

    /// Puts rows that lack a required field where the job says, before the guest sees them. They are not the guest's fault and do
    /// not count towards the breaker.
    pub(super) fn without_lacking(
        &mut self,
        batch: &Batch,
        lacking: Vec<(u32, String)>,
        context: &mut Context<'_>,
    ) -> anyhow::Result<Batch> {
        let whole: Vec<u32> =
            (0..batch.len() as u32).filter(|row| lacking.binary_search_by_key(row, |(row, _)| *row).is_err()).collect();
        for (row, reason) in lacking {
            match self.shared.settings.on_error {
                OnError::DeadLetter => {
                    context.out.dead.push(DeadLetter::of_row(self.name(), batch, row as usize, reason))
                }
                OnError::Skip => {}
                OnError::Fail => {
                    let whence = DeadLetter::of_row(self.name(), batch, row as usize, "").whence();
                    bail!(Permanent(format!("operator `{}` cannot take a record{whence}: {reason}", self.name())));
                }
            }
        }
        Ok(batch.select(&whole))
    }

    fn run_singly(
        &mut self,
        input: usize,
        batch: &Batch,
        whole: &Fault,
        context: &mut Context<'_>,
    ) -> anyhow::Result<()> {
        context.metrics.guest_faults.add(1);
        tracing::debug!(operator = self.name(), rows = batch.len(), fault = %whole, "guest call failed, running its rows singly");
        let mut guilty = 0;
        for row in 0..batch.len() {
            let mut one = batch.slice(row, row + 1);
            match self.call_batch(input, &mut one, context)? {
                Outcome::Done | Outcome::Cut(_) => self.caution.succeeded(),
                Outcome::Bad(bad) => {
                    guilty += 1;
                    self.without(&one, bad, context)?;
                }
                Outcome::Fault(fault) => {
                    guilty += 1;
                    let letter = DeadLetter::of_row(self.name(), batch, row, fault.to_string());
                    self.put_aside(letter, Some(&fault), context)?;
                }
            }
        }
        if guilty == 0 {
            self.caution.shrink(batch.len());
            tracing::warn!(operator = self.name(), rows = batch.len(), fault = %whole, "guest fails on a batch but on none of its rows: smaller batches for a while");
        }
        Ok(())
    }

    /// Fires a slice of what is due on `clock`.
    pub(super) fn fire(&mut self, clock: Clock, context: &mut Context<'_>) -> anyhow::Result<Due> {
        let (firings, more) = self.clocks.due(clock, TIMERS_AT_ONCE.min(self.caution.rows), context);
        if firings.is_empty() {
            return Ok(Due::Done);
        }
        if self.drop_undeclared(clock, &firings, context) {
            return Ok(Due::More);
        }
        match self.call_timers(clock, &firings, context)? {
            Outcome::Done => self.caution.succeeded(),
            Outcome::Cut(at) => self.caution.shrink(at * 2),
            Outcome::Bad(bad) => self.timers_aside(clock, &firings, bad, None, context)?,
            Outcome::Fault(fault) => self.fire_singly(clock, firings.len(), &fault, context)?,
        }
        // Why: only a call that did all it was given has done all that was due.
        Ok(if more || !self.clocks.due(clock, 1, context).0.is_empty() { Due::More } else { Due::Done })
    }

    fn fire_singly(
        &mut self,
        clock: Clock,
        count: usize,
        whole: &Fault,
        context: &mut Context<'_>,
    ) -> anyhow::Result<()> {
        context.metrics.guest_faults.add(1);
        let mut guilty = 0;
        for _ in 0..count {
            let (one, _) = self.clocks.due(clock, 1, context);
            if one.is_empty() {
                break;
            }
            match self.call_timers(clock, &one, context)? {
                Outcome::Done | Outcome::Cut(_) => self.caution.succeeded(),
                Outcome::Bad(bad) => {
                    guilty += 1;
                    self.timers_aside(clock, &one, bad, None, context)?;
                }
                Outcome::Fault(fault) => {
                    guilty += 1;
                    self.timers_aside(clock, &one, vec![(0, fault.to_string())], Some(&fault), context)?;
                }
            }
        }
        if guilty == 0 {
            self.caution.shrink(count);
            tracing::warn!(operator = self.name(), fault = %whole, "guest fails on timers together but on none alone: fewer at once for a while");
        }
        Ok(())
    }

    /// Timers that were put aside count as fired.
    fn timers_aside(
        &mut self,
        clock: Clock,
        firings: &Firings,
        bad: Vec<(u32, String)>,
        fault: Option<&Fault>,
        context: &mut Context<'_>,
    ) -> anyhow::Result<()> {
        self.clocks.fired(clock, firings, bad.iter().map(|(row, _)| *row as usize), context);
        self.clocks.commit(context.state.as_mut());
        for (row, reason) in bad {
            let row = row as usize;
            let letter = DeadLetter {
                node: self.name().to_string(),
                key: Some(firings.keys.get(row).to_vec()),
                timestamp: Some(firings.at[row]),
                reason: format!("timer `{}`: {reason}", self.clocks.name(firings.timers[row])),
                value: Some(firings.payloads.get(row).to_vec()),
                ..DeadLetter::default()
            };
            self.put_aside(letter, fault, context)?;
        }
        Ok(())
    }

    /// Timers that the component does not declare any more fire into nothing.
    fn drop_undeclared(&mut self, clock: Clock, firings: &Firings, context: &mut Context<'_>) -> bool {
        let unknown: Vec<usize> =
            (0..firings.len()).filter(|&firing| self.clocks.id(firings.timers[firing]).is_none()).collect();
        if unknown.is_empty() {
            return false;
        }
        tracing::warn!(
            operator = self.name(),
            timers = unknown.len(),
            "timers dropped: the component does not declare them any more"
        );
        self.clocks.fired(clock, firings, unknown.into_iter(), context);
        self.clocks.commit(context.state.as_mut());
        true
    }

    /// A guilty record or timer goes where the job says.
    fn put_aside(
        &mut self,
        mut letter: DeadLetter,
        fault: Option<&Fault>,
        context: &mut Context<'_>,
    ) -> anyhow::Result<()> {
        letter.component = Some(self.shared.component.digest().to_string());
        letter.backtrace = fault.and_then(|fault| fault.backtrace.clone());
        let most = self.shared.settings.guilty_in_a_row;
        self.caution.guilty_in_a_row += 1;
        if self.shared.settings.on_error == OnError::Fail {
            let (name, whence) = (self.name(), letter.whence());
            bail!(Permanent(format!("operator `{name}` failed on a record{whence}: {}", letter.reason)));
        }
        if self.caution.guilty_in_a_row >= most {
            let (name, whence) = (self.name(), letter.whence());
            bail!(Permanent(format!(
                "operator `{name}` failed on {most} records in a row, the last{whence}: {}",
                letter.reason
            )));
        }
        if self.shared.settings.on_error == OnError::DeadLetter {
            context.out.dead.push(letter);
        }
        Ok(())
    }
}

/// Rows from `at` on wait, the ones before come next.
fn split(batch: &Batch, at: usize, left: &mut Vec<Batch>) {
    let at = at.clamp(1, batch.len());
    if at < batch.len() {
        left.push(batch.slice(at, batch.len()));
    }
    left.push(batch.slice(0, at));
}
