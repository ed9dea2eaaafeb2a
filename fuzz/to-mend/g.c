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
#define W 3
static _Atomic(char*) pub; static _Atomic vcm_heap old; static _Atomic long busy[W*16]; static atomic_int stop; static atomic_long wrong; static _Atomic vcm_heap saw, was;
static void*w(void*x){ long id=(long)x; while(!stop){ atomic_store(&busy[id*16],1); char*p=atomic_load(&pub); if(p) { vcm_heap o=old; for(int k=0;k<200&&atomic_load(&pub)==p;k++){ vcm_heap g=vcm_heap_of(p); if(g!=o&&g!=VCM_HEAP_PROCESS){wrong++;saw=g;was=o;} } } atomic_store(&busy[id*16],0);} return 0;}
int main(int c,char**v){ pthread_t t[W]; for(long i=0;i<W;i++)pthread_create(t+i,0,w,(void*)i); time_t end=time(0)+(c>1?atoi(v[1]):20); long n=0;
 while(time(0)<end){ for(int k=0;k<50;k++){ vcm_heap h=vcm_heap_new("t",0); char*p=vcm_heap_malloc(h,100); old=h; atomic_store(&pub,p); for(volatile int s=0;s<300;s++); vcm_heap_destroy(h,VCM_HEAP_HAND_OVER); vcm_heap h2=vcm_heap_new("other",0); for(volatile int s=0;s<300;s++); atomic_store(&pub,0); for(int i=0;i<W;i++) while(atomic_load(&busy[i*16])) ; free(p); vcm_heap_destroy(h2,0); n++; } }
 stop=1; printf("%ld heaps; vcm_heap_of told another heap than the block's: %ld times (saw %lx, block was of %lx)\n",n,wrong,(long)saw,(long)was); }
