//! A guest in a mount of our server.

use std::time::Duration;

use crate::Repository;
use crate::guest::{Guest, Mount};
use crate::servers::duramen::Server;

/// The time limit of a scenario, for a machine that does much else; with `--full` ten times that.
const TIME_LIMIT: Duration = Duration::from_secs(900);

/// A guest with `server` mounted, about to run one of our scripts.
pub(super) fn guest(repository: &Repository, server: &Server, script: &str) -> Guest {
    Guest {
        script: repository.guest_scripts().join(script),
        arguments: Vec::new(),
        mount: Some(Mount {
            port: server.port(),
            export: "/volume".to_owned(),
            options: Vec::new(),
        }),
        disk: None,
        share: None,
        time_limit: TIME_LIMIT,
    }
}
