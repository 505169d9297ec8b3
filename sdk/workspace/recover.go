package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"toolhost.dev/sdk/tool"
)

// UseJournal clears up after writes beneath the writable roots that were cut off
// in processes which are gone, and notes this workspace's writes in the journal
// from now on. Call it before the first write. The error tells what could not be
// cleared up; the workspace can be used all the same.
func (w *Workspace) UseJournal(j *Journal) error {
	w.journal = j
	names, err := filepath.Glob(filepath.Join(j.dir, "*"+journalSuffix))
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range names {
		if err := w.recover(name); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// recover settles one journal, unless its process lives.
func (w *Workspace) recover(name string) error {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // another process was faster
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		return nil
	}
	records, err := pending(f)
	if err != nil {
		return err
	}
	var errs []error
	left := false
	for _, r := range records {
		settled, err := w.settleRecord(r)
		left = left || !settled
		errs = append(errs, err)
	}
	if !left {
		errs = append(errs, os.Remove(name))
	}
	return errors.Join(errs...)
}

// settleRecord clears up after one write. settled is false if the file is in none
// of the writable roots: another workspace will see to it.
func (w *Workspace) settleRecord(r record) (settled bool, err error) {
	target, err := w.Resolve("/", r.Target)
	if here := err == nil && target.Writable() && target.String() == r.Target; !here {
		return false, nil
	}
	now, err := w.ReadFile(target, MaxFileSize)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return true, fmt.Errorf("a write to %s was cut off; %s holds what was put aside: %w", r.Target, r.Temp, err)
	}
	if r.Backup {
		return true, w.settleBackup(r, target, now)
	}
	return true, w.settleTemp(r, now)
}

// settleTemp removes a temporary file: the new content that never got its name, or
// the old one after the two changed names. If it is neither, it stays.
func (w *Workspace) settleTemp(r record, now *Snapshot) error {
	p, err := w.Resolve("/", r.Temp)
	if err != nil || !strings.HasPrefix(p.Base(), tempPrefix) || p.String() != r.Temp {
		return err
	}
	if now != nil && hash(now.Hash()) == r.New && r.Old != (hash{}) && r.Old != r.New {
		aside, err := w.ReadFile(p, MaxFileSize)
		if err == nil && hash(aside.Hash()) != r.Old {
			return fmt.Errorf("%s was changed by something else at the moment it was replaced; that version is %s", r.Target, r.Temp)
		}
	}
	err = w.Remove(context.Background(), p, nil)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// restoreWithin is how soon after its backup was complete a file must have been
// written last to be taken for cut off. A later change is somebody's work.
const restoreWithin = time.Minute

// settleBackup gives a file that was being written in place its old content back,
// unless the write was through.
func (w *Workspace) settleBackup(r record, target Path, now *Snapshot) error {
	backup, err := os.ReadFile(r.Temp)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	cutOff := !r.Ready.IsZero() && now != nil && hash(now.Hash()) != r.New && string(now.Data) != string(backup)
	if cutOff && now.ModTime.After(r.Ready.Add(restoreWithin)) {
		return tool.Errorf(tool.Conflict, "a write to %s was cut off, and the file was changed since; what it held before is %s", r.Target, r.Temp)
	}
	if cutOff {
		if _, err := w.WriteFile(context.Background(), target, backup, WriteOptions{Expect: now}); err != nil {
			return fmt.Errorf("a write to %s was cut off; what it held before is %s: %w", r.Target, r.Temp, err)
		}
	}
	return os.Remove(r.Temp)
}
