package bytepair

import "golang.org/x/sys/cpu"

// Fast reports whether the search for a pair is as fast as the search for one byte. If Fast is false, Index checks every
// position of the first byte.
var Fast = cpu.X86.HasAVX2

// index implements Index for at least block positions.
//
//go:noescape
func index(buf []byte, distance int, first, second, firstOr, secondOr byte) int
