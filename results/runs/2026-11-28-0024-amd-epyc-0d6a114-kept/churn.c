#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <stdio.h>
#include <pthread.h>
#include <time.h>
static int T; static long K;
static void*run(void*a){ unsigned long x=88172645463325252UL+(long)a*7919; void*p[8]={0}; 
 for(long i=0;i<K;i++){ x^=x<<13;x^=x>>7;x^=x<<17; int k=x%8; free(p[k]); size_t n=(64<<10)+(x>>8)%(1<<20); p[k]=malloc(n); for(size_t o=0;o<n;o+=4096)((volatile char*)p[k])[o]=1; }
 for(int k=0;k<8;k++)free(p[k]); return 0;}
int main(int c,char**v){ T=atoi(v[1]);K=atol(v[2]); pthread_t t[256]; struct timespec a,b; clock_gettime(CLOCK_MONOTONIC,&a); for(long i=0;i<T;i++)pthread_create(&t[i],0,run,(void*)i); for(int i=0;i<T;i++)pthread_join(t[i],0); clock_gettime(CLOCK_MONOTONIC,&b); printf("%.3f us an operation\n",((b.tv_sec-a.tv_sec)*1e6+(b.tv_nsec-a.tv_nsec)/1e3)/K/T); return 0;}
