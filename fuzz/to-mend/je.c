#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <stdint.h>
int mallctl(const char*,void*,size_t*,void*,size_t);
static uint64_t g(const char*n){uint64_t v;size_t l=8;mallctl(n,&v,&l,0,0);return v;}
static void act(char f){mallctl("prof.active",0,0,&f,1);} 
int main(void){ size_t lg=14; mallctl("prof.reset",0,0,&lg,8); enum{N=20000}; static void*b[N];
 for(int how=0;how<2;how++){ act(1); uint64_t a0=g("thread.allocated"),d0=g("thread.deallocated");
 for(int i=0;i<N;i++)b[i]=malloc(1003);
 if(how==0)act(0); else mallctl("prof.reset",0,0,&lg,8);
 for(int i=0;i<N;i++)free(b[i]);
 printf("%s: allocated +%lu, deallocated +%lu\n",how?"prof.reset":"prof.active=false",g("thread.allocated")-a0,g("thread.deallocated")-d0); act(0);} }
