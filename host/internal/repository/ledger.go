package repository

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"toolhost.dev/sdk/durable"
	"toolhost.dev/sdk/flock"
)

// ledger is a file in which hosts record the content that a tree had before their tools ran. A killed host leaves this
// file behind. The next host uses the file to find the changes that the killed host missed. Each running host holds a
// lock on the file.
type ledger struct {
	path string
	file *os.File // the locked file; nil without a state directory
}

// record is the content of a ledger.
type record struct {
	Root  string   `json:"root"`
	Known []string `json:"known"`
	// Guarded reports whether the kernel protected the repository at the top of the tree.
	Guarded bool `json:"guarded"`
}

// openLedger opens the ledger of a root in a directory. The record is nil if no earlier or running host left a record.
// The caller must then write a record.
func openLedger(dir, root string) (*ledger, *record, error) {
	if dir == "" {
		return &ledger{}, nil, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, err
	}
	path := ledgerPath(dir, root)
	fd, err := unix.Open(path+".lock", unix.O_RDWR|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, nil, err
	}
	l := &ledger{path + ".json", os.NewFile(uintptr(fd), "ledger")}
	how := unix.LOCK_EX // the caller reads the tree while it holds this lock
	if err := l.lock(how | unix.LOCK_NB); err != nil {
		how = unix.LOCK_SH
	}
	if err := l.lock(how); err != nil {
		return nil, nil, errors.Join(err, l.file.Close())
	}
	b, err := os.ReadFile(l.path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(b) == 0 { // earlier versions left an empty file
		return l, nil, nil
	}
	var r record
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("the record of the repositories %s cannot be read: %w. Check the repositories, then remove the file", l.path, err), l.file.Close())
	}
	return l, &r, nil
}

// ledgerPath returns the path of the ledger of a root, without its ending.
func ledgerPath(dir, root string) string { return filepath.Join(dir, hash([]byte(root))) }

func (l *ledger) lock(how int) error { return flock.Apply(l.file, how) }

// write replaces the record and permits other hosts to read it.
func (l *ledger) write(r *record) error {
	if l.file == nil {
		return nil
	}
	b, err := json.Marshal(r)
	if err == nil { // replace atomically, because an incomplete record would count as a missing record
		err = durable.ReplaceUnsynced(l.path, b)
	}
	if err != nil {
		return fmt.Errorf("the record of the repositories cannot be written: %w", err)
	}
	return l.lock(unix.LOCK_SH)
}

// close removes the record, unless another host uses it.
func (l *ledger) close() error {
	if l.file == nil {
		return nil
	}
	err := l.lock(unix.LOCK_EX | unix.LOCK_NB)
	switch {
	case errors.Is(err, unix.EWOULDBLOCK):
		err = nil
	case err == nil:
		if err = os.Remove(l.path); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	return errors.Join(err, l.file.Close())
}

// abandon unlocks the ledger and keeps the record of an earlier host.
func (l *ledger) abandon() error {
	if l.file == nil {
		return nil
	}
	return l.file.Close()
}
