// film_events.h: the kinds of a film's rows, for film.c, which writes them, and tool/film.c, which
// makes a page from them.
#ifndef PTXSIM_FILM_EVENTS_H
#define PTXSIM_FILM_EVENTS_H

// The first number of a row of a film's "events"; film.c says what follows.
enum film_event {
    EVENT_BLOCK,
    EVENT_LANES,
    EVENT_COUNTS,
    EVENT_SHARED,
    EVENT_GLOBAL,
    EVENT_ARRIVE,
    EVENT_RELEASE,
    EVENT_MBARRIER,
    EVENT_ASK,
    EVENT_GROUP,
    EVENT_BULK,
    EVENT_PRODUCT,
    EVENT_FAULT,
    EVENT_VALUE
};

#endif
