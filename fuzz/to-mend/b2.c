#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <malloc.h>
#include <stdint.h>
void *mallocx(size_t,int) __attribute__((weak)); void *rallocx(void*,size_t,int) __attribute__((weak)); size_t sallocx(void*,int) __attribute__((weak));
int vcm_profile_start(size_t) __attribute__((weak)); void vcm_profile_stop(void) __attribute__((weak));
static void dirty(void){ vcm_profile_start(1); void*v[256]; for(int i=0;i<256;i++){v[i]=malloc(16000);memset(v[i],0xAA,16000);} for(int i=0;i<256;i++)free(v[i]); vcm_profile_stop(); }
static long stale(unsigned char*q,size_t from,size_t to){long n=0;for(size_t i=from;i<to;i++)n+=q[i]!=0;return n;}
int main(int c,char**v){
  dirty();
  long bad=0;
  for(int i=0;i<10;i++){
  vcm_profile_start(1);
  unsigned char*p=mallocx(1000,0x40); size_t u=sallocx(p,0);
  vcm_profile_stop();
  size_t u2=sallocx(p,0);
  unsigned char*q=rallocx(p,12000,0x40);
  printf("1: %p sallocx %zu, after stop %zu, rallocx(12000,ZERO) moved %d, bytes not zero from %zu: %ld\n",p,u,u2,q!=p,u,stale(q,u,12000));
  }
  dirty();
  vcm_profile_start(100000);
  for(int i=0;i<20000;i++){ unsigned char*p=mallocx(1000,0x40); size_t u=sallocx(p,0);
    unsigned char*r=rallocx(p,880,0x40); size_t u3=sallocx(r,0);
    unsigned char*q=rallocx(r,12000,0x40); long s=stale(q,u,12000); if(s){ if(!bad)printf("2: usable %zu, after rallocx(880) %zu, then not zero: %ld\n",u,u3,s); bad++; } free(q);} 
  printf("2: %ld of 20000 blocks with stale bytes\n",bad);
  vcm_profile_stop();
}
