// strict main without malloc afterwards; SYS_exit. thread made before and joined
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/prctl.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>
#include <unistd.h>
static void*t(void*a){return 0;}
int main(int c,char**v){pthread_t p;pthread_create(&p,0,t,0);pthread_join(p,0);
 prctl(PR_SET_SECCOMP,SECCOMP_MODE_STRICT); write(1,"end\n",4); syscall(SYS_exit,7);}
