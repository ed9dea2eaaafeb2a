"""Inputs of the set `untuned`: `python3 untuned.py NAME` writes the file or folder NAME here. The same bytes each time."""
import os, struct, subprocess, sys
from make import numbers, prose


def write(name, parts):
    if os.path.dirname(name):
        os.makedirs(os.path.dirname(name), exist_ok=True)
    with open(name, "w") as file:
        file.writelines(parts)


def words(seed, many):
    return (prose(seed, many * 14) + " ").split()[:many]


def letters(seed, many, alphabet):
    random = numbers(seed)
    return "".join(alphabet[next(random) % len(alphabet)] for _ in range(many))


# Sources of programs


def table_adb():
    yield "package body Table is\n   type Row is record A, B : Integer; C : Float; end record;\n"
    for n in range(1100):
        yield f"""   procedure P{n} (X : in out Row; Y : String) is
      Z : constant Integer := {n};
      type T is array (1 .. {n + 2}) of Row;
      V : T := (others => (1, 2, 3.0));
   begin
      for I in V'Range loop
         V (I).A := V (I).B + Z * I + Y'Length;
         X.C := X.C + Float (V (I).A) / 3.0;
      end loop;
      case X.A is when {n} => X.B := 1; when others => X.B := V (1).A; end case;
   end P{n};
"""
    yield "end Table;\n"


def table_ads():
    yield "package Table is\n   pragma Elaborate_Body;\nend Table;\n"


def policy_conf():
    kinds = 700
    yield "class file\nclass process\nsid kernel\nclass file { read write execute }\nclass process { fork }\nattribute domain;\n"
    yield "".join(f"type kind{n}, domain;\n" for n in range(kinds))
    random = numbers(3)
    for n in range(kinds * 290):
        yield f"allow kind{next(random) % kinds} kind{next(random) % kinds}:file {{ read {'write' if n % 3 else 'execute'} }};\n"
    yield "role r;\nrole r types domain;\nuser u roles r;\nsid kernel u:r:kind0\n"


def macros_m4():
    yield "define(`forloop', `ifelse(eval($1 > $2), 1, `', `define(`name_$1', `value $1 of `$3'')forloop(incr($1), $2, `$3')')')dnl\n"
    yield "define(`again', `ifelse($1, 0, `', `len(translit(`$2', `a-z', `b-za'))patsubst(`$2', ` \\w', `-')again(decr($1), `$2')')')dnl\n"
    for n in range(270):
        yield f"forloop({n * 1000}, {n * 1000 + 999}, `{prose(n, 60).strip()}')dnl\n"
        yield f"again(120, `{prose(n, 900).strip()}')dnl\n"


def grammar_y():
    yield "%token " + " ".join(f"T{n}" for n in range(500)) + "\n%%\nall: all r0 | r0 ;\n"
    random = numbers(5)
    for n in range(700):
        rules = [" ".join([f"T{(n * 7 + k * 13) % 500}"] + [f"r{n + 1 + next(random) % 12}" if n < 680 else f"T{next(random) % 500}" for _ in range(3)]) for k in range(5)]
        yield f"r{n}: " + " | ".join(rules) + " ;\n"
    yield "%%\n"


def configure_ac():
    yield "AC_INIT([rows], [1.0])\nAC_PROG_CC\n"
    for n, word in enumerate(sorted(set(words(6, 500)))):
        yield f"AC_CHECK_FUNCS([{word}_{n}])\nAC_CHECK_HEADER([{word}{n}.h], [AC_DEFINE([HAS_{n}], [1], [{prose(n, 40).strip()}])])\nAC_ARG_WITH([{word}{n}], [AS_HELP_STRING([--with-{word}{n}], [{prose(n + 1, 40).strip()}])])\n"
    yield "AC_OUTPUT\n"


