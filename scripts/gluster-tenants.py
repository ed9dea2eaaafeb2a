"""Prints a line for scripts/gluster-tenants from what `vcm stat --json` says of a brick process."""
import json
import sys

MIB = 1 << 20


def of(heaps, drains):
    live = [heap["live"] / 1024 for heap in heaps if bool(heap["draining"]) == drains]
    return f"{len(live)} of {min(live):.0f} to {max(live):.0f} KiB live" if live else "none"


def main():
    stat = json.load(sys.stdin)
    heaps = stat["largest_heaps"]
    rss, live, resident = (stat[name] / MIB for name in ("rss", "live", "resident"))
    print(f"{sys.argv[1]}: RSS {rss:.1f} MiB, heap in memory {resident:.1f} MiB, live {live:.2f} MiB; {stat['heaps']} heaps, "
          f"of the 16 largest {of(heaps, False)}, draining {of(heaps, True)}, spans {sum(heap['bytes'] for heap in heaps) / MIB:.1f} MiB")


main()
