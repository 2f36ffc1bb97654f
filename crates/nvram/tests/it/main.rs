//! An NVRAM under the simulator: cuts, rot, errors, and planted bugs that must be found.

mod costs;
mod cuts;
mod golden;
mod health;
mod hunt;
mod pairs;
mod pins;
mod states;
mod twins;
mod world;

/// Does something with a planted bug.
#[cfg(feature = "planted-bugs")]
pub(crate) fn with<T>(bug: nvram::planted::Bug, work: impl FnOnce() -> T) -> T {
    use nvram::planted::plant;

    struct Cleared;
    impl Drop for Cleared {
        fn drop(&mut self) {
            plant(None);
        }
    }
    plant(Some(bug));
    let _cleared = Cleared;
    work()
}
