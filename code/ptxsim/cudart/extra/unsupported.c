// unsupported.c: every function of the real library that the simulator lacks: a call is reported
// with the function's name. The prototypes need not be right, since arguments are not used.
int report_unsupported(const char *name); // defined in error.c

#pragma GCC visibility push(default)
#define UNSUPPORTED(name)                                                                          \
    int name(void);                                                                                \
    int name(void)                                                                                 \
    {                                                                                              \
        return report_unsupported(#name);                                                          \
    }
#include "unsupported.def"
