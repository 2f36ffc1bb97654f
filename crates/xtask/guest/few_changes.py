#!/usr/bin/python3
"""A few changes of every kind to files that another system made, and to new ones beside them.

usage: few_changes.py

The mount is the small disk that FreeBSD's kernel wrote; nothing here needs more than 200 KiB.
"""
import os

import checks
from checks import check, equal


def main():
    with check("a foreign file grows and shrinks"):
        with open("file1", "ab") as file:
            file.write(b"x" * 10_000)
        os.truncate("file3", 300_000)
        checks.forget_caches()
        equal(checks.read("file1")[-10_000:], b"x" * 10_000, "what was added")
        equal(os.stat("file3").st_size, 300_000, "size")
    with check("a hole of a foreign file is filled"):
        with open("sparse", "r+b") as file:
            file.seek(50 << 20)
            file.write(b"filled")
    with check("foreign names move, go and come"):
        os.rename("dir1/dir2", "moved")
        os.rename("link1", "dir1/link1")
        os.unlink("sparse2")
        os.link("dir1/../moved/dir3/file2", "second name")
        checks.forget_caches()
        equal(os.stat("second name").st_nlink, 2, "links")
        equal(os.stat("dir1").st_nlink, 2, "links of the folder that lost one")
    with check("new files stand beside foreign ones"):
        os.mkdir("new")
        for number in range(60):
            with open(f"new/file{number}", "wb") as file:
                file.write(b"%d" % number * number)
        os.symlink("t" * 200, "new/link")
        os.mkfifo("new/pipe")
        for number in range(0, 60, 2):
            os.unlink(f"new/file{number}")
        checks.forget_caches()
        equal(len(os.listdir("new")), 32, "names")
    checks.finish("changed files that FreeBSD made, and added others")


main()
