#!/usr/bin/python3
"""One directory with very many files: made, listed, counted, half removed while it is listed,
and removed.

usage: directory.py FILES
"""
import os
import sys

import checks

FOLDER = "many"


def name(number):
    """Names of many lengths, so that entries do not line up."""
    return f"{number:06}" + "x" * (number * 7 % 60)


def main():
    count = int(sys.argv[1])
    names = {name(number) for number in range(count)}
    with checks.check("many files are made in one directory"):
        os.mkdir(FOLDER)
        for entry in sorted(names):
            os.close(os.open(os.path.join(FOLDER, entry), os.O_CREAT | os.O_WRONLY, 0o644))
    with checks.check("a cold listing has each name once"):
        checks.forget_caches()
        listed = os.listdir(FOLDER)
        checks.equal(len(listed), count, "entries")
        checks.equal(set(listed) ^ names, set(), "names that differ")
    with checks.check("a cold look-up finds each file, and none that is not there"):
        checks.forget_caches()
        for entry in sorted(names)[::50]:
            checks.equal(os.stat(os.path.join(FOLDER, entry)).st_size, 0, "size")
            checks.equal(os.path.exists(os.path.join(FOLDER, entry + "y")), False, "stranger")
    with checks.check("a listing during removal shows every file that stays"):
        checks.forget_caches()
        stay = {entry for entry in names if int(entry[:6]) % 2}
        seen = set()
        with os.scandir(FOLDER) as listing:
            for entry in listing:
                seen.add(entry.name)
                if entry.name not in stay:
                    os.unlink(os.path.join(FOLDER, entry.name))
        checks.equal(stay - seen, set(), "names that were not shown")
        checks.equal(set(os.listdir(FOLDER)) - stay, names - stay - seen, "names left over")
    with checks.check("an emptied directory can be removed"):
        for entry in os.listdir(FOLDER):
            os.unlink(os.path.join(FOLDER, entry))
        os.rmdir(FOLDER)
        checks.equal(os.path.exists(FOLDER), False, "existence")
    checks.finish(f"made, listed and removed {count} files in one directory")


main()
