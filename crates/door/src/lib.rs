//! The door of a server: accepts clients, gives them places, and moves calls in and replies out.
//!
//! # Layers
//! - [`Door`]: accepts clients, gives them a place, serves them, and hangs up;
//! - `places`: the limit of connections, and which one goes when another wants its place;
//! - `connection`, `outgoing`: one client, its calls side by side, its replies gathered;
//! - `patience`: the time that a client may keep us, and through us others, waiting;
//! - [`Stream`], [`Listener`]: transports. TCP is one, and [`pipe`] another, in memory alone: with
//!   it all of this runs in virtual time.
//!
//! # Contract
//! The owner of a listener has the door accept from it ([`Door::accept`]) until it throws the
//! [`Switch`] with which the door was made, and then waits until all clients are gone
//! ([`Door::drain`]). Everything runs on the calling thread.
//!
//! Architecture invariant: no socket, no reactor, no clock but [`runtime::Clock`]: the same code
//! runs in production and under the simulator. Everything is generic in the stream, so that a
//! transport costs no call through a table.

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
pub use keeper::{Bounds, Door, DoorCounts, GRACE, LINGER};
pub use patience::{LEAST, PATIENCE};
pub use places::{LEAVING, MAX_AT_DOOR, QUIET};
pub use seldom::seldom;
pub use stream::{Listener, MAX_UNSENT_BYTES, STRANGERS_UNSENT_BYTES, Stream};
pub use switch::Switch;
