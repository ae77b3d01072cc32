#include "handles/lanes.h"

#include "handles/library.h"

lane lanes[1u << LANE_BITS];

void lane_ended(lane *l)
{
    if (l->of) {
        l->of->count = l->count;
        l->of->lane = NULL;
        l->of = NULL;
    }
}

void lanes_forget(void)
{
    for (size_t i = 0; may_only_count && i < sizeof lanes / sizeof *lanes; i++) { /* else there are none */
        lane_ended(&lanes[i]);
    }
}
