package artifact

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"toolhost.dev/sdk/flock"

	"toolhost.dev/host/internal/ownfile"
)

// StoreRecord is the information of this machine about a lock file. The lock file itself contains no earlier versions,
// because it is committed.
type StoreRecord struct {
	// Lock is the path of the lock file.
	Lock string `json:"lock"`
	// Previous maps plugins to the entry of the lock file before the last upgrade.
	Previous map[string]json.RawMessage `json:"previous,omitempty"`
	// Trees maps the digests of package locks to the hash of the installed files, which differs by platform.
	Trees map[string]string `json:"trees,omitempty"`
	// Seen is the last time at which a command read the lock file. Names are the hashes of the versions that the lock
	// file contained at that time.
	Seen  time.Time `json:"seen,omitzero"`
	Names []string  `json:"names,omitempty"`
}

func (s *Store) record(lock string) ownfile.File {
	sum := sha256.Sum256([]byte(lock))
	return ownfile.File{
		Path: filepath.Join(s.records(), hex.EncodeToString(sum[:16])+".json"), Name: "the record of the lock file",
	}
}

// Record returns the record of a lock file. lock is an absolute path.
func (s *Store) Record(lock string) (*StoreRecord, error) {
	out := &StoreRecord{Lock: lock}
	if err := s.record(lock).Read(out); err != nil {
		return nil, fmt.Errorf("the record of %s cannot be read: %w. Remove it: rm %s", lock, err, s.record(lock).Path)
	}
	return out, nil
}

// Change changes the record of a lock file. No other process can change it meanwhile.
func (s *Store) Change(lock string, change func(*StoreRecord)) error {
	return s.record(lock).Change(func() (any, error) {
		r, err := s.Record(lock)
		if err != nil {
			return nil, err
		}
		change(r)
		return r, nil
	})
}

// Records returns the records of all lock files.
func (s *Store) Records() ([]*StoreRecord, error) {
	paths, err := filepath.Glob(filepath.Join(s.records(), "*.json"))
	var out []*StoreRecord
	for _, path := range paths {
		r := new(StoreRecord)
		if err := (ownfile.File{Path: path, Name: "a record"}).Read(r); err != nil {
			return nil, fmt.Errorf("the record %s cannot be read, so it is not known what is in use: %w. Remove it: rm %[1]s", path, err)
		}
		out = append(out, r)
	}
	return out, err
}

// Forget removes the record of a lock file.
func (s *Store) Forget(r *StoreRecord) error { return os.Remove(s.record(r.Lock).Path) }

// Lock waits until no other process changes the lock file. Until the returned function is called, no other process
// changes the lock file or removes unused versions. This is necessary because a version is in the store before a lock
// file names it.
func (s *Store) Lock(lock string) (unlock func(), err error) {
	all, err := s.use(s.all(), unix.LOCK_SH)
	if err != nil {
		return nil, err
	}
	one, err := s.use(strings.TrimSuffix(s.record(lock).Path, ".json")+".use", unix.LOCK_EX)
	if err != nil {
		all()
		return nil, err
	}
	return func() { one(); all() }, nil
}

// LockAll waits until no other process changes a lock file. It returns a function that ends the exclusive use.
func (s *Store) LockAll() (unlock func(), err error) { return s.use(s.all(), unix.LOCK_EX) }

func (s *Store) all() string { return filepath.Join(s.records(), "all.use") }

func (s *Store) use(path string, how int) (unlock func(), err error) {
	f, err := flock.Open(path, os.O_CREATE|os.O_RDWR, how)
	if err != nil {
		return nil, err
	}
	return func() { _ = f.Close() }, nil
}
