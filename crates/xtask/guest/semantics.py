#!/usr/bin/python3
"""What programs expect of a file system, one check a promise, as the kernel's client sees it.

Every check works in a folder of its own, and leaves there what is worth finding on the disk.
"""
import contextlib
import errno
import fcntl
import mmap
import os
import socket
import stat
import sys
import time

import checks
from checks import check, equal, raises

NOBODY = 65534
SOMEBODY = 1234


@contextlib.contextmanager
def folder(name):
    """A check in a new folder of this name."""
    os.mkdir(name.replace(" ", "-"))
    before = os.getcwd()
    os.chdir(name.replace(" ", "-"))
    try:
        with check(name):
            yield
    finally:
        os.chdir(before)


def write(path, data=b"data"):
    with open(path, "wb") as file:
        file.write(data)


def as_user(user, call, *arguments):
    """What `call` fails with when `user` makes it; 0 if it succeeds."""
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(user)
            os.setuid(user)
            call(*arguments)
        except OSError as error:
            os._exit(error.errno)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def renames():
    with folder("rename over a file"):
        write("old", b"old")
        write("new", b"new")
        number = os.stat("new").st_ino
        os.rename("new", "old")
        equal(os.listdir(), ["old"], "names")
        equal((checks.read("old"), os.stat("old").st_ino), (b"new", number), "file")
    with folder("rename over an open file keeps its bytes readable"):
        write("old", b"old")
        write("new", b"new")
        with open("old", "rb") as still_open:
            os.rename("new", "old")
            checks.forget_caches()
            equal(still_open.read(), b"old", "the file that is gone")
        equal(os.listdir(), ["old"], "names once it is closed")
    with folder("rename of a folder changes its parent"):
        os.makedirs("a/moving")
        os.mkdir("b")
        equal((os.stat("a").st_nlink, os.stat("b").st_nlink), (3, 2), "links before")
        os.rename("a/moving", "b/moved")
        checks.forget_caches()
        equal((os.stat("a").st_nlink, os.stat("b").st_nlink), (2, 3), "links after")
        equal(os.stat("b/moved/..").st_ino, os.stat("b").st_ino, "the parent of what moved")
    with folder("rename refuses what makes no sense"):
        os.makedirs("full/inner")
        os.mkdir("empty")
        write("file")
        raises(errno.ENOTEMPTY, os.rename, "empty", "full")
        raises(errno.EINVAL, os.rename, "full", "full/inner/below")
        raises(errno.ENOTDIR, os.rename, "empty", "file")
        raises(errno.EISDIR, os.rename, "file", "empty")
        raises(errno.ENOENT, os.rename, "absent", "file")
        os.rename("full", "empty")
        equal(sorted(os.listdir()), ["empty", "file"], "names")


def unlinking():
    with folder("unlink while open"):
        write("victim", b"still here")
        with open("victim", "rb") as still_open:
            os.unlink("victim")
            equal(os.path.exists("victim"), False, "existence")
            checks.forget_caches()
            equal(still_open.read(), b"still here", "bytes")
            [silly] = os.listdir()
            equal(silly.startswith(".nfs"), True, f"the name {silly} that the client gave it")
        # The client removes it after the close, in its own time.
        for _ in range(100):
            if not os.listdir():
                break
            time.sleep(0.1)
        equal(os.listdir(), [], "names once it is closed")
    with folder("unlink and rmdir tell files from folders"):
        os.makedirs("full/inner")
        write("file")
        raises(errno.EISDIR, os.unlink, "full")
        raises(errno.ENOTDIR, os.rmdir, "file")
        raises(errno.ENOTEMPTY, os.rmdir, "full")
        raises(errno.EEXIST, os.mkdir, "file")
        raises(errno.ENOENT, os.unlink, "absent")
    with folder("hard links share a file"):
        write("one", b"shared")
        os.link("one", "two")
        os.mkdir("below")
        os.link("two", "below/three")
        checks.forget_caches()
        equal({os.stat(name).st_ino for name in ("one", "two", "below/three")},
              {os.stat("one").st_ino}, "numbers")
        equal(os.stat("one").st_nlink, 3, "links")
        raises(errno.EEXIST, os.link, "one", "two")
        raises(errno.EPERM, os.link, "below", "folder")
        os.unlink("one")
        equal((os.stat("two").st_nlink, checks.read("two")), (2, b"shared"), "what stays")
        os.rename("two", "below/three")
        equal(os.path.exists("two"), True, "a rename onto the same file does nothing")


