// heap.h: the heap for malloc and free in device code: one allocation of the device's memory, made
// when the first kernel that calls them is decoded. Each block is checked as if it were an
// allocation of its own. Safe from several host threads.
#ifndef PTXSIM_HEAP_H
#define PTXSIM_HEAP_H

#include "base.h"

// Sets the heap's limit in bytes (cudaLimitMallocHeapSize); false if there is a heap already, or if
// the device has too little memory.
bool heap_limit(size_t bytes);
void heap_prepare(void); // makes the heap, unless there is one
// A block, 16-byte aligned, filled with 0xff; 0 when the heap is exhausted, or if `bytes` is 0.
uint64_t heap_take(uint64_t bytes);
bool heap_give(uint64_t address); // false: not the beginning of a block
// Whether an address is in the heap. If so, *block describes as an allocation the live block that
// contains all `bytes` there; if no live block does, block->live is false.
bool heap_find(uint64_t address, uint64_t bytes, struct allocation *block);

#endif
