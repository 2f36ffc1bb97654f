#!/usr/bin/python3
"""Looks at snapshots through `.snapshot`, while somebody outside makes and deletes them.

usage: snapshots.py FILES

What find, du and tar show of a tree in a snapshot stays as it was in the volume when the snapshot
was made, and diff finds nothing between the two: while files are changed and removed, while the
server is killed in the middle of reading, and while another snapshot is deleted and the server
killed in the middle of that. A change in a snapshot is refused; what a deleted one held is stale. A
snapshot that is mounted by its path is the same, and one that was deleted is not mounted. A volume
that went back to a snapshot is what the snapshot showed. A line of one word asks somebody outside
for such a thing; the shared folder has a file `done-N` after the Nth.
"""
import errno
import hashlib
import os
import random
import shutil
import subprocess
import sys
import threading

import checks
import tree
from checks import check

KIB = 1 << 10
PIECE = 1 << 20
LIVE = "tree"
ONE, TWO, THREE = (f".snapshot/{name}" for name in ("one", "two", "three"))
# Where they are mounted by their paths.
MOUNTED, PART = "/tmp/mounted", "/tmp/part"
# Of each file: name, kind, mode, links, owner, group, size, times, blocks, target.
FORMAT = "%p %y %m %n %U %G %s %T@ %C@ %b %l\\0"


def run(folder, *words):
    """What a program prints that is to go well without a complaint."""
    done = subprocess.run(words, cwd=folder, capture_output=True, check=False)
    checks.equal((done.returncode, done.stderr), (0, b""), f"{words[0]} in {folder}")
    return done.stdout


def digest(folder):
    """The sum of the archive that tar makes."""
    total = hashlib.sha256()
    words = ["tar", "--sort=name", "-cf", "-", "."]
    with subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE) as tar:
        while piece := tar.stdout.read(PIECE):
            total.update(piece)
    checks.equal(tar.returncode, 0, f"tar in {folder}")
    return total.hexdigest()


def look(folder):
    """What find, du and tar show of a tree."""
    found = sorted(run(folder, "find", ".", "-printf", FORMAT).split(b"\0"))
    return found, run(folder, "du", "-s", "-B1", "."), digest(folder)


def compare(name, folder, expected):
    """Whether a tree is what it was."""
    checks.forget_caches()
    with check(name):
        found = look(folder)
        for what, one, other in zip(("find", "du", "tar"), found, expected):
            if one != other:
                differ = sorted(set(one) ^ set(other))[:4] if what == "find" else (one, other)
                raise AssertionError(f"{what} shows another tree in {folder}: {differ}")


def same(name, one, other):
    """Whether diff finds nothing."""
    checks.forget_caches()
    with check(name):
        checks.equal(run(".", "diff", "-r", "--no-dereference", one, other), b"", "differences")


class Beside(threading.Thread):
    """Something that is done again and again until it is ended."""

    def __init__(self, step):
        super().__init__()
        self.step, self.is_over, self.error, self.steps = step, False, None, 0

    def run(self):
        try:
            while not self.is_over:
                self.step(self.steps)
                self.steps += 1
        except (OSError, AssertionError) as error:
            self.error = error

    def end(self, name):
        """Whether it went well."""
        self.is_over = True
        self.join()
        with check(name):
            checks.equal(self.error, None, f"after {self.steps} steps")


def write(path, data, flags=os.O_CREAT | os.O_EXCL):
    """Writes data that is on stable storage then."""
    handle = os.open(path, flags | os.O_WRONLY, 0o644)
    try:
        while data:
            data = data[os.write(handle, data) :]
        os.fsync(handle)
    finally:
        os.close(handle)


def make(files):
    """A tree of real files, with links."""
    folders, chosen = tree.choose(files)
    tree.make_folders(folders, LIVE)
    for source, target in chosen:
        shutil.copy2(source, os.path.join(LIVE, target), follow_symlinks=False)
    write(f"{LIVE}/first", b"one" * 1000)
    os.link(f"{LIVE}/first", f"{LIVE}/second")
    write(f"{LIVE}/large", random.Random(1).randbytes(5 << 20))
    os.sync()
    return [os.path.join(LIVE, target) for _, target in chosen]


