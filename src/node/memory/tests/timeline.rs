//! Everything at once, and the same again.

use super::rig::{ACQUIRE, Client, EXTEND, ms, pass};
use crate::node::memory::{CutFate, HeldConnection, Latency, MemoryLink, MemoryServer, Restart};
use crate::quorum::backoff::scale;
use crate::quorum::hold::Command;
use crate::token::Entropy;

/// Clients, faults and jitter, all from one seed.
fn timeline(seed: u64) -> Vec<String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        let dice = Entropy::seeded(seed);
        let servers: Vec<MemoryServer> = (0..3)
            .map(|number| MemoryServer::new(seed ^ number))
            .collect();
        for server in &servers {
            server.keep_log(true);
        }
        let links: Vec<Vec<MemoryLink>> = (0..3)
            .map(|_| servers.iter().map(MemoryServer::link).collect())
            .collect();
        for link in links.iter().flatten() {
            link.set_latency(
                Latency::fixed(ms(1)).with_jitter(ms(9)),
                Latency::default().with_jitter(ms(9)),
            );
        }
        let clients: Vec<Client> = links
            .iter()
            .map(|links| Client::start(&links.iter().collect::<Vec<_>>()))
            .collect();
        let mut lines = Vec::new();
        let mut held = Vec::new();
        for step in 0..600_u32 {
            let pick = |bound: u64| usize::try_from(scale(dice.jitter(), bound)).unwrap();
            let (client, node) = (pick(3), pick(3));
            let (server, link) = (&servers[node], &links[client][node]);
            match pick(24) {
                0 => server.freeze(),
                1 | 2 => servers.iter().for_each(MemoryServer::thaw),
                3 => server.restart(if pick(2) == 0 {
                    Restart::KeepData
                } else {
                    Restart::Empty
                }),
                4 => link.cut(CutFate::Either),
                5 => link.partition(true),
                6 | 7 => links
                    .iter()
                    .flatten()
                    .for_each(|link| link.partition(false)),
                8 => held.extend(link.hold_connection()),
                9 => held.iter().for_each(HeldConnection::deliver),
                10 => server.deny_client_kill(pick(2) == 0),
                _ => {
                    let command = [ACQUIRE, EXTEND, Command::Release][pick(3)];
                    let (name, bits) = (format!("{step}"), u128::from(step % 7));
                    let submitted = if step % 2 == 0 {
                        clients[client].watch(node, &name, bits, command)
                    } else {
                        clients[client].submit(node, &name, bits, command)
                    };
                    lines.push(format!("{step} {submitted:?}"));
                }
            }
            pass(ms(dice.jitter() % 40)).await;
        }
        pass(ms(10_000)).await;
        lines.extend(clients.iter().flat_map(|client| client.trace.take()));
        lines.extend(
            servers
                .iter()
                .flat_map(MemoryServer::take_log)
                .map(|line| format!("{line:?}")),
        );
        lines
    })
}

#[test]
fn one_seed_is_one_timeline() {
    for seed in 0..8 {
        let first = timeline(seed);
        assert!(first.len() > 600);
        assert_eq!(first, timeline(seed));
    }
    assert_ne!(timeline(1), timeline(2));
}
