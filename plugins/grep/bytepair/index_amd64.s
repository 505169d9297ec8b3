#include "textflag.h"

// func index(buf []byte, distance int, first, second, firstOr, secondOr byte) int
TEXT ·index(SB), NOSPLIT, $0-48
	MOVQ buf_base+0(FP), SI
	MOVQ buf_len+8(FP), CX
	MOVQ distance+24(FP), DX
	VPBROADCASTB first+32(FP), Y0
	VPBROADCASTB second+33(FP), Y1
	VPBROADCASTB firstOr+34(FP), Y7
	VPBROADCASTB secondOr+35(FP), Y8
	SUBQ DX, CX          // the places
	LEAQ (SI)(CX*1), R9  // behind the last
	LEAQ -32(R9), R8     // the last block of them
	MOVQ SI, DI

	// Two blocks at once, as long as there are two.
	LEAQ -32(R8), R10
two:
	CMPQ DI, R10
	JHI  one
	VPOR (DI), Y7, Y2
	VPCMPEQB Y2, Y0, Y2
	VPOR (DI)(DX*1), Y8, Y3
	VPCMPEQB Y3, Y1, Y3
	VPOR 32(DI), Y7, Y4
	VPCMPEQB Y4, Y0, Y4
	VPOR 32(DI)(DX*1), Y8, Y5
	VPCMPEQB Y5, Y1, Y5
	VPAND Y2, Y3, Y2
	VPAND Y4, Y5, Y4
	VPOR Y2, Y4, Y6
	VPTEST Y6, Y6
	JNZ  either
	ADDQ $64, DI
	JMP  two
either:
	VPMOVMSKB Y2, AX
	TESTL AX, AX
	JNZ  found
	VPMOVMSKB Y4, AX
	ADDQ $32, DI
	JMP  found

one:
	CMPQ DI, R8
	JHI  last
block:
	VPOR (DI), Y7, Y2
	VPCMPEQB Y2, Y0, Y2
	VPOR (DI)(DX*1), Y8, Y3
	VPCMPEQB Y3, Y1, Y3
	VPAND Y2, Y3, Y2
	VPMOVMSKB Y2, AX
	TESTL AX, AX
	JNZ  found
	ADDQ $32, DI
	JMP  one

last:
	// What is less than a block is looked at together with what is before it, where nothing is.
	CMPQ DI, R9
	JCC  none
	MOVQ R8, DI
	JMP  block
none:
	VZEROUPPER
	MOVQ $-1, ret+40(FP)
	RET

found:
	BSFL AX, AX
	SUBQ SI, DI
	ADDQ DI, AX
	VZEROUPPER
	MOVQ AX, ret+40(FP)
	RET
