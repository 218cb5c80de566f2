// pages.c: the table of pages, which hold the cells of global memory and are shared by all CTAs of a launch.
#include "internal.h"

size_t race_page_bytes(unsigned shift)
{
    return sizeof(struct page) +
           page_stride(PAGE >> shift) * CELL_PARTIES * PARTY_WORDS * sizeof(uint32_t);
}

struct page *race_page_find(struct worker *worker, uint64_t number)
{
    struct global_races *g = worker->global_races;
    for (size_t i = scatter(number) % SLOTS;; i = (i + 1) % SLOTS) {
        struct page *p = __atomic_load_n(&g->pages[i], __ATOMIC_ACQUIRE);
        if (!p) {
            if (__atomic_load_n(&g->page_count, __ATOMIC_RELAXED) >= g->most_pages)
                return NULL;
            struct page *fresh = need(malloc(race_page_bytes(g->shift)));
            *fresh =
                (struct page){.number = number, .slot = &g->pages[i], .cells = PAGE >> g->shift};
            if (__atomic_compare_exchange_n(&g->pages[i], &p, fresh, false, __ATOMIC_ACQ_REL,
                                            __ATOMIC_ACQUIRE)) {
                __atomic_add_fetch(&g->page_count, 1, __ATOMIC_RELAXED);
                fresh->next = __atomic_exchange_n(&g->last_page, fresh, __ATOMIC_RELAXED);
                p = fresh;
            } else {
                free(fresh);
            }
        }
        if (p->number == number)
            return worker->pages[number % LAST_PAGES] = p;
    }
}
