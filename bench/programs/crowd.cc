// Small programs whose heaps grow, drift and pass from thread to thread, for vcm-bench programs.
//
//     crowd KIND THREADS WORK
//
// The calls, their sizes and their order in a thread are the same under every allocator; what threads do to each other is not.

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace {

struct Random {
  uint64_t state;
  explicit Random(uint64_t seed) : state(seed * 0x9e3779b97f4a7c15 + 1) {}
  uint32_t next() {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return state >> 32;
  }
  uint32_t below(uint32_t bound) { return uint64_t(next()) * bound >> 32; }
};

std::atomic<uint64_t> checked;

template <typename Work> void crowd(unsigned threads, Work work) {
  std::vector<std::thread> all;
  for (unsigned number = 0; number < threads; ++number) all.emplace_back(work, number);
  for (auto &thread : all) thread.join();
}

// Ordered trees of strings, built in random order and dropped as a whole; the strings of each are longer than the last one's.
void trees(unsigned threads, uint64_t work) {
  crowd(threads, [=](unsigned number) {
    Random random(number + 1);
    uint64_t sum = 0;
    for (uint64_t round = 0; round < work; ++round) {
      std::map<uint32_t, std::string> tree;
      for (int entry = 0; entry < 20000; ++entry)
        tree[random.next()] = std::string(8 + random.below(16 + 24 * (round % 12)), 'x');
      for (auto &[key, text] : tree) sum += key ^ text.size();
    }
    checked += sum;
  });
}

// One array of blocks, of which every thread replaces one at random.
void exchange(unsigned threads, uint64_t work) {
  constexpr uint32_t places = 1 << 15;
  static std::atomic<char *> array[places];
  crowd(threads, [=](unsigned number) {
    Random random(number + 1);
    uint64_t sum = 0;
    for (uint64_t round = 0; round < work / threads; ++round) {
      uint32_t size = 16 + (random.below(32) ? random.below(240) : random.below(4000));
      char *block = static_cast<char *>(malloc(size));
      memset(block, int(round), size);
      char *old = array[random.below(places)].exchange(block, std::memory_order_acq_rel);
      if (old) sum += old[0];
      free(old);
    }
    checked += sum;
  });
  for (auto &place : array) free(place.load());
}

struct Message {
  Message *next;
  uint64_t words[7];
};

struct Box {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Message *> lists;
  void put(Message *list) {
    std::unique_lock<std::mutex> held(mutex);
    changed.wait(held, [&] { return lists.size() < 16; });
    lists.push_back(list);
    changed.notify_all();
  }
  Message *take() {
    std::unique_lock<std::mutex> held(mutex);
    changed.wait(held, [&] { return !lists.empty(); });
    Message *list = lists.front();
    lists.pop_front();
    changed.notify_all();
    return list;
  }
};

Message *some(Random &random) {
  Message *list = nullptr;
  for (int count = 0; count < 256; ++count) list = new Message{list, {random.next()}};
  return list;
}

uint64_t drop(Message *list) {
  uint64_t sum = 0;
  while (list) {
    Message *next = list->next;
    sum += list->words[0];
    delete list;
    list = next;
  }
  return sum;
}

// Pairs of a producer and a consumer, one size.
void pairs(unsigned threads, uint64_t work) {
  std::vector<Box> boxes(threads / 2);
  uint64_t lists = work / 256 / (threads / 2);
  crowd(threads, [&](unsigned number) {
    Random random(number + 1);
    Box &box = boxes[number / 2];
    for (uint64_t round = 0; round < lists; ++round)
      if (number % 2) checked += drop(box.take());
      else box.put(some(random));
  });
}

// Every thread allocates for its neighbour and frees what the other neighbour allocated.
void ring(unsigned threads, uint64_t work) {
  std::vector<Box> boxes(threads);
  uint64_t rounds = work / 256 / threads;
  crowd(threads, [&](unsigned number) {
    Random random(number + 1);
    for (uint64_t round = 0; round < rounds; ++round) {
      boxes[(number + 1) % threads].put(some(random));
      checked += drop(boxes[number].take());
    }
  });
}

// Vectors of different element sizes that grow by push_back and are dropped, some kept for a while.
void vectors(unsigned threads, uint64_t work) {
  crowd(threads, [=](unsigned number) {
    Random random(number + 1);
    std::vector<std::vector<uint64_t>> kept(8);
    uint64_t sum = 0;
    for (uint64_t round = 0; round < work / threads; ++round) {
      std::vector<uint64_t> growing;
      uint64_t count = 8 << random.below(17);
      for (uint64_t value = 0; value < count; ++value) growing.push_back(value);
      sum += growing.back();
      kept[random.below(8)] = std::move(growing);
    }
    checked += sum;
  });
}

// New memory, once: WORK MiB in blocks of THREADS bytes, every byte written.
void fill(unsigned bytes, uint64_t work) {
  std::vector<char *> blocks;
  blocks.reserve((work << 20) / bytes);
  for (uint64_t count = (work << 20) / bytes; count; --count) {
    blocks.push_back(static_cast<char *>(malloc(bytes)));
    memset(blocks.back(), 1, bytes);
  }
  for (char *block : blocks) checked += block[bytes / 2];
  for (char *block : blocks) free(block);
}

// Numbers of some words each, added and multiplied, as programs for factoring do: nearly all blocks die at once.
void numbers(unsigned, uint64_t work) {
  using Number = std::vector<uint32_t>;
  auto times = [](const Number &one, uint32_t factor) {
    auto result = std::make_unique<Number>();
    uint64_t carry = 0;
    for (uint32_t word : one) carry += uint64_t(word) * factor, result->push_back(uint32_t(carry)), carry >>= 32;
    if (carry) result->push_back(uint32_t(carry));
    return result;
  };
  Random random(1);
  auto number = std::make_unique<Number>(1, 1);
  for (uint64_t round = 0; round < work; ++round) {
    number = times(*number, random.next() | 1);
    if (number->size() > 12) number = std::make_unique<Number>(1, random.next());
    checked += number->back();
  }
}

} // namespace

int main(int count, char **arguments) {
  if (count != 4) return fprintf(stderr, "usage: crowd KIND THREADS WORK\n"), 2;
  const std::map<std::string, void (*)(unsigned, uint64_t)> kinds = {
      {"trees", trees}, {"exchange", exchange}, {"pairs", pairs}, {"ring", ring},
      {"vectors", vectors}, {"fill", fill}, {"numbers", numbers}};
  auto kind = kinds.find(arguments[1]);
  if (kind == kinds.end()) return fprintf(stderr, "crowd: no kind '%s'\n", arguments[1]), 2;
  kind->second(unsigned(atoi(arguments[2])), strtoull(arguments[3], nullptr, 10));
  printf("%llu\n", static_cast<unsigned long long>(checked.load()));
}
