// pages.c: the table of pages, which hold the cells of global memory and are shared by all CTAs of a launch.
#include "internal.h"

// Pages are allocated in chunks. The next launch uses them again, unless they are more than KEPT bytes.
enum { CHUNK = 4 << 20, KEPT = 64 << 20 };
struct page_chunk {
    struct page_chunk *next;
    _Alignas(64) unsigned char pages[];
};

size_t race_page_bytes(unsigned shift)
{
    size_t bytes = sizeof(struct page) +
                   page_stride(PAGE >> shift) * CELL_PARTIES * PARTY_WORDS * sizeof(uint32_t);
    return (bytes + 63) / 64 * 64;
}

// Allocates a chunk, and adds its pages to the free ones.
static void make_chunk(struct global_races *g)
{
    struct page_chunk *chunk = need(malloc(CHUNK));
    size_t bytes = race_page_bytes(g->shift);
    chunk->next = g->chunks;
    g->chunks = chunk;
    for (size_t i = (CHUNK - sizeof *chunk) / bytes; i-- > 0;) {
        struct page *page = (struct page *)(chunk->pages + i * bytes);
        page->next = g->free_pages;
        g->free_pages = page;
    }
}

static struct page *take_page(struct global_races *g)
{
    lock_on(&g->free_lock);
    if (!g->free_pages)
        make_chunk(g);
    struct page *page = g->free_pages;
    g->free_pages = page->next;
    lock_off(&g->free_lock);
    return page;
}

static void give_page(struct global_races *g, struct page *page)
{
    lock_on(&g->free_lock);
    page->next = g->free_pages;
    g->free_pages = page;
    lock_off(&g->free_lock);
}

void race_pages_free(struct global_races *g)
{
    for (struct page_chunk *chunk = g->chunks, *next; chunk; chunk = next) {
        next = chunk->next;
        free(chunk);
    }
    g->chunks = NULL;
    g->free_pages = NULL;
}

void race_pages_start(struct global_races *g, unsigned shift)
{
    if (g->shift != shift)
        race_pages_free(g);
    g->shift = shift;
}

void race_pages_forget(struct global_races *g)
{
    size_t bytes = g->page_count * race_page_bytes(g->shift);
    for (struct page *p = g->last_page, *next; p; p = next) {
        next = p->next;
        *p->slot = NULL;
        crowd_free(&p->crowd);
        give_page(g, p);
    }
    g->last_page = NULL;
    g->page_count = 0;
    if (bytes > KEPT)
        race_pages_free(g);
}

struct page *race_page_find(struct worker *worker, uint64_t number)
{
    struct global_races *g = worker->global_races;
    for (size_t i = scatter(number) % SLOTS;; i = (i + 1) % SLOTS) {
        struct page *p = __atomic_load_n(&g->pages[i], __ATOMIC_ACQUIRE);
        if (!p) {
            if (__atomic_load_n(&g->page_count, __ATOMIC_RELAXED) >= g->most_pages)
                return NULL;
            struct page *fresh = take_page(g);
            *fresh =
                (struct page){.number = number, .slot = &g->pages[i], .cells = PAGE >> g->shift};
            if (__atomic_compare_exchange_n(&g->pages[i], &p, fresh, false, __ATOMIC_ACQ_REL,
                                            __ATOMIC_ACQUIRE)) {
                __atomic_add_fetch(&g->page_count, 1, __ATOMIC_RELAXED);
                fresh->next = __atomic_exchange_n(&g->last_page, fresh, __ATOMIC_RELAXED);
                p = fresh;
            } else {
                give_page(g, fresh);
            }
        }
        if (p->number == number)
            return worker->pages[number % LAST_PAGES] = p;
    }
}
