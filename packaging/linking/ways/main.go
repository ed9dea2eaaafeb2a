package main

// #include <stdlib.h>
// int rounds(int count);
import "C"

import (
	"fmt"
	"os"
	"strconv"
	"unsafe"
)

func main() {
	text := C.CString("a block of C's heap")
	if C.GoString(text) != "a block of C's heap" {
		fmt.Println("contents were not kept")
		os.Exit(1)
	}
	C.free(unsafe.Pointer(text))
	count := 0
	if len(os.Args) > 1 {
		count, _ = strconv.Atoi(os.Args[1])
	}
	if count > 0 {
		os.Exit(int(C.rounds(C.int(count))))
	}
}
