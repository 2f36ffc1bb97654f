"""The manifest of a disk image as the Sleuth Kit reads it; see ../guest/manifest.py.

usage: sleuthkit_manifest.py IMAGE OUTPUT EVERY

It reads the bytes of one file in EVERY. It leaves out paths that are not plain ASCII, which its
tools do not print as they are, and does not know links and fractions of a second.
"""
import concurrent.futures
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../guest"))
import manifest

KINDS = {"r": "file", "d": "folder", "l": "link", "p": "fifo", "c": "character", "b": "block",
         "h": "socket", "s": "socket"}
TYPE = ["-f", "ufs2"]


def run(*words):
    return subprocess.run(words, check=True, stdout=subprocess.PIPE).stdout


def mode_bits(letters):
    """The number that rwxr-xr-x stands for, with its three special bits."""
    bits = sum(1 << (8 - at) for at, letter in enumerate(letters) if letter not in "-ST")
    for at, special in ((2, 0o4000), (5, 0o2000), (8, 0o1000)):
        if letters[at] in "sStT":
            bits |= special
    return bits


def read(image, number, size):
    """The digest of a file's bytes."""
    program = subprocess.Popen(["icat", *TYPE, image, number], stdout=subprocess.PIPE)
    total = manifest.digest(program.stdout, size)
    return total if program.wait() == 0 else f"icat ended with {program.returncode}"


def parse(line):
    """Path, number, kind, mode, uid, gid, size and target of a line of fls."""
    head, number, mode, uid, gid, size, *_times = line.rsplit("|", 9)
    name, _, target = head.split("|", 1)[1].removeprefix("/").partition(" -> ")
    kind, _, letters = mode.partition("/")
    return name, number, KINDS.get(letters[0], kind), mode_bits(letters[1:]), uid, gid, size, target


def is_plain(name):
    return name.isascii() and name.isprintable() and "^" not in name and "$Orphan" not in name


def main():
    image, output, every = sys.argv[1], sys.argv[2], int(sys.argv[3])
    run("fsstat", *TYPE, image)
    listing = run("fls", *TYPE, "-r", "-p", "-u", "-m", "", image).decode(errors="replace")
    found = [parse(line) for line in listing.splitlines()]
    found = [entry for entry in found if is_plain(entry[0])]
    contents, pool = {}, concurrent.futures.ThreadPoolExecutor(2)
    for name, number, kind, _, _, _, size, target in found:
        if kind == "link":
            contents[name] = manifest.quote(target.encode())
        elif kind == "file" and len(contents) % every == 0 and int(size) <= manifest.SPARSE:
            contents[name] = pool.submit(read, image, number, int(size))
        else:
            contents[name] = "?" if kind in ("file", "character", "block") else "-"
    lines = ["\t".join([".", *"????????"])]
    for name, _, kind, mode, uid, gid, size, _ in found:
        content = contents[name]
        content = content if isinstance(content, str) else content.result()
        path = manifest.quote(name.encode())
        lines.append("\t".join([path, kind, oct(mode), "?", uid, gid, size, "?", content]))
    manifest.write(lines, output)


main()
