//! Ports for listeners that have to come back on the same port.
//!
//! The kernel hands out the ports from 32768 up to outgoing connections. A port that it chose for `bind(0)` lies in
//! that range, so while its server is down another connection may get it, or a client that keeps trying to connect
//! may even connect to itself. Hence a port from below the range, tried by binding it.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener};

use rand::TryRng as _;
use rand::rngs::SysRng;

const LOWEST: u16 = 16_384;
const HIGHEST: u16 = 32_767;
const ATTEMPTS: usize = 64;

/// A listener on a free port of 127.0.0.1.
///
/// # Errors
///
/// When no port of many tried could be bound, the error of the last one.
pub(super) fn listen() -> io::Result<TcpListener> {
    let mut outcome = Err(io::ErrorKind::AddrInUse.into());
    for _ in 0..ATTEMPTS {
        let dice = SysRng.try_next_u32().map_err(io::Error::other)?;
        let span = u32::from(HIGHEST - LOWEST) + 1;
        let port = LOWEST.saturating_add(u16::try_from(dice % span).unwrap_or(0));
        outcome = TcpListener::bind(local(port));
        if outcome.is_ok() {
            break;
        }
    }
    outcome
}

/// A port of 127.0.0.1 that was free a moment ago.
///
/// # Errors
///
/// As [`listen`].
pub(super) fn free() -> io::Result<u16> {
    Ok(listen()?.local_addr()?.port())
}

pub(super) fn local(port: u16) -> SocketAddr {
    SocketAddrV4::new(Ipv4Addr::LOCALHOST, port).into()
}
