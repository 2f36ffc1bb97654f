//! Every way in and out of a volume, cut and followed by another.

use torture::campaign::Options;
use torture::campaign::nested::ways;
use torture::explore::design::Design;

#[test]
fn every_way_in_and_out_is_cut_and_repeated() {
    for design in Design::all() {
        let options = Options::short(design, 2);
        let outcome = ways(&options);
        assert!(outcome.violations.is_empty(), "{}", outcome.violations.join("\n"));
        println!("{design:?}: {:?}", outcome.counts);
    }
}
