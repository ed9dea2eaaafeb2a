// random operations on blocks under a profile that starts and stops in another thread; all usable bytes are checked; usable must be constant
#include "vcmalloc.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <pthread.h>
#include <unistd.h>
#include <malloc.h>
#include <time.h>
#include <sys/wait.h>
void*rallocx(void*,size_t,int); void*mallocx(size_t,int); size_t xallocx(void*,size_t,size_t,int); size_t nallocx(size_t,int); void sdallocx(void*,size_t,int);
void _ZdlPvmSt11align_val_t(void*,size_t,size_t); void*_ZnwmSt11align_val_t(size_t,size_t);
static volatile int stop; static int guard;
struct B{char hist[4000]; unsigned char*p; size_t u,asked; int al; unsigned char seed; int cxx;};
static unsigned rnd(unsigned long*s){ *s=*s*6364136223846793005ul+1442695040888963407ul; return *s>>33; }
static size_t size(unsigned long*s){ static size_t e[]={1,16,100,1003,16384,16385,24<<10,(24<<10)+1,(24<<10)-1,256<<10,(256<<10)+1,(256<<10)-1,32768,32769,28672,28673,229376,229377,300000,512<<10,1<<20,49152,65536,1024,1025,2048,4096,8192,8193};
 if(rnd(s)&1) return e[rnd(s)%(sizeof e/sizeof*e)]; unsigned k=rnd(s)%4; return 1+rnd(s)%(k==0?1000:k==1?20000:k==2?280000:700000); }
