/* Two symbols that libstdc++.a of a current compiler takes from glibc, and that an old glibc (scripts/old-glibc.sh) lacks. Linked into the
 * packaged program only. Not here: anything that Loligo itself calls. */
#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

/* glibc 2.32. Zero: there may be several threads, so reference counts always change atomically. */
char __libc_single_threaded = 0;

/* glibc 2.36, for std::random_device. The kernel gives 4 bytes whole; it fails only where the system call is forbidden. */
unsigned int arc4random(void)
{
    unsigned int word;
    while (getrandom(&word, sizeof word, 0) != (ssize_t)sizeof word)
        if (errno != EINTR)
            abort();
    return word;
}
