#define _GNU_SOURCE
#include <pthread.h>
#include <sys/prctl.h>
#include <linux/seccomp.h>
#include <linux/filter.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <stdlib.h>
#include <string.h>
#include <stdio.h>
#include <errno.h>
static volatile int stop,nulls;
static int inst(int nr,unsigned act,unsigned fl,int bad){struct sock_filter f[]={BPF_STMT(BPF_LD|BPF_W|BPF_ABS,0),BPF_JUMP(BPF_JMP|BPF_JEQ|BPF_K,nr,0,1),BPF_STMT(BPF_RET|BPF_K,act),BPF_STMT(BPF_RET|BPF_K,SECCOMP_RET_ALLOW)};
 if(bad)f[3].code=0xff; struct sock_fprog p={4,f}; return syscall(SYS_seccomp,SECCOMP_SET_MODE_FILTER,fl,&p);}
static void*al(void*a){ if(a)inst(SYS_sysinfo,SECCOMP_RET_KILL_PROCESS,0,0); unsigned r=1;while(!stop){void*b[50];for(int i=0;i<50;i++){r=r*1103515245+12345;size_t n=(r>>8)%300000;b[i]=malloc(n);if(!b[i]){nulls++;continue;}b[i]=realloc(b[i],n/2+1);}for(int i=0;i<50;i++)free(b[i]);}return 0;}
static void*refd(void*a){for(int i=0;i<300;i++){errno=0;int r=inst(SYS_mmap,SECCOMP_RET_KILL_PROCESS,i%3==0?SECCOMP_FILTER_FLAG_TSYNC:i%3==1?0x4000:0,i%3!=0); if(r==0)puts("taken?");}return 0;}
int main(int c,char**v){int m=atoi(v[1]),NT=atoi(v[2]);pthread_t p[4],q[2];prctl(PR_SET_NO_NEW_PRIVS,1,0,0,0);
 for(long i=0;i<3;i++)pthread_create(p+i,0,al,(void*)(i==0)); usleep(50000);
 if(m==0){ for(int i=0;i<NT;i++)pthread_create(q+i,0,refd,0);for(int i=0;i<NT;i++)pthread_join(q[i],0); }
 else { int l[]={SYS_mincore,SYS_openat,SYS_getpid,SYS_mremap,SYS_getrandom,SYS_sched_getaffinity}; stop=1; for(int i=0;i<3;i++)pthread_join(p[i],0); stop=0; for(long i=0;i<3;i++)pthread_create(p+i,0,al,0);
   for(int i=0;i<6;i++){int r=inst(l[i],m==1?SECCOMP_RET_KILL_PROCESS:SECCOMP_RET_TRAP,SECCOMP_FILTER_FLAG_TSYNC,0); if(r)printf("r %d\n",r); usleep(100000);} }
 sleep(1);stop=1;for(int i=0;i<3;i++)pthread_join(p[i],0); printf("nulls while %d ",nulls); void*x=malloc(300<<20); puts(x?"ok":"NULL late");}
