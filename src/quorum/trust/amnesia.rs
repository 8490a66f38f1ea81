//! Has this node forgotten what it granted? One state machine a node, fed with what its driver reads.
//!
//! The inputs are `on_introduced`, `on_look`, `on_flushed` and `on_away`. [`Trust::poll`] says what is to be asked
//! now, if anything, and [`Trust::next_deadline`] when to poll again; the answer to whatever was
//! asked is fed to `on_look`. [`Trust::is_trusted`] is the result.

use std::sync::Arc;
use std::time::Duration;

use super::founding::Founding;
use super::marker::{Look, Marker, Sighting};
use crate::quorum::validity::Moment;

/// How long after a missing marker it is looked for again, and how often a present one is while the
/// client holds or waits.
pub(crate) const LOOK: Duration = Duration::from_secs(1);

/// For how long a node that may have lost its data does not vote: longer than any lock that it may
/// have forgotten, also by a clock that runs a hundredth faster than the holder's.
pub(crate) fn quarantine(max_ttl: Duration) -> Duration {
    let hundredth = max_ttl.checked_div(100).unwrap_or_default();
    let margin = Duration::from_secs(1).saturating_add(hundredth);
    max_ttl.saturating_add(margin)
}

/// Whether nodes that may have forgotten locks are kept from voting.
///
/// Use the same in all clients of a fleet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RestartGuard {
    /// A node that restarted, was flushed, or is new among others does not vote until every lock that
    /// it may have forgotten is over: `max_ttl` and a little. Nodes that are all new vote at once.
    #[default]
    Observed,
    /// Also nodes that are all new have to wait: for a fleet whose nodes may all lose their data at
    /// one time.
    Strict,
    /// Every node votes at once, whatever has happened to it: for nodes that never lose what they
    /// have acknowledged, or where two holders at a time do no harm.
    Off,
}

/// How one node is guarded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Guarding {
    pub(crate) policy: RestartGuard,
    /// How long a quarantine lasts.
    pub(crate) quarantine: Duration,
    /// The node never loses data: it votes in any case.
    pub(crate) persistent: bool,
}

/// What is to be asked of the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    /// Read the marker, and the time.
    Look,
    /// Write it, and then the same.
    Write {
        marker: String,
        only_if_missing: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// There is no connection.
    Away,
    /// Off, or the marker is out of reach.
    Exempt,
    Unread,
    /// It was missing, and is looked for once more.
    Missing,
    /// It has to be written, by whoever comes first.
    Absent,
    /// It names another process: it has to be replaced.
    Outdated,
    Known,
}

#[derive(Debug)]
pub(crate) struct Trust {
    node: usize,
    guarding: Guarding,
    /// The present process, or the last one.
    run_id: Option<Arc<str>>,
    /// Of the present process, as seen last.
    marker: Option<Marker>,
    phase: Phase,
    /// By our own clock.
    until: Option<Moment>,
    /// The present process is not the one that was there before.
    restarted: bool,
    server_time: Option<u64>,
    /// When the question that is not answered yet was asked.
    asked_at: Option<Moment>,
    look_at: Moment,
    /// Nobody needs the node: the next look goes with the next acquire.
    idle: bool,
    /// The node told so, and nothing has been asked since.
    flushed: bool,
}

impl Trust {
    pub(crate) fn new(node: usize, guarding: Guarding) -> Self {
        Self {
            node,
            guarding,
            run_id: None,
            marker: None,
            phase: Phase::Away,
            until: None,
            restarted: false,
            server_time: None,
            asked_at: None,
            look_at: Moment::default(),
            idle: false,
            flushed: false,
        }
    }

    /// A new connection: who answers there, and its marker, which was asked for at `asked_at`.
    /// Returns whether the fleet is to be founded: then all its nodes are to be polled.
    pub(crate) fn on_introduced(
        &mut self,
        run_id: Option<Arc<str>>,
        look: Look,
        asked_at: Moment,
        now: Moment,
        founding: &mut Founding,
    ) -> bool {
        self.on_away(founding);
        if self.guarding.policy == RestartGuard::Off {
            self.phase = Phase::Exempt;
            return false;
        }
        if self.run_id.is_some() && run_id.is_some() && self.run_id != run_id {
            self.restarted = true;
            self.marker = None;
            self.count_all(now);
        }
        self.run_id = run_id;
        self.phase = Phase::Unread;
        self.take(look, asked_at, now, founding)
    }

    /// The answer to what was asked. Returns the same.
    pub(crate) fn on_look(&mut self, look: Look, now: Moment, founding: &mut Founding) -> bool {
        match self.asked_at.take() {
            Some(asked_at) => self.take(look, asked_at, now, founding),
            None => false,
        }
    }

    /// The node has lost its keys, it says: the marker is looked at without delay, and once more if
    /// it is being looked at already.
    pub(crate) const fn on_flushed(&mut self) {
        self.flushed = true;
    }

    /// The connection has ended.
    pub(crate) fn on_away(&mut self, founding: &mut Founding) {
        self.phase = Phase::Away;
        self.asked_at = None;
        // Of another process, maybe: a marker that was written with it would seem old.
        self.server_time = None;
        founding.on_away(self.node);
    }

