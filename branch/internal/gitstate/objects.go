package gitstate

import (
	"context"
	"crypto/sha1" //nolint:gosec // the names of git's objects
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"toolhost.dev/branch/internal/filetree"
)

// Objects answers questions about commits with git. It uses a separate repository that borrows the objects of other
// repositories. Thus no hook and no setting of the other repositories can make git run a program.
type Objects struct {
	dir string // the separate repository
	env []string
}

// gitTimeout limits the time of one git command.
const gitTimeout = 30 * time.Second

// gitPrefix begins the names of repositories that borrow objects. A repository without a process is removed after
// gitAge.
const (
	gitPrefix = "git-"
	gitAge    = time.Hour
)

// Open returns an object that can query the git objects in the given directories. It makes its repository in the
// directory parent. The caller must call Close. The argument "oid" is the name of any object; its length determines the
// hash format.
func Open(parent, oid string, dirs ...string) (*Objects, error) {
	if _, err := exec.LookPath("git"); err != nil {
		return nil, fmt.Errorf("git is not installed: %w", err)
	}
	removeOldObjects(parent)
	dir, err := os.MkdirTemp(parent, gitPrefix)
	if err != nil {
		return nil, err
	}
	g := &Objects{dir: dir}
	config := "[core]\n\trepositoryformatversion = 0\n\tbare = true\n"
	if len(oid) == hex.EncodedLen(sha256.Size) {
		config = "[core]\n\trepositoryformatversion = 1\n\tbare = true\n[extensions]\n\tobjectformat = sha256\n"
	}
	err = errors.Join(os.Mkdir(filepath.Join(dir, "objects"), 0o700), os.Mkdir(filepath.Join(dir, "refs"), 0o700),
		os.WriteFile(filepath.Join(dir, "HEAD"), []byte("ref: refs/heads/none\n"), 0o600),
		os.WriteFile(filepath.Join(dir, "config"), []byte(config), 0o600))
	if err != nil {
		g.Close()
		return nil, err
	}
	quoted := make([]string, len(dirs))
	for i, d := range dirs {
		quoted[i] = `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(d) + `"`
	}
	g.env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "LC_ALL=C", "GIT_DIR=" + dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_NO_REPLACE_OBJECTS=1", "GIT_TERMINAL_PROMPT=0", "GIT_ALTERNATE_OBJECT_DIRECTORIES=" + strings.Join(quoted, ":"),
	}
	return g, nil
}

// removeOldObjects removes the repositories of processes that were killed.
func removeOldObjects(parent string) {
	entries, _ := os.ReadDir(parent) // ignore the error: creating a repository in this directory reports it
	for _, e := range entries {
		if info, err := e.Info(); err == nil && strings.HasPrefix(e.Name(), gitPrefix) &&
			time.Since(info.ModTime()) > gitAge {
			_ = os.RemoveAll(filepath.Join(parent, e.Name())) // ignore the error: the next call tries again
		}
	}
}

// Close removes the separate repository.
func (g *Objects) Close() { _ = os.RemoveAll(g.dir) }

func (g *Objects) ask(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), gitTimeout)
	defer cancel()
	c := exec.CommandContext(ctx, "git", args...) //nolint:gosec // object names that were checked, and paths
	c.Dir, c.Env = g.dir, g.env
	out, err := c.Output()
	return string(out), err
}

// Contains reports whether the history of one commit contains another commit.
func (g *Objects) Contains(commit, other string) bool {
	_, err := g.ask("merge-base", "--is-ancestor", other, commit)
	return err == nil
}

// Count returns the number of commits in the history of a commit that are not in the history of another one.
func (g *Objects) Count(commit, other string) int {
	out, _ := g.ask("rev-list", "--count", other+".."+commit) // ignore the error: the number is only information
	n, _ := strconv.Atoi(strings.TrimSpace(out))
	return n
}

// Blob is the state of a file in a commit. Deleted files have no name and no mode.
type Blob struct {
	Name string
	Mode uint32
}

// Changed returns the files that differ between a commit and its last common ancestor with another commit.
func (g *Objects) Changed(commit, other string) (map[string]Blob, error) {
	from, err := g.ask("merge-base", commit, other)
	if from = strings.TrimSpace(from); err != nil || from == "" {
		from = map[bool]string{true: "4b825dc642cb6eb9a060e54bf8d69288fbee4904", false: "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321"}[len(commit) == 40] // the empty tree
	}
	out, err := g.ask("diff-tree", "-r", "-z", "--no-renames", "--no-commit-id", "--raw", from, commit)
	if err != nil {
		return nil, err
	}
	all := make(map[string]Blob)
	parts := strings.Split(out, "\x00")
	for i := 0; i+1 < len(parts); i += 2 {
		fields := strings.Fields(strings.TrimPrefix(parts[i], ":")) // old mode, new mode, old name, new name, status
		if len(fields) != 5 {
			return nil, fmt.Errorf("git printed %q", parts[i])
		}
		b := Blob{Name: fields[3]}
		mode, _ := strconv.ParseUint(fields[1], 8, 32)
		if b.Mode = uint32(mode); b.Mode == 0 {
			b.Name = ""
		}
		all[parts[i+1]] = b
	}
	return all, nil
}

// Content returns the content of a blob with a name.
func (g *Objects) Content(name string) (string, error) { return g.ask("cat-file", "blob", name) }

// BlobOf returns the state of a file as git would store it without filters.
func BlobOf(path string, st *unix.Stat_t, length int) Blob {
	var in io.Reader
	size, mode := st.Size, uint32(0o100644)
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFLNK:
		to, err := os.Readlink(path)
		if err != nil {
			return Blob{}
		}
		in, size, mode = strings.NewReader(to), int64(len(to)), 0o120000
	case unix.S_IFREG:
		f, err := filetree.OpenRegular(path)
		if err != nil {
			return Blob{}
		}
		defer f.Close() //nolint:errcheck // only read
		in = f
		if st.Mode&0o100 != 0 {
			mode = 0o100755
		}
	default:
		return Blob{}
	}
	sum := sha1.New() //nolint:gosec // as above
	if length == hex.EncodedLen(sha256.Size) {
		sum = sha256.New()
	}
	fmt.Fprintf(sum, "blob %d\x00", size)
	if n, err := io.Copy(sum, in); err != nil || n != size {
		return Blob{}
	}
	return Blob{Name: hex.EncodeToString(sum.Sum(nil)), Mode: mode}
}
