//! The calling user: AUTH_NONE and AUTH_SYS (RFC 5531, section 8.2 and appendix A).

use crate::xdr::{DecodeError, Decoder};

/// The longest body of a credential or a verifier, in bytes.
pub const MAX_AUTH_BODY: usize = 400;

/// The longest name of a machine, in bytes.
pub const MAX_MACHINE_NAME: usize = 255;

/// The most groups that AUTH_SYS can carry besides the primary one.
pub const MAX_GIDS: usize = 16;

/// The flavor of [`Credential::None`].
pub const AUTH_NONE: u32 = 0;

/// The flavor of [`Credential::Sys`].
pub const AUTH_SYS: u32 = 1;

/// A caller's credential. The server decides whether to believe it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credential<'a> {
    /// No user in particular.
    None,
    /// A user of a UNIX machine, as that machine claims.
    Sys(AuthSys<'a>),
    /// An unsupported flavor (AUTH_SHORT, RPCSEC_GSS, AUTH_TLS, ...), to be refused as
    /// [`AuthStatus::RejectedCredential`](super::AuthStatus::RejectedCredential).
    Other {
        /// Its number.
        flavor: u32,
    },
}

/// A user in AUTH_SYS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuthSys<'a> {
    /// Any number; it differs between retransmissions of one call with some clients.
    pub stamp: u32,
    /// The name of the client machine, by its own claim.
    pub machine_name: &'a [u8],
    /// User.
    pub uid: u32,
    /// Primary group.
    pub gid: u32,
    /// Further groups.
    pub gids: Gids,
}

/// Up to [`MAX_GIDS`] groups, stored inline.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Gids {
    length: usize,
    gids: [u32; MAX_GIDS], // zeros from `length` on, so that all of it can be compared
}

impl Gids {
    /// The groups.
    pub fn as_slice(&self) -> &[u32] {
        &self.gids[..self.length]
    }

    fn decode(from: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let length = from.u32()? as usize;
        if length > MAX_GIDS {
            return Err(DecodeError::TooLong { length, limit: MAX_GIDS });
        }
        let mut gids = [0; MAX_GIDS];
        for gid in &mut gids[..length] {
            *gid = from.u32()?;
        }
        Ok(Self { length, gids })
    }
}

impl std::fmt::Debug for Gids {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.as_slice().fmt(f)
    }
}

impl<'a> Credential<'a> {
    pub(super) fn decode(from: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        let flavor = from.u32()?;
        let body = from.opaque(MAX_AUTH_BODY)?;
        match flavor {
            AUTH_NONE => Ok(Self::None), // a body is allowed and means nothing
            AUTH_SYS => AuthSys::decode(body).map(Self::Sys),
            _ => Ok(Self::Other { flavor }),
        }
    }
}

impl<'a> AuthSys<'a> {
    fn decode(body: &'a [u8]) -> Result<Self, DecodeError> {
        let mut from = Decoder::new(body);
        let user = Self {
            stamp: from.u32()?,
            machine_name: from.opaque(MAX_MACHINE_NAME)?,
            uid: from.u32()?,
            gid: from.u32()?,
            gids: Gids::decode(&mut from)?,
        };
        from.finish()?;
        Ok(user)
    }
}
