package tool

import "context"

// CapabilityInvalidate is the capability of a plugin that implements [Invalidator]. A plugin that caches information
// about files needs it if its roots have [Root.Reported].
const CapabilityInvalidate = "invalidate"

// Invalidator is implemented by a [Plugin] with [CapabilityInvalidate].
type Invalidator interface {
	// Invalidate reports changed files in roots with [Root.Reported]. The host calls it before a call that must see the
	// changes, and calls it again if it fails. It can be called concurrently with calls.
	Invalidate(ctx context.Context, i Invalidation) error
}

// Invalidation describes changes of files that the kernel does not report to the plugin.
type Invalidation struct {
	// Paths lists files and directories that were created, changed or removed, as absolute paths. If a path is a
	// directory, everything below it can have changed.
	Paths []string
	// All means that everything in the reported roots can have changed.
	All bool
}
