#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <pthread.h>
#include <unistd.h>
#include <time.h>
#include "vcmalloc.h"
static vcm_heap h; static volatile int go, done; static char*b[400000];
static double now(void){struct timespec t;clock_gettime(CLOCK_MONOTONIC,&t);return t.tv_sec+t.tv_nsec*1e-9;}
static void*w(void*x){ int i=0; double worst=0; while(!done){ if(!go){usleep(10);continue;} if(i==400000)break; double t=now(); char*q=realloc(b[i],4000); t=now()-t; if(t>worst)worst=t; b[i++]=q; } printf("worker: %d reallocs, longest %.1f ms\n",i,worst*1e3); return 0; }
int main(int c,char**v){ size_t spans=c>1?atol(v[1]):60000; size_t st=c>2?atol(v[2]):65536; int large=c>3;
 h=vcm_heap_new("t",0);
 /* many spans: large blocks of one unit, or small */
 for(size_t i=0;i<spans;i++){ if(large) vcm_heap_aligned(h,32768,100); else vcm_heap_malloc(h,16384); }
 for(int i=0;i<400000;i++){b[i]=vcm_heap_malloc(h,1000);memset(b[i],i,1000);} 
 pthread_attr_t a;pthread_attr_init(&a);pthread_attr_setstacksize(&a,st);pthread_t t;pthread_create(&t,&a,w,0);
 usleep(40000000); go=1; double t0=now(); int r=vcm_heap_destroy(h,VCM_HEAP_HAND_OVER); t0=now()-t0; printf("destroy %d, %.1f ms\n",r,t0*1e3); done=1; pthread_join(t,0); 
}
