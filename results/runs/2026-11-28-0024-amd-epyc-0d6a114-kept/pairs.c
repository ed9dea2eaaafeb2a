#include <stdlib.h>
#include <stdio.h>
#include <time.h>
int main(int c,char**v){ size_t n=atol(v[1]); int k=atoi(v[2]); void*p[64]; for(int i=0;i<64;i++)p[i]=malloc(n);for(int i=0;i<64;i++){free(p[i]);}
 struct timespec a,b; clock_gettime(CLOCK_MONOTONIC,&a);
 for(int i=0;i<k;i++){ void*q=malloc(n); *(volatile char*)q=1; free(q);} clock_gettime(CLOCK_MONOTONIC,&b); fprintf(stderr,"%zu: %.0f ns a pair\n",n,((b.tv_sec-a.tv_sec)*1e9+b.tv_nsec-a.tv_nsec)/k); return 0; }
