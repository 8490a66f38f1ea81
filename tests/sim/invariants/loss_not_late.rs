//! Loss is never late, and final: a guard says that it is lost before its validity ends, its
//! `lost()` resolves by then, and no guard ever takes a loss back.
//!
//! `lost()` of a process that stands still resolves when it goes on; asking the guard reads the
//! clock and is never late. Nor does a guard expire while it is valid.

use std::collections::BTreeMap;
use std::time::Duration;

use redlock_quorum::LossCause;
use redlock_quorum::testkit::memory::CommandKind;

use super::{Invariant, Violation};
use crate::dice::ms;
use crate::history::{Execution, History, LetGo, Op, Phase, What};
use crate::holds::{Hold, Request};

pub(crate) fn check(history: &History) -> Vec<Violation> {
    let mut violations = looks(history);
    let end = history.phase(Phase::End);
    let tokens = history.by_token();
    for (request, hold) in history.holds() {
        let (op, process) = (request.op, request.incarnation);
        let mut found = |at, what: String| {
            violations.push(Violation::new(Invariant::LossNotLate, at, what).of(&[op]));
        };
        match hold.lost {
            None => {
                if let Some(end) = end {
                    found(end, format!("#{op} was never told of its loss"));
                }
            }
            Some((at, cause)) => {
                // Where it stood still at the end of its validity, until it went on.
                let due = latest_end(request, hold, tokens.get(hold.token.as_str()));
                let stalled = history.stalled(process, due.saturating_sub(ms(3)), at);
                if at > due + stalled {
                    let (due, at_s) = (due.as_secs_f64(), at.as_secs_f64());
                    found(
                        at,
                        format!("#{op} was lost at {due:.3} and told at {at_s:.3}"),
                    );
                }
                let let_go = hold.let_go.is_some_and(|(_, how)| how != LetGo::Leak);
                let valid_until = valid_until_at(history, op, at);
                if cause == LossCause::Expired && !let_go && at + ms(3) < valid_until {
                    let until = valid_until.as_secs_f64();
                    found(at, format!("#{op} expired, but was valid until {until:.3}"));
                }
            }
        }
    }
    violations
}

/// By when the hold must have ended: a renewal counts from before it was carried out anywhere.
fn latest_end(
    request: &Request,
    hold: &Hold,
    executions: Option<&Vec<(usize, &Execution)>>,
) -> Duration {
    let mut due = hold.at_most_until;
    if request.renews {
        let renewed = executions
            .into_iter()
            .flatten()
            .filter(|(_, entry)| entry.kind == CommandKind::Extend && entry.took_effect);
        let last = renewed.map(|(_, entry)| entry.at).max();
        due = due.max(last.map_or(due, |last| last + hold.longest_ttl.max(request.renewed_ttl)));
    }
    request
        .max_hold
        .map_or(due, |limit| due.min(hold.acquired + limit))
}

/// What the caller had been told by then.
fn valid_until_at(history: &History, op: Op, by: Duration) -> Duration {
    let told = history.events.iter().filter(|event| event.at <= by);
    told.filter_map(|event| match event.what {
        What::Acquired {
            op: this,
            valid_until,
            ..
        }
        | What::Extended {
            op: this,
            valid_until,
            ..
        } if this == op => Some(valid_until),
        _ => None,
    })
    .max()
    .unwrap_or_default()
}

fn looks(history: &History) -> Vec<Violation> {
    let mut lost: BTreeMap<Op, LossCause> = BTreeMap::new();
    let mut violations = Vec::new();
    for event in &history.events {
        let mut found = |op: Op, what: String| {
            violations.push(Violation::new(Invariant::LossNotLate, event.at, what).of(&[op]));
        };
        match event.what {
            What::Lost { op, cause }
            | What::Looked {
                op,
                loss: Some(cause),
                ..
            } => {
                lost.entry(op).or_insert(cause);
            }
            What::Looked {
                op,
                loss: None,
                valid_until,
            } => {
                if let Some(cause) = lost.get(&op) {
                    found(op, format!("#{op} was lost ({cause}) and is not"));
                }
                if event.at >= valid_until {
                    let until = valid_until.as_secs_f64();
                    found(
                        op,
                        format!("#{op} was valid until {until:.3} and is not lost"),
                    );
                }
            }
            What::Acquired {
                op, valid_until, ..
            }
            | What::Extended {
                op, valid_until, ..
            } => {
                if event.at >= valid_until {
                    let until = valid_until.as_secs_f64();
                    found(op, format!("#{op} was handed out, valid until {until:.3}"));
                }
                if let Some(cause) = lost.get(&op) {
                    found(
                        op,
                        format!("#{op} was lost ({cause}) and has been extended"),
                    );
                }
            }
            _ => {}
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::super::story::{Story, TTL};
    use super::*;
    use crate::plan::Class;

    fn held() -> Story {
        Story::new(Class::Second).holds(0, 0, 988)
    }

    fn look(at: u64, loss: Option<LossCause>, until: u64) -> Story {
        let valid_until = ms(until);
        let looked = What::Looked {
            op: 0,
            loss,
            valid_until,
        };
        held().lost(0, 500, LossCause::Gone).event(at, 0, looked)
    }

    #[test]
    fn a_late_signal_is_found() {
        let told = |at| held().lost(0, at, LossCause::Expired);
        assert_eq!(told(987).check(check), 0);
        assert_eq!(told(988).check(check), 0);
        assert_eq!(told(989).check(check), 1);
        assert_eq!(told(984).check(check), 1, "it is early");
        assert_eq!(
            held().phase(5000, Phase::End).check(check),
            1,
            "it is never told"
        );
        assert_eq!(held().check(check), 0, "the story is not over");
    }

    #[test]
    fn a_process_that_stood_still_is_told_when_it_goes_on() {
        let story = |at| {
            let paused = held().paused(0, 900, 1500);
            paused.lost(0, at, LossCause::Expired).check(check)
        };
        assert_eq!(story(1500), 0);
        assert_eq!(story(1520), 1);
    }

    #[test]
    fn an_extension_moves_the_loss_and_a_dropped_one_may() {
        let (op, ttl, valid_until) = (0, TTL, ms(1488));
        let extended = held().event(
            510,
            0,
            What::Extended {
                op,
                ttl,
                valid_until,
            },
        );
        assert_eq!(extended.lost(0, 1487, LossCause::Expired).check(check), 0);
        let dropped = held().event(510, 0, What::ExtendAbandoned { op, ttl });
        assert_eq!(dropped.lost(0, 1498, LossCause::Expired).check(check), 0);
    }

    #[test]
    fn a_guard_that_is_not_lost_when_it_should_be_is_found() {
        assert_eq!(
            look(400, None, 988).check(looks),
            1,
            "it was lost before, says the signal"
        );
        assert_eq!(look(600, Some(LossCause::Gone), 988).check(looks), 0);
        let valid_until = ms(988);
        let (op, loss) = (0, None);
        let looked = What::Looked {
            op,
            loss,
            valid_until,
        };
        assert_eq!(held().event(987, 0, looked.clone()).check(looks), 0);
        assert_eq!(held().event(988, 0, looked).check(looks), 1);
        assert_eq!(Story::new(Class::First).holds(0, 988, 988).check(looks), 1);
    }
}
