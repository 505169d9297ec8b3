//go:build !linux

package workspace

import "io/fs"

// lookupWithoutLinks always returns false, because this system has no suitable system call. The caller then resolves
// the path step by step.
func lookupWithoutLinks(*tree, string) (fs.FileMode, bool) { return 0, false }

func sameWithoutLinks(path string, info fs.FileInfo) error { return sameStepwise(path, info) }
