//go:build !linux

package main

import "os"

// standardInput gives standard input.
func standardInput() (in *os.File, release func()) { return os.Stdin, func() {} }
