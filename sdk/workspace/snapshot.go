package workspace

import (
	"crypto/sha256"
	"io/fs"
	"os"
	"syscall"
	"time"

	"toolhost.dev/sdk/tool"
)

// Snapshot is the whole content of a file at one moment. A write with the snapshot as
// [WriteOptions.Expect] succeeds only while the file still has that content.
type Snapshot struct {
	Path Path
	// Data holds the bytes of the file. The caller must not change them.
	Data    []byte
	ModTime time.Time
	Mode    fs.FileMode

	hash func() [sha256.Size]byte
	info fs.FileInfo
}

// Hash returns the SHA-256 of the bytes. It waits for the hash of a large file, which is computed
// while the caller works with Data.
func (s *Snapshot) Hash() [sha256.Size]byte { return s.hash() }

func newSnapshot(p Path, data []byte, hash func() [sha256.Size]byte, info fs.FileInfo) *Snapshot {
	return &Snapshot{Path: p, Data: data, hash: hash, ModTime: info.ModTime(), Mode: info.Mode(), info: info}
}

// Release lets another read reuse the memory of Data. Data and text decoded from it must not be
// used after that. Calling Release is optional.
func (s *Snapshot) Release() {
	s.Hash() // of the bytes that there were
	Reuse(s.Data)
	s.Data = nil
}

// State returns the state of the file after this read, which the host keeps.
func (s *Snapshot) State() tool.FileState {
	return tool.FileState{Path: s.Path.abs, ModTime: s.ModTime, Size: int64(len(s.Data)), Hash: s.Hash()}
}

// Effect returns the effect that reports to the host that the file was read whole.
func (s *Snapshot) Effect() tool.Effect { return tool.Effect{Operation: tool.OpRead, File: s.State()} }

// untouched reports whether info is of the same file, with the same times and size. That does not
// prove the same content, because two writes within one tick of the file system's clock leave all
// of these equal.
func (s *Snapshot) untouched(info fs.FileInfo) bool {
	return os.SameFile(s.info, info) && s.info.Size() == info.Size() &&
		s.info.ModTime().Equal(info.ModTime()) && changeTime(s.info) == changeTime(info)
}

// changeTime returns the time of the last change of content or attributes.
func changeTime(info fs.FileInfo) syscall.Timespec {
	st, _ := info.Sys().(*syscall.Stat_t)
	if st == nil {
		return syscall.Timespec{}
	}
	return ctim(st)
}
