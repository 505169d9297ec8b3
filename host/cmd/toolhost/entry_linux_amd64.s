#include "textflag.h"

// entry is where the kernel starts the program; see entry_linux.go.
TEXT ·entry(SB),NOSPLIT|NOFRAME,$0
	MOVL $157, AX    // prctl
	MOVL $29, DI     // PR_SET_TIMERSLACK
	MOVL $500000, SI // ns
	SYSCALL
	JMP  _rt0_amd64_linux(SB)
