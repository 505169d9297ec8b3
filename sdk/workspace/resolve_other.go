//go:build !linux

package workspace

import "io/fs"

// lookupWithoutLinks fails, because this system has no such system call. The stepwise walk resolves the path.
func lookupWithoutLinks(*tree, string) (fs.FileMode, bool) { return 0, false }

func sameWithoutLinks(path string, info fs.FileInfo) error { return sameStepwise(path, info) }
