#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <malloc.h>
#include <stdint.h>
void *mallocx(size_t,int); void *rallocx(void*,size_t,int); size_t sallocx(void*,int);
#ifdef JE
int mallctl(const char*,void*,size_t*,void*,size_t);
static void on(size_t lg){char f=0;mallctl("prof.active",0,0,&f,1);mallctl("prof.reset",0,0,&lg,8);f=1;mallctl("prof.active",0,0,&f,1);} 
#else
int vcm_profile_start(size_t); static void on(size_t lg){vcm_profile_start(1ul<<lg);}
#endif
static void dirty(void){ on(0); void*v[2000]; for(int i=0;i<2000;i++){v[i]=malloc(16000);memset(v[i],0xAA,16000);} for(int i=0;i<2000;i++)free(v[i]); }
static long stale(unsigned char*q,size_t from,size_t to){long n=0;for(size_t i=from;i<to;i++)n+=q[i]!=0;return n;}
int main(int c,char**v){
  long bad=0,told=0; dirty(); on(16);
  for(int i=0;i<20000;i++){ unsigned char*d=malloc(12000);memset(d,0xAA,12000);free(d);unsigned char*p=mallocx(1000,0x40); size_t u=sallocx(p,0);
    unsigned char*r=rallocx(p,880,0x40); size_t u3=sallocx(r,0);
    unsigned char*q=rallocx(r,12000,0x40); long s=stale(q,u,12000);
    if(u3>1024&&told++<8)printf("%p usable %zu, after rallocx(880) %p %zu, rallocx(12000) %p, not zero: %ld\n",p,u,r,u3,q,s); bad+=s!=0; memset(q,0xAA,12000); free(q);} 
  printf("%ld of 20000 blocks with stale bytes, profile on all the time\n",bad);
}
