// The leak checker of a program that nobody started with HEAPCHECK: inactive, and in nobody's way.
#include "expect.h"
#include <gperftools/heap-checker.h>

int main() {
    EXPECT(!HeapLeakChecker::IsActive(), "inactive");
    HeapLeakChecker checker("here");
    int *kept = HeapLeakChecker::IgnoreObject(new int);
    {
        HeapLeakChecker::Disabler disabled;
        delete new int;
    }
    HeapLeakChecker::UnIgnoreObject(kept);
    delete kept;
    EXPECT(checker.NoLeaks(), "nothing is found");
    EXPECT(HeapLeakChecker::NoGlobalLeaks(), "nothing is found at the end");
    HeapLeakChecker::CancelGlobalCheck();
}
