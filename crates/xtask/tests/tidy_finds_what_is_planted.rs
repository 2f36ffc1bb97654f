//! Runs each check of tidy on a small tree with one fault.
//!
//! The tree without the planted fault has no findings, so any finding is the fault. Words that tidy
//! forbids are written in two halves here, or it would find this file.

use std::fs;
use std::path::{Path, PathBuf};

use xtask::tidy;

const PROSE: &str = "//! One.\n//! Two.\n//! Three.\n//! Four.\n//! Five.\n//! Six.\n//! Seven.\n\
                     //! Eight.\n";

/// A repository of two crates without findings.
struct Planted {
    root: PathBuf,
}

impl Planted {
    fn new(test: &str) -> Planted {
        let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
        let _ = fs::remove_dir_all(&root);
        let planted = Planted { root };
        planted.write("README.md", "# A tree\nSee [the code](crates/nfs/src/lib.rs).\n");
        planted.write("crates/nfs/Cargo.toml", "[dependencies]\nvfs.workspace = true\n");
        planted.write("crates/nfs/src/lib.rs", &format!("{PROSE}\nmod wire;\n"));
        planted.write("crates/nfs/src/wire.rs", "fn decode<'a>(_: &'a [u8; 2]) {}\n");
        planted.write("crates/vfs/Cargo.toml", "[dependencies]\n");
        planted.write("crates/vfs/src/lib.rs", PROSE);
        planted
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// The findings, one a line.
    fn findings(&self) -> String {
        let findings = tidy::check(&self.root).unwrap();
        findings.iter().map(|finding| format!("{finding}\n")).collect()
    }

    /// Asserts that there is one finding, that it is at `place`, and that it mentions `subject`.
    #[track_caller]
    fn has_one(&self, place: &str, subject: &str) {
        let findings = self.findings();
        assert_eq!(findings.lines().count(), 1, "{findings}");
        assert!(findings.starts_with(&format!("{place}: ")), "{findings}");
        assert!(findings.contains(subject), "{findings}");
    }
}

#[test]
fn a_tree_without_faults_has_no_findings() {
    assert_eq!(Planted::new("clean").findings(), "");
}

#[test]
fn where_git_keeps_its_own_is_not_looked_at() {
    let planted = Planted::new("work-tree");
    planted.write(".git", concat!("gitdir: /wo", "rk/elsewhere\n"));
    assert_eq!(planted.findings(), "");
}

#[test]
fn neighbours_that_need_each_other_through_a_third() {
    let planted = Planted::new("circle");
    planted.write("crates/nfs/src/lib.rs", &format!("{PROSE}\nmod low;\nmod top;\nmod wire;\n"));
    planted.write("crates/nfs/src/top.rs", "use super::{low, wire::A};\n");
    planted.write("crates/nfs/src/low.rs", "const B: u8 = crate::wire::A;\n");
    planted.write(
        "crates/nfs/src/wire.rs",
        "const A: u8 = 1;\n\n#[cfg(test)]\nmod tests {\n    use crate::top;\n}\n",
    );
    assert_eq!(planted.findings(), "", "tests may import what they like");
    planted.write("crates/nfs/src/wire.rs", "use crate::{\n    top::C,\n};\n");
    let findings = planted.findings();
    let places: Vec<_> = findings.lines().filter_map(|line| line.split(": ").next()).collect();
    let circle =
        ["low.rs:1", "top.rs:1", "top.rs:1", "wire.rs:2"].map(|at| format!("crates/nfs/src/{at}"));
    assert_eq!(places, circle, "{findings}");
}

#[test]
fn what_children_share_with_their_parent_is_no_circle() {
    let planted = Planted::new("family");
    planted
        .write("crates/nfs/src/lib.rs", &format!("{PROSE}\nmod wire;\nuse wire::A;\nstruct B;\n"));
    planted.write("crates/nfs/src/wire.rs", "use crate::B;\nuse super::wire::A as C;\n");
    assert_eq!(planted.findings(), "");
}

#[test]
fn a_width_of_a_format_outside_of_its_layout() {
    let planted = Planted::new("offsets");
    let code = "fn read(header: &[u8]) -> &[u8] {\n    &header[..WIDTH]\n}\n";
    planted.write("crates/fsck/Cargo.toml", "[dependencies]\n");
    planted.write("crates/fsck/src/lib.rs", &format!("{PROSE}\n{code}"));
    assert_eq!(planted.findings(), "", "it has a name");
    let code = code.replace("WIDTH", "4");
    let tests = format!("{PROSE}\n#[cfg(test)]\nmod tests {{\n{code}}}\n");
    planted.write("crates/fsck/src/lib.rs", &tests);
    assert_eq!(planted.findings(), "", "tests may say it");
    planted.write("crates/fsck/src/lib.rs", &format!("{PROSE}\n{code}"));
    planted.has_one("crates/fsck/src/lib.rs:11", "name the field");
}

#[test]
fn a_line_of_101_columns() {
    let planted = Planted::new("wide");
    planted.write("crates/nfs/src/wire.rs", &format!("//! {}\n", "é".repeat(96)));
    assert_eq!(planted.findings(), "", "100 columns are allowed");
    planted.write("crates/nfs/src/wire.rs", &format!("//! {}\n", "é".repeat(97)));
    planted.has_one("crates/nfs/src/wire.rs:1", "101 columns");
}

#[test]
fn a_wide_table_or_address_is_no_fault_of_a_document() {
    let planted = Planted::new("table");
    let wide = "x".repeat(100);
    planted.write("a.md", &format!("| {wide} |\nhttps://example.com/{wide}\n"));
    assert_eq!(planted.findings(), "");
    planted.write("a.md", &format!("{wide} and more\n"));
    planted.has_one("a.md:1", "109 columns");
}

#[test]
fn trailing_blanks() {
    let planted = Planted::new("blanks");
    planted.write("run.sh", "echo\nexit \n");
    planted.has_one("run.sh:2", "trailing blanks");
}

#[test]
fn a_file_of_801_lines() {
    let planted = Planted::new("long_file");
    planted.write("crates/nfs/src/wire.rs", &"//\n".repeat(801));
    planted.has_one("crates/nfs/src/wire.rs:1", "801 lines");
}

#[test]
fn a_function_of_71_lines() {
    let planted = Planted::new("long_function");
    planted.write("crates/nfs/src/wire.rs", &format!("\nfn f() {{{}}}\n", "\n".repeat(70)));
    planted.has_one("crates/nfs/src/wire.rs:2", "the function f has 71 lines");
}

#[test]
fn an_invariant_that_is_only_told() {
    let planted = Planted::new("invariant");
    let list = "//! Invariants:\n//! 1. It is so.\n//! 2. It stays so.\n";
    let wire = "fn f() {\n    assert!(g(), \"invariant 2: it stays so\");\n}\n";
    planted.write("crates/nfs/src/wire.rs", &format!("{list}{wire}"));
    planted.has_one("crates/nfs/src/wire.rs:2", "invariant 1 is not asserted");
    let reason = "//!\n//! Not asserted: 1, which is about time.\n";
    planted.write("crates/nfs/src/wire.rs", &format!("{list}{reason}{wire}"));
    assert_eq!(planted.findings(), "");
}

#[test]
fn a_protocol_that_knows_an_engine() {
    let planted = Planted::new("engine");
    planted.write("crates/nfs/Cargo.toml", "[dependencies]\nffs = { path = \"../ffs\" }\n");
    planted.has_one("crates/nfs/Cargo.toml:2", "nfs must not depend on ffs");
}

#[test]
fn a_pure_crate_that_reaches_a_reactor_through_another() {
    let planted = Planted::new("reactor");
    let helper = "[package]\nname = \"helper\"\n[dependencies.tokio]\nversion = \"1\"\n";
    planted.write("crates/a_helper/Cargo.toml", helper);
    planted.write("crates/vfs/Cargo.toml", "[build-dependencies]\nhelper.workspace = true\n");
    let findings = planted.findings();
    assert!(findings.contains("vfs must not depend on tokio through helper"), "{findings}");
}

#[test]
fn a_simulator_that_sits_too_high() {
    let planted = Planted::new("simulator");
    planted.write("crates/sim/Cargo.toml", "[dependencies]\nvfs.workspace = true\n");
    planted.has_one("crates/sim/Cargo.toml:2", "sim must not depend on vfs");
}

#[test]
fn a_test_of_a_pure_crate_that_needs_the_server() {
    let planted = Planted::new("tests_need_server");
    planted.write("crates/vfs/Cargo.toml", "[dev-dependencies]\nserver.workspace = true\n");
    planted.has_one("crates/vfs/Cargo.toml:2", "not even in its tests");
}

#[test]
fn a_source_file_that_no_crate_reaches() {
    let planted = Planted::new("dead");
    planted.write("crates/nfs/src/wire/old.rs", "");
    planted.has_one("crates/nfs/src/wire/old.rs:1", "no crate reaches this file");
    planted.write("crates/nfs/src/wire.rs", "mod old;\n");
    assert_eq!(planted.findings(), "");
}

#[test]
fn a_module_that_is_only_declared_in_a_comment() {
    let planted = Planted::new("commented_out");
    planted.write("crates/nfs/src/lib.rs", &format!("{PROSE}\n// mod wire;\n"));
    planted.has_one("crates/nfs/src/wire.rs:1", "no crate reaches this file");
}

#[test]
fn a_crate_that_says_little_about_itself() {
    let planted = Planted::new("prose");
    planted.write("crates/vfs/src/lib.rs", "//! Files.\n\n//! And so on.\n");
    planted.has_one("crates/vfs/src/lib.rs:1", "opens with 1 lines of prose");
}

#[test]
fn a_reminder_to_oneself() {
    let planted = Planted::new("reminder");
    planted.write("crates/vfs/build.rs", concat!("// Fix", "Me later\nfn main() {}\n"));
    planted.has_one("crates/vfs/build.rs:1", "do it now");
}

#[test]
fn a_test_that_does_not_run() {
    let planted = Planted::new("skipped");
    planted.write("crates/vfs/tests/slow.rs", concat!("\n#[ig", "nore = \"slow\"]\nfn f() {}\n"));
    planted.has_one("crates/vfs/tests/slow.rs:2", "a test that does not run");
}

#[test]
fn a_path_of_one_machine() {
    let planted = Planted::new("machine");
    planted.write("run.sh", concat!("cd /wo", "rk/main\n"));
    planted.has_one("run.sh:1", "a path of one machine");
}

#[test]
fn a_package_host() {
    let planted = Planted::new("host");
    planted.write("run.sh", concat!("pip install -i https://pypi", ".org/simple x\n"));
    planted.has_one("run.sh:1", "a package host");
}

#[test]
fn unsafe_code_outside_of_its_crate() {
    let planted = Planted::new("unsafety");
    planted.write("crates/block/Cargo.toml", "");
    planted.write("crates/block/src/lib.rs", &format!("{PROSE}unsafe fn f() {{}}\n"));
    assert_eq!(planted.findings(), "", "block may");
    planted.write("crates/nfs/src/wire.rs", "// unsafe\nunsafe fn f() {}\n");
    planted.has_one("crates/nfs/src/wire.rs:2", "unsafe outside of crates/block/");
}

#[test]
fn a_file_over_a_mebibyte() {
    let planted = Planted::new("blob");
    planted.write("testdata/disk.img", &"\0".repeat((1 << 20) + 1));
    planted.has_one("testdata/disk.img:1", "1048577 bytes");
}

#[test]
fn a_link_that_leads_nowhere() {
    let planted = Planted::new("link");
    planted.write("docs/a.md", "[up](../README.md#a), [down](b.md)\n");
    planted.has_one("docs/a.md:1", "the link to b.md leads nowhere");
}

#[test]
fn a_crate_that_takes_sockets_which_are_not_its_own() {
    let planted = Planted::new("sockets");
    planted.write("crates/bench/src/lib.rs", PROSE);
    planted.write("crates/bench/Cargo.toml", "[dependencies]\ntokio.workspace = true\n");
    assert_eq!(planted.findings(), "", "the measuring program may");
    planted.write("crates/tool/src/lib.rs", PROSE);
    planted.write("crates/tool/Cargo.toml", "[dependencies]\ntokio.workspace = true\n");
    planted.has_one("crates/tool/Cargo.toml:2", "tool must not depend on tokio");
}

#[test]
fn an_engine_over_memory_that_a_volume_could_have() {
    let planted = Planted::new("in_memory");
    planted.write("crates/ram/src/lib.rs", PROSE);
    planted.write("crates/ram/Cargo.toml", "[dependencies]\n");
    planted.write("crates/designs/src/lib.rs", PROSE);
    planted.write("crates/designs/Cargo.toml", "[dependencies]\nram.workspace = true\n");
    planted.has_one("crates/designs/Cargo.toml:2", "designs must not depend on ram");
}

#[test]
fn an_engine_that_knows_which_others_there_are() {
    let planted = Planted::new("others");
    planted.write("crates/designs/src/lib.rs", PROSE);
    planted.write("crates/designs/Cargo.toml", "[dependencies]\n");
    planted.write("crates/ffs/src/lib.rs", PROSE);
    planted.write("crates/ffs/Cargo.toml", "[dependencies]\ndesigns.workspace = true\n");
    planted.has_one("crates/ffs/Cargo.toml:2", "ffs must not depend on designs");
}

#[test]
fn a_load_that_knows_one_server() {
    let planted = Planted::new("load");
    planted.write("crates/dispatch/src/lib.rs", PROSE);
    planted.write("crates/dispatch/Cargo.toml", "[dependencies]\n");
    planted.write("crates/load/src/lib.rs", PROSE);
    planted.write("crates/load/Cargo.toml", "[dependencies]\ndispatch.workspace = true\n");
    planted.has_one("crates/load/Cargo.toml:2", "load must not depend on dispatch");
}
