#include <stdlib.h>
#include <string.h>

int rounds(int count);

int main(int count, char **words)
{
    char *word = strdup(count > 1 ? words[1] : "0");
    int number = word ? atoi(word) : 0;
    free(word);
    return number ? rounds(number) : 0;
}
