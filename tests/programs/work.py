"""Dictionaries, strings, big integers, threads and garbage: the same output on any allocator."""

import collections
import gc
import hashlib
import json
import random
import threading
import zlib

numbers = random.Random(7)


def words(count):
    return ["".join(numbers.choices("abcdefghij", k=numbers.randint(1, 40))) for _ in range(count)]


def records():
    table = {word: {"length": len(word), "list": list(word), "nested": {"x": word * 3}} for word in words(30000)}
    text = json.dumps(table, sort_keys=True)
    return hashlib.sha256(json.dumps(json.loads(text), sort_keys=True).encode()).hexdigest()


def buffers():
    parts = bytearray()
    for size in range(0, 300000, 1777):
        parts += zlib.decompress(zlib.compress(bytes(index % 251 for index in range(size % 9000)) * 20))
    return hashlib.sha256(parts).hexdigest()


def cycles():
    for _ in range(20000):
        first, second = {}, []
        first["second"] = second
        second.append(first)
    return gc.collect() >= 0


def counted_in_threads():
    results = {}

    def count(seed):
        own = random.Random(seed)
        counter = collections.Counter(own.randint(0, 500) for _ in range(20000))
        results[seed] = sum(key * value for key, value in counter.items())

    threads = [threading.Thread(target=count, args=(seed,)) for seed in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sorted(results.items())


print(records())
print(buffers())
print(cycles())
print(counted_in_threads())
print(hashlib.sha256(hex(3**60000).encode()).hexdigest())
