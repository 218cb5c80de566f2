// clocks.c: what a program that is timed batch by batch reports about the GPU's clock.
#include "lab.h"

void add_clock(struct clock_span *span, json_t *answer)
{
    double low = number_at(answer, "clock.low_mhz"), high = number_at(answer, "clock.high_mhz");
    double watts = number_at(answer, "clock.watts");
    struct clock_span said = {1, low, high, watts > 0 ? watts : 0};
    if (low > 0 && high >= low)
        clock_span_join(span, &said);
}

void put_clock(json_t *object, const struct clock_span *span)
{
    if (span->readings > 0)
        json_object_set_new(object, "clock",
                            json_pack("{s:i, s:f, s:f, s:f, s:b}", "readings", span->readings,
                                      "low_mhz", span->low_mhz, "high_mhz", span->high_mhz, "watts",
                                      span->watts, "moved", clock_moved(span)));
}
