#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <stdatomic.h>
static atomic_int go; static int N=2; static size_t SZ; static void *blocks[64];
static void*f(void*a){long i=(long)a; atomic_fetch_add(&go,1); while(atomic_load(&go)<N); blocks[i]=malloc(SZ); return 0;}
int main(int c,char**v){SZ=(size_t)atoi(v[1])<<20; if(c>2)N=atoi(v[2]); pthread_t t[64]; for(long i=0;i<N;i++)pthread_create(t+i,0,f,(void*)i); for(int i=0;i<N;i++)pthread_join(t[i],0); int n=0; for(int i=0;i<N;i++)n+=blocks[i]!=0; 
 printf("%d of %d blocks of %zu MiB\n",n,N,SZ>>20); return 0;}
