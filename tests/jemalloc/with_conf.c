// The same for a program that brings its own options.
#define WITH_CONF
#include "options.c"
