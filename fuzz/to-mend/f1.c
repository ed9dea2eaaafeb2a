// vfork child -> filter kills getpid -> raw/_Fork/fork child
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/prctl.h>
#include <linux/seccomp.h>
#include <linux/filter.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <stdlib.h>
#include <stdio.h>
static int inst(int nr,unsigned act){struct sock_filter f[]={BPF_STMT(BPF_LD|BPF_W|BPF_ABS,0),BPF_JUMP(BPF_JMP|BPF_JEQ|BPF_K,nr,0,1),BPF_STMT(BPF_RET|BPF_K,act),BPF_STMT(BPF_RET|BPF_K,SECCOMP_RET_ALLOW)};
 struct sock_fprog p={4,f};prctl(PR_SET_NO_NEW_PRIVS,1,0,0,0);return prctl(PR_SET_SECCOMP,SECCOMP_MODE_FILTER,&p);}
static void*t(void*a){free(malloc(9));return 0;}
int main(int c,char**v){ int m=atoi(v[1]),st; free(malloc(99)); if(m&4){pthread_t p;pthread_create(&p,0,t,0);pthread_join(p,0);}
 if(m&8){ if(inst(SYS_getpid,SECCOMP_RET_KILL_PROCESS))return 9; pid_t q=(m&1)?syscall(SYS_clone,SIGCHLD,0,0,0,0):fork(); if(!q){for(int i=0;i<9999;i++)free(malloc(i*9));_exit(3);} wait4(q,&st,0,0); printf("st %x\n",st);return 0;}
 pid_t p=vfork(); if(!p){ if(inst(SYS_getpid,SECCOMP_RET_KILL_PROCESS))_exit(9);
  pid_t q=(m&1)?syscall(SYS_clone,17,0,0,0,0):fork(); if(!q){ for(int i=0;i<9999;i++)free(malloc(i*9));_exit(3);} wait4(q,&st,0,0); _exit(st&127?st&127:st>>8);}
 wait4(p,&st,0,0); printf("st %x\n",st); return 0;}
