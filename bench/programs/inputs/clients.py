"""Loads of servers for `vcm-bench programs`: memcached, redis in phases, redis in batches. Those of redis print `loaded` with the KiB
that live in it, and keep their connection."""
import itertools, random, re, socket, sys, threading, time

MIB, PORT = 1 << 20, int(sys.argv[2])


def memcached():
    """Four clients that set values of many sizes, and read every second one back."""
    def client(number):
        with socket.create_connection(("127.0.0.1", PORT)) as stream:
            replies = stream.makefile("rb")
            for start in range(0, 24000, 100):
                words = bytearray()
                for key in range(start, start + 100):
                    size = (key * 7919 + number) % 900 + 10
                    words += b"set k%d-%d 0 0 %d noreply\r\n" % (number, key * 31 % 20000, size) + b"v" * size + b"\r\n"
                words += b"".join(b"get k%d-%d\r\n" % (number, key * 31 % 20000) for key in range(start, start + 50))
                stream.sendall(bytes(words))
                ends = 0
                while ends < 50:
                    ends += replies.readline() == b"END\r\n"
    clients = [threading.Thread(target=client, args=(number,)) for number in range(4)]
    for one in clients:
        one.start()
    for one in clients:
        one.join()


class Redis:
    def __init__(self):
        self.stream = socket.create_connection(("127.0.0.1", PORT))
        self.replies, self.numbers, self.keys, self.random = self.stream.makefile("rb"), itertools.count(), [], random.Random(3)

    def ask(self, commands, batch):
        """Sends commands by batches; each has an answer of one line."""
        commands = iter(commands)
        while some := list(itertools.islice(commands, batch)):
            self.stream.sendall(b"".join(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words) for words in some))
            if not all([self.replies.readline()[:1] in (b"+", b":") for _ in some]):
                sys.exit("redis broke off, or refused")

    def fill(self, count, size):
        new = [b"k%d" % next(self.numbers) for _ in range(count)]
        self.ask(((b"SET", key, b"v" * size) for key in new), 500)
        self.keys += new

    def delete(self, count):
        self.random.shuffle(self.keys)
        gone, self.keys = self.keys[:count], self.keys[count:]
        self.ask(((b"DEL", *gone[at:at + 20]) for at in range(0, len(gone), 20)), 50)

    def hold(self):
        """Live is what redis counts: all that the allocator says that a block has, not what was requested."""
        self.stream.sendall(b"INFO memory\r\n")
        text = self.replies.read(int(self.replies.readline()[1:]) + 2)
        print("loaded", int(re.search(rb"used_memory:(\d+)", text)[1]) // 1024, flush=True)
        time.sleep(600)


def phases():
    redis = Redis()
    for size in (100, 300, 1000, 3000):
        redis.fill(int(150 * MIB * (1 if size == 100 else 0.9)) // (size + 80), size)
        redis.delete(len(redis.keys) * 9 // 10)
    redis.hold()


def batches():
    redis = Redis()
    redis.fill(300 * MIB // 780, 700)
    redis.delete(len(redis.keys) * 9 // 10)
    start = time.monotonic()
    for turn in range(150):
        time.sleep(max(0, start + turn / 10 - time.monotonic()))
        redis.delete(5000)
        redis.fill(5000, 700)
    redis.hold()


{"memcached": memcached, "phases": phases, "batches": batches}[sys.argv[1]]()
