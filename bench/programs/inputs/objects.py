import random, sys
random.seed(5)
for burst in range(3):
    rows = [{"name": "name %d" % n, "at": (n / 3, n * 7919), "text": "x" * int(10 * 2 ** random.uniform(0, 8))} for n in range(250000)]
    random.shuffle(rows)
    del rows
print("ready", flush=True); sys.stdin.read()
