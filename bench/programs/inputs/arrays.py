import random, sys, numpy
random.seed(5)
made = lambda: numpy.ones(int(100 * 2 ** random.uniform(0, 16)), dtype=numpy.uint8)
for burst in range(3):
    arrays = [made() for _ in range(500)]
    for at in random.choices(range(500), k=200): arrays[at] = made()
    rows = [(str(n), float(n)) for n in range(150000)]
    del arrays, rows
print("ready", flush=True); sys.stdin.read()
