/* Launchers of MPI that start ranks on other hosts, which may not have what is preloaded here. */
#ifndef SCALANA_HOSTS_H
#define SCALANA_HOSTS_H

/* The loader of programs complains on standard error about what it is to preload and does not find, in every process. So
 * where this process is such a launcher, it starts again in its place, with words and an environment by which a shell on
 * each rank's host looks first. Does nothing in other programs, and where the words say themselves what is preloaded.
 *
 * `words` are those of the process, and end with NULL. To be called before the program begins. */
void hosts_begin(int count, char *const *words);

#endif
