#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
enum { MIB = 1 << 20, MOST = 1 << 17, WORKERS = 16 };
static char *own[MOST], *blocks[MOST], bytes[WORKERS];
static size_t sizes[MOST], owned, live;
static uint64_t seed = 88172645463325252u;
static uint64_t next(void) { seed ^= seed << 13; seed ^= seed >> 7; return seed ^= seed << 17; }
static char *made(size_t size) { char *block = malloc(size); if (!block) _exit(3); return memset(block, (int)size, size); }
static void put(size_t at, size_t size) { own[at] = made(size); live += sizes[at] = size; }
static void burst(size_t most) {  // As many blocks of 100 to 200 bytes as of 100 to 200 KB, freed in random order.
  size_t count = 0, size;
  for (size_t total = 0; total < most; total += size) { size = (size_t)100 << next() % 11; blocks[count++] = made(size += next() % size); }
  while (count) { size_t at = next() % count; free(blocks[at]); blocks[at] = blocks[--count]; }
}
static int reap(int workers) { int status, bad = 0; while (workers--) bad |= wait(&status) < 0 || status; return bad; }
static void ready(void) { printf("ready %zu\n", live / 1024); fflush(stdout); while (read(0, bytes, 1) > 0) {} }
static int prefork(void) {
  int done[2], hold[2], count = 0;
  if (pipe(done) || pipe(hold)) return 4;
  for (int worker = 0; worker < WORKERS; worker++)
    if (fork() == 0) {
      close(hold[1]); seed += worker;
      for (int turn = 0; turn < 3; turn++) { if (turn) usleep(200000); burst(40 * MIB); }
      if (write(done[1], "", 1) != 1) _exit(5);
      close(done[1]);
      _exit(read(hold[0], bytes, 1) != 0);
    }
  close(done[1]);
  while (read(done[0], bytes, 1) == 1) count++;
  if (count < WORKERS) return 6;
  ready(); close(hold[1]);
  return reap(WORKERS);
}
static int generations(void) {
  for (int generation = 0; generation < 30; generation++) {
    for (int worker = 0; worker < 4; worker++) if (next(), fork() == 0) { burst(20 * MIB); _exit(0); }
    if (reap(4)) return 7;
    for (size_t turn = 0, at; turn < owned / 10; turn++) { free(own[at = next() % owned]); live -= sizes[at]; put(at, 200 + next() % 1601); }
  }
  return ready(), 0;
}
int main(int count, char **words) {
  while (live < 64 * MIB) put(owned++, 1000);
  return count > 1 && !strcmp(words[1], "prefork") ? prefork() : generations();
}
