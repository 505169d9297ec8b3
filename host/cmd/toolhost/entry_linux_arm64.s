#include "textflag.h"

// entry is where the kernel starts the program; see entry_linux.go.
TEXT ·entry(SB),NOSPLIT|NOFRAME,$0
	MOVD $167, R8    // prctl
	MOVD $29, R0     // PR_SET_TIMERSLACK
	MOVD $500000, R1 // ns
	SVC
	B    _rt0_arm64_linux(SB)
