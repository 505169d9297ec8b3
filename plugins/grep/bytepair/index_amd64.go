package bytepair

import "golang.org/x/sys/cpu"

// Fast reports whether searching for a pair is as fast as searching for one byte. If Fast is false, Index finds each
// occurrence of the first byte and then checks the second.
var Fast = cpu.X86.HasAVX2

// index is the implementation of Index for buffers in which the pair has at least 32 possible positions; see the
// constant "block".
//
//go:noescape
func index(buf []byte, distance int, first, second, firstOr, secondOr byte) int
