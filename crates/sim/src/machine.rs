//! A part of the world that loses its power alone: its tasks and disks, and no others.

use std::cell::RefCell;
use std::rc::Rc;

use futures::future::LocalBoxFuture;
use runtime::{Runtime, Spawn};

use crate::Executor;
use crate::world::{Power, World};

/// A machine. It has power from the start, and again after each loss.
///
/// Its tasks and disks got its [`Runtime`], or were made with [`crate::Disk::in_machine`], since it
/// was last switched on. After a loss both must be obtained anew.
pub struct Machine {
    world: Rc<World>,
    power: RefCell<Power>,
    /// Powers of killed processes: their kernel's work for them ends with the machine.
    killed: RefCell<Vec<Power>>,
}

impl Machine {
    /// A machine that is on.
    pub fn new(executor: &Executor) -> Self {
        let world = executor.world().clone();
        Self { power: RefCell::new(world.new_power()), killed: RefCell::default(), world }
    }

    /// Clock and random source of the world, and tasks that end with this machine's power.
    pub fn runtime(&self) -> Runtime {
        let tasks = Rc::new(Tasks { world: self.world.clone(), power: self.power() });
        Runtime { clock: self.world.clone(), random: self.world.clone(), tasks }
    }

    /// The power is cut, and comes back: drops all tasks of this machine where they are. Its disks
    /// are dead and answer nothing; take one's [`crate::Disk::crash`] image. The other ends of its
    /// connections notice nothing until they send.
    pub fn crash(&self) {
        let power = self.power.replace(self.world.new_power());
        let killed = self.killed.take();
        killed.iter().chain([&power]).for_each(|power| self.world.cut(power, false));
    }

    /// Kills all processes while the kernel lives on: as [`Machine::crash`], but the other ends of
    /// connections are notified, and a disk keeps its state: see [`crate::Disk::reopen`].
    pub fn kill(&self) {
        let power = self.power.replace(self.world.new_power());
        self.world.cut(&power, true);
        self.killed.borrow_mut().push(power);
    }

    pub(crate) fn world(&self) -> &Rc<World> {
        &self.world
    }

    pub(crate) fn power(&self) -> Power {
        self.power.borrow().clone()
    }
}

struct Tasks {
    world: Rc<World>,
    power: Power,
}

impl Spawn for Tasks {
    fn spawn(&self, task: LocalBoxFuture<'static, ()>) {
        self.world.spawn_with(self.power.clone(), task);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::time::Duration;

    use block::{BlockDevice, Buffer, Durability};
    use futures::FutureExt;

    use super::*;
    use crate::{Disk, Image, Options, Platter};

    fn count(runtime: &Runtime) -> Rc<Cell<u64>> {
        let count = Rc::new(Cell::new(0));
        let (clock, counted) = (runtime.clock.clone(), count.clone());
        let task = async move {
            loop {
                clock.sleep(Duration::from_micros(1)).await;
                counted.set(counted.get() + 1);
            }
        };
        runtime.tasks.spawn(task.boxed_local());
        count
    }

    #[test]
    fn a_crash_ends_the_tasks_of_one_machine_and_of_no_other() {
        let executor = Executor::new(0);
        let machines = [(); 2].map(|()| Machine::new(&executor));
        let old = machines[0].runtime();
        let counts = [count(&old), count(&machines[1].runtime()), count(&executor.runtime())];
        executor.run_for(Duration::from_micros(10));
        machines[0].crash();
        let late = count(&old);
        let again = count(&machines[0].runtime());
        executor.run_for(Duration::from_micros(10));
        assert_eq!(counts.map(|count| count.get()), [10, 20, 20]);
        assert_eq!((late.get(), again.get()), (0, 10), "what is left of before starts nothing");
    }

    #[test]
    fn a_disk_dies_with_its_machine_and_keeps_what_may_be_kept() {
        let executor = Executor::new(0);
        let machine = Machine::new(&executor);
        let disk = Disk::in_machine(&machine, Image::zeroed(1 << 20), Options::default());
        executor.block_on(async {
            disk.write(0, vec![vec![1; 512].into()], Durability::Plain).await.expect("it works");
            disk.flush().await.expect("it works");
        });
        let last = disk.write(0, vec![vec![2; 512].into()], Durability::Plain);
        machine.crash();
        let pending = disk.platter();
        let (read, time) = (disk.read(0, Buffer::zeroed(512)), Duration::from_secs(1));
        assert!(executor.block_on_for(time, last).is_none(), "a dead disk answers nothing");
        assert!(executor.block_on_for(time, read).is_none(), "a dead disk answers nothing");
        assert_eq!(pending.pending().count(), 1, "the write in flight may be there");
        assert_eq!(disk.platter().pending().count(), 1, "and that stays so");
    }

    #[test]
    fn a_disk_goes_on_where_only_the_process_was_killed() {
        let executor = Executor::new(0);
        let machine = Machine::new(&executor);
        let disk = Disk::in_machine(&machine, Image::zeroed(1 << 20), Options::default());
        drop(disk.write(0, vec![vec![1; 512].into()], Durability::Plain));
        machine.kill();
        executor.block_on(disk.reopen(&machine));
        let read = executor.block_on(disk.read(0, Buffer::zeroed(512))).expect("it works");
        assert_eq!(read[0], 1, "what was under way has taken effect");
        assert_eq!(disk.platter().pending().count(), 1, "and may be lost for want of a flush");
    }

    #[test]
    fn a_through_write_of_a_process_that_is_killed_is_seen_and_not_durable() {
        let executor = Executor::new(0);
        let machine = Machine::new(&executor);
        let disk = Disk::in_machine(&machine, Image::zeroed(1 << 20), Options::default());
        drop(disk.write(0, vec![vec![1; 512].into()], Durability::Through));
        let killed = disk.platter().killed();
        machine.kill();
        executor.block_on(disk.reopen(&machine));
        let pending = |platter: &Platter| platter.pending().count();
        assert_eq!((pending(&killed), pending(&disk.platter())), (1, 1), "a flush has to follow");
        let again = Disk::resumed(&executor, killed);
        for disk in [disk, again] {
            let read = executor.block_on(disk.read(0, Buffer::zeroed(512))).expect("it works");
            assert_eq!(read[0], 1, "it is seen");
            executor.block_on(disk.flush()).expect("it works");
            assert_eq!(pending(&disk.platter()), 0, "and then it is there");
        }
    }
}
