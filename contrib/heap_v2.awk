#!/usr/bin/awk -f
# Converts a heap profile of jemalloc, or of vcmalloc's libjemalloc.so.2 (heap_v2), into the text of gperftools' heap profiler, which
# google-pprof and Go's pprof read, and jeprof too:
#
#   awk -f heap_v2.awk jeprof.4711.0.m0.heap > 4711.heap
#   google-pprof --text ./server 4711.heap
#   go tool pprof -top ./server 4711.heap
#
# Of each stack the counts of all threads are kept (t*). The counts stay those of the samples; readers scale them by the rate in the header.
/^heap_v2\// { split($0, header, "/"); rate = header[2]; next }
/^@ / { stack = $0; next }
/^ *t\*: / {
    sub(/^ *t\*: /, "")
    if (stack) print $0 " " stack
    else print "heap profile: " $0 " @ heap_v2/" rate
    next
}
/^MAPPED_LIBRARIES:/ { print ""; maps = 1 }
maps
END {
    if (!rate || !maps) {
        print "heap_v2.awk: no whole heap_v2 profile: it begins with heap_v2/RATE and has MAPPED_LIBRARIES" > "/dev/stderr"
        exit 1
    }
}
