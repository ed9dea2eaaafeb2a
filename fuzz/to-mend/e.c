#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <time.h>
#include "vcmalloc.h"
static long changed[8];static int which[8];
static void*w(void*x){ long id=(long)x; time_t end=time(0)+6; while(time(0)<end){ for(int k=0;k<200;k++){ void*p=malloc(1003); errno=0; malloc_usable_size(p); if(errno){changed[id]++;which[id]=errno;} free(p);} } return 0; }
int main(){ vcm_profile_start(1); pthread_t t[6]; for(long i=0;i<6;i++)pthread_create(t+i,0,w,(void*)i); long s=0;int e=0; for(int i=0;i<6;i++){pthread_join(t[i],0);s+=changed[i];if(which[i])e=which[i];} printf("errno changed by malloc_usable_size: %ld times, %d\n",s,e);
 void*p=0; for(int i=0;i<40;i++){ void*q; posix_memalign(&q,4096,100); if(malloc_usable_size(q)!=4096){printf("posix_memalign(4096,100): usable %zu\n",malloc_usable_size(q));break;} } 
}
