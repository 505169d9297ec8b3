package workspace

import (
	"crypto/sha256"
	"io/fs"
	"os"
	"syscall"
	"time"

	"toolhost.dev/sdk/tool"
)

// Snapshot is the whole content of a file at one moment. A write with [WriteOptions.Expect] set to a snapshot
// succeeds only if the file still has the same content.
type Snapshot struct {
	Path Path
	// Data holds the bytes of the file. The caller must not modify them.
	Data    []byte
	ModTime time.Time
	Mode    fs.FileMode

	hash func() [sha256.Size]byte
	info fs.FileInfo
}

// Hash returns the SHA-256 of the bytes. The hash of a large file is computed in the background, and Hash waits for it.
func (s *Snapshot) Hash() [sha256.Size]byte { return s.hash() }

func newSnapshot(p Path, data []byte, hash func() [sha256.Size]byte, info fs.FileInfo) *Snapshot {
	return &Snapshot{Path: p, Data: data, hash: hash, ModTime: info.ModTime(), Mode: info.Mode(), info: info}
}

// Release makes the memory of Data available for other reads. Data and text decoded from it must not be used
// afterwards. Calling Release is optional.
func (s *Snapshot) Release() {
	s.Hash() // compute the hash before the memory is reused
	Reuse(s.Data)
	s.Data = nil
}

// State returns the state of the file at the time of the read. The host saves this state.
func (s *Snapshot) State() tool.FileState {
	return tool.FileState{Path: s.Path.abs, ModTime: s.ModTime, Size: int64(len(s.Data)), Hash: s.Hash()}
}

// Effect returns an effect that reports a read of the whole file to the host.
func (s *Snapshot) Effect() tool.Effect { return tool.Effect{Operation: tool.OpRead, File: s.State()} }

// untouched reports whether info describes the same file with the same times and size. The content can differ even
// then, because two writes within one tick of the file system's clock leave all these values equal.
func (s *Snapshot) untouched(info fs.FileInfo) bool {
	return os.SameFile(s.info, info) && s.info.Size() == info.Size() &&
		s.info.ModTime().Equal(info.ModTime()) && changeTime(s.info) == changeTime(info)
}

// changeTime returns the time of the last change of a file's content or attributes.
func changeTime(info fs.FileInfo) syscall.Timespec {
	st, _ := info.Sys().(*syscall.Stat_t)
	if st == nil {
		return syscall.Timespec{}
	}
	return ctim(st)
}
