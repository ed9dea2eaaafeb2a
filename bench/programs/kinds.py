"""The candidates of the set `untuned` (docs/decisions/0122), from Debian's own lists: `apt-cache dumpavail | python3 kinds.py`.

Each line is a kind, a tag of Debian's packages, and the twelve programs with that tag that most packages depend on, recommend,
suggest or enhance; of equals the first of the alphabet."""
import collections, re, sys

KINDS = """devel::compiler devel::interpreter devel::docsystem devel::prettyprint devel::testing-qa devel::code-generator
field::mathematics field::statistics field::biology field::chemistry field::electronics field::geography field::astronomy
works-with::audio works-with::video works-with::db works-with::vcs works-with::image:raster works-with::image:vector
works-with::3dmodel works-with::mail use::typesetting use::converting works-with-format::xml works-with::semantic-data
works-with-format::pdf works-with-format::html use::compressing use::searching use::simulating use::gameplaying
works-with::network-traffic use::editing""".split()
NAMED_BY = ["Pre-Depends", "Depends", "Recommends", "Suggests", "Enhances"]
RUNS_ALONE = {"interface::commandline", "interface::daemon", "interface::text-mode", "interface::shell"}

packages, fields, field = {}, {}, None
for line in [*sys.stdin, "\n"]:
    if line == "\n":
        packages.setdefault(fields.get("Package"), fields)
        fields = {}
    elif line[0] in " \t":
        fields[field] += " " + line.strip()
    else:
        field, _, value = line.strip().partition(":")
        fields[field] = value.strip()
packages.pop(None, None)

named, tagged = collections.Counter(), collections.defaultdict(list)
for name, fields in packages.items():
    others = re.split("[,|]", ",".join(fields.get(field, "") for field in NAMED_BY))
    named.update({re.split("[ :(]", other.strip())[0] for other in others})
    tags = {tag.strip() for tag in fields.get("Tag", "").split(",")}
    if "role::program" in tags and RUNS_ALONE & tags:
        for tag in tags:
            tagged[tag].append(name)
for kind in KINDS:
    print(kind, *[f"{name}:{named[name]}" for name in sorted(tagged[kind], key=lambda name: (-named[name], name))[:12]])
