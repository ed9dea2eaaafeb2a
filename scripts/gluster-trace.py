"""Prints the lines of scripts/gluster-trace from the report of vcm replay --tenants --json."""
import json
import sys
from collections import Counter

MIB = 1 << 20
# Smaller tenants are threads that end something else.
LEAST = MIB


def middle(values):
    return sorted(values)[len(values) // 2]


def main():
    report = json.load(open(sys.argv[1]))
    tenants = report["tenants"]
    bricks = {number for number, tenant in enumerate(tenants) if tenant["bytes"] >= LEAST}
    if not bricks:
        sys.exit("gluster-trace: no thread of this trace frees a MiB of older blocks")
    seconds = Counter()
    for number in bricks:
        seconds.update({int(second): bytes_ for second, bytes_ in tenants[number]["by_second"].items()})
    whole = sum(seconds.values())
    live = report["live_bytes_when_tenants_end"]
    print(f"{len(bricks)} bricks: {whole / MIB:.1f} MiB, {100 * whole / live:.1f} % of {live / MIB:.1f} MiB live when the first ends")
    print("allocated in second: " + ", ".join(f"{second} {bytes_ / MIB:.1f} MiB" for second, bytes_ in sorted(seconds.items()) if bytes_ >= MIB / 20))
    last = max(time for arm in report["allocators"] for time, bytes_, _ in arm["course"] if bytes_ > live / 4)
    for arm in report["allocators"]:
        name = arm["name"]
        for round_, all_ends in arm["ends"].items():
            ends = [end for end in all_ends if end["number"] in bricks]
            micros = sorted(end["nanoseconds"] / 1e3 for end in ends)
            less = [(end["before"] - end["after"]) / MIB for end in ends]
            line = f"{name}, round {int(round_) + 1}: an end takes {middle(micros):.0f} us of CPU (median; {micros[-1]:.0f} at most); "
            line += f"memory less just after {middle(less):.2f} MiB (median)"
            heaps = [end["heap"] for end in ends if end["heap"]]
            if heaps:
                live_, spans, resident = (middle([heap[at] for heap in heaps]) / MIB for at in range(3))
                line += f"; its heap: live {live_:.2f}, spans {spans:.2f}, resident {resident:.2f} MiB"
            print(line)
        at = lambda time: next((held for when, _, held in arm["course"] if when >= time), arm["course"][-1][2]) / MIB
        after = ", ".join(f"{seconds_} s {at(last + seconds_ * 10**9):.1f}" for seconds_ in (0, 1, 2, 3, 5))
        print(f"{name}, first round: MiB after the last end: {after}")
        for measure in arm["measures"]:
            if "memory" in measure["name"] and "just after" not in measure["name"]:
                print(f"{name}: {measure['name']}, MiB: " + ", ".join(f"{value / MIB:.1f}" for value in measure["values"]))


main()
