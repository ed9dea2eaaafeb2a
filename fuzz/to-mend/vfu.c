#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <errno.h>
#include <dirent.h>
#include <sys/wait.h>
static void tasks(const char*w){DIR*d=opendir("/proc/self/task");struct dirent*e;printf("%s:",w);while((e=readdir(d)))if(e->d_name[0]!='.'){char p[300],b[64]="";snprintf(p,300,"/proc/self/task/%s/comm",e->d_name);FILE*f=fopen(p,"r");if(f){fgets(b,64,f);fclose(f);b[strcspn(b,"\n")]=0;}printf(" %s",b);}puts("");closedir(d);fflush(stdout);}
static void rss(const char*w){char b[4096];FILE*f=fopen("/proc/self/status","r");while(fgets(b,sizeof b,f))if(!strncmp(b,"RssAnon",7))printf("%s %s",w,b);fclose(f);fflush(stdout);}
static void*th(void*a){for(;;)pause();}
int main(int c,char**v){pthread_t t;pthread_create(&t,0,th,0);usleep(50000);tasks("before");
 if(c>1){ pid_t p=vfork(); if(!p){ int r=unshare(0x7f000000&~0x7c000000|1); _exit(r?errno:0);} int st;waitpid(p,&st,0);printf("child exit %d\n",WEXITSTATUS(st));}
 usleep(50000);tasks("after");
 enum{N=200000};static void*b[N];for(int i=0;i<N;i++){b[i]=malloc(1000);memset(b[i],1,1000);}rss("full");for(int i=0;i<N;i++)free(b[i]);
 for(int i=0;i<40;i++){usleep(100000);free(malloc(5000));void*p=malloc(300000);free(p);}
 rss("4s after free");tasks("end");return 0;}
