// unsupported.c: every function of the real library that the simulator does not have: a program
// that calls one is told its name. The prototypes do not matter, since arguments are not looked at.
int report_unsupported(const char *name); // error.c

#pragma GCC visibility push(default)
#define UNSUPPORTED(name)                                                                          \
    int name(void);                                                                                \
    int name(void)                                                                                 \
    {                                                                                              \
        return report_unsupported(#name);                                                          \
    }
#include "unsupported.def"
