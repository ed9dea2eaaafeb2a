#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <malloc.h>
#include "vcmalloc.h"
int main(void){
  vcm_profile_start(1);
  vcm_heap h=vcm_heap_new("t",0); int bad=0; size_t lost=0;
  enum{N=50}; char*b[N]; size_t u[N];
  for(int i=0;i<N;i++){ b[i]=vcm_heap_malloc(h,1003); u[i]=malloc_usable_size(b[i]); memset(b[i],'x',u[i]); }
  printf("destroy %d\n",vcm_heap_destroy(h,VCM_HEAP_HAND_OVER));
  for(int i=0;i<N;i++){ size_t now=malloc_usable_size(b[i]); size_t want=u[i]; char*q=realloc(b[i],want+20000); size_t l=0; for(size_t k=0;k<want;k++) l+=q[k]!='x'; if(l&&!bad++) printf("usable was %zu, after hand over %zu; realloc to %zu lost %zu bytes\n",u[i],now,want+20000,l); lost+=l; free(q);}
  printf("%d blocks, %zu bytes lost\n",bad,lost);
}
