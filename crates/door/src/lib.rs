//! The door of a server: who comes in, who has a place, and how calls go in and replies out.
//!
//! # Layers
//! - [`Door`]: clients are accepted, get a place, are served, and are hung up;
//! - `places`: how many connections there are, and which one goes when another is wanted;
//! - `connection`, `outgoing`: one client, its calls side by side, its replies gathered;
//! - `patience`: how long a client may keep us, and through us others, waiting;
//! - [`Stream`], [`Listener`]: what carries the bytes. TCP is one such thing, and [`pipe`] another,
//!   of memory alone: with it all of this runs in virtual time.
//!
//! # Contract
//! The owner of a listener has the door accept from it ([`Door::accept`]) until it throws the
//! [`Switch`] with which the door was made, and then waits until everybody is gone
//! ([`Door::drain`]). Everything runs on the thread that calls.
//!
//! Architecture invariant: no socket, no reactor, no clock but [`runtime::Clock`]: what runs in
//! production runs under the simulator. Everything is generic in the stream, so that a transport
//! costs no call through a table.

mod connection;
mod keeper;
mod outgoing;
mod patience;
pub mod pipe;
mod places;
#[doc(hidden)]
pub mod planted;
mod seldom;
mod stream;
mod switch;

pub use connection::{RECORD_BEAT, REPLY_BEAT, TURN_BYTES, TURN_CALLS};
pub use keeper::{Bounds, Door, GRACE, LINGER};
pub use patience::{LEAST, PATIENCE};
pub use places::{LEAVING, MAX_AT_DOOR, QUIET};
pub use seldom::seldom;
pub use stream::{Listener, MAX_UNSENT_BYTES, STRANGERS_UNSENT_BYTES, Stream};
pub use switch::Switch;
