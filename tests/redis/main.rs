//! The client on real servers: what it does there, on every kind of server at hand, and what it
//! says of nodes that are no good.

// `cfg(test)` always holds here: it tells clippy that the helpers are test code, too.
#[cfg(test)]
mod addresses;
#[cfg(test)]
mod bad_nodes;
#[cfg(test)]
mod both;
#[cfg(test)]
mod closing;
#[cfg(test)]
mod conformance;
#[cfg(test)]
mod events;
#[cfg(test)]
mod fencing;
#[cfg(test)]
mod grants;
#[cfg(test)]
mod inspect;
#[cfg(test)]
mod ladder;
#[cfg(test)]
mod lazy;
#[cfg(test)]
mod load;
#[cfg(test)]
mod memory;
#[cfg(test)]
mod pottery;
#[cfg(test)]
mod renewals;
#[cfg(test)]
mod sets;
#[cfg(test)]
#[path = "../support/mod.rs"]
mod support;
#[cfg(test)]
#[cfg(feature = "tls-rustls")]
mod tls;
#[cfg(test)]
mod waiting;
