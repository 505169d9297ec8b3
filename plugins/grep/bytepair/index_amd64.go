package bytepair

import "golang.org/x/sys/cpu"

// Fast says that two bytes are found as fast as one. Otherwise all places of the first are looked at one by one.
var Fast = cpu.X86.HasAVX2

// index is Index for at least block places.
//
//go:noescape
func index(buf []byte, distance int, first, second, firstOr, secondOr byte) int
