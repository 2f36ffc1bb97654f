//! Peers that mean harm, at a real `duramen serve` on this machine.
//!
//! Every test has three things to show: what the peers send is answered as the protocol says, or
//! not at all; a neighbour who means well is served while it goes on; and the server's memory stays
//! within what its design allows. `conformance` says which procedure answers with which status;
//! here are the calls that no client makes.
//!
//! # The bound on memory
//! Memory is granted before it is used: calls and data by tokens that all connections share
//! (`limits.request_memory`, `limits.reply_memory`), blocks and remembered replies by settings of
//! their own. Beside these there is nothing but, for each connection, the 64 KiB in which its calls
//! arrive, and for each call that is not answered, of which a connection has 256 at most, its
//! futures and the header of its reply. So what is resident at the peak (VmHWM) is at most
//!
//! ```text
//!   what was resident at the start
//! + the cache of blocks                       16 MiB here
//! + the cache of replies                       4 MiB here
//! + 80 KiB for each connection                64 KiB and its tasks, timers, queues
//! + 4 KiB for each unanswered call
//! + tokens, as far as the scenario takes them
//! ```
//!
//! Each scenario names its connections, calls and tokens (`fixture::Load`) and prints what it has
//! measured. Whether the measure is worth anything is shown by a server that is allowed to read on
//! without being read: it exceeds the bound.
//!
//! In some an [onlooker](onlooker::Onlooker) tells how long others wait meanwhile.
//!
//! | scenario | answer | file |
//! |---|---|---|
//! | 1,000 connections, idle and then not | all served | `crowds` |
//! | connections in all places | some make room, the others are served | `crowds` |
//! | 100,000 calls before the first reply is read | all answered, when they are read | `arrears` |
//! | calls that trickle | answered | `stalls` |
//! | 200 large calls that stall | disconnected when others wait for memory | `stalls` |
//! | data that is asked for and not taken | the same | `arrears` |
//! | writes that leave little of each other | OK | `stairs` |
//! | records of 2 GiB, in one piece or many | disconnected | `records` |
//! | empty fragments without end | disconnected | `records` |
//! | forged handles | BADHANDLE, STALE; XDEV where two volumes meet first | `handles` |
//! | handles of more than 64 bytes | GARBAGE_ARGS | `handles` |
//! | clients outside the export | MNT3ERR_ACCES, ACCES | `outside` |
//! | names of every byte and any length | OK, EXIST, INVAL, ACCES, NAMETOOLONG | `names` |
//! | offsets and sizes from 2^63 - 1 | empty READ, FBIG, INVAL | `extremes` |
//! | listings of 0 and 2^32 - 1 bytes, wrong cookies | TOOSMALL, OK, BAD_COOKIE | `extremes` |
//! | paths out of the volume, odd, too long | the root, NOENT, INVAL, GARBAGE_ARGS | `paths` |
//! | other versions, programs, procedures, flavors | told apart by RFC 5531 | `rpc` |
//! | arguments cut short or gone on | GARBAGE_ARGS | `rpc` |
//! | replies and rubbish in place of calls | disconnected | `rpc` |

mod arrears;
mod asking;
mod crowds;
mod extremes;
mod fixture;
mod handles;
mod names;
mod onlooker;
mod outside;
mod paths;
mod records;
mod rpc;
mod stairs;
mod stalls;
pub(crate) mod wire;
