//! One call of a guest: rows and their state in, the answer checked, its effects made real. A call that fails leaves nothing
//! behind; what to do then is decided in `recovery`.

use super::emit::{Source, emit};
use super::lift::{Effects, Lifting};
use super::lower::Lowering;
use super::riding::{CallRows, Read};
use super::session::Session;
use super::{GuestOperator, lent::Lent};
use crate::engine::bindings::types::{self, Failure};
use crate::engine::host::StateCalls;
use crate::engine::{Fault, FaultKind, columns};
use crate::operator::Context;
use crate::state::Now;
use crate::state::timers::Firings;
use dataflow::key::{self, Keys};
use dataflow::record::Batch;
use dataflow::time::{Clock, START};
use std::any::Any;

/// How a call ended. In all but `Done` nothing was done.
pub(super) enum Outcome {
    /// Its effects are real.
    Done,
    /// The call must be made without the rows from this one on.
    Cut(usize),
    /// The guest refuses these rows, ascending; the call must be made without them.
    Bad(Vec<(u32, String)>),
    /// It gave no answer that can be used.
    Fault(Fault),
}

type Answer = Result<Result<types::Effects, Failure>, Fault>;

impl GuestOperator {
    /// Hands one batch in.
    ///
    /// # Errors
    /// The job cannot go on: the guest does not start, or cannot read its state.
    pub(super) fn call_batch(
        &mut self,
        input: usize,
        batch: &mut Batch,
        context: &mut Context<'_>,
    ) -> anyhow::Result<Outcome> {
        let at = Now { watermark: context.watermark, now: context.now };
        let rows = CallRows { keys: batch.keys.as_ref(), timestamps: &batch.timestamps };
        let states = match self.riding.read(context.state.as_ref(), rows, at, &mut self.migrator)? {
            Read::All(states) => states,
            Read::CutAt(row) => return Ok(Outcome::Cut(row)),
        };
        let broadcast = self.shared.settings.inputs.get(input).is_some_and(|input| input.broadcast);
        self.enter(rows, broadcast, context);
        let (mut guest, lent) = self.lowerings[input].lower(batch, context.now, context.watermark);
        guest.states = states.into_iter().map(columns::lower).collect();
        let answer = self.live.get().map(|instance| instance.on_batch(&guest, &mut self.session));
        Lowering::give_back(guest, &lent, batch);
        self.leave(context);
        let rows = CallRows { keys: batch.keys.as_ref(), timestamps: &batch.timestamps };
        let outcome = match self.checked(answer?, rows, true) {
            Ok(Ok(effects)) => {
                self.settle(&effects, rows, context);
                emit(effects.outputs, Source::Records(input, batch), &self.shared.settings.ports, context.out);
                Outcome::Done
            }
            Ok(Err(bad)) => Outcome::Bad(bad),
            Err(fault) => Outcome::Fault(fault),
        };
        self.after(outcome)
    }

    /// Hands due timers in; when all is done they have fired.
    ///
    /// # Errors
    /// As [`Self::call_batch`].
    pub(super) fn call_timers(
        &mut self,
        clock: Clock,
        firings: &Firings,
        context: &mut Context<'_>,
    ) -> anyhow::Result<Outcome> {
        let at = Now { watermark: context.watermark, now: context.now };
        // No key is there twice.
        let keys = Keys {
            of: (0..firings.len() as u32).collect(),
            distinct: firings.keys.clone(),
            hashes: firings.keys.iter().map(key::hash).collect(),
        };
        let rows = CallRows { keys: Some(&keys), timestamps: &firings.at };
        let states = match self.riding.read(context.state.as_ref(), rows, at, &mut self.migrator)? {
            Read::All(states) => states,
            Read::CutAt(row) => return Ok(Outcome::Cut(row)),
        };
        self.enter(rows, false, context);
        let guest = types::Firings {
            now: context.now,
            watermark: (context.watermark != START).then_some(context.watermark),
            keys: columns::lower_blobs(keys.distinct.clone()),
            key_of: keys.of.clone(),
            timer_of: firings.timers.iter().map(|&stored| self.clocks.id(stored).unwrap_or(u32::MAX)).collect(),
            at: firings.at.clone(),
            tags: columns::lower_blobs(firings.tags.clone()),
            payloads: columns::lower_blobs(firings.payloads.clone()),
            states: states.into_iter().map(columns::lower).collect(),
        };
        let answer = self.live.get().map(|instance| instance.on_timers(&guest, &mut self.session));
        self.leave(context);
        let outcome = match self.checked(answer?, rows, false) {
            Ok(Ok(effects)) => {
                self.clocks.fired(clock, firings, 0..firings.len(), context);
                self.settle(&effects, rows, context);
                emit(effects.outputs, Source::Timers(&firings.at), &self.shared.settings.ports, context.out);
                Outcome::Done
            }
            Ok(Err(bad)) => Outcome::Bad(bad),
            Err(fault) => Outcome::Fault(fault),
        };
        self.after(outcome)
    }

