#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <pthread.h>
#include <unistd.h>
#include <time.h>
#include "vcmalloc.h"
static vcm_heap h; static volatile int go; static char*b;
static double now(void){struct timespec t;clock_gettime(CLOCK_MONOTONIC,&t);return t.tv_sec+t.tv_nsec*1e-9;}
static void*w(void*x){ while(!go); usleep(2000); double t=now(); char*q=realloc(b,30<<20); t=now()-t; printf("worker: realloc %s, %.1f ms\n",q?"ok":"null",t*1e3); fflush(stdout); return 0; }
int main(int c,char**v){ size_t spans=c>1?atol(v[1]):60000; size_t st=c>2?atol(v[2]):65536;
 h=vcm_heap_new("t",0); b=vcm_heap_malloc(h,300000); memset(b,1,300000);
 for(size_t i=0;i<spans;i++) if(!vcm_heap_aligned(h,32768,100)){puts("no memory");return 2;}
 pthread_attr_t a;pthread_attr_init(&a);pthread_attr_setstacksize(&a,st);pthread_t t;pthread_create(&t,&a,w,0);
 usleep(200000); double t0=now(); go=1; int r=vcm_heap_destroy(h,VCM_HEAP_HAND_OVER); t0=now()-t0; printf("destroy %d, %.1f ms\n",r,t0*1e3); pthread_join(t,0); 
}