def sources():
    """A tree of C++ with comments, for what reads sources."""
    for n in range(16):
        parts = [f"/** @file\n * {prose(n, 80).strip()} */\n#include <map>\n#include <string>\n#include \"c{(n + 1) % 16}.h\"\nnamespace n{n % 6} {{\n"]
        for k in range(12):
            base = f" : public C{n - 1}_{k}" if n % 6 else ""
            parts.append(f"/** {prose(n * 20 + k, 300).strip()} */\nclass C{n}_{k}{base} {{\npublic:\n")
            for m in range(6):
                parts.append(f"  /** {prose(n * 99 + k * 7 + m, 90).strip()}\n   * @param a {m}\n   * @return its sum */\n"
                             f"  int m{m}(int a, const std::string &b) {{ int s = {m}; char *p = new char[a + 1]; for (int i = 0; i < a; i++) s += b[i % b.size()] * i;"
                             f" if (s > {k}) {{ delete[] p; return s; }} delete[] p; return m{(m + 1) % 6}(s, b); }}\n")
            parts.append(f"private:\n  std::map<std::string, int> all;\n}};\n")
        write(f"sources/c{n}.h", parts + ["}\n"])


def doxyfile():
    yield "RECURSIVE=YES\nINPUT=sources\nOUTPUT_DIRECTORY=documents\nGENERATE_LATEX=NO\nGENERATE_XML=NO\nQUIET=YES\nWARNINGS=NO\nHAVE_DOT=NO\nFILE_PATTERNS=*.h\nSOURCE_BROWSER=YES\n"


def program_pl():
    for n in range(80):
        yield f"sub s{n} {{ my ($a,$b)=@_; my %h=(one=>1,two=>[1,2,{{x=>$a}}],three=>sub {{ return $_[0]+{n} }});\n"
        yield f"if($a>{n}){{ for my $i (0..$b){{ $h{{\"k$i\"}}=$i*{n}; print \"{prose(n, 40).strip()}\",$i if $i%2==0 }} }} elsif($b=~/x+(y|z)*$/) {{ return $h{{three}}->($b) }}\nelse {{ die 'no' unless defined $a; }} return \\%h; }}\n"


def program_java():
    """Java for programs that colour or index sources; nothing runs it."""
    for n in range(8000):
        yield f"/** {prose(n, 60).strip()} */\npublic class C{n} extends B{n % 9} {{\n  private final String s{n} = \"{prose(n, 30).strip()}\";\n  int m(int a) {{ for (int i = 0x{n:x}; i < a; i++) {{ a += i * {n}; }} // {n}\n    return a; }}\n}}\n"


def wide_v():
    yield "module wide(input clk, input [63:0] a, output reg [63:0] q);\n"
    yield " reg [63:0] m [0:15];\n" + "".join(f" reg [63:0] r{n};\n" for n in range(1100))
    yield " always @(posedge clk) begin\n"
    for n in range(1100):
        yield f"  r{n} <= (r{(n * 7 + 1) % 1100} + {{a[{n % 60}:0], {64 - n % 60 - 1}'d{n % 2}}}) ^ (r{(n * 3 + 2) % 1100} << {n % 31}) | (a[{n % 64}] ? m[{n % 16}] : r{(n + 9) % 1100});\n  if (r{n}[{n % 64}]) m[{n % 16}] <= r{n} * 3;\n"
    yield "  q <= r0;\n end\nendmodule\n"


def grid_cir():
    yield "a grid of resistors and diodes\nV1 n0_0 0 PULSE(0 5 0 1n 1n 50n 100n)\n.model d d\n"
    for x in range(45):
        for y in range(45):
            yield f"Rx{x}_{y} n{x}_{y} n{x + 1}_{y} {100 + x * y}\nRy{x}_{y} n{x}_{y} n{x}_{y + 1} {200 + x}\nC{x}_{y} n{x}_{y} 0 1p\n"
            if (x + y) % 3 == 0:
                yield f"D{x}_{y} n{x}_{y} 0 d\n"
    yield ".tran 0.5n 20n\n.print tran v(n9_9)\n.end\n"


def code_asm():
    yield "  list p=18f8722\n  org 0\nrow macro a, b\n  movlw a\n  addlw (b + 3) & 0xff\n  endm\n"
    for n in range(6000):
        yield f"l{n}\n  row {n % 200}, {n % 91}\n"
    yield "  end\n"


