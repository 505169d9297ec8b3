#ifndef PLAIN_H
#define PLAIN_H
typedef struct plain plain;
int plain_call(plain *p, int class);
#endif
