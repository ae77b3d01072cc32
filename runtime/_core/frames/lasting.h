/* What of the calling thread stays mapped as long as its thread state lives: the state itself, its C stack, and the first
 * chunk of its data stack, where the frames of all but very deep stacks lie. */
#pragma once

/* Has what lasts as long as the calling thread does read without the kernel's help; the interpreter's lock is held. */
void frames_note_lasting(void);
