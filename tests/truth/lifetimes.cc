// Blocks that live short, long and longer, of sizes that are drawn: rings in which each new block takes the place of an old one.
#include "truth.h"
#include <memory>
#include <vector>

struct Block {
    char *memory = nullptr;
    size_t bytes = 0;
};

// The counts of each drawn size, taken and held, told at once when the ring has had its turns.
struct Counts {
    size_t bytes;
    long taken, held;
};

template <size_t LENGTH> struct Ring {
    Block blocks[LENGTH];
    Counts counts[40] = {};
    unsigned random = LENGTH;

    size_t draw(size_t least) {
        unsigned step = next_random(&random) % 40;
        counts[step].bytes = least + step * least / 8;
        counts[step].taken++;
        counts[step].held++;
        return counts[step].bytes;
    }

    // The place for the next block, empty again.
    Block &place(size_t least) {
        Block &block = blocks[next_random(&random) % LENGTH];
        if (block.memory != nullptr) {
            counts[(block.bytes - least) * 8 / least].held--;
            delete[] block.memory;
        }
        return block;
    }

    void tell(const char *function) {
        for (Counts &counts : counts) {
            if (counts.taken != 0)
                count(function, counts.bytes, counts.taken, counts.held);
        }
    }
};

static Ring<16> short_ring;
static Ring<256> long_ring;
static Ring<4096> longer_ring;

SITE void lives_short() {
    Block &block = short_ring.place(64);
    block.bytes = short_ring.draw(64);
    use(block.memory = new char[block.bytes]);
}

SITE void lives_long() {
    Block &block = long_ring.place(256);
    block.bytes = long_ring.draw(256);
    use(block.memory = new char[block.bytes]);
}

SITE void lives_longer() {
    Block &block = longer_ring.place(1024);
    block.bytes = longer_ring.draw(1024);
    use(block.memory = new char[block.bytes]);
}

int main() {
    for (int round = 0; round < 200000; round++) {
        lives_short();
        if (round % 4 == 0)
            lives_long();
        if (round % 16 == 0)
            lives_longer();
    }
    short_ring.tell("lives_short");
    long_ring.tell("lives_long");
    longer_ring.tell("lives_longer");
    return tell();
}
