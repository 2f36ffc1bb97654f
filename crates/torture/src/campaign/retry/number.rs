//! Reuse of a call's number (xid).

use nfs3_types::nfs3::{MKDIR3args, MKDIR3res, Nfs3Result, nfs_fh3};

use super::stage::{Stage, XID, exchange};
use crate::calls;
use crate::protocol::{self, Answer, Procedure, User};

/// After the numbers wrap around, another call with the same number is a new call.
///
/// # Errors
/// When the server does not carry it out.
pub(super) async fn another_call_of_the_number(
    stage: &Stage,
    root: &nfs_fh3,
) -> Result<(), String> {
    let stream = stage.connect(0).await;
    let other = protocol::packed(&calls::mkdir(root, "another"));
    let user = User { machine: "client".into(), uid: 0, gid: 0, groups: Vec::new() };
    let record = protocol::call_record(XID, &user, MKDIR3args::TARGET, &other);
    let reply = exchange(&stream, &record).await?;
    let made = match protocol::reply(&reply) {
        Some((XID, Answer::Results(results))) => protocol::whole::<MKDIR3res>(&results),
        _ => None,
    };
    match made {
        Some(Nfs3Result::Ok(_)) => Ok(()),
        _ => Err("another call of the same number is not carried out".into()),
    }
}
