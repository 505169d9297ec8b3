package trust

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"toolhost.dev/sdk/tool"
)

// Pins enforces a lock file. It reads the file at each use, so that a running host applies new pins. It is safe for
// concurrent use.
type Pins struct {
	path string
	off  bool
	hash func(path string) ([32]byte, error)
	dir  func() (string, error)
}

// PinOptions holds the options of [OpenPins].
type PinOptions struct {
	// Config is the file or directory of the configuration. Empty means the built-in configuration.
	Config string
	// Ignore disables the pins. The host then accepts every binary and every definition.
	Ignore bool
	// Hash returns the SHA-256 of a file.
	Hash func(path string) ([32]byte, error)
	// Dir returns the directory for copies of pinned binaries.
	Dir func() (string, error)
}

// OpenPins returns the pins of a configuration. It returns an error if the lock file cannot be read.
func OpenPins(opts PinOptions) (*Pins, error) {
	path, err := PathFor(opts.Config)
	if err != nil && opts.Config == "" { // a user without a configuration directory has no pins
		return &Pins{off: true, hash: opts.Hash, dir: opts.Dir}, nil
	}
	p := &Pins{path: path, off: opts.Ignore, hash: opts.Hash, dir: opts.Dir}
	if err == nil && !p.off {
		_, err = Read(path)
	}
	return p, err
}

// Path returns the path of the lock file. It returns "" if there is no directory for the file.
func (p *Pins) Path() string { return p.path }

// Off reports whether the pins are disabled.
func (p *Pins) Off() bool { return p.off }

// Of returns a plugin's pin. ok is false if the plugin is not pinned.
func (p *Pins) Of(plugin string) (pin Pin, ok bool, err error) {
	if p.off {
		return pin, false, nil
	}
	lock, err := Read(p.path)
	if err != nil {
		return pin, false, err
	}
	pin, ok = lock.Plugins[plugin]
	return pin, ok, nil
}

// CheckBinary returns an error if a plugin's binary must not run because it differs from the pinned binary.
func (p *Pins) CheckBinary(plugin, path string) error {
	pin, ok, err := p.Of(plugin)
	if !ok || err != nil {
		return err
	}
	sum, err := p.hash(path)
	if err != nil {
		return fmt.Errorf("its binary cannot be compared with the pinned one: %w", err)
	}
	if is := hex.EncodeToString(sum[:]); is != pin.SHA256 {
		return p.explain(plugin, &MismatchError{Path: path, Is: is, Pinned: pin.SHA256})
	}
	return nil
}

// Executable returns the file to run for a plugin. For a pinned plugin, this is a copy with the pinned content,
// otherwise path itself.
func (p *Pins) Executable(plugin, path string) (string, error) {
	pin, ok, err := p.Of(plugin)
	if err != nil {
		return "", err
	}
	if !ok {
		return path, nil
	}
	store, err := p.Store()
	if err != nil {
		return "", err
	}
	copied, err := store.Executable(path, pin.SHA256)
	if err != nil {
		return "", p.explain(plugin, err)
	}
	return copied, nil
}

// Store returns the store of copies of pinned binaries.
func (p *Pins) Store() (*Store, error) {
	dir, err := p.dir()
	if err != nil {
		return nil, err
	}
	return &Store{Dir: dir, Hash: p.hash}, nil
}

func (p *Pins) explain(plugin string, err error) error {
	var m *MismatchError
	if !errors.As(err, &m) {
		return err
	}
	return fmt.Errorf("its binary is not the one pinned in %s: %w. If the change is intended, pin it again: toolhost plugin pin %s", p.path, m, plugin)
}

// CheckTools returns an error if a plugin's tool definitions differ from the pinned definitions.
func (p *Pins) CheckTools(plugin string, desc *tool.Description) error {
	pin, ok, err := p.Of(plugin)
	if !ok || err != nil {
		return err
	}
	changes := pin.Changes(desc.Tools)
	if len(changes) == 0 {
		return nil
	}
	return fmt.Errorf("the definitions of its tools differ from those pinned in %s: %s. Check them with toolhost plugin info %s; if the change is intended, run toolhost plugin pin --accept-changes %s",
		p.path, strings.Join(changes, "; "), plugin, plugin)
}