def permissions():
    with folder("modes and owners"):
        write("file")
        os.chmod("file", 0o4751)
        os.chown("file", SOMEBODY, 42)
        os.chmod("file", 0o6751)
        checks.forget_caches()
        status = os.stat("file")
        equal((oct(status.st_mode), status.st_uid, status.st_gid), ("0o106751", SOMEBODY, 42), "it")
        equal(as_user(NOBODY, os.chmod, "file", 0o777), errno.EPERM, "chmod by a stranger")
        equal(as_user(SOMEBODY, os.chmod, "file", 0o640), 0, "chmod by the owner")
        equal(as_user(SOMEBODY, os.chown, "file", NOBODY, -1), errno.EPERM, "giving it away")
    with folder("another user is held to the modes"):
        write("secret")
        os.chmod("secret", 0o600)
        write("open")
        os.mkdir("closed", 0o700)
        write("closed/inner")
        os.mkdir("public")
        os.chmod("public", 0o777)
        equal(as_user(NOBODY, checks.read, "secret"), errno.EACCES, "reading a secret")
        equal(as_user(NOBODY, checks.read, "open"), 0, "reading what is open to all")
        equal(as_user(NOBODY, os.truncate, "open", 0), errno.EACCES, "cutting what is not theirs")
        equal(as_user(NOBODY, checks.read, "closed/inner"), errno.EACCES, "through a closed folder")
        equal(as_user(NOBODY, os.listdir, "closed"), errno.EACCES, "listing a closed folder")
        equal(as_user(NOBODY, write, "new"), errno.EACCES, "a new file where they may not")
        equal(as_user(NOBODY, os.unlink, "open"), errno.EACCES, "removing where they may not")
        equal(as_user(NOBODY, write, "public/theirs"), 0, "a new file where they may")
        equal(os.stat("public/theirs").st_uid, NOBODY, "its owner")
    with folder("a sticky folder protects each one's files"):
        os.mkdir("shared")
        os.chmod("shared", 0o1777)
        equal(as_user(SOMEBODY, write, "shared/theirs"), 0, "a file of somebody")
        equal(as_user(NOBODY, os.unlink, "shared/theirs"), errno.EPERM, "removal by another")
        equal(as_user(NOBODY, os.rename, "shared/theirs", "shared/mine"), errno.EPERM, "rename")
        equal(as_user(SOMEBODY, os.rename, "shared/theirs", "shared/own"), 0, "by the owner")
        equal(as_user(SOMEBODY, os.unlink, "shared/own"), 0, "removal by the owner")
    with folder("a set-group-id folder gives its group"):
        os.mkdir("team")
        os.chown("team", 0, 42)
        os.chmod("team", 0o2775)
        write("team/file")
        equal(os.stat("team/file").st_gid, 42, "group")
    with folder("an open file stays writable to its owner"):
        handle = os.open("own", os.O_CREAT | os.O_WRONLY, 0o444)
        equal(os.write(handle, b"allowed"), 7, "bytes")
        os.close(handle)
        equal(checks.read("own"), b"allowed", "bytes")