static void fl(struct B*b){ for(size_t i=0;i<b->u;i++)b->p[i]=(unsigned char)(b->seed+i*7+(i>>8)); }
static size_t ck(struct B*b,size_t n){ for(size_t i=0;i<n;i++)if(b->p[i]!=(unsigned char)(b->seed+i*7+(i>>8)))return i+1; return 0; }
#define DIE(...) do{printf(__VA_ARGS__);fflush(stdout);abort();}while(0)
static int dr(void*p){struct vcm_heap_stats s={.size=sizeof s}; vcm_heap h=vcm_heap_of(p); return !vcm_heap_stats(h,&s)&&s.draining;}
static __thread struct B*last;
#include <signal.h>
static void ab(int s){char t[5000]; struct B*x=last; int n=snprintf(t,5000,"cxx %d asked %zu al %d u %zu now %zu: %s\n",x->cxx,x->asked,x->al,x->u,malloc_usable_size(x->p),x->hist); write(1,t,n);_exit(1);}
static void*work(void*a){ unsigned long s=(long)a*77777+time(0); enum{N=40}; static __thread struct B b[N]; long ops=0; vcm_heap heaps[3]={0};
 while(!stop){ struct B*x=&b[rnd(&s)%N]; ops++;
  if(!x->p){ x->asked=size(&s); x->al=4; x->cxx=0; int z=0; size_t exp=0;
    switch(rnd(&s)%7){ case 0:x->p=malloc(x->asked);break; case 1:x->p=calloc(1,x->asked);z=1;break; case 2:{x->al=5+rnd(&s)%12; x->p=aligned_alloc(1ul<<x->al,x->asked);}break;
     case 3:x->al=5+rnd(&s)%12;x->p=mallocx(x->asked,x->al|0x40);z=2;break; case 4:{vcm_heap*h=&heaps[rnd(&s)%3]; if(!*h)*h=vcm_heap_new("m",0); x->p=vcm_heap_malloc(*h,x->asked);}break; case 5:{vcm_heap*h=&heaps[rnd(&s)%3]; if(!*h)*h=vcm_heap_new("m",0); x->al=5+rnd(&s)%12; x->p=vcm_heap_aligned(*h,1ul<<x->al,x->asked);}break; default:x->al=5+rnd(&s)%12;x->p=_ZnwmSt11align_val_t(x->asked,1ul<<x->al);x->cxx=1; }
    if(!x->p)DIE("null %zu\n",x->asked); if((long)x->p&((1ul<<x->al)-1))DIE("align\n"); x->u=malloc_usable_size(x->p); if(x->u<x->asked)DIE("short\n");
    exp=nallocx(x->asked,x->al); if(!guard&&exp<=262144&&x->u!=exp)DIE("usable %zu of %zu al %d not %zu\n",x->u,x->asked,x->al,exp);
    if(z)for(size_t i=0;i<(z==2?x->u:x->asked);i++)if(x->p[i])DIE("not zero %zu of %zu\n",i,x->asked);
    x->seed=rnd(&s); fl(x); sprintf(x->hist,"new %zu al %d u %zu heap %lx %p;",x->asked,x->al,x->u,(long)vcm_heap_of(x->p),x->p); continue; }
  size_t u=malloc_usable_size(x->p); if(u!=x->u)DIE("usable changed %zu %zu\n",x->u,u); size_t k=ck(x,u); if(k)DIE("contents at %zu of %zu\n",k,u);
  switch(rnd(&s)%8){ case 0: case 1: if(nallocx(x->asked,x->al)>x->u&&u<=262144){printf("FREE cxx %d asked %zu al %d u %zu heap %lx: %s\n",x->cxx,x->asked,x->al,u,(long)vcm_heap_of(x->p),x->hist);fflush(stdout);} last=x; if(x->cxx)_ZdlPvmSt11align_val_t(x->p,x->asked,1ul<<x->al); else if(rnd(&s)&1)free(x->p); else sdallocx(x->p,rnd(&s)&1?x->asked:x->u,x->al==4?0:x->al); x->p=0; break;
   case 2: case 3: {if(x->cxx)break; size_t n=size(&s); unsigned char*q=realloc(x->p,n); if(!q){if(dr(x->p))break;DIE("realloc null\n");} size_t nu=malloc_usable_size(q); if(nu<n)DIE("short after realloc\n"); if(q!=x->p)x->al=4; x->p=q; size_t m=n<u?n:u; if(k=ck(x,m))DIE("realloc %zu->%zu lost at %zu\n",u,n,k); x->u=nu;x->asked=n; x->al=4; fl(x); if(strlen(x->hist)<3900)sprintf(x->hist+strlen(x->hist)," realloc %zu u %zu heap %lx %p;",n,nu,(long)vcm_heap_of(x->p),x->p);}break;
   case 4: {if(x->cxx)break; size_t n=size(&s); int z=rnd(&s)&1; int al=5+rnd(&s)%12; unsigned char*q=rallocx(x->p,n,al|(z?0x40:0)); if(!q){if(dr(x->p))break;DIE("rallocx null\n");} if((long)q&((1ul<<al)-1))DIE("ralign\n"); size_t nu=malloc_usable_size(q); x->p=q; size_t m=n<u?n:u; if(k=ck(x,m))DIE("rallocx lost %zu\n",k); if(z)for(size_t i=u;i<nu;i++)if(q[i])DIE("rallocx not zero at %zu: %zu -> %zu (asked %zu)\n",i,u,nu,n); x->u=nu;x->asked=n;x->al=al; fl(x);if(strlen(x->hist)<3900)sprintf(x->hist+strlen(x->hist)," rallocx %zu al %d u %zu heap %lx %p;",n,al,nu,(long)vcm_heap_of(x->p),x->p);}break;
   case 5: {if(x->cxx)break; size_t n=size(&s),e=rnd(&s)&1?size(&s):0; int z=rnd(&s)&1; size_t r=xallocx(x->p,n,e,x->al|(z?0x40:0)); size_t nu=malloc_usable_size(x->p); if(r!=nu)DIE("xallocx tells %zu not %zu\n",r,nu); size_t m=nu<u?nu:u; if(k=ck(x,m))DIE("xallocx lost\n"); if(z&&nu>u)for(size_t i=u;i<nu;i++)if(x->p[i])DIE("xallocx not zero %zu: %zu->%zu\n",i,u,nu); x->u=nu; if(nu!=u)x->asked=n<nu?n:nu; if(x->asked>nu)x->asked=nu; fl(x);if(strlen(x->hist)<3900)sprintf(x->hist+strlen(x->hist)," xallocx %zu+%zu al %d r %zu;",n,e,x->al,r);}break;
   case 6: if(!(rnd(&s)%50)&&heaps[0]){ int i=rnd(&s)%3; if(heaps[i]){ if(vcm_heap_destroy(heaps[i],rnd(&s)&1?VCM_HEAP_HAND_OVER:VCM_HEAP_DRAIN))DIE("destroy\n"); heaps[i]=0;} } break;
  } }
 for(int i=0;i<N;i++)if(b[i].p){ if(malloc_usable_size(b[i].p)!=b[i].u||ck(&b[i],b[i].u))DIE("at end\n"); free(b[i].p);} return (void*)ops; }
static void*prof(void*a){ unsigned long s=5; while(!stop){ unsigned k=rnd(&s)%3; vcm_profile_start(k==0?1:k==1?2000:100000); usleep(rnd(&s)%5000); vcm_profile_stop(); usleep(rnd(&s)%3000);} return 0; }
int main(int c,char**v){signal(SIGABRT,ab); int T=atoi(v[1]),sec=atoi(v[2]); guard=c>3&&atoi(v[3]); int forks=c>4?atoi(v[4]):0; pthread_t t[16],p; for(long i=0;i<T;i++)pthread_create(t+i,0,work,(void*)i); pthread_create(&p,0,prof,0);
 for(int i=0;i<sec*10;i++){ usleep(100000); if(forks){ pid_t q=fork(); if(!q){ alarm(10); stop=0; pthread_t z,y; pthread_create(&y,0,prof,0); pthread_create(&z,0,work,(void*)(long)(100+i)); usleep(150000); stop=1; pthread_join(z,0); pthread_join(y,0); _exit(0);} int st; waitpid(q,&st,0); if(st)printf("child %x\n",st);} }
 stop=1; long all=0; for(int i=0;i<T;i++){void*r;pthread_join(t[i],&r);all+=(long)r;} pthread_join(p,0); printf("ok %ld ops\n",all);}
