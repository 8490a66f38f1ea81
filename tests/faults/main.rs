//! The client on real servers while things go wrong: nodes that freeze, die and come back, networks
//! that delay, lose and cut, and callers that give up.

// `cfg(test)` always holds here: it tells clippy that the helpers are test code, too.
#[cfg(test)]
mod amnesia;
#[cfg(test)]
mod chaos;
#[cfg(test)]
mod dropped;
#[cfg(test)]
mod frozen;
#[cfg(test)]
mod held;
#[cfg(test)]
mod loss;
#[cfg(test)]
mod restarts;
#[cfg(test)]
mod stopped;
#[cfg(test)]
mod straggler;
#[cfg(test)]
#[path = "../support/mod.rs"]
mod support;