def kinds():
    with folder("links of every length"):
        for length in (1, 2, 59, 60, 119, 120, 121, 511, 512, 1023):
            os.symlink("t" * length, f"link{length}")
        checks.forget_caches()
        for name in os.listdir():
            target = os.readlink(name)
            equal(target, "t" * int(name[4:]), "target")
            equal(os.lstat(name).st_size, len(target), "size")
    with folder("a link leads where it says"):
        os.mkdir("below")
        write("below/file", b"found")
        os.symlink("below/../below/file", "relative")
        os.symlink("relative", "twice")
        os.symlink("loop", "loop")
        os.symlink("nowhere", "dangling")
        equal(checks.read("twice"), b"found", "bytes")
        raises(errno.ELOOP, checks.read, "loop")
        raises(errno.ENOENT, checks.read, "dangling")
        raises(errno.EINVAL, os.readlink, "below")
        os.chown("dangling", SOMEBODY, 42, follow_symlinks=False)
        equal(os.lstat("dangling").st_uid, SOMEBODY, "owner of the link itself")
    with folder("pipes, devices and sockets"):
        os.mkfifo("pipe", 0o640)
        os.mknod("null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
        os.mknod("disk", stat.S_IFBLK | 0o660, os.makedev(8, 17))
        socket.socket(socket.AF_UNIX).bind("socket")
        checks.forget_caches()
        found = {name: stat.S_IFMT(os.lstat(name).st_mode) for name in os.listdir()}
        equal(found, {"pipe": stat.S_IFIFO, "null": stat.S_IFCHR, "disk": stat.S_IFBLK,
                      "socket": stat.S_IFSOCK}, "kinds")
        equal((os.lstat("null").st_rdev, os.lstat("disk").st_rdev),
              (os.makedev(1, 3), os.makedev(8, 17)), "numbers")
        equal(checks.read("null"), b"", "what the device gives")
    with folder("names of every kind"):
        longest = b"n" * 255
        names = [longest, "häuser-家".encode(), b"new\nline", b"\xff\xfe", b" ", b"...", b"a%2Fb"]
        for name in names:
            write(name, name)
        checks.forget_caches()
        equal(sorted(os.listdir(b".")), sorted(names), "names")
        equal([checks.read(name) for name in names], names, "bytes")
        raises(errno.ENAMETOOLONG, write, b"n" * 256)


def times():
    with folder("times are kept to the nanosecond"):
        write("file")
        # The client itself drops the fraction of the first second of 1970 and of the last it knows.
        for when in (1_000_000_001, 1_600_000_000_123_456_789, 4_102_444_800_987_654_321):
            os.utime("file", ns=(when, when + 1_000_000_001))
            checks.forget_caches()
            status = os.stat("file")
            equal((status.st_atime_ns, status.st_mtime_ns), (when, when + 1_000_000_001), "times")
    with folder("changes move the times"):
        write("file")
        os.mkdir("folder")
        for path in ("file", "folder"):
            os.utime(path, (1, 1))
        before = os.stat("file").st_ctime_ns
        time.sleep(0.05)
        os.chmod("file", 0o600)
        equal(os.stat("file").st_mtime, 1, "time of writing after chmod")
        equal(os.stat("file").st_ctime_ns > before, True, "a later change after chmod")
        with open("file", "ab") as file:
            file.write(b"more")
        equal(os.stat("file").st_mtime > 1, True, "a later writing after a write")
        write("folder/new")
        equal(os.stat("folder").st_mtime > 1, True, "a later writing of the folder")
        os.utime("file")
        equal(abs(os.stat("file").st_mtime - os.stat("folder").st_mtime) < 60, True, "now is now")


def bytes_of_files():
    with folder("a file cut and grown shows zeros"):
        write("file", b"\xff" * 100_000)
        os.truncate("file", 1000)
        os.truncate("file", 200_000)
        checks.forget_caches()
        equal(checks.read("file"), b"\xff" * 1000 + bytes(199_000), "bytes")
        os.truncate("file", 0)
        os.truncate("file", 70_000)
        equal(checks.read("file"), bytes(70_000), "bytes")
    with folder("holes read as zeros and take no space"):
        for at in (40_000, 500_000, 20 << 20, 150 << 20):
            with open("sparse", "r+b" if os.path.exists("sparse") else "wb") as file:
                file.seek(at)
                file.write(b"here")
        checks.forget_caches()
        with open("sparse", "rb") as file:
            for at in (40_000, 500_000, 20 << 20, 150 << 20):
                file.seek(at - 20_000)
                equal(file.read(20_004), bytes(20_000) + b"here", f"bytes at {at}")
        equal(os.stat("sparse").st_blocks * 512 < 2 << 20, True, "space")
    with folder("a file reaches a tebibyte"):
        with open("huge", "wb") as file:
            file.seek(1 << 40)
            file.write(b"far away")
        checks.forget_caches()
        with open("huge", "rb") as file:
            file.seek((1 << 40) - 4)
            equal(file.read(), b"\0\0\0\0far away", "bytes")
        equal(os.stat("huge").st_size, (1 << 40) + 8, "size")
    with folder("every size around a fragment and a block"):
        sizes = [base + step for base in (0, 4096, 8192, 32768, 65536, 393216, 425984)
                 for step in (-1, 0, 1) if base + step >= 0]
        for size in sizes:
            write(f"size{size}", bytes(number * 7 & 255 for number in range(size)))
        checks.forget_caches()
        for size in sizes:
            data = checks.read(f"size{size}")
            equal(data == bytes(number * 7 & 255 for number in range(size)), True, f"size{size}")
    with folder("a file grows one write at a time"):
        expected = bytearray()
        with open("growing", "wb", buffering=0) as file:
            for number in range(150):
                part = bytes([number]) * (number * 37 % 5000 + 1)
                file.write(part)
                expected += part
                if number % 10 == 0:
                    os.fsync(file.fileno())
        checks.forget_caches()
        equal(checks.read("growing") == expected, True, "bytes")


def opening():
    with folder("exclusive creation"):
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY
        handle = os.open("lock", flags, 0o640)
        os.write(handle, b"held")
        os.close(handle)
        raises(errno.EEXIST, os.open, "lock", flags)
        checks.forget_caches()
        status = os.stat("lock")
        equal((oct(status.st_mode), status.st_size), ("0o100640", 4), "it")
        now = os.stat(".").st_mtime
        equal(abs(status.st_mtime - now) < 60 and abs(status.st_atime - now) < 60, True, "times")
    with folder("synchronous, direct, mapped and appended writes"):
        handle = os.open("synchronous", os.O_CREAT | os.O_WRONLY | os.O_SYNC)
        os.write(handle, b"s" * 10_000)
        os.close(handle)
        aligned = mmap.mmap(-1, 1 << 16)
        aligned.write(b"d" * (1 << 16))
        handle = os.open("direct", os.O_CREAT | os.O_WRONLY | os.O_DIRECT)
        equal(os.writev(handle, [aligned]), 1 << 16, "bytes written past the cache")
        os.close(handle)
        write("mapped", bytes(20_000))
        with open("mapped", "r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
            mapped[5000:5010] = b"m" * 10
            mapped.flush()
        with open("appended", "ab") as one, open("appended", "ab") as two:
            for number in range(10):
                (one, two)[number % 2].write(b"%d" % number)
                (one, two)[number % 2].flush()
        checks.forget_caches()
        equal(checks.read("synchronous") == b"s" * 10_000, True, "synchronous bytes")
        equal(checks.read("direct") == b"d" * (1 << 16), True, "direct bytes")
        equal(checks.read("mapped") == bytes(5000) + b"m" * 10 + bytes(14_990), True, "mapped")
        equal(checks.read("appended"), b"0123456789", "appended bytes")
    with folder("locks among the programs of one client"):
        write("file")
        with open("file", "r+b") as file:
            fcntl.lockf(file, fcntl.LOCK_EX)
            with open("file", "r+b") as other:
                child = os.fork()
                if child == 0:
                    try:
                        fcntl.lockf(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    except OSError as error:
                        os._exit(error.errno)
                    os._exit(0)
                status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
                equal(status in (errno.EAGAIN, errno.EACCES), True, f"refusal, not {status}")


def space():
    with folder("free space falls and rises"):
        os.sync()  # of what others have written
        before = os.statvfs(".")
        equal(before.f_namemax, 255, "longest name")
        write("filler", os.urandom(8 << 20))
        os.sync()
        during = os.statvfs(".")
        used = (before.f_bfree - during.f_bfree) * before.f_frsize
        # The client counts in units of its largest WRITE, 1 MiB, and rounds up: the file and its
        # pointers cross one unit more than the file alone when little of the first was left.
        unit = max(before.f_frsize, 1 << 20)
        equal(8 << 20 <= used <= (8 << 20) + unit, True, f"{used} bytes taken in units of {unit}")
        equal(before.f_ffree - during.f_ffree, 1, "files taken")
        os.unlink("filler")
        os.sync()
        after = os.statvfs(".")
        equal((after.f_bfree, after.f_ffree), (before.f_bfree, before.f_ffree), "free again")


def main():
    os.umask(0o022)
    os.mkdir("semantics")
    os.chdir("semantics")
    for group in (renames, unlinking, permissions, kinds, times, bytes_of_files, opening, space):
        group()
    sys.stdout.flush()
    checks.finish(f"kept {len(os.listdir())} promises")


main()
