// film_events.h: the rows of a film, for film.c, which writes them, and tool/film.c, which makes a page of
// them.
#ifndef PTXSIM_FILM_EVENTS_H
#define PTXSIM_FILM_EVENTS_H

// What a row of a film's "events" begins with; film.c says what follows.
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
