package branch

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/branch/change"
	"toolhost.dev/branch/internal/filetree"
	"toolhost.dev/branch/internal/mirror"
	"toolhost.dev/branch/internal/workcopy"
)

// Backend selects how a branch is made. The zero value is an overlay.
type Backend struct {
	// Copy makes a copy of the workspace.
	Copy bool
	// MaxBytes and MaxFiles limit the size and the number of the copied files. Zero means no limit. If the copies share
	// their data with the workspace, MaxBytes does not apply.
	MaxBytes int64
	MaxFiles int
}

// NoOverlayError means that a workspace cannot have an overlay. A copy of the workspace may still be possible.
type NoOverlayError struct{ Reason error }

func (e *NoOverlayError) Error() string { return e.Reason.Error() }

func (e *NoOverlayError) Unwrap() error { return e.Reason }

// Copy describes a branch of the kind "copy". Its sessions work in a copy of the base at another path, and its layer is
// computed from the differences between the copy and the base. Everything else works as for an overlay.
type Copy struct {
	// Shared means that the copied files share their data with the workspace. The copy is then complete.
	Shared bool `json:"shared"`
	// Skipped is the number of files and directories that the copy leaves out because git ignores them. Unreadable
	// lists at most 20 files that the user cannot read.
	Skipped    int      `json:"skipped,omitempty"`
	Unreadable []string `json:"unreadable,omitempty"`
}

// Tree returns the directory in which the sessions of the branch work. It is the base, unless the branch is a copy.
func (b *Branch) Tree() string {
	if b.work == nil {
		return b.Base
	}
	return b.work.Tree()
}

// TooLargeError means that a workspace exceeds the limits of [Backend], so that it cannot be copied.
type TooLargeError struct {
	Base   string
	Reason error
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("the workspace %s is too large to copy: %v", e.Base, e.Reason)
}

func (e *TooLargeError) Unwrap() error { return e.Reason }

// makeCopy copies the base for a new branch.
func (b *Branch) makeCopy(how Backend) error {
	work, done, err := workcopy.Make(b.dir, b.Name, b.Base, mirror.Limits{Bytes: how.MaxBytes, Files: how.MaxFiles})
	if large := (*mirror.TooLargeError)(nil); errors.As(err, &large) {
		return &TooLargeError{Base: b.Base, Reason: err}
	}
	if err != nil {
		return err
	}
	b.work, b.Copy = work, &Copy{Shared: work.Shared, Skipped: done.Skipped, Unreadable: done.Unreadable}
	return nil
}

// sentence returns the text of an error as a sentence.
func sentence(err error) string {
	text := err.Error()
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

// OutsideGit returns a note about a workspace whose git directory is elsewhere, such as a linked worktree. Otherwise it
// returns "".
func (b *Branch) OutsideGit() string {
	at := filepath.Join(b.Base, ".git")
	to, err := filepath.EvalSymlinks(at)
	if err != nil {
		return ""
	}
	text, err := filetree.ReadSmall(to, 4096)
	if dir, is := strings.CutPrefix(strings.TrimSpace(string(text)), "gitdir: "); err == nil && is {
		if to = dir; !filepath.IsAbs(dir) {
			to = filepath.Join(b.Base, dir)
		}
	}
	if tool.Within(b.Base, to) {
		return ""
	}
	return fmt.Sprintf("The git directory of the workspace, %s, is outside of it and not in the branch %s. The branch holds back no commits or other changes of it: where the sandbox permits them, they take effect at once, and otherwise git fails", to, b.Name)
}

// Describe returns a note about the copy for its sessions.
func (c *Copy) Describe(b *Branch) string {
	text := fmt.Sprintf("The branch %s is a copy of the workspace %s. Its files are in %s, so use paths in this directory", b.Name, b.Base, b.Tree())
	if c.Skipped > 0 {
		text += fmt.Sprintf(". It leaves out %s that git ignores: build or install again what you need", entries(c.Skipped))
	}
	if len(c.Unreadable) > 0 {
		text += fmt.Sprintf(". It also leaves out files that cannot be read: %s", change.QuotePath(strings.Join(c.Unreadable, ", ")))
	}
	return text
}

func entries(n int) string {
	if n == 1 {
		return "1 file or directory"
	}
	return fmt.Sprintf("%d files and directories", n)
}
