package branch

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"toolhost.dev/sdk/durable"

	"toolhost.dev/host/internal/flock"
)

// Revert takes back the last apply of a branch. The base gets its old files, and the layer gets its changes again. It
// changes nothing if the workspace changed one of the files meanwhile, or if the branch did.
func (s *Store) Revert(b *Branch) (*Outcome, error) {
	release, err := s.exclusive(b)
	if err != nil {
		return nil, err
	}
	defer release()
	all, err := b.journals()
	if err != nil {
		return nil, err
	}
	var last *journal
	for _, j := range all {
		if j.State == applied {
			last = j
		}
	}
	if last == nil {
		return nil, fmt.Errorf("the branch %s has no apply that can be reverted", b.Name)
	}
	if err := last.load(); err != nil {
		return nil, fmt.Errorf("the journal of the branch %s cannot be read: %w", b.Name, err)
	}
	x, err := b.newExchange(last)
	if err != nil {
		return nil, err
	}
	problems := x.revertible()
	if len(problems) == 0 {
		err = x.lock(true)
	}
	x.close()
	if err != nil {
		return nil, err
	}
	if len(problems) > 0 {
		return nil, fmt.Errorf("nothing was reverted, because these paths changed since the branch %s was applied:\n  %s\nMove them away, or restore them from version control, and repeat the command", b.Name, strings.Join(problems, "\n  "))
	}
	if err := errors.Join(x.rewrite(), last.record(undoing)); err != nil {
		return nil, err
	}
	out := &Outcome{Changes: []Change{}}
	for i := range last.Steps {
		out.Changes = append(out.Changes, last.Steps[i].Change)
	}
	return out, b.undo(last)
}

// rewrite writes the journal again if revertible found that git only refreshed an index.
func (x *exchanger) rewrite() error {
	if !x.refreshed {
		return nil
	}
	text, err := json.Marshal(x.j)
	if err != nil {
		return err
	}
	return durable.Replace(filepath.Join(x.j.dir, journalFile), text)
}

// revertible lists the paths that changed since the apply.
func (x *exchanger) revertible() (problems []string) {
	for i := range x.j.Steps {
		s := &x.j.Steps[i]
		if s.addsObjects() {
			continue
		}
		if !s.Drop && s.Op != OpMetadata {
			if why := x.changedSince(s); why != "" {
				problems = append(problems, s.Path+": "+why)
			}
		}
		if _, err := os.Lstat(filepath.Join(x.b.Layer(), s.Path)); s.Op != OpMetadata && err == nil {
			problems = append(problems, s.Path+": the branch has a new change of it")
		}
	}
	return problems
}

func (x *exchanger) changedSince(s *step) string {
	st, err := x.base.stat(s.Path)
	switch {
	case errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR):
		if s.Op != OpDelete {
			return "it was deleted"
		}
	case err != nil:
		return err.Error()
	case s.Op == OpDelete:
		return "it was created again"
	case s.Index != "" && indexSum(filepath.Join(x.base.path, s.Path)) == s.Index:
		x.refreshed = x.refreshed || st.Ino != s.New
		s.New = st.Ino
	case st.Ino != s.New:
		return "it was replaced"
	case st.Mode&unix.S_IFMT == unix.S_IFDIR:
		if at := newest(filepath.Join(x.base.path, s.Path), x.j.Done, true); at != "" {
			return "something in it changed"
		}
	case st.Ctim.Nano() >= x.j.Done:
		return "it was changed"
	}
	return ""
}

// Accept declares that a layer is complete although the machine stopped while it was in use.
func (s *Store) Accept(b *Branch) error {
	lock, err := b.lock()
	if err != nil {
		return err
	}
	defer lock.Close() //nolint:errcheck // only a lock
	if err := removeAll(filepath.Join(b.dir, workDir)); err != nil {
		return err
	}
	b.Boot = ""
	return errors.Join(os.Mkdir(filepath.Join(b.dir, workDir), 0o700), b.save())
}

// lockBase makes sure that only one process changes a base at a time.
func (s *Store) lockBase(base string) (*os.File, error) {
	dir := filepath.Join(s.Dir, ".bases")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(base))
	f, err := os.OpenFile(filepath.Join(dir, hex.EncodeToString(sum[:8])), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	// A process that this one starts has a copy of a released lock until it runs its program.
	for began := time.Now(); !flock.Try(f); time.Sleep(20 * time.Millisecond) {
		if time.Since(began) < waitForLock {
			continue
		}
		pid := 0
		_, _ = fmt.Fscan(f, &pid)
		return nil, errors.Join(fmt.Errorf("the process %d applies or reverts a branch in %s right now. Wait until it ends", pid, base), f.Close())
	}
	_ = f.Truncate(0)
	_, _ = fmt.Fprintf(f, "%d", os.Getpid()) // only for the message of another process
	return f, nil
}
