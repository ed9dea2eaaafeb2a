/*
 * Preloaded into bricks: what a build without Gluster's own memory pools does, without a build. The three
 * functions are exported by libglusterfs and called through its table of imports, so ours come first.
 */
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <glusterfs/mem-types.h>

/* The first member of libglusterfs's structure; the size of the objects is all that is needed of it. */
struct mem_pool {
    unsigned long object_bytes;
};

void *__gf_malloc(size_t bytes, uint32_t type, const char *name);
void *__gf_calloc(size_t count, size_t bytes, uint32_t type, const char *name);
void __gf_free(void *block);

static const char NAME[] = "gf_common_mt_mem_pool";

void *mem_get_malloc(struct mem_pool *pool) {
    return __gf_malloc(pool->object_bytes, gf_common_mt_mem_pool, NAME);
}

void *mem_get_calloc(struct mem_pool *pool) {
    return __gf_calloc(1, pool->object_bytes, gf_common_mt_mem_pool, NAME);
}

void mem_put_pool(void *object) {
    __gf_free(object);
}

void mem_put(void *object) {
    __gf_free(object);
}
