#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <malloc.h>
#include <stdint.h>
#include <dlfcn.h>
void *mallocx(size_t,int) __attribute__((weak)); void *rallocx(void*,size_t,int) __attribute__((weak)); size_t sallocx(void*,int) __attribute__((weak)); size_t nallocx(size_t,int) __attribute__((weak));
int vcm_profile_start(size_t) __attribute__((weak)); void vcm_profile_stop(void) __attribute__((weak));
static void dirty(void){ void*v[64]; for(int i=0;i<64;i++){v[i]=malloc(300000);memset(v[i],0xAA,300000);} for(int i=0;i<64;i++)free(v[i]); }
static long stale(unsigned char*q,size_t from,size_t to){long n=0;for(size_t i=from;i<to;i++)n+=q[i]!=0;return n;}
int main(int c,char**v){
  dirty();
  /* 1: the profile stops between */
  vcm_profile_start(1);
  unsigned char*p=mallocx(1000,0x40); size_t u=sallocx(p,0);
  vcm_profile_stop();
  size_t u2=sallocx(p,0);
  unsigned char*q=rallocx(p,12000,0x40);
  printf("1: sallocx %zu, after stop %zu, rallocx(12000,ZERO) moved %d, bytes not zero from %zu: %ld\n",u,u2,q!=p,u,stale(q,u,12000));
  /* 2: profile runs all the time, interval large: sampled block that shrinks a little */
  dirty();
  vcm_profile_start(4096);
  long bad=0,samples=0; 
  for(int i=0;i<20000;i++){ unsigned char*p=mallocx(1000,0x40); int smp=((uintptr_t)p&16383)==0; size_t u=sallocx(p,0);
    unsigned char*r=rallocx(p,880,0x40); size_t u3=sallocx(r,0);
    unsigned char*q=rallocx(r,12000,0x40); if(smp)samples++; long s=stale(q,u,12000); if(s){ if(!bad)printf("2: usable %zu, after rallocx(880) %zu, then not zero: %ld\n",u,u3,s); bad++; } free(q);} 
  printf("2: %ld of 20000 blocks with stale bytes\n",bad);
  vcm_profile_stop();
  /* 3: accounting by malloc_usable_size */
  vcm_profile_start(65536);
  enum{N=20000}; static void*b[N]; long long used=0;
  for(int i=0;i<N;i++){b[i]=malloc(1003);used+=malloc_usable_size(b[i]);}
  long long before=used; vcm_profile_stop();
  for(int i=0;i<N;i++){used-=malloc_usable_size(b[i]);free(b[i]);}
  printf("3: counted %lld, after all were freed %lld\n",before,used);
}
