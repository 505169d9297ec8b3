#include "textflag.h"

// entry is where the kernel begins the program, with its arguments on the stack.
TEXT ·entry(SB),NOSPLIT|NOFRAME,$0
	MOVQ SP, BX
	// Compiled code finds its goroutine below the thread pointer.
	LEAQ ·fakeG(SB), AX
	MOVQ AX, ·threadLocal+56(SB)
	MOVL $158, AX           // arch_prctl
	MOVL $0x1002, DI        // ARCH_SET_FS
	LEAQ ·threadLocal+64(SB), SI
	SYSCALL
	ANDQ $~15, SP
	SUBQ $16, SP
	MOVQ BX, 0(SP)
	CALL ·run(SB)
	INT  $3
