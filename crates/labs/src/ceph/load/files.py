"""Clients of several CephFS, one for each, at the same time: create, walk or remove the same tree in every one.

    files.py CONF PHASE FILES FILE_SYSTEM...

Each client is a process of its own with libcephfs, as an NFS or SMB gateway has it: no mount, no kernel. Prints one
JSON object: for each file system how many files it handled and how long that took.
"""

import json
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import cephfs

IN_A_DIRECTORY = 500
# Of each client: one alone waits for a turn of the processor with every file, on a busy machine most of the time.
THREADS = 16


def directories(files):
    """The directories, each with the number of its files."""
    for first in range(0, files, IN_A_DIRECTORY):
        yield f"/d{first // IN_A_DIRECTORY:05}", min(IN_A_DIRECTORY, files - first)


def name(place, number):
    return f"{place}/a-file-with-a-name-{number:04}"


def create(client, place, count):
    client.mkdir(place, 0o755)
    for number in range(count):
        client.close(client.open(name(place, number), "w", 0o644))
    return count


def walk(client, place, _count):
    found = 0
    handle = client.opendir(place)
    entry = client.readdir(handle)
    while entry:
        if entry.d_name not in (b".", b".."):
            client.stat(f"{place}/{entry.d_name.decode()}")
            found += 1
        entry = client.readdir(handle)
    client.closedir(handle)
    return found


def remove(client, place, count):
    for number in range(count):
        client.unlink(name(place, number))
    client.rmdir(place)
    return count


def one(conf, phase, files, file_system):
    client = cephfs.LibCephFS(conffile=conf, auth_id="admin")
    client.mount(mount_root=b"/", filesystem_name=file_system.encode())
    begin = time.monotonic()
    work = {"create": create, "walk": walk, "remove": remove}[phase]
    with ThreadPoolExecutor(THREADS) as threads:
        count = sum(threads.map(lambda directory: work(client, *directory), directories(files)))
    seconds = time.monotonic() - begin
    # The created files are on their way until the client has gone.
    client.shutdown()
    return {"count": count, "seconds": seconds}


def main():
    conf, phase, files, names = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4:]
    pipes = {}
    for name in names:
        read, write = os.pipe()
        if os.fork() == 0:
            os.close(read)
            with os.fdopen(write, "w") as pipe:
                json.dump(one(conf, phase, files, name), pipe)
            os._exit(0)
        os.close(write)
        pipes[name] = read
    said = {}
    for name, read in pipes.items():
        with os.fdopen(read) as pipe:
            said[name] = pipe.read()
    failed = [name for name in names if os.wait()[1] != 0 or not said[name]]
    if failed:
        sys.exit(f"no answer from the client of {', '.join(failed)}")
    print(json.dumps({name: json.loads(text) for name, text in said.items()}))


main()
