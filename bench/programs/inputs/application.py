import os, random
def answer(environment, start):
    random.seed(7)
    rows = [b"x" * int(30 * 2 ** random.uniform(0, 12)) for _ in range(5600)]
    random.shuffle(rows)
    del rows
    start("200 OK", [])
    return [b"%d\n" % os.getpid()]
