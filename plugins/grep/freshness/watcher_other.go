//go:build unix && !linux

package freshness

import (
	"errors"
	"os"
)

// Watcher is not supported on this system. Instead, changes are detected by stat.
type Watcher struct{}

// NewWatcher returns [errors.ErrUnsupported].
func NewWatcher() (*Watcher, error) { return nil, errors.ErrUnsupported }

// MaxWatches always returns 0.
func MaxWatches() int { return 0 }

// Close does nothing.
func (*Watcher) Close() error { return nil }

// Add returns [errors.ErrUnsupported].
func (*Watcher) Add(*os.File) (int32, error) { return 0, errors.ErrUnsupported }

// Remove does nothing.
func (*Watcher) Remove(int32) {}

// Drain never returns events.
func (*Watcher) Drain(func(Event)) (lost bool, err error) { return false, nil }

// Mounts is not supported on this system.
type Mounts struct{}

// NewMounts returns [errors.ErrUnsupported].
func NewMounts(string) (*Mounts, error) { return nil, errors.ErrUnsupported }

// Close does nothing.
func (*Mounts) Close() error { return nil }

// Changed always returns false.
func (*Mounts) Changed() bool { return false }
