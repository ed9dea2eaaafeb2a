//! Programs that nobody tuned to: the set `untuned`.
//!
//! docs/decisions/0122-programs-nobody-tuned-to.md has the rule that chose them. A row that is slow here stays: only a change of
//! the rule, in that record, changes the list.

use super::program::{Program, Words, run, server};

const fn row(name: &'static str, needs: Words, command: Words, made: Words) -> Program {
    run(name, needs, command).from(made).of("untuned")
}

/// In the order of the kinds, and of the packages inside them.
#[rustfmt::skip]
pub static UNTUNED: &[Program] = &[
    row("gnatmake", "gnatmake python3", "gnatmake -f -q -c -O1 table.adb", "table.ads table.adb").does(1_100, "procedures of Ada"),
    row("checkpolicy", "checkpolicy python3", "checkpolicy -o /dev/null policy.conf", "policy.conf").does(203_000, "rules of SELinux"),
    row("xsltproc", "xsltproc python3", "xsltproc group.xsl rows.xml", "group.xsl rows.xml").does(38_000, "elements grouped and sorted"),
    row("m4", "m4 python3", "m4 macros.m4", "macros.m4").does(270_000, "macros defined"),
    row("rst2html", "rst2html python3", "rst2html book.rst", "book.rst").does(560, "sections"),
    row("doxygen", "doxygen python3", "doxygen doxyfile", "doxyfile sources").does(192, "classes of C++"),
    row("enscript", "enscript python3", "enscript -q -p out.ps -E program.java", "program.java").does(8_000, "classes of Java coloured"),
    row("perltidy", "perltidy python3", "perltidy -st program.pl", "program.pl").does(80, "functions of Perl"),
    row("cppcheck", "cppcheck python3", "cppcheck -q --language=c++ sources/c1.h", "sources").does(1, "file of C++"),
    row("autoconf", "autoconf python3", "autoconf -f -o configure configure.ac", "configure.ac").clearing("autom4te.cache")
        .does(1, "configure script"),
    row("bison", "bison python3", "bison -o grammar.c grammar.y", "grammar.y").does(3_500, "rules of a grammar"),
    row("gnuplot", "gnuplot python3", "gnuplot surface.gp", "surface.gp").does(1, "surface, then a table and strings"),
    row("yorick", "yorick python3", "yorick -batch arrays.i", "arrays.i").does(14, "times five arrays of 11 MiB"),
    row("R", "R python3", "R --vanilla -q -f model.R", "model.R").does(60_000, "rows of a frame"),
    row("gdl", "gdl python3", "gdl -quiet", "arrays.pro").reads("arrays.pro").does(130_000, "strings, then four transforms"),
    row("samtools sort", "samtools python3", "samtools sort -l 9 -O bam -o /dev/null reads.sam", "reads.sam").does(14_000, "reads"),
    row("blastn", "blastn python3", "blastn -subject genome/all.fa -query genome/reads.fa -out /dev/null -outfmt 6", "genome")
        .does(6_000, "reads searched"),
    row("obabel", "obabel python3", "obabel molecules.smi -O molecules.mol2", "molecules.smi").does(2_400, "molecules"),
    row("gmx solvate", "gmx python3", "gmx -quiet solvate -cs spc216 -box 11 11 11 -o out.gro", "").with("GMX_MAXBACKUP=-1")
        .does(1, "box of water"),
    row("gpasm", "gpasm python3", "gpasm -q -o code.hex code.asm", "code.asm").does(6_000, "macros of assembler"),
    row("avra", "avra python3", "avra avr.asm", "avr.asm").does(6_000, "macros of assembler"),
    row("ogr2ogr", "ogr2ogr python3", "ogr2ogr -f GML /vsistdout/ places.geojson", "places.geojson").does(13_000, "polygons"),
    row("gpsbabel", "gpsbabel python3", "gpsbabel -i gpx -f track.gpx -o kml -F track.kml", "track.gpx").does(36_000, "points of a track"),
    row("xplanet", "xplanet python3", "xplanet -output planet.png -num_times 1 -projection rectangular -geometry 3600x2000", "")
        .does(7_200_000, "pixels"),
    row("ffmpeg", "ffmpeg python3",
        "ffmpeg -nostdin -v error -y -f lavfi -i testsrc=size=1280x720:rate=25 -t 4 -threads 2 -c:v mpeg4 out.avi", "").on(2)
        .does(100, "frames"),
    server("lighttpd", "lighttpd curl python3", "lighttpd -D -f server.conf",
        "curl -s -o all 'http://127.0.0.1:{port}/[0-19]/?n=[1-400]'").from("server.conf folder").of("untuned")
        .does(8_000, "listings of a folder"),
    row("rrdtool", "rrdtool python3", "rrdtool -", "series.rrd").reads("series.rrd").does(1_260_000, "points exported"),
    row("hg log", "hg python3", "hg -R changes log -p", "changes").does(90, "changes"),
    row("pnmquant", "pnmquant python3", "pnmquant 64 picture.ppm", "picture.ppm").does(1_920_000, "pixels"),
    row("dvipng", "dvipng tex python3", "dvipng -q -o page%d.png book.dvi", "book.dvi").does(100, "pages"),
    row("pstoedit", "pstoedit python3", "pstoedit -q -f fig drawing.eps out.fig", "drawing.eps").does(3_400, "shapes and texts"),
    row("fig2dev", "fig2dev python3", "fig2dev -L pstricks drawing.fig /dev/null", "drawing.fig").does(200_000, "lines and texts"),
    row("raster3d", "render python3", "render", "spheres.r3d").reads("spheres.r3d").does(30_000, "spheres"),
    row("admesh", "admesh python3", "admesh --write-binary-stl=out.stl --write-ascii-stl=text.stl solid.stl", "solid.stl")
        .does(204_800, "facets"),
    row("spamassassin", "spamassassin python3", "spamassassin -x -L --mbox mbox", "mail").does(1, "letter, and all rules"),
    row("notmuch", "notmuch python3", "notmuch --config=notmuch.conf new", "mail").clearing("mail/.notmuch").does(220, "letters indexed"),
    row("luatex", "luatex python3", "luatex -interaction=batchmode book.tex", "book.tex").does(1_350, "paragraphs"),
    row("lilypond", "lilypond python3", "lilypond -s -o score score.ly", "score.ly").does(240, "notes"),
    row("msgfmt", "msgfmt python3", "msgfmt -c -o /dev/null rows.po", "rows.po").does(90_000, "messages"),
    row("onsgmls", "onsgmls python3", "onsgmls book.sgml", "book.sgml").does(105_000, "chapters of SGML"),
    row("rapper", "rapper python3", "rapper -q -i turtle -o rdfxml rows.ttl", "rows.ttl").does(104_000, "triples"),
    row("roqet", "roqet python3", "roqet -q -D few.ttl rows.rq", "few.ttl rows.rq").does(3_300, "rows joined"),
    row("mutool draw", "mutool python3", "mutool draw -q -F svg -o /dev/null rows.pdf 1-1300", "rows.pdf").does(1_300, "pages"),
    row("qpdf", "qpdf python3", "qpdf --linearize --object-streams=generate rows.pdf out.pdf", "rows.pdf").does(2_500, "pages"),
    row("groff", "groff python3", "groff -t -man -T ps book.man", "book.man").on(4).does(1_500, "sections"),
    row("links", "links python3", "links -dump page.html", "page.html").does(13_000, "sections of HTML"),
    row("mksquashfs", "mksquashfs python3", "mksquashfs folder out.sqfs -noappend -quiet -no-progress -processors 2", "folder").on(2)
        .does(300, "files"),
    row("c44", "c44 python3", "c44 -slice 74,89,99,110 picture.ppm out.djvu", "picture.ppm").does(1_920_000, "pixels"),
    row("phmmer", "phmmer python3", "phmmer --cpu 0 -o /dev/null proteins/family.fa proteins/all.fa", "proteins")
        .does(320_000, "pairs of proteins"),
    row("water", "water python3", "water -asequence genome/all.fa -sbegin1 1 -send1 4200 -bsequence genome/all.fa -sbegin2 5000 \
        -send2 11000 -gapopen 10 -gapextend 0.5 -outfile out.water", "genome").does(1, "alignment of 4,200 and 6,000 bases"),
    row("ngspice", "ngspice python3", "ngspice -b grid.cir", "grid.cir").does(1, "transient of 2,025 nodes"),
    row("verilator", "verilator python3", "verilator --cc --Mdir model -Wno-fatal -Wno-lint wide.v", "wide.v").clearing("model").does(1_100, "registers"),
    row("gnugo", "gnugo python3", "{gnugo} --mode gtp --level 10 --seed 1 --gtp-input moves.gtp", "moves.gtp").does(9, "moves"),
    row("stockfish", "stockfish python3", "{stockfish} bench 16 1 9", "").does(50, "positions searched"),
    row("tshark", "tshark python3", "tshark -r packets.pcap -V", "packets.pcap").does(10_000, "packets"),
    row("vim", "vim python3", "vim -u NONE -i NONE -n -es -S edit.vim book.man", "edit.vim book.man").does(1, "file edited"),
    row("jed", "jed python3", "jed -script words.sl", "words.sl").does(200_000, "strings put into a list and a table"),
];