    /// What is to be asked now. `needed`: an acquire is about to be written, or the client holds or
    /// waits. `chosen`: is this node to be founded now?
    pub(crate) fn poll(
        &mut self,
        now: Moment,
        needed: impl FnOnce() -> bool,
        chosen: impl FnOnce() -> bool,
    ) -> Option<Ask> {
        self.until = self.until.filter(|&until| now < until);
        if self.asked_at.is_some() {
            return None;
        }
        let is_due = now >= self.look_at;
        let founds = matches!(self.phase, Phase::Missing | Phase::Absent) && chosen();
        let run_id = self.run_id.as_deref();
        let ask = match self.phase {
            Phase::Missing | Phase::Absent if founds => Ask::Write {
                marker: Marker::founded(run_id).to_string(),
                only_if_missing: true,
            },
            Phase::Absent | Phase::Outdated if is_due => Ask::Write {
                marker: Marker::seen(run_id, self.server_time).to_string(),
                only_if_missing: self.phase == Phase::Absent,
            },
            Phase::Missing | Phase::Unread if is_due => Ask::Look,
            Phase::Known if self.flushed || (is_due && needed()) => Ask::Look,
            Phase::Known if is_due => {
                self.idle = true;
                return None;
            }
            Phase::Away
            | Phase::Exempt
            | Phase::Unread
            | Phase::Missing
            | Phase::Absent
            | Phase::Outdated
            | Phase::Known => return None,
        };
        self.asked_at = Some(now);
        self.flushed = false;
        Some(ask)
    }

    /// When to poll, and to look at [`Trust::is_trusted`], unless something comes first.
    pub(crate) fn next_deadline(&self) -> Option<Moment> {
        let is_silent = matches!(self.phase, Phase::Away | Phase::Exempt)
            || self.asked_at.is_some()
            || (self.phase == Phase::Known && self.idle);
        let look = (!is_silent).then_some(self.look_at);
        [look, self.until].into_iter().flatten().min()
    }

    /// May it vote on acquires?
    pub(crate) fn is_trusted(&self, now: Moment) -> bool {
        if bug!(QuarantineOff) {
            return true;
        }
        let counted = || self.until.is_none_or(|until| now >= until);
        match self.phase {
            Phase::Exempt => true,
            Phase::Known => self.guarding.persistent || counted(),
            Phase::Away | Phase::Unread | Phase::Missing | Phase::Absent | Phase::Outdated => {
                self.guarding.persistent
            }
        }
    }

    /// Is it still open how long it will have to wait?
    pub(crate) const fn is_undecided(&self) -> bool {
        matches!(self.phase, Phase::Unread | Phase::Missing) && self.until.is_none()
    }

    /// Is a question out?
    pub(crate) const fn is_asking(&self) -> bool {
        self.asked_at.is_some()
    }

    /// May the fleet be founded with it at any moment?
    pub(crate) const fn awaits_founding(&self) -> bool {
        matches!(self.phase, Phase::Missing)
    }

    /// Is the marker out of reach, against the settings?
    pub(crate) fn is_denied(&self) -> bool {
        self.phase == Phase::Exempt && self.guarding.policy != RestartGuard::Off
    }

    /// Why it does not vote, and what can be done about it; for a tally.
    pub(crate) fn reason(&self) -> String {
        let what = if self.restarted || self.phase == Phase::Outdated {
            "it has restarted, and votes again when it can have forgotten nothing"
        } else {
            "it has restarted without its data, was flushed, or is new; only nodes that are all new, \
             and all up, vote at once"
        };
        let longest = self.guarding.quarantine.as_secs().saturating_add(1);
        format!(
            "{what}; for up to {longest} s it does not, see Builder::persistent_node and RestartGuard"
        )
    }

    /// Takes what a look has brought.
    fn take(&mut self, look: Look, asked_at: Moment, now: Moment, founding: &mut Founding) -> bool {
        let before = self.phase;
        self.look_at = asked_at.after(LOOK);
        self.idle = false;
        self.server_time = look.server_time.or(self.server_time);
        match look.sighting {
            Sighting::Unreadable => {}
            Sighting::Denied => {
                self.phase = Phase::Exempt;
                founding.on_away(self.node);
            }
            Sighting::Missing => {
                if self.marker.take().is_some() {
                    self.restarted = false;
                    self.count_all(now);
                }
                if before == Phase::Missing {
                    self.phase = Phase::Absent;
                    self.look_at = now;
                } else {
                    self.phase = Phase::Missing;
                }
                let may_be_new = self.phase == Phase::Missing && self.until.is_none();
                if may_be_new && self.guarding.policy == RestartGuard::Observed {
                    return founding.on_missing(self.node, asked_at, now);
                }
            }
            Sighting::Found(text) => {
                founding.on_marker();
                match Marker::parse(&text).filter(|marker| marker.names(self.run_id.as_deref())) {
                    Some(marker) => self.know(marker, look.server_time, now),
                    None => self.replace(before, now),
                }
            }
        }
        false
    }

    /// There is a marker of this process.
    fn know(&mut self, marker: Marker, server_time: Option<u64>, now: Moment) {
        self.phase = Phase::Known;
        match &self.marker {
            Some(known) if *known == marker => return,
            Some(_) => self.count_all(now),
            None => {
                // Counted from the reply: the server had read its clock before.
                let remaining = marker.remaining(self.guarding.quarantine, server_time);
                if !remaining.is_zero() {
                    self.until = self.until.max(Some(now.after(remaining)));
                }
            }
        }
        self.marker = Some(marker);
    }

    /// There is a marker, but of another process.
    fn replace(&mut self, before: Phase, now: Moment) {
        if self.marker.take().is_some() {
            self.count_all(now);
        }
        self.phase = Phase::Outdated;
        if before != Phase::Outdated {
            self.look_at = now;
        }
    }

    /// This client has seen the change itself: it counts all of the time, from here.
    fn count_all(&mut self, now: Moment) {
        self.until = Some(now.after(self.guarding.quarantine));
    }
}
