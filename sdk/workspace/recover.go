package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/workspace/internal/journal"
)

// Journal records writes that are in progress. If a process is killed during a write, the next workspace with the same
// journal cleans up. It removes the temporary file and restores the old content of a file that was being written in
// place. Several processes can share a journal.
//
// The SDK creates a journal for each plugin in the plugin's state directory.
type Journal struct{ log *journal.Journal }

// NewJournal returns the journal in the directory dir, which must outlive the process. It creates no files before the
// first write.
func NewJournal(dir string) *Journal { return &Journal{log: journal.New(dir)} }

// UseJournal cleans up unfinished writes of dead processes to files in the writable roots. Afterwards it records the
// writes of this workspace in j. It must be called before the first write. The error describes what could not be
// cleaned up. The workspace can be used despite the error.
func (w *Workspace) UseJournal(j *Journal) error {
	w.journal = j.log
	return j.log.Recover(w.recoverWrite)
}

// recoverWrite cleans up after one unfinished write. If no writable root contains the file, recovered is false, and
// another workspace can clean up.
func (w *Workspace) recoverWrite(r journal.Record) (recovered bool, err error) {
	target, err := w.Resolve("/", r.Target)
	if here := err == nil && target.Writable() && target.String() == r.Target; !here {
		return false, nil
	}
	if device, inode := target.directory(); r.Inode != 0 && (device != r.Device || inode != r.Inode) {
		return false, nil // the directory of another session at the same path
	}
	now, err := w.ReadFile(target, MaxFileSize)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return true, fmt.Errorf("a write to %s was interrupted, and the file cannot be read now: %w; compare it with %s, which has its old or new content", r.Target, err, r.Temp)
	}
	if r.Backup {
		return true, w.recoverBackup(r, target, now)
	}
	return true, w.recoverTemp(r, now)
}

// directory returns the identity of the directory that contains the path. It returns zero if the identity is unknown.
func (p Path) directory() (device, inode uint64) {
	info, err := p.tree.dir.Stat(filepath.Dir(p.rel))
	if err != nil {
		return 0, 0
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0
	}
	return uint64(st.Dev), st.Ino //nolint:unconvert // the types depend on the system
}

// recoverTemp removes a temporary file. The temporary file contains either the new content or, after the exchange of
// names, the old content. A file with any other content is kept.
func (w *Workspace) recoverTemp(r journal.Record, now *Snapshot) error {
	p, err := w.Resolve("/", r.Temp)
	if err != nil || !strings.HasPrefix(p.Base(), tempPrefix) || p.String() != r.Temp {
		return err
	}
	if now != nil && now.Hash() == r.New && r.Old != (journal.Hash{}) && r.Old != r.New {
		aside, err := w.ReadFile(p, MaxFileSize)
		if err == nil && aside.Hash() != r.Old {
			return fmt.Errorf("%s was changed by another program during the write; the other version is in %s", r.Target, r.Temp)
		}
	}
	err = w.Remove(context.Background(), p, nil)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// restoreWithin limits the time between the completion of a backup and the last change of the target. A change after
// that time was not made by the interrupted write.
const restoreWithin = time.Minute

// recoverBackup restores the old content of a file after an interrupted write in place. If the write was complete,
// it only removes the backup.
func (w *Workspace) recoverBackup(r journal.Record, target Path, now *Snapshot) error {
	backup, err := os.ReadFile(r.Temp)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	interrupted := !r.Ready.IsZero() && now != nil && now.Hash() != r.New && string(now.Data) != string(backup)
	if interrupted && now.ModTime.After(r.Ready.Add(restoreWithin)) {
		return tool.Errorf(tool.Conflict, "a write to %s was interrupted, and the file was changed since; the old content is in %s", r.Target, r.Temp)
	}
	if interrupted {
		if _, err := w.WriteFile(context.Background(), target, backup, WriteOptions{Expect: now}); err != nil {
			return fmt.Errorf("a write to %s was interrupted; the old content is in %s: %w", r.Target, r.Temp, err)
		}
	}
	return os.Remove(r.Temp)
}
