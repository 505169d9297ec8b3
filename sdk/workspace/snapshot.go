package workspace

import (
	"crypto/sha256"
	"io/fs"
	"os"
	"syscall"
	"time"

	"toolhost.dev/sdk/tool"
)

// Snapshot is a file's whole content at one moment. A write that gives it as
// [WriteOptions.Expect] succeeds only while the file still is so.
type Snapshot struct {
	Path Path
	// Data are the file's bytes. Do not change them.
	Data    []byte
	ModTime time.Time
	Mode    fs.FileMode

	hash func() [sha256.Size]byte
	info fs.FileInfo
}

// Hash returns the SHA-256 of the bytes. That of a large file is computed while the caller works
// with Data, and waited for here.
func (s *Snapshot) Hash() [sha256.Size]byte { return s.hash() }

func newSnapshot(p Path, data []byte, hash func() [sha256.Size]byte, info fs.FileInfo) *Snapshot {
	return &Snapshot{Path: p, Data: data, hash: hash, ModTime: info.ModTime(), Mode: info.Mode(), info: info}
}

// Release lets another read use the memory of Data, which is gone then, and so is the
// decoded text made from it. It need not be called.
func (s *Snapshot) Release() {
	s.Hash() // of the bytes that there were
	Reuse(s.Data)
	s.Data = nil
}

// State is what the host keeps about the file after this read.
func (s *Snapshot) State() tool.FileState {
	return tool.FileState{Path: s.Path.abs, ModTime: s.ModTime, Size: int64(len(s.Data)), Hash: s.Hash()}
}

// Effect reports that the file was read whole.
func (s *Snapshot) Effect() tool.Effect { return tool.Effect{Operation: tool.OpRead, File: s.State()} }

// untouched reports whether info is of the same file, with the same times and
// size. That is no proof of the same content: two writes within one tick of the
// file system's clock leave all of these equal.
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
