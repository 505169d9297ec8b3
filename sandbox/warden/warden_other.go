//go:build !linux

package warden

import (
	"errors"

	"toolhost.dev/sandbox/confine"
)

// Inside is the root file system of a running plugin. Only Linux supports plugins with their own mounts.
type Inside struct{}

// Object identifies a file or directory.
type Object struct{}

// ErrEnded means that a plugin has ended.
var ErrEnded = errors.New("the plugin has ended")

var errNoMounts = errors.New("this system has no mounts of a process")

// Enter returns an error.
func Enter(int) (*Inside, error) { return nil, errNoMounts }

// Close does nothing.
func (*Inside) Close() error { return nil }

// Stat returns an error.
func (*Inside) Stat(string) (Object, bool, error) { return Object{}, false, errNoMounts }

// ObjectAt returns an error.
func ObjectAt(string) (Object, error) { return Object{}, errNoMounts }

// Mask returns an error.
func (*Inside) Mask(string, string, []confine.Mask) error { return errNoMounts }
