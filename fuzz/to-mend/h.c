#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <pthread.h>
#include <malloc.h>
#include <unistd.h>
#include <stdatomic.h>
#include <time.h>
#include "vcmalloc.h"
/* worker w owns its blocks and reallocs them while main hands their heap over; another heap is made at once */
#define W 3
#define N 8
static char*b[W][N]; static atomic_int go[W*16], stop; static atomic_long nulls;
static void*w(void*x){ long id=(long)x; int seen=0; while(!stop){ int g; while((g=atomic_load(&go[id*16]))==seen&&!stop); if(stop)break; seen=g; for(int k=0;k<N;k++){ char*q=realloc(b[id][k],20000); if(q){b[id][k]=q; memset(q,id+1,20000);} else nulls++; } atomic_store(&go[id*16],seen=g+1);} return 0;}
int main(int c,char**v){ pthread_t t[W]; for(long i=0;i<W;i++)pthread_create(t+i,0,w,(void*)i); time_t end=time(0)+(c>1?atoi(v[1]):20); long n=0,bad=0;
 while(time(0)<end&&!bad){ for(int k=0;k<50;k++){ vcm_heap h=vcm_heap_new("t",0); for(int i=0;i<W;i++)for(int j=0;j<N;j++)b[i][j]=vcm_heap_malloc(h,100);
   for(int i=0;i<W;i++) atomic_fetch_add(&go[i*16],1);
   for(volatile int s=0;s<(n*37)%4000;s++);
   vcm_heap_destroy(h,VCM_HEAP_HAND_OVER); vcm_heap h2=vcm_heap_new("other",0);
   for(int i=0;i<W;i++) while(atomic_load(&go[i*16])&1);
   for(int i=0;i<W;i++)for(int j=0;j<N;j++){ vcm_heap o=vcm_heap_of(b[i][j]); if(o==h2){ bad++; printf("after %ld rounds: realloc moved the block into an unrelated heap (%lx, was %lx)\n",n,(long)h2,(long)h);} else free(b[i][j]); }
   vcm_heap_destroy(h2,0); n++; } }
 stop=1; for(int i=0;i<W;i++)pthread_join(t[i],0); printf("%ld rounds, %ld in the wrong heap, realloc returned null %ld times\n",n,bad,nulls); }
