//go:build unix && !linux

package freshness

import (
	"errors"
	"os"
)

// Watcher is notified of changes in directories. There is none on this system: everything is
// found out by stat.
type Watcher struct{}

// NewWatcher says that there is none.
func NewWatcher() (*Watcher, error) { return nil, errors.ErrUnsupported }

// MaxWatches is none.
func MaxWatches() int { return 0 }

// Close does nothing.
func (*Watcher) Close() error { return nil }

// Add says that there is no watching.
func (*Watcher) Add(*os.File) (int32, error) { return 0, errors.ErrUnsupported }

// Remove does nothing.
func (*Watcher) Remove(int32) {}

// Drain returns no events.
func (*Watcher) Drain(func(Event)) (lost bool, err error) { return false, nil }

// Mounts is notified of what is mounted. There is none on this system.
type Mounts struct{}

// NewMounts says that there is none.
func NewMounts(string) (*Mounts, error) { return nil, errors.ErrUnsupported }

// Close does nothing.
func (*Mounts) Close() error { return nil }

// Changed knows of no mounts.
func (*Mounts) Changed() bool { return false }
