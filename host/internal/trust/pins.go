package trust

import (
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"

	"toolhost.dev/host/internal/artifact"
	"toolhost.dev/sdk/tool"
)

// Pins enforces a lock file. It reads the file at each use, so that a running host applies new pins. It is safe for
// concurrent use.
type Pins struct {
	path string
	own  func(plugin string) bool
	off  bool
	hash func(path string) ([32]byte, error)
	dir  func() (string, error)
	// guard returns the trusted hash of a file if tools can write the file; see [PinOptions].
	guard func(path string) (sum string, guarded bool)
	start func(Start) error
	// read returns the checked lock file.
	read func() (*Lock, error)
}

// Start describes the start of a program that the configuration names.
type Start struct {
	// Block is the block of the program, such as `hook "x"`.
	Block string
	// Cwd is the working directory of the program if the block contains no working directory.
	Cwd string
	// PerCall selects the programs that start once for each call. If PerCall is false, the other programs of the block
	// start.
	PerCall bool
}

// PinOptions holds the options of [OpenPins].
type PinOptions struct {
	// Config is the file or directory of the configuration. Empty means the built-in configuration.
	Config string
	// Own reports whether a plugin belongs to the host. If the lock file cannot be read, only these plugins can run.
	// Nil means that no plugin belongs to the host.
	Own func(plugin string) bool
	// Ignore disables the pins. The host then accepts every binary and every definition.
	Ignore bool
	// Hash returns the SHA-256 of a file.
	Hash func(path string) ([32]byte, error)
	// Guard returns the SHA-256 that a person trusted for a path that tools can write. For other paths, guarded is
	// false. The host calls Guard for the lock file and for binaries, even if Ignore is set. Nil disables the check.
	Guard func(path string) (sum string, guarded bool)
	// CheckStart returns an error if a program must not start because its files changed. Nil disables the check.
	CheckStart func(Start) error
	// Dir returns the directory for copies of pinned binaries.
	Dir func() (string, error)
}

// OpenPins returns the pins of a configuration. If the lock file cannot be read, only plugins of the host can run;
// see [Pins.Problem].
func OpenPins(opts PinOptions) (*Pins, error) {
	path, err := PathFor(opts.Config)
	p := &Pins{path: path, own: opts.Own, off: opts.Ignore, hash: opts.Hash, dir: opts.Dir, guard: opts.Guard,
		start: opts.CheckStart}
	p.read = p.readChecked
	if p.guard == nil {
		p.guard = func(string) (string, bool) { return "", false }
	}
	if p.start == nil {
		p.start = func(Start) error { return nil }
	}
	if err != nil && opts.Config == "" { // a user without a configuration directory has no pins
		p.path, p.off = "", true
		return p, nil
	}
	return p, err
}

// Problem returns an error if the lock file cannot be read.
func (p *Pins) Problem() error {
	if p.off {
		return nil
	}
	_, err := p.read()
	return err
}

// Path returns the path of the lock file, or "" if the user has no configuration directory.
func (p *Pins) Path() string { return p.path }

// Off reports whether the pins are disabled.
func (p *Pins) Off() bool { return p.off }

// Of returns a plugin's pin. ok is false if the plugin is not pinned.
func (p *Pins) Of(plugin string) (pin Pin, ok bool, err error) {
	if p.off {
		return pin, false, nil
	}
	lock, err := p.read()
	if err != nil {
		return pin, false, err
	}
	pin, ok = lock.Plugins[plugin]
	return pin, ok, nil
}

// readChecked reads the lock file, and checks that tools cannot have changed it.
func (p *Pins) readChecked() (*Lock, error) {
	lock, sum, err := readLock(p.path)
	if err == nil {
		err = p.checkLock(sum)
	}
	return lock, err
}

// Once returns pins that read the lock file only once, for an operation on many plugins.
func (p *Pins) Once() *Pins {
	out := *p
	out.read = sync.OnceValues(p.read)
	return &out
}

// pinOf is like Of, but for the version of the plugin whose program has the given path.
func (p *Pins) pinOf(plugin, path string) (Pin, bool, error) {
	pin, ok, err := p.Of(plugin)
	if err != nil && p.own != nil && p.own(plugin) {
		return Pin{}, false, nil // see [Pins.Problem]
	}
	if !ok || err != nil || pin.Source == "" {
		return pin, ok, err
	}
	pin, err = p.installedPin(plugin, path, pin)
	return pin, true, err
}

// InStore reports whether the path is in the store of installed plugins.
func InStore(path string) bool {
	s, err := artifact.UserStore()
	return err == nil && s.ContentOf(path) != ""
}

// checkLock returns an error if tools can write the lock file and nobody trusted its content. The argument "sum" is the
// hash of the content.
func (p *Pins) checkLock(sum string) error {
	abs, err := filepath.Abs(p.path)
	if err != nil {
		return err
	}
	if trusted, guarded := p.guard(abs); guarded && sum != trusted {
		return fmt.Errorf("tools can write in the directory of the lock file %s, and the file's current content is not trusted. Review it: toolhost trust", p.path)
	}
	return nil
}

