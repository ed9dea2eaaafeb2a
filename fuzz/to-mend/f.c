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
static _Atomic(char*) pub; static _Atomic long busy[W*16]; static atomic_int stop;
static void*w(void*x){ long id=(long)x; while(!stop){ atomic_store(&busy[id*16],1); char*p=atomic_load(&pub); if(p) for(int k=0;k<100&&atomic_load(&pub)==p;k++) if(malloc_usable_size(p)<100) abort(); atomic_store(&busy[id*16],0);} return 0;}
int main(int c,char**v){ pthread_t t[W]; for(long i=0;i<W;i++)pthread_create(t+i,0,w,(void*)i); time_t end=time(0)+(c>1?atoi(v[1]):20); long n=0;
 vcm_heap par=vcm_heap_new("p",0);
 while(time(0)<end){ for(int k=0;k<50;k++){ struct vcm_heap_options o={sizeof o,(n&1)?par:0,0,0,0}; vcm_heap h=vcm_heap_new("t",&o); char*p=vcm_heap_malloc(h,100); atomic_store(&pub,p); if(n%4==0)usleep(0); else for(volatile int s=0;s<200;s++); vcm_heap_destroy(h,VCM_HEAP_HAND_OVER); for(volatile int s=0;s<300;s++); atomic_store(&pub,0); for(int i=0;i<W;i++) while(atomic_load(&busy[i*16])) ; free(p); n++; } }
 stop=1; printf("%ld heaps\n",n); }
