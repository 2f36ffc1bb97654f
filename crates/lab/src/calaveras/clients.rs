//! The clients: one for each disk, with a few processes each.

use std::rc::Rc;

use load::stage::{Plan, Stage, Unwatched};
use nfs::rpc::Caller;

use crate::server::Server;

/// A stage on each of the server's disks, for a client with this many processes.
///
/// # Panics
/// When the server does not answer, which is an error of the model.
pub(super) fn stages(server: &Server, processes: usize, seed: u64) -> Vec<Stage> {
    let runtime = server.runtime();
    let plan = |number: usize| Plan {
        connections: 1,
        depth: processes,
        duration: None,
        seed: seed + number as u64,
        ..Plan::default()
    };
    server.run(async {
        let mut stages = Vec::new();
        for (number, export) in server.paths().enumerate() {
            let client = server.client(number as u32 + 1);
            let caller = Caller::sys(b"alpha", 0, 0, &[]);
            let watch = Rc::new(Unwatched);
            let stage = Stage::set(&runtime, &client, caller, &export, plan(number), watch).await;
            stages.push(stage.unwrap_or_else(|trouble| panic!("client {number}: {trouble}")));
        }
        stages
    })
}