    /// Lends the state to the call, where the guest has states to ask for.
    fn enter(&mut self, rows: CallRows<'_>, broadcast: bool, context: &mut Context<'_>) {
        let Some(session) = session(&mut self.session) else { return };
        session.backend = std::mem::replace(context.state, Box::new(Lent));
        match rows.keys {
            Some(keys) => session.keys.clone_from(keys),
            None => session.keys = Keys::default(),
        }
        session.timestamps.clear();
        session.timestamps.extend_from_slice(rows.timestamps);
        (session.watermark, session.now) = (context.watermark, context.now);
        session.broadcast = broadcast;
    }

    /// Takes the state back.
    fn leave(&mut self, context: &mut Context<'_>) {
        if let Some(session) = session(&mut self.session) {
            *context.state = std::mem::replace(&mut session.backend, Box::new(Lent));
        }
    }

    fn checked(
        &self,
        answer: Answer,
        rows: CallRows<'_>,
        records: bool,
    ) -> Result<Result<Effects, Vec<(u32, String)>>, Fault> {
        let lifting = Lifting {
            description: &self.shared.description,
            limits: &self.shared.settings.limits,
            rows: rows.timestamps.len(),
            keyed: rows.keys.is_some(),
            records,
        };
        match answer? {
            Ok(effects) => {
                let effects = lifting.effects(effects)?;
                self.clocks.check(rows, &effects.timers)?;
                Ok(Ok(effects))
            }
            Err(Failure::BadRows(bad)) => lifting.bad_rows(bad).map(Err),
            Err(Failure::Failed(reason)) => Err(Fault::new(FaultKind::Failed, reason)),
        }
    }

    /// Makes the call's state and timers real. Effects were checked, so nothing can fail.
    fn settle(&mut self, effects: &Effects, rows: CallRows<'_>, context: &mut Context<'_>) {
        let at = Now { watermark: context.watermark, now: context.now };
        self.clocks.change(rows, &effects.timers, context);
        let state = context.state.as_mut();
        self.clocks.commit(state);
        if let Some(session) = session(&mut self.session) {
            session.overlay.commit(state);
        }
        self.riding.write(state, rows, at, &effects.writes);
    }

    /// What every call leaves: no overlay, and an instance that can be called again.
    fn after(&mut self, outcome: Outcome) -> anyhow::Result<Outcome> {
        if let Some(session) = session(&mut self.session) {
            session.overlay.discard();
        }
        match &outcome {
            Outcome::Fault(fault) if fault.kind == FaultKind::Migration => return Err(fault.clone().into()),
            Outcome::Fault(_) => self.live.discard(),
            _ if self.shared.settings.replace_every_call => self.live.discard(),
            _ => self.live.slim(),
        }
        Ok(outcome)
    }
}

/// The session behind the seam.
pub(super) fn session(calls: &mut Option<Box<dyn StateCalls>>) -> Option<&mut Session> {
    let calls: &mut dyn Any = calls.as_mut()?.as_mut();
    calls.downcast_mut::<Session>()
}
