// heap.h: what malloc and free in device code take from: one allocation of the device's memory, made
// when the first kernel that calls them is decoded. Each block is checked as if it were an
// allocation of its own. Safe from several host threads.
#ifndef PTXSIM_HEAP_H
#define PTXSIM_HEAP_H

#include "base.h"

// The bytes that may be out at a time (cudaLimitMallocHeapSize); false once there is a heap, or when
// the device has too little memory for one.
bool heap_limit(size_t bytes);
void heap_prepare(void); // makes the heap, unless there is one
// A block, 16-byte aligned, filled with 0xff; 0 when the heap is exhausted, or for no bytes.
uint64_t heap_take(uint64_t bytes);
bool heap_give(uint64_t address); // false: not the start of a block
// Whether the heap holds an address; *block is then the live block around all of its `bytes`, as an
// allocation, or has live false.
bool heap_find(uint64_t address, uint64_t bytes, struct allocation *block);

#endif
