//! The campaign of the contract of a device.

use torture::campaign::Options;
use torture::campaign::contract::named;
use torture::explore::design::Design;
use torture::explore::device::Device;

/// A case must reproduce its violation, so its workload must be the same each time.
#[test]
fn a_workload_is_the_same_each_time() {
    let options = Options::short(Design::default().on(Device::Raid1), 1);
    let tried = || named(&options, "raid1-2-Flushed-0+512-0+512-fresh").expect("there is one");
    let (one, other) = (tried(), tried());
    assert_eq!((one.counts, one.violations.len()), (other.counts, 0));
    assert!(one.counts.images > 100, "{:?}", one.counts);
}