def spoil(paths, chance):
    """Changes, removes and renames many of them."""
    for path in paths:
        what = chance.randrange(5)
        if os.path.islink(path) or what == 0:
            os.unlink(path)
        elif what == 1:
            os.rename(path, path + ".renamed")
        elif what == 2:
            write(path, chance.randbytes(3 * KIB), os.O_TRUNC)
        elif what == 3:
            os.truncate(path, os.stat(path).st_size // 2)
    write(f"{LIVE}/large", b"other", 0)
    write(f"{LIVE}/new", b"new" * 5000)
    os.unlink(f"{LIVE}/second")
    os.sync()


def amid(number):
    """One of the files that are made while a snapshot is."""
    write(f"amid/{number}", bytes([number % 256]) * 6000)


def check_amid(known):
    """Whether a snapshot has all that was answered before it, and no file before its time."""
    with check("a snapshot that is made amid changes has all that was answered before"):
        names = sorted(map(int, os.listdir(f"{TWO}/amid")))
        checks.equal(names, list(range(len(names))), "the names")
        checks.equal(len(names) >= known, True, f"{len(names)} names, {known} were answered")
        for number in names[:-1]:
            data = bytes([number % 256]) * 6000
            checks.equal(checks.same_bytes(f"{TWO}/amid/{number}", data), True, f"{number}")


def check_refusals():
    """Whether nothing in a snapshot can be changed."""
    inside, refused = f"{TWO}/{LIVE}", errno.EROFS
    for call, *arguments in [
        (os.mkdir, f"{inside}/folder"),
        (os.mkdir, ".snapshot/folder"),
        (os.mkdir, f"{TWO}/folder"),
        (os.symlink, "target", f"{inside}/link"),
        (os.link, f"{inside}/first", f"{inside}/third"),
        (os.unlink, f"{inside}/first"),
        (os.rmdir, f"{TWO}/amid"),
        (os.rename, f"{inside}/first", f"{inside}/third"),
        (os.rename, f"{LIVE}/first", f"{inside}/third"),
        (os.chmod, f"{inside}/first", 0o777),
        (os.utime, f"{inside}/first", (1, 1)),
        (os.mkfifo, f"{inside}/fifo"),
        (write, f"{inside}/file", b"data"),
    ]:
        with check(f"{call.__name__} in a snapshot is refused: {arguments[-1]}"):
            checks.raises(refused, call, *arguments)
    with check("no write is permitted in a snapshot"):
        checks.equal(os.access(f"{inside}/first", os.W_OK), False, "access")
        checks.equal(os.access(f"{inside}/first", os.R_OK), True, "access")
        try:
            write(f"{inside}/first", b"data", 0)
        except OSError as error:  # the client asks with ACCESS before it opens
            checks.equal(error.errno in (errno.EROFS, errno.EACCES), True, str(error))
        else:
            raise AssertionError("it was written")
    with check("a file of a snapshot is another one than that of the volume"):
        one, other = os.stat(f"{inside}/first"), os.stat(f"{LIVE}/first")
        checks.equal(one.st_dev, other.st_dev, "device")
        checks.equal(one.st_ino != other.st_ino, True, "other numbers")


def mount(path, folder):
    """Mounts what the export has at a path, as the export itself is mounted. Gives what is said of
    it, nothing if it goes well."""
    with open("/proc/self/mounts", encoding="utf-8") as mounts:
        all_of_it = next(words for words in map(str.split, mounts) if words[1] == "/mnt")
    words = ["busybox", "mount", "-i", "-t", "nfs", "-o", all_of_it[3], f"{all_of_it[0]}/{path}"]
    os.makedirs(folder, exist_ok=True)
    done = subprocess.run([*words, folder], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stderr or f"status {done.returncode}"


def check_mounts(expected):
    """Mounts the first snapshot by its path, and a folder's second one."""
    for path, folder in [(ONE, MOUNTED), (f"{LIVE}/{TWO}", PART)]:
        with check(f"{path} is mounted"):
            checks.equal(mount(path, folder), "", "what is said")
            checks.equal(os.path.ismount(folder), True, "a mount")
    for folder, tree_there in zip((f"{MOUNTED}/{LIVE}", PART), expected):
        compare(f"{folder} shows what the snapshot does", folder, tree_there)
        for call, *arguments in [
            (os.mkdir, f"{folder}/folder"),
            (os.unlink, f"{folder}/first"),
            (os.chmod, f"{folder}/first", 0o777),
            (write, f"{folder}/file", b"data"),
        ]:
            with check(f"{call.__name__} in {arguments[0]} is refused"):
                checks.raises(errno.EROFS, call, *arguments)
    with check("what is mounted by its path is the same file as below the export"):
        checks.equal(os.path.samefile(f"{MOUNTED}/{LIVE}/first", f"{ONE}/{LIVE}/first"), True)
    run("/", "busybox", "umount", PART)


def check_mount_is_stale():
    """Whether a mount of a deleted snapshot has nothing more, and there is no other."""
    checks.forget_caches()
    with check("a mount of a deleted snapshot is stale"):
        checks.raises(errno.ESTALE, os.listdir, f"{MOUNTED}/{LIVE}")
    with check("it is unmounted"):
        run("/", "busybox", "umount", MOUNTED)
        checks.equal(os.path.ismount(MOUNTED), False, "a mount")
    with check("a deleted snapshot is not mounted, and the client says why"):
        said = mount(ONE, MOUNTED)
        checks.equal(os.strerror(errno.ENOENT) in said, True, said)
        checks.equal(os.path.ismount(MOUNTED), False, "a mount")


def check_stale(handles):
    """Whether what a deleted snapshot held is gone."""
    checks.forget_caches()
    file, folder = handles
    with check("a file of a deleted snapshot is stale"):
        checks.raises(errno.ESTALE, os.pread, file, 10, 0)
    with check("so is a folder"):
        checks.raises(errno.ESTALE, os.listdir, folder)
    with check("a deleted snapshot is not found"):
        checks.raises(errno.ENOENT, os.stat, ONE)
        checks.equal(os.path.exists(f"{TWO}/{LIVE}/first"), True, "another one")
        checks.equal(sorted(os.listdir(".snapshot")), ["three", "two"], "names")


def main():
    chance, asked = random.Random(2), checks.Asked()
    paths = make(int(sys.argv[1]))
    with check("no directory lists its snapshots"):
        checks.equal(".snapshot" in os.listdir("."), False, "listed")
    one = look(LIVE)
    asked.ask("one")
    compare("a snapshot shows what the volume held", f"{ONE}/{LIVE}", one)
    same("diff finds nothing between the two", LIVE, f"{ONE}/{LIVE}")
    spoil(paths, chance)
    compare("what is changed afterwards is not changed there", f"{ONE}/{LIVE}", one)
    two = look(LIVE)
    os.mkdir("amid")
    work = Beside(amid)
    work.start()
    while work.steps < 5 and work.error is None:
        pass
    known = work.steps
    asked.ask("two")
    work.end("no call fails while a snapshot is made")
    check_amid(known)
    compare("the second snapshot shows what there was by then", f"{TWO}/{LIVE}", two)
    compare("the first one is what it was", f"{ONE}/{LIVE}", one)
    check_refusals()
    check_mounts((one, two))
    reading = Beside(lambda _: compare_once(f"{ONE}/{LIVE}", one))
    reading.start()
    asked.ask("die")
    reading.end("a server that is killed amid reading is not noticed")
    for name, folder, expected in [("first", ONE, one), ("second", TWO, two)]:
        compare(f"the {name} one outlives that", f"{folder}/{LIVE}", expected)
    compare("so does a mount of it by its path", f"{MOUNTED}/{LIVE}", one)
    shutil.rmtree(LIVE)
    asked.ask("three")
    compare("one that holds a removed tree is what it was", f"{TWO}/{LIVE}", two)
    file = os.open(f"{ONE}/{LIVE}/large", os.O_RDONLY)
    folder = os.open(f"{ONE}/{LIVE}", os.O_RDONLY)
    reading = Beside(lambda _: compare_once(f"{TWO}/{LIVE}", two))
    reading.start()
    asked.ask("delete")
    reading.end("a deletion that is cut off is not noticed in another snapshot")
    check_stale((file, folder))
    check_mount_is_stale()
    compare("the second one outlives the deletion of the first", f"{TWO}/{LIVE}", two)
    asked.ask("rollback")
    compare("a volume that goes back is what the snapshot held", LIVE, two)
    compare("the snapshot is still there", f"{TWO}/{LIVE}", two)
    same("diff finds nothing between them", LIVE, f"{TWO}/{LIVE}")
    with check("a newer snapshot is gone"):
        checks.raises(errno.ENOENT, os.stat, THREE)
    write(f"{LIVE}/after", b"after" * 1000)
    checks.forget_caches()
    with check("the volume is written on"):
        checks.equal(checks.same_bytes(f"{LIVE}/after", b"after" * 1000), True, "bytes")
    compare("and its snapshot stays", f"{TWO}/{LIVE}", two)
    checks.finish(f"looked at three snapshots of {len(paths)} files, and went back to one")


def compare_once(folder, expected):
    """Fails unless a tree is what it was, as far as the server shows it."""
    checks.forget_caches()
    checks.equal(digest(folder), expected[2], "the sum of the archive")


main()
