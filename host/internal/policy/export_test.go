package policy

// StoresBirth reports whether the file system stores when a file was created.
func StoresBirth(path string) bool { return !born(path).IsZero() }
