#include "textflag.h"

// entry is where the kernel begins the program, with its arguments on the stack.
TEXT ·entry(SB),NOSPLIT|NOFRAME,$0
	MOVD RSP, R0
	MOVD $·fakeG(SB), g
	SUB  $32, RSP
	MOVD R0, 8(RSP)
	CALL ·run(SB)
	BRK