def avr_asm():
    yield ".device ATmega328P\n.macro row\n ldi r16, @0\n subi r16, low(@1 + 3)\n.endm\n.cseg\n.org 0\n"
    for n in range(6000):
        yield f".equ e{n} = ({n} * 7) & 255\nl{n}: row {n % 200}, e{n * 31 % (n + 1)}\n"


def packets_pcap():
    """Requests and answers of DNS and HTTP over Ethernet, as tcpdump writes them; in bytes, so written here."""
    parts = [struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)]
    for n in range(10000):
        if n % 2:
            text = f"GET /row{n}/{prose(n, 30).strip()} HTTP/1.1\r\nHost: h{n % 90}.example.org\r\nUser-Agent: a\r\n\r\n".encode()
            body = struct.pack(">HHIIBBHHH", 1024 + n % 60000, 80, n * 100, 1, 80, 24, 999, 0, 0) + text
        else:
            name = b"".join(bytes([len(one)]) + one for one in (b"h%d" % (n % 999), b"example", b"org")) + b"\0"
            query = struct.pack(">HHHHHH", n & 65535, 256, 1, 0, 0, 0) + name + struct.pack(">HH", 1, 1)
            body = struct.pack(">HHHH", 1024 + n % 60000, 53, 8 + len(query), 0) + query
        packet = struct.pack(">6s6sH", b"aaaaaa", b"bbbbbb", 0x800)
        packet += struct.pack(">BBHHHBBHII", 69, 0, 20 + len(body), n & 65535, 0, 64, 6 if n % 2 else 17, 0, 0x0A000001 + n % 200, 0x0A010001) + body
        parts.append(struct.pack("<IIII", 1700000000 + n // 90, n % 90 * 1000, len(packet), len(packet)) + packet)
    with open("packets.pcap", "wb") as file:
        file.writelines(parts)


def changes():
    """A repository of Mercurial: 120 files, 90 changes."""
    random = numbers(12)
    hg = ["hg", "--config", "ui.username=a", "-R", "changes"]
    subprocess.run(["hg", "init", "changes"], check=True)
    patch = []
    files = {f"file{n}": prose(n, 4000).split("\n") for n in range(120)}
    for n in range(90):
        patch.append(f"# HG changeset patch\n# User a\n# Date {1700000000 + n * 3600} 0\n{prose(n, 60).strip()}\n\n")
        for name in files if n == 0 else sorted({f"file{next(random) % 120}" for _ in range(12)}):
            old, at = files[name], next(random) % 40
            new = old[:at] + prose(n * 1000 + at, 400).split("\n") + old[at + 4 :]
            files[name] = new
            gone = [] if n == 0 else old
            patch.append(f"diff --git a/{name} b/{name}\n" + ("new file mode 100644\n--- /dev/null\n" if n == 0 else f"--- a/{name}\n") + f"+++ b/{name}\n")
            patch.append(f"@@ -{1 if gone else 0},{len(gone)} +1,{len(new)} @@\n" + "".join(f"-{line}\n" for line in gone) + "".join(f"+{line}\n" for line in new))
    write("changes.patch", patch)
    subprocess.run([*hg, "import", "-q", "--bypass", "changes.patch"], check=True)


# Documents


def rows_xml():
    yield "<rows>\n"
    for n in range(38000):
        yield f'<row id="i{n}" kind="{n * 7919 % 97}"><name>{prose(n, 24).strip()}</name><at x="{n / 7:.3f}">{n}</at></row>\n'
    yield "</rows>\n"


def group_xsl():
    yield """<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform">
<xsl:key name="kinds" match="row" use="@kind"/>
<xsl:template match="/"><all><xsl:for-each select="rows/row[generate-id() = generate-id(key('kinds', @kind)[1])]">
<kind n="{@kind}"><xsl:for-each select="key('kinds', @kind)"><xsl:sort select="name"/><r><xsl:value-of select="concat(translate(name, 'aeiou', 'AEIOU'), ' ', at/@x)"/></r></xsl:for-each></kind>
</xsl:for-each></all></xsl:template></xsl:stylesheet>
"""


def book_sgml():
    yield "<!DOCTYPE book [\n<!ELEMENT book - - (chapter+)>\n<!ELEMENT chapter - O (title, (p | list)+)>\n<!ATTLIST chapter id ID #IMPLIED>\n<!ELEMENT (title | p | item) - O (#PCDATA | em | ref)*>\n<!ELEMENT list - O (item+)>\n<!ELEMENT em - - (#PCDATA)>\n<!ELEMENT ref - O EMPTY>\n<!ATTLIST ref to IDREF #REQUIRED>\n]>\n<book>\n"
    for n in range(105000):
        yield f'<chapter id="c{n}"><title>{n}<p>row <em>{n}</em> <ref to="c{n * 7 % 105000}"> {prose(n % 500, 30).strip()}<list><item>a<item>b\n'
    yield "</book>\n"


def rows_ttl(many=26000):
    yield "@prefix e: <http://example.org/> .\n"
    for n in range(many):
        yield f'e:row{n} e:name "{prose(n % 999, 20).strip()} {n}" ; e:next e:row{n * 7919 % many} ; e:size {n} , "{n}"@en .\n'


def few_ttl():
    return rows_ttl(3300)


def page_html(many=13000):
    yield "<!DOCTYPE html><html><head><title>rows</title></head><body><h1>Rows</h1>\n"
    for n in range(many):
        yield f'<h2 id="h{n}">{prose(n, 30).strip()}</h2><p>{prose(n + 7, 300).strip()} <a href="#h{n * 7 % many}">back</a> <b>{n}</b>\n<table border="1">'
        yield "".join(f"<tr><td>{n}</td><td>{prose(n + k, 40).strip()}</td></tr>" for k in range(4)) + "</table>\n"
    yield "</body></html>\n"


def book_rst():
    for n in range(560):
        yield f"{prose(n, 40).strip()}\n{'=' * 48}\n\n{prose(n, 500).strip()} *em* and ``code {n}`` and a_{n}.\n\n- one\n- {prose(n, 60).strip()}\n\n"
        yield f".. _a_{n}: http://example.org/{n}\n\n+----+----+\n| a  | {n % 10}  |\n+----+----+\n\n::\n\n  {prose(n, 80).strip()}\n\n"


def book_tex():
    for n in range(450):
        yield f"\\beginsection {n}. {prose(n, 40).strip()}\n\n"
        yield "".join(f"{prose(n * 9 + k, 700).strip()} $x_{{{k}}}^{{{n}}} = \\sqrt{{a + {{b \\over c}}}}$\n\n" for k in range(3))
    yield "\\bye\n"


def book_dvi():
    write("book.tex", book_tex())
    subprocess.run(["tex", "-interaction=batchmode", "book.tex"], check=True, stdout=subprocess.DEVNULL)


def book_man():
    yield ".TH BOOK 1\n"
    for n in range(1500):
        yield f".SH {prose(n, 30).strip()}\n.PP\n{prose(n + 5, 500)}\n.TP\n.B {n}\n{prose(n, 200)}\n.TS\nl l.\n{n}\tone\n{n + 1}\ttwo\n.TE\n"


def score_ly():
    yield '\\version "2.22.0"\n\\score { << \n'
    for voice in range(2):
        random = numbers(voice)
        yield "\\new Staff { " + " ".join("cdefgab"[next(random) % 7] + ["'", "''", "'"][next(random) % 3] + ["4", "8", "4"][n % 3] for n in range(120)) + " }\n"
    yield ">> \\layout { } }\n"


def rows_po():
    yield 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\n'
    for n in range(90000):
        yield f'#: file{n % 90}.c:{n}\n#, c-format\nmsgid "{prose(n % 4000, 30).strip()} %d {n}"\nmsgstr "{prose(n % 4000 + 5, 34).strip()} %d {n}"\n\n'


def mail():
    letters = []
    for n in range(220):
        reply = f"In-Reply-To: <{n - n % 7}@example.org>\n" if n % 7 else ""
        letters.append(f"From: u{n % 90} <u{n % 90}@example.org>\nTo: all@example.org\nSubject: {prose(n, 40).strip()}\nDate: Mon, 1 Jan 2024 10:{n // 60:02}:{n % 60:02} +0000\nMessage-ID: <{n}@example.org>\n{reply}\n{prose(n, 2400)}\n")
        write(f"mail/cur/{n}:2,S", [letters[n]])
    for folder in ("new", "tmp"):
        os.makedirs(f"mail/{folder}", exist_ok=True)
    write("mbox", [f"From u@example.org Mon Jan  1 10:00:00 2024\n{one}\n" for one in letters[:1]])
    write("notmuch.conf", [f"[database]\npath={os.getcwd()}/mail\n[user]\nname=a\nprimary_email=a@example.org\n[new]\ntags=new\n"])


# Sciences


def reads_sam():
    yield "@HD\tVN:1.6\n" + "".join(f"@SQ\tSN:r{n}\tLN:100000\n" for n in range(20))
    random, bases = numbers(8), letters(8, 20000, "ACGT")
    for n in range(14000):
        at = next(random)
        yield f"q{n}\t0\tr{at % 20}\t{at // 20 % 90000 + 1}\t60\t100M\t*\t0\t0\t{bases[at % 19000 : at % 19000 + 100]}\t{'I' * 100}\n"


def genome():
    bases, random = letters(9, 1000000, "ACGT"), numbers(9)
    write("genome/all.fa", [">all\n"] + [bases[at : at + 60] + "\n" for at in range(0, 1000000, 60)])
    parts = []
    for n in range(9000):
        at = next(random) % 990000
        read = bases[at : at + 50] + "ACGT"[next(random) % 4] + bases[at + 51 : at + 100]
        parts.append((f"@q{n}\n{read}\n+\n{'I' * len(read)}\n", f">q{n}\n{read}\n"))
    write("genome/reads.fq", [one for one, _ in parts])
    write("genome/reads.fa", [other for _, other in parts[:6000]])


def proteins():
    acids = "ACDEFGHIKLMNPQRSTVWY"
    write("proteins/all.fa", [f">p{n}\n{letters(n, 140, acids)}\n" for n in range(20000)])
    base, parts = letters(77, 220, acids), []
    for n in range(16):
        random, own = numbers(n), list(base)
        for _ in range(70):
            own[next(random) % 220] = acids[next(random) % 20]
        parts.append(f">s{n}\n{''.join(own[next(random) % 9:])}\n")
    write("proteins/family.fa", parts)


def molecules_smi():
    random = numbers(10)
    for n in range(2400):
        yield "C" + "".join(["C", "N", "O", "C(=O)", "c1ccccc1", "C(Cl)", "S", "C1CCCC1", "C(N)(O)"][next(random) % 9] for _ in range(14)) + f" m{n}\n"


def places_geojson():
    yield '{"type": "FeatureCollection", "features": [\n'
    random = numbers(11)
    for n in range(13000):
        x, y = next(random) % 300 - 150, next(random) % 150 - 75
        ring = [[round(x + dx + next(random) % 999 / 5000, 4), round(y + dy + next(random) % 999 / 5000, 4)] for dx, dy in ((0, 0), (1, 0), (2, 1), (1, 2), (0, 1))]
        yield f'{{"type": "Feature", "properties": {{"id": {n}, "name": "{prose(n, 20).strip()}"}}, "geometry": {{"type": "Polygon", "coordinates": [{ring + ring[:1]}]}}}}{"," if n < 12999 else ""}\n'
    yield "]}\n"


def track_gpx():
    yield '<?xml version="1.0"?>\n<gpx version="1.1" creator="a" xmlns="http://www.topografix.com/GPX/1/1"><trk><name>t</name><trkseg>\n'
    for n in range(36000):
        yield f'<trkpt lat="{40 + n / 50000:.6f}" lon="{8 + (n * n % 9973) / 90000:.6f}"><ele>{n % 300}</ele><time>2024-01-{n // 5000 + 1:02}T10:{n // 60 % 60:02}:{n % 60:02}Z</time></trkpt>\n'
    yield "</trkseg></trk></gpx>\n"


def edit_vim():
    yield "%s/\\w\\+/\\=submatch(0).'x'/g\nsort\n%s/x\\>/yy/g\nsort! u\n%s/yy/z&z/g\nsort\n%s/a\\(.\\)/\\1b/g\nquit!\n"


def words_sl():
    yield """variable i, a = Assoc_Type[], l = {};
for (i = 0; i < 200000; i++) { a["k" + string(i mod 20011)] = string(i); list_append(l, string(i * 7)); }
exit(0);
"""


def rows_rq():
    yield 'PREFIX e: <http://example.org/>\nSELECT ?a ?n WHERE { ?a e:next ?b . ?b e:name ?n . FILTER regex(?n, "on 1") } ORDER BY ?n\n'


def moves_gtp():
    yield "boardsize 19\n" + "play black D4\ngenmove white\ngenmove black\ngenmove white\n" + "genmove black\ngenmove white\n" * 3 + "quit\n"


def moves_chess():
    yield "book off\ndepth 11\n" + "go\n" * 6 + "quit\n"


def arrays_pro():
    yield 'a = randomu(1, 1000, 1000) & b = a # a & s = strarr(130000) & for i = 0L, 129999 do s[i] = strtrim(string(i), 2) + "x"\n'
    yield "print, n_elements(uniq(s[sort(s)]))\nfor k = 1, 4 do c = fft(a + k)\nprint, total(b)\n"


def series_rrd():
    many = 18000
    yield "create series --start 1700000000 --step 60 DS:a:GAUGE:120:U:U RRA:AVERAGE:0.5:1:20000 RRA:MAX:0.5:10:3000\n"
    for n in range(0, many, 40):
        yield "update series " + " ".join(f"{1700000060 + k * 60}:{k * 7919 % 997}" for k in range(n, n + 40)) + "\n"
    for n in range(70):
        yield f"xport --start 1700000000 --end {1700000000 + many * 60} --maxrows {many} DEF:a=series:a:AVERAGE CDEF:b=a,2,*,{n},+ XPORT:a XPORT:b\n"


def model_R():
    yield """set.seed(1)
rows <- data.frame(k = sample(letters, 60000, TRUE), x = rnorm(60000), s = paste0("n", sample(9000, 60000, TRUE)))
print(dim(aggregate(x ~ k + substr(s, 1, 3), rows, mean)))
parts <- lapply(split(rows, rows$k), function(r) coef(lm(x ~ poly(seq_along(x), 2), r)))
words <- unlist(lapply(1:40000, function(n) paste(rev(strsplit(rows$s[n], "")[[1]]), collapse = "")))
print(length(unique(words)) + length(parts))
"""


def surface_gp():
    yield "set terminal svg\nset output '/dev/null'\nset isosamples 160\nset hidden3d\nsplot sin(sqrt(x*x+y*y))/sqrt(x*x+y*y+0.1)\n"
    yield "set table '/dev/null'\nset samples 100000\nplot sin(x)*x**2\nunset table\narray A[50000]\ndo for [i=1:50000] { A[i] = sprintf('%d %s', i, strstrt('abc', 'b') ? 'x' : 'y') }\n"


def arrays_i():
    yield """func names(n) { t = array(string, n); for (i = 1; i <= n; ++i) t(i) = swrite(format="%d-%d", i, i * i); return sort(t)(0); }
for (k = 1; k <= 14; ++k) { y = names(20000); a = random(1200, 1200); b = sqrt(a) + a(::-1,) * 2; c = b(sum,) + transpose(a)(avg,); d = fft(a(:512, :512), 1); }
quit;
"""


# Pictures, sound, things


def picture_ppm():
    with open("picture.ppm", "wb") as file:
        file.write(b"P6 1600 1200 255\n")
        for y in range(1200):
            file.write(bytes(value & 255 for x in range(1600) for value in (x * y >> 5 & 252, x * 3 + y >> 2 & 252, (x ^ y) & 248)))


def drawing_eps():
    yield "%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 600 800\n/Times-Roman findfont 9 scalefont setfont\n"
    for n in range(1700):
        x, y = n * 37 % 580, n * 91 % 780
        yield f"newpath {x} {y} moveto {x + 20} {y + 5} {x + 10} {y + 30} {x + 3} {y + 9} curveto closepath {n % 10 / 10} 0.5 0.2 setrgbcolor fill\n0 setgray {x} {y} moveto (row {n}) show\n"
    yield "showpage\n%%EOF\n"


def drawing_fig():
    yield "#FIG 3.2\nLandscape\nCenter\nInches\nLetter\n100.00\nSingle\n-2\n1200 2\n"
    for n in range(100000):
        x, y = n * 37 % 9000, n * 91 % 7000
        yield f"2 1 0 1 {n % 8} 7 {n % 90} -1 -1 0.000 0 0 -1 0 0 3\n\t {x} {y} {x + 200} {y + 50} {x} {y + 400}\n4 0 0 50 -1 0 12 0.0000 4 135 200 {x} {y} row {n}\\001\n"


def solid_stl():
    with open("solid.stl", "wb") as file:
        file.write(bytes(80) + struct.pack("<I", 2 * 320 * 320))
        for x, y in ((x, y) for x in range(320) for y in range(320)):
            p = [(x + dx, y + dy, ((x + dx) * 7 + (y + dy) * 13) % 17 / 9) for dx, dy in ((0, 0), (1, 0), (1, 1), (0, 1))]
            for corners in ((p[0], p[1], p[2]), (p[0], p[2], p[3])):
                file.write(struct.pack("<12fH", 0, 0, 1, *(value for corner in corners for value in corner), 0))


def spheres_r3d():
    yield "spheres\n80 80\n16 16\n4\n0 0 0\nF\n25\n0.15\n0.05\n0.25\n4\n1 1 1\n1 0 0 0\n0 1 0 0\n0 0 1 0\n0 0 0 1\n3\n*\n*\n*\n"
    random = numbers(13)
    for n in range(30000):
        x, y, z = (next(random) % 1000 / 1000 - 0.5 for _ in range(3))
        yield f"2\n{x:.3f} {y:.3f} {z:.3f} 0.0{n % 3 + 1} 0.{n % 9} 0.5 0.{n % 7}\n"


def folder():
    for n in range(300):
        write(f"folder/{n % 20}/file{n}", [prose(n, 20000)])


def server_conf():
    yield f'server.modules = ("mod_dirlisting")\nserver.document-root = "{os.getcwd()}/folder"\nserver.port = {sys.argv[2]}\nserver.bind = "127.0.0.1"\nserver.dir-listing = "enable"\n'


def rows_pdf():
    """A file of 2,500 pages without compression."""
    many, at, places, parts = 2500, 0, [], []

    def add(text):
        nonlocal at
        parts.append(text)
        at += len(text)

    def thing(body):
        places.append(at)
        add(f"{len(places)} 0 obj\n{body}\nendobj\n")

    add("%PDF-1.4\n")
    thing("<< /Type /Catalog /Pages 2 0 R >>")
    thing(f"<< /Type /Pages /Count {many} /Kids [{' '.join(f'{4 + 2 * n} 0 R' for n in range(many))}] >>")
    thing("<< /Type /Font /Subtype /Type1 /BaseFont /Times-Roman >>")
    for n in range(many):
        thing(f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents {5 + 2 * n} 0 R /Resources << /Font << /F 3 0 R >> >> >>")
        lines = "".join(f"1 0 0 1 40 {760 - 16 * k} Tm ({prose(n * 9 + k, 50).strip()}) Tj\n" for k in range(9))
        text = f"BT /F 10 Tf {lines} ET\n0.5 0.1 {n % 9 / 9:.2f} rg {n % 400} 100 80 40 re f"
        thing(f"<< /Length {len(text)} >>\nstream\n{text}\nendstream")
    start = at
    add(f"xref\n0 {len(places) + 1}\n0000000000 65535 f \n" + "".join(f"{place:010} 00000 n \n" for place in places))
    add(f"trailer\n<< /Size {len(places) + 1} /Root 1 0 R >>\nstartxref\n{start}\n%%EOF\n")
    yield "".join(parts)


ITSELF = [sources, mail, genome, proteins, folder, changes, packets_pcap, picture_ppm, solid_stl, book_dvi]

if __name__ == "__main__":
    name = sys.argv[1]
    make = globals()[name.replace(".", "_")]
    make() if make in ITSELF else write(name, make())
