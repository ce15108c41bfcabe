/* The steps of both passes once more, with scores in double. */

#define PRECISE
#include "backward.c"
#include "forward.c"
