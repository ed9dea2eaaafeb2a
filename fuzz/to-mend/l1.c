#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <errno.h>
#include <unistd.h>
#include "vcmalloc.h"
static __thread jmp_buf jb; static int calls; static int mode; static void*keep[4000]; static int nk; static vcm_heap other,H,P;
static void lim(vcm_heap h,size_t n,void*a){ calls++;
 switch(mode){
 case 0: longjmp(jb,1);
 case 1: if(other){vcm_heap_destroy(other,0);other=0;} break;
 case 2: for(int i=0;i<nk;i++)free(keep[i]); nk=0; break;
 case 3: { void*p=vcm_heap_malloc(P,900000); void*q=vcm_heap_malloc(H,900000); if(p)free(p); if(q)free(q);} break;
 case 4: vcm_heap_destroy(h,0); break;
 case 5: vcm_heap_reset(h); break;
 case 6: pthread_exit(0);
 case 7: {pid_t p=fork(); if(!p){void*q=vcm_heap_malloc(h,700000); int r=vcm_heap_destroy(H,0); _exit(q?1:r?2:0);} int s; waitpid(p,&s,0); if(s)printf("child %x\n",s); } break;
 }}
static void*thr(void*a){ if(!setjmp(jb)){void*p=vcm_heap_malloc(H,700000); if(p)free(p);} return 0;}
int main(int c,char**v){ mode=atoi(v[1]); 
 struct vcm_heap_options o={sizeof o,0,1<<20,lim}; P=vcm_heap_new("P",&o); struct vcm_heap_options o2={sizeof o2,P,mode==3?0:900000,lim}; H=vcm_heap_new("H",&o2); struct vcm_heap_options o3={sizeof o3,P}; other=vcm_heap_new("o",&o3);
 if(mode==1) vcm_heap_malloc(other,500000); else { for(nk=0;nk<8;nk++) keep[nk]=vcm_heap_malloc(H,50000);} 
 for(int i=0;i<40;i++){pthread_t p;pthread_create(&p,0,thr,0);pthread_join(p,0);}
 printf("mode %d calls after 40 threads %d\n",mode,calls); int b=calls;
 for(int i=0;i<5;i++) thr(0); printf("main calls %d\n",calls-b);
 struct vcm_heap_stats s={sizeof s}; errno=0; int r=vcm_heap_stats(H,&s); printf("stats %d %d bytes %lu refused %lu\n",r,errno,s.bytes,s.refused); 
 r=vcm_heap_destroy(H,0); printf("destroy %d, ",r); if(other)vcm_heap_destroy(other,0); r=vcm_heap_destroy(P,0); printf("P %d\n",r);}
