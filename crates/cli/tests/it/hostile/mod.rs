//! Malicious peers against a real `duramen serve` on this machine.
//!
//! Every test shows three things: the server answers the peers as the protocol says, or not at all;
//! a well-behaved neighbour is served meanwhile; and the server's memory stays within its designed
//! bound. `conformance` covers the statuses of each procedure; here are calls that no real client
//! makes.
//!
//! # The bound on memory
//! Memory is granted before it is used: calls and data by tokens that all connections share
//! (`limits.request_memory`, `limits.reply_memory`), blocks and remembered replies by settings of
//! their own. Beside these there is nothing but, for each connection, the 64 KiB in which its calls
//! arrive, and for each unanswered call, of which a connection has 256 at most, its futures and the
//! header of its reply. So resident memory at the peak (VmHWM) is at most
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
//! Each scenario names its connections, calls and tokens (`fixture::Load`) and prints its
//! measurement. One test proves that the measurement detects a violation: a server that may
//! continue to read without being read exceeds the bound.
//!
//! In some scenarios an [onlooker](onlooker::Onlooker) measures how long others wait meanwhile.
//!
//! | scenario | answer | file |
//! |---|---|---|
//! | 1,000 connections, idle and then not | all served | `crowds` |
//! | connections that use all places | some make room, the others are served | `crowds` |
//! | 100,000 calls before the first reply is read | all answered, when they are read | `arrears` |
//! | calls that trickle | answered | `stalls` |
//! | 200 large calls that stall | disconnected when others wait for memory | `stalls` |
//! | READ replies that are not received | the same | `arrears` |
//! | writes that overwrite most of each other | OK | `stairs` |
//! | records of 2 GiB, in one piece or many | disconnected | `records` |
//! | empty fragments without end | disconnected | `records` |
//! | forged handles | BADHANDLE, STALE; XDEV where two volumes meet first | `handles` |
//! | handles of more than 64 bytes | GARBAGE_ARGS | `handles` |
//! | clients outside the export | MNT3ERR_ACCES, ACCES | `outside` |
//! | names of every byte and any length | OK, EXIST, INVAL, ACCES, NAMETOOLONG | `names` |
//! | offsets and sizes from 2^63 - 1 | empty READ, FBIG, INVAL | `extremes` |
//! | listings of 0 and 2^32 - 1 bytes, wrong cookies | TOOSMALL, OK, BAD_COOKIE | `extremes` |
//! | paths out of the volume, invalid, too long | the root, NOENT, INVAL, GARBAGE_ARGS | `paths` |
//! | other versions, programs, procedures, flavors | the errors of RFC 5531 | `rpc` |
//! | arguments truncated, or with bytes behind | GARBAGE_ARGS | `rpc` |
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
