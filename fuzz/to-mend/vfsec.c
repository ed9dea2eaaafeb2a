#define _GNU_SOURCE
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <errno.h>
#include <sys/wait.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <linux/seccomp.h>
#include <linux/filter.h>
#include <linux/audit.h>
static void rss(const char*w){char b[4096];FILE*f=fopen("/proc/self/status","r");if(!f)return;while(fgets(b,sizeof b,f))if(!strncmp(b,"RssAnon",7))printf("%s %s",w,b);fclose(f);fflush(stdout);}
/* the program of the child shall not use madvise (or, mode p, mmap) */
static int filter(int nr,unsigned act){struct sock_filter f[]={BPF_STMT(BPF_LD|BPF_W|BPF_ABS,0),BPF_JUMP(BPF_JMP|BPF_JEQ|BPF_K,nr,0,1),BPF_STMT(BPF_RET|BPF_K,act),BPF_STMT(BPF_RET|BPF_K,SECCOMP_RET_ALLOW)};struct sock_fprog p={4,f};prctl(PR_SET_NO_NEW_PRIVS,1,0,0,0);return prctl(PR_SET_SECCOMP,SECCOMP_MODE_FILTER,&p);}
static void*strict(void*a){ if(prctl(PR_SET_SECCOMP,SECCOMP_MODE_STRICT))write(1,"refused\n",8); for(;;){char c; if(read(*(int*)a,&c,1)<=0)break;} syscall(SYS_exit,0); return 0;}
int main(int c,char**v){ char m=c>1?v[1][0]:'n'; int fd[2]; pipe(fd);
 if(m=='m'||m=='p'){ pid_t p=vfork(); if(!p){ int r=m=='m'?filter(SYS_madvise,SECCOMP_RET_KILL_PROCESS):filter(SYS_mmap,SECCOMP_RET_KILL_PROCESS); execl("/bin/true","true",(char*)0); _exit(r);} int st; waitpid(p,&st,0); printf("child status %x\n",st);}
 if(m=='t'){pthread_t t; pthread_create(&t,0,strict,fd); usleep(100000);}
 if(m=='r'){ printf("filter %d\n",filter(-5,SECCOMP_RET_ALLOW)); int r=prctl(PR_SET_SECCOMP,SECCOMP_MODE_STRICT); printf("strict refused: %d %s\n",r,strerror(errno)); }
 enum{N=200000};static void*b[N];int bad=0;for(int i=0;i<N;i++){b[i]=malloc(1000);if(b[i])memset(b[i],1,1000);else bad++;} printf("malloc failed %d of %d times\n",bad,N); rss("full");for(int i=0;i<N;i++)free(b[i]);
 for(int i=0;i<30;i++){usleep(100000);free(malloc(5000));void*p=malloc(300000);free(p);}
 rss("3s after free"); fflush(stdout); _exit(0);}
