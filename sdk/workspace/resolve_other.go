//go:build !linux

package workspace

import "io/fs"

// lookupWithoutLinks would find rel in one system call; there is none here, and
// the stepwise walk does it.
func lookupWithoutLinks(*tree, string) (fs.FileMode, bool) { return 0, false }

func sameWithoutLinks(path string, info fs.FileInfo) error { return sameStepwise(path, info) }
