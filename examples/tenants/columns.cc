// RocksDB with sixteen column families, the block cache of each in a heap of its own by vcmalloc_rocksdb.h: what each holds is seen
// by name (vcm stat), and the memory of one is back as soon as the column family is dropped.
//
//     columns heaps|plain KEYS FOLDER
//
// Build: c++ -std=c++17 -O2 columns.cc -lrocksdb -lvcmalloc (or run it on the library).
#include <chrono>
#include <cstdio>
#include <cstring>
#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/table.h>
#include <thread>
#include <unistd.h>
#include <vcmalloc_rocksdb.h>
#include <vector>

namespace {

constexpr int families = 16;

double now() {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double rss_mib() {
    long pages = 0;
    if (std::FILE *file = std::fopen("/proc/self/statm", "r")) {
        if (std::fscanf(file, "%*d %ld", &pages) != 1)
            pages = 0;
        std::fclose(file);
    }
    return pages / 256.0;
}

void must(const rocksdb::Status &status) {
    if (!status.ok()) {
        std::fprintf(stderr, "columns: %s\n", status.ToString().c_str());
        std::exit(1);
    }
}

struct family {
    std::shared_ptr<vcmalloc::rocksdb_allocator> memory;
    std::shared_ptr<rocksdb::Cache> cache;
    rocksdb::ColumnFamilyHandle *handle = nullptr;
};

std::string key(int number) {
    char text[20];
    std::snprintf(text, sizeof text, "key%012d", number);
    return text;
}

} // namespace

int main(int count, char **words) {
    if (count != 4)
        return 2;
    bool has_heaps = !std::strcmp(words[1], "heaps");
    int keys = std::atoi(words[2]);
    rocksdb::Options options;
    options.create_if_missing = true;
    options.compression = rocksdb::kNoCompression;
    rocksdb::DB *database = nullptr;
    must(rocksdb::DB::Open(options, words[3], &database));
    std::vector<family> all(families);
    rocksdb::WriteOptions unlogged;
    unlogged.disableWAL = true;
    for (int number = 0; number < families; number++) {
        family &one = all[number];
        rocksdb::LRUCacheOptions cached;
        cached.capacity = 256 << 20;
        if (has_heaps) {
            one.memory = std::make_shared<vcmalloc::rocksdb_allocator>("column family " + std::to_string(number));
            cached.memory_allocator = one.memory;
        }
        one.cache = rocksdb::NewLRUCache(cached);
        rocksdb::BlockBasedTableOptions table;
        table.block_cache = one.cache;
        rocksdb::ColumnFamilyOptions of(options);
        of.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
        must(database->CreateColumnFamily(of, "family" + std::to_string(number), &one.handle));
        for (int at = 0; at < keys; at++)
            must(database->Put(unlogged, one.handle, key(at), std::string(300 + at % 200, 'a' + number)));
        must(database->Flush(rocksdb::FlushOptions(), one.handle));
    }
    double before = rss_mib();
    std::string value;
    for (family &one : all)
        for (int at = 0; at < keys; at++)
            must(database->Get(rocksdb::ReadOptions(), one.handle, key(at), &value));
    double full = rss_mib();
    std::printf("%d families read, %.1f MiB in memory, %.1f before\n", families, full, before);
    family &one = all[7];
    if (has_heaps) {
        struct vcm_heap_stats stats = one.memory->heap().stats();
        std::printf("%s: cache says %.2f MiB, its heap live %.2f, spans %.2f, resident %.2f MiB\n", stats.name,
                    one.cache->GetUsage() / 1048576.0, stats.live / 1048576.0, stats.bytes / 1048576.0, stats.resident / 1048576.0);
    }
    std::size_t usage = one.cache->GetUsage();
    double start = now();
    must(database->DropColumnFamily(one.handle));
    must(database->DestroyColumnFamilyHandle(one.handle));
    one.handle = nullptr;
    one.cache.reset();
    one.memory.reset();
    double dropped = now();
    double least = full - usage / 1048576.0 * 0.9;
    while (rss_mib() > least && now() - dropped < 5000)
        std::this_thread::sleep_for(std::chrono::microseconds(500));
    std::printf("dropped in %.1f ms; %.1f MiB of its %.1f back after %.1f ms\n", dropped - start, full - rss_mib(), usage / 1048576.0,
                now() - start);
    for (family &left : all)
        if (left.handle)
            must(database->DestroyColumnFamilyHandle(left.handle));
    delete database;
    return 0;
}
