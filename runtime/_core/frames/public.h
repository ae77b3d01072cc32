/* Call paths by the public interface of the interpreter: for those whose frames have no layout here. */
#pragma once

#include <stdint.h>

/* Call path of the calling thread, which holds the interpreter's lock, in the interpreter's own words. */
uint32_t frames_public_path(void);
