package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/workspace/internal/journal"
)

// Journal records the writes that are under way. If a process is killed during a write, the next
// workspace that uses the journal cleans up: it removes the temporary file, and restores the old
// content of a file that was being written in place. Several processes may share a journal.
//
// A plugin that the SDK serves has a journal in its state directory.
type Journal struct{ log *journal.Journal }

// NewJournal returns the journal in a directory, which outlives the process. It creates nothing
// before the first write.
func NewJournal(dir string) *Journal { return &Journal{log: journal.New(dir)} }

// UseJournal cleans up after unfinished writes of processes that are gone, as far as their files
// lie beneath the writable roots. From then on it records the writes of this workspace in j. Call
// it before the first write. The error names what could not be cleaned up, and the workspace can
// be used nevertheless.
func (w *Workspace) UseJournal(j *Journal) error {
	w.journal = j.log
	return j.log.Recover(w.recoverWrite)
}

// recoverWrite cleans up after one write. It reports false if the file is in none of the writable
// roots, so that another workspace does it.
func (w *Workspace) recoverWrite(r journal.Record) (recovered bool, err error) {
	target, err := w.Resolve("/", r.Target)
	if here := err == nil && target.Writable() && target.String() == r.Target; !here {
		return false, nil
	}
	now, err := w.ReadFile(target, MaxFileSize)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return true, fmt.Errorf("a write to %s was interrupted; %s holds what was put aside: %w", r.Target, r.Temp, err)
	}
	if r.Backup {
		return true, w.recoverBackup(r, target, now)
	}
	return true, w.recoverTemp(r, now)
}

// recoverTemp removes a temporary file. It holds either the new content, which never got its
// name, or the old content, after the two exchanged names. If it holds anything else it stays.
func (w *Workspace) recoverTemp(r journal.Record, now *Snapshot) error {
	p, err := w.Resolve("/", r.Temp)
	if err != nil || !strings.HasPrefix(p.Base(), tempPrefix) || p.String() != r.Temp {
		return err
	}
	if now != nil && now.Hash() == r.New && r.Old != (journal.Hash{}) && r.Old != r.New {
		aside, err := w.ReadFile(p, MaxFileSize)
		if err == nil && aside.Hash() != r.Old {
			return fmt.Errorf("%s was changed by another program while it was being replaced; that version is %s", r.Target, r.Temp)
		}
	}
	err = w.Remove(context.Background(), p, nil)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// restoreWithin is how soon after its backup was complete a file must have been modified for the
// last time to count as interrupted. A later change is somebody's work.
const restoreWithin = time.Minute

// recoverBackup restores the old content of a file that was being written in place, unless the
// write was complete.
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
		return tool.Errorf(tool.Conflict, "a write to %s was interrupted, and the file was changed since; what it held before is %s", r.Target, r.Temp)
	}
	if interrupted {
		if _, err := w.WriteFile(context.Background(), target, backup, WriteOptions{Expect: now}); err != nil {
			return fmt.Errorf("a write to %s was interrupted; what it held before is %s: %w", r.Target, r.Temp, err)
		}
	}
	return os.Remove(r.Temp)
}
