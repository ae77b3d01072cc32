#include "sampling/core_turns.h"

#include <stdio.h>

#include "sampling/text_file.h"

#define SAMPLES 16u            /* of a thread from one look to the next */
#define WAITED_PART 4u         /* of its CPU time: who waits for no more has its core for itself */
#define SHORT_TURN_NS 500000u  /* on the mean; shorter ones end because the thread yields */

bool core_turns_taken(core_turns *own, pid_t tid, size_t samples)
{
    char name[64], text[128];
    unsigned long long ran_ns, waited_ns, turns;
    own->samples += samples;
    if (own->asked && own->samples < SAMPLES) {
        return false;
    }
    snprintf(name, sizeof name, "/proc/self/task/%d/schedstat", (int)tid);
    if (read_text(name, text, sizeof text) == 0 || sscanf(text, "%llu %llu %llu", &ran_ns, &waited_ns, &turns) != 3) {
        return false;
    }
    bool taken = own->asked && waited_ns - own->waited_ns > (ran_ns - own->ran_ns) / WAITED_PART &&
                 ran_ns - own->ran_ns > (turns - own->turns) * SHORT_TURN_NS;
    *own = (core_turns){.ran_ns = ran_ns, .waited_ns = waited_ns, .turns = turns, .asked = true};
    return taken;
}
