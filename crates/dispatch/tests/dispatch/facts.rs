//! Facts about a volume and the server: FSSTAT, FSINFO, PATHCONF.

use dispatch::MAX_TRANSFER;
use nfs3_types::nfs3::{
    FSINFO3args, FSINFO3res, FSSTAT3args, FSSTAT3res, NFS_PROGRAM, PATHCONF3args, PATHCONF3res,
    nfstime3,
};

use crate::fixture::{Fixture, local};

#[test]
fn free_space_is_told_as_the_file_system_has_it() {
    let mut fixture = Fixture::new();
    let fsroot = fixture.mount(&local(), "/data").expect("a mount");
    let args = FSSTAT3args { fsroot };
    let told: FSSTAT3res = fixture.call(&local(), NFS_PROGRAM::NFSPROC3_FSSTAT, &args);
    let told = told.unwrap();
    assert_eq!((told.tbytes, told.fbytes, told.abytes), (1 << 30, 1 << 29, 1 << 28));
    assert_eq!((told.tfiles, told.ffiles, told.afiles, told.invarsec), (5_000, 4_000, 3_000, 0));
}

#[test]
fn a_client_is_told_to_move_as_much_as_a_call_may_and_to_list_64_kib() {
    let mut fixture = Fixture::new();
    let fsroot = fixture.mount(&local(), "/data").expect("a mount");
    let args = FSINFO3args { fsroot };
    let told: FSINFO3res = fixture.call(&local(), NFS_PROGRAM::NFSPROC3_FSINFO, &args);
    let told = told.unwrap();
    assert_eq!([told.rtmax, told.rtpref, told.wtmax, told.wtpref], [MAX_TRANSFER; 4]);
    assert_eq!([told.rtmult, told.wtmult, told.dtpref], [32_768, 32_768, 65_536]);
    assert_eq!(
        (told.maxfilesize, told.time_delta),
        (1 << 24, nfstime3 { seconds: 0, nseconds: 1 })
    );
    assert_eq!(told.properties, 0x01 | 0x02 | 0x08 | 0x10, "links of both kinds, alike, times");
}

#[test]
fn names_and_links_have_the_limits_of_the_file_system() {
    let mut fixture = Fixture::new();
    let object = fixture.mount(&local(), "/data").expect("a mount");
    let args = PATHCONF3args { object };
    let told: PATHCONF3res = fixture.call(&local(), NFS_PROGRAM::NFSPROC3_PATHCONF, &args);
    let told = told.unwrap();
    assert_eq!((told.linkmax, told.name_max), (32_767, 255));
    let said = [told.no_trunc, told.chown_restricted, told.case_insensitive, told.case_preserving];
    assert_eq!(said, [true, true, false, true]);
}