// trusted returns the SHA-256 that a binary must have. It returns "" for a binary that tools cannot write.
func (p *Pins) trusted(path string) (string, error) {
	sum, guarded := p.guard(path)
	if guarded && sum == "" {
		return "", fmt.Errorf("its binary %s is in a directory that tools can write, and it is not trusted. Review it with toolhost trust, or move it to another directory", path)
	}
	return sum, nil
}

// Trusted returns the SHA-256 that a person trusted for a binary that tools can write. It returns "" for other
// binaries.
func (p *Pins) Trusted(path string) string {
	sum, _ := p.guard(path)
	return sum
}

// mustBe returns the SHA-256 that a plugin's binary must have. It returns "" if the plugin can use any binary. The
// result pinned reports whether the lock file contains the SHA-256.
func (p *Pins) mustBe(plugin, path string) (sum string, pinned bool, err error) {
	trusted, err := p.trusted(path)
	if err != nil {
		return "", false, err
	}
	pin, ok, err := p.pinOf(plugin, path)
	switch {
	case err != nil:
		return "", false, err
	case ok:
		return pin.sum(), true, nil
	}
	return trusted, false, nil
}

// CheckBinary returns an error if a plugin's binary must not run because it differs from the pinned or trusted binary.
func (p *Pins) CheckBinary(plugin, path string) error {
	sum, pinned, err := p.mustBe(plugin, path)
	if sum == "" || err != nil {
		return err
	}
	if pinned && InStore(path) {
		return p.checkInstalled(path, sum)
	}
	now, err := p.hash(path)
	if err != nil {
		return fmt.Errorf("its binary cannot be compared with the one that may run: %w", err)
	}
	if is := hex.EncodeToString(now[:]); is != sum {
		return p.explain(plugin, pinned, &MismatchError{Path: path, Is: is, Pinned: sum})
	}
	return nil
}

// CheckStart returns an error if a program must not start because its files differ from the trusted files.
func (p *Pins) CheckStart(s Start) error { return p.start(s) }

// CheckStarts is like CheckStart, for all processes of a plugin.
func (p *Pins) CheckStarts(plugin string) error {
	for _, kind := range []string{"plugin", "field"} {
		if err := p.start(Start{Block: fmt.Sprintf("%s \"%s\"", kind, plugin)}); err != nil {
			return err
		}
	}
	return nil
}

// Executable returns the file to run for a plugin. If the binary is pinned, or if tools can write it, the file is a
// copy with the pinned or trusted content. Otherwise Executable returns path.
func (p *Pins) Executable(plugin, path string) (string, error) {
	if err := p.CheckStarts(plugin); err != nil {
		return "", err
	}
	sum, pinned, err := p.mustBe(plugin, path)
	if err != nil {
		return "", err
	}
	if sum == "" {
		return path, nil
	}
	if !pinned && IsScript(path) { // a script needs the files in its original directory
		return path, errors.Join(p.CheckBinary(plugin, path), p.checkBeside(path))
	}
	if pinned && InStore(path) {
		return path, p.checkInstalled(path, sum)
	}
	copies, err := p.Store()
	if err != nil {
		return "", err
	}
	copied, err := copies.Executable(path, sum)
	if err != nil {
		return "", p.explain(plugin, pinned, err)
	}
	return copied, nil
}

// checkBeside returns an error if a code file beside a script differs from the trusted file. It checks only files that
// tools can write.
func (p *Pins) checkBeside(script string) error {
	for _, path := range CodeBeside(script) {
		sum, guarded := p.guard(path)
		if !guarded {
			continue
		}
		if is, err := Hash(path); err != nil || sum == "" || is != sum {
			return fmt.Errorf("the script %s can load %s. Tools can write that file, and its current content is not trusted. Review the file: toolhost trust", script, path)
		}
	}
	return nil
}

// Store returns the store of copies of pinned binaries.
func (p *Pins) Store() (*Store, error) {
	dir, err := p.dir()
	if err != nil {
		return nil, err
	}
	return &Store{Dir: dir, Hash: p.hash}, nil
}

func (p *Pins) explain(plugin string, pinned bool, err error) error {
	var m *MismatchError
	switch {
	case !errors.As(err, &m):
		return err
	case !pinned:
		return fmt.Errorf("its binary %s changed since it was trusted, and tools can write its directory. Review it: toolhost trust", m.Path)
	}
	return fmt.Errorf("its binary is not the one pinned in %s: %w. If the change is intended, pin it again: toolhost plugin pin %s", p.path, m, plugin)
}

// CheckTools returns an error if a plugin's tool definitions differ from the pinned definitions. path is the path of
// its program.
func (p *Pins) CheckTools(plugin, path string, desc *tool.Description) error {
	pin, ok, err := p.pinOf(plugin, path)
	if !ok || err != nil {
		return err
	}
	changes := pin.Changes(desc.Defined())
	if len(changes) == 0 {
		return nil
	}
	if pin.Source != "" {
		return fmt.Errorf("the definitions of its tools differ from those in %s: %s. A version never changes its tools; ask its publisher", p.path, strings.Join(changes, "; "))
	}
	return fmt.Errorf("the definitions of its tools differ from those pinned in %s: %s. Check them with toolhost plugin info %s; if the change is intended, run toolhost plugin pin --accept-changes %s",
		p.path, strings.Join(changes, "; "), plugin, plugin)
}
