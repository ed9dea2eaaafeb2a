// A plugin that has its own version of a function that the program has too.
int version(void) { return 2; }
int version_of_plugin(void) { return version(); }
