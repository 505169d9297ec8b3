package policy

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/scratch"
	"toolhost.dev/sandbox/fingerprint"
	"toolhost.dev/sandbox/stamp"
	"toolhost.dev/shellscript"
)

// Files is the file system as a process sees it. All paths are absolute.
type Files interface {
	// Follow resolves all symbolic links in a path, including the last element. If an element does not exist, Follow
	// appends the remaining elements unresolved.
	Follow(path string) (string, error)
	// Lstat returns the identity of a file and whether the file is a directory. Lstat does not follow links.
	Lstat(path string) (device, inode uint64, dir bool, err error)
	// Names returns the names of at most limit entries of a directory. Names does not follow links.
	Names(dir string, limit int) ([]string, error)
	// Born returns the time at which a file was created, or the zero time if the file system does not store it.
	Born(path string) time.Time
	// Fingerprint returns the fingerprint of a program, or "" if the path cannot be read; see package fingerprint.
	Fingerprint(path string) string
}

// hostFiles is the file system of the host. If the roots contain the temporary directory of a session, hostFiles shows
// this directory in the same way as the session does.
type hostFiles struct{ roots []tool.Root }

func (h hostFiles) Follow(path string) (string, error) {
	target, _, err := follow(h.temporary(), path)
	return target, err
}

// temporary returns the roots if they contain the temporary directory of a session. Otherwise it returns nil.
func (h hostFiles) temporary() []tool.Root {
	if _, tmp := scratch.Split(h.roots); tmp.Path == tmp.Source {
		return nil
	}
	return h.roots
}

func (h hostFiles) Lstat(path string) (device, inode uint64, dir bool, err error) {
	var st unix.Stat_t
	if err := unix.Lstat(scratch.OnHost(h.roots, path), &st); err != nil {
		return 0, 0, false, err
	}
	return uint64(st.Dev), st.Ino, st.Mode&unix.S_IFMT == unix.S_IFDIR, nil //nolint:unconvert // the type depends on the system
}

// Names returns an error if the path is not a directory. It does not block on a named pipe.
func (h hostFiles) Names(dir string, limit int) ([]string, error) {
	d, err := os.OpenFile(scratch.OnHost(h.roots, dir),
		unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer d.Close() //nolint:errcheck // nothing was written
	names, err := d.Readdirnames(limit)
	if len(names) > 0 || errors.Is(err, io.EOF) {
		err = nil
	}
	return names, err
}

func (h hostFiles) Fingerprint(path string) string {
	f, err := os.OpenFile(scratch.OnHost(h.roots, path), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return ""
	}
	defer f.Close() //nolint:errcheck // only read
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() {
		return ""
	}
	head := make([]byte, fingerprint.Head)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return ""
	}
	return fingerprint.Of(f, head[:n], st.Size())
}

func (h hostFiles) Born(path string) time.Time {
	return stamp.Born(unix.AT_FDCWD, scratch.OnHost(h.roots, path))
}

// maxOperations limits the file operations of one judgement, including each directory entry that is read. A judgement
// that reaches the limit is uncertain.
var maxOperations = 2_000_000

// maxTime limits the time of one judgement.
var maxTime = 2 * time.Second

// tree is the file system of one judgement. It caches the resolved paths. The judgement becomes uncertain at a limit,
// or at an error that the process itself would not get.
type tree struct {
	files    Files
	followed map[string]string
	tops     map[string]string // top directories of repositories, by directory
	left     int
	deadline time.Time
	// uncertain reports that the file system did not show all required facts.
	uncertain bool
}

func newTree(files Files) *tree {
	if files == nil {
		files = hostFiles{}
	}
	return &tree{files: files, followed: make(map[string]string), tops: make(map[string]string), left: maxOperations,
		deadline: time.Now().Add(maxTime)}
}

// spend counts n operations and reports whether the judgement is still within its limits.
func (t *tree) spend(n int) bool {
	if t.left -= n; t.left < 0 || time.Now().After(t.deadline) {
		t.left, t.uncertain = -1, true
		return false
	}
	return true
}

// follow resolves the links in a path. If an error occurs, it returns the cleaned path.
func (t *tree) follow(path string) string {
	if target, known := t.followed[path]; known {
		return target
	}
	if target, missing := t.absent(path); missing {
		return target
	}
	if !t.spend(1 + len(path)/16) {
		return filepath.Clean(path)
	}
	target, err := t.files.Follow(path)
	if err != nil {
		target = filepath.Clean(path)
		t.failed(err)
	}
	t.followed[path] = target
	return target
}

// absent reports whether the last element of a path does not exist, and returns the path with its directory
// resolved. This is cheaper than resolving many paths of the same directory.
func (t *tree) absent(path string) (target string, missing bool) {
	dir, base := filepath.Split(path)
	if base == "" || base == "." || base == ".." || dir == "" || dir == "/" || !t.spend(1) {
		return "", false
	}
	target = filepath.Join(t.follow(dir), base)
	_, _, _, err := t.files.Lstat(target)
	return target, errors.Is(err, os.ErrNotExist)
}

// failed makes the judgement uncertain, unless the process would get the same error.
func (t *tree) failed(err error) {
	for _, ordinary := range []error{errLinks, os.ErrNotExist, syscall.ENOTDIR, syscall.ELOOP, syscall.EACCES,
		syscall.ENAMETOOLONG, syscall.EINVAL} {
		if errors.Is(err, ordinary) {
			return
		}
	}
	t.uncertain = true
}

type identity struct{ device, inode uint64 }

func (t *tree) lstat(path string) (id identity, dir, ok bool) {
	if !t.spend(1) {
		return identity{}, false, false
	}
	device, inode, dir, err := t.files.Lstat(path)
	if err != nil {
		t.failed(err)
		return identity{}, false, false
	}
	return identity{device, inode}, dir, true
}

func (t *tree) exists(path string) bool {
	_, _, ok := t.lstat(path)
	return ok
}

// names returns the names of at most limit entries of a directory. If the path is not a directory, ok is
// false.
func (t *tree) names(dir string, limit int) (names []string, ok bool) {
	if !t.spend(1) {
		return nil, false
	}
	names, err := t.files.Names(dir, limit)
	if err != nil {
		t.failed(err)
		return nil, false
	}
	return names, t.spend(len(names))
}

// isEmpty reports whether a path is a directory without entries.
func (t *tree) isEmpty(path string) bool {
	names, ok := t.names(path, 1)
	return ok && len(names) == 0
}

// born returns the time at which a file was created, or the zero time if it is unknown.
func (t *tree) born(path string) time.Time {
	if !t.spend(1) {
		return time.Time{}
	}
	return t.files.Born(path)
}

// older reports whether a file is one of before the session: it was created earlier, or replaced one that was.
// For a directory, the method also examines the files in the directory, because moved files keep their times.
func (req *Request) older(path string) bool {
	t := req.files()
	if req.Since.IsZero() || !t.born(path).After(req.Since) || req.existed(path) {
		return true
	}
	if _, dir, _ := t.lstat(path); !dir {
		return false
	}
	names, _ := t.names(path, maxEntries)
	if len(names) == maxEntries {
		t.uncertain = true
	}
	return slices.ContainsFunc(names, func(name string) bool { return req.older(filepath.Join(path, name)) })
}

// existed reports whether a path was in use before the session.
func (req *Request) existed(path string) bool {
	if req.Past == nil || req.Call == nil {
		return false
	}
	if req.past == nil {
		req.past = req.Past.Existed(req.Call.Roots)
	}
	return req.past(path)
}

// repositoryOf returns the top directory of the repository that contains dir. The result is empty if there is no
// repository.
func (t *tree) repositoryOf(dir string) string {
	if !filepath.IsAbs(dir) {
		return ""
	}
	dir = t.follow(dir)
	if top, known := t.tops[dir]; known {
		return top
	}
	top := ""
	for at := dir; ; at = filepath.Dir(at) {
		if t.exists(filepath.Join(at, ".git")) {
			top = at
			break
		}
		if at == "/" || at == homeDir() || at == t.follow(homeDir()) {
			break
		}
	}
	t.tops[dir] = top
	return top
}

// isGitDir reports whether a directory contains the data of a repository.
func (t *tree) isGitDir(dir string) bool {
	for _, name := range []string{"HEAD", "objects", "refs"} {
		if !t.exists(filepath.Join(dir, name)) {
			return false
		}
	}
	return true
}

// files returns the file system of the request's operands.
func (req *Request) files() *tree {
	if req.tree == nil {
		req.tree = newTree(req.host())
	}
	return req.tree
}

// host returns the file system of the host as the tools of the request see it.
func (req *Request) host() hostFiles {
	if req.Call == nil {
		return hostFiles{}
	}
	return hostFiles{req.Call.Roots}
}

// runs contains the files whose content a command runs, such as s.sh in "sh s.sh", with their states when a person was
// asked. A path without a regular file has a zero stamp.
type runs struct {
	host  hostFiles
	dir   string // for relative paths of commands whose directory is unknown
	files map[string]stamp.Stamp
}

// maxRuns limits the paths in [runs].
const maxRuns = 4000

// implied lists the files that an interpreter runs if it is given their directory or none.
var implied = []string{"GNUmakefile", "makefile", "Makefile", "__main__.py"}

// filters lists interpreters whose operands and input are data. Only the option -f names their programs.
var filters = []string{"awk", "gawk", "mawk", "nawk", "sed"}

// runsOf returns the files that the commands of a script run. An interpreter without a file reads its program from
// standard input, so that every file that the script names can be the program.
func runsOf(req *Request, dir string, commands []shellscript.Command, reads []shellscript.File) *runs {
	r := &runs{host: req.host(), dir: dir, files: make(map[string]stamp.Stamp)}
	all := false
	for i := range commands {
		c := &commands[i]
		name := c.Name()
		if c.Remote || !c.Words[0].Known() {
			continue
		}
		if strings.Contains(c.Words[0].Text, "/") {
			r.add(c.Dir, c.Words[0])
		}
		if name != "." && name != "source" && !shellscript.IsInterpreter(name) {
			continue
		}
		found := r.add(c.Dir, operands(c)...)
		if name == "make" || name == "gmake" {
			found = r.add(c.Dir, shellscript.Word{Text: "."}) || found
		}
		all = all || !found && !slices.Contains(filters, name) && name != "env"
	}
	if all {
		for i := range commands {
			r.add(commands[i].Dir, operands(&commands[i])...)
		}
		for _, f := range reads {
			r.add(f.Dir, f.Path)
		}
	}
	return r
}

// operands returns the words of a command that can name a file to run, and the values of its options.
func operands(c *shellscript.Command) (out []shellscript.Word) {
	only := slices.Contains(filters, c.Name())
	for i, w := range c.Words[1:] {
		_, value, assigned := strings.Cut(w.Text, "=")
		switch before := c.Words[i].Text; {
		case assigned && strings.HasPrefix(w.Text, "-"):
			out = append(out, shellscript.Word{Text: value})
		case strings.HasPrefix(w.Text, "-") && len(w.Text) > 2:
			out = append(out, shellscript.Word{Text: w.Text[2:]})
		case !only || before == "-f" || before == "--file":
			out = append(out, w)
		}
	}
	return out
}

// add adds paths that are relative to a directory, and reports whether one of them is a regular file.
func (r *runs) add(dir string, paths ...shellscript.Word) (found bool) {
	if dir == "" {
		dir = r.dir
	}
	for _, w := range paths {
		if !w.Known() || w.Text == "" || len(r.files) >= maxRuns {
			continue
		}
		path := w.Text
		if !filepath.IsAbs(path) {
			path = dir + "/" + path
		}
		for _, path := range append([]string{path}, inside(path)...) {
			r.files[path] = r.host.stamp(path)
			found = found || r.files[path] != stamp.Stamp{}
		}
	}
	return found
}

// inside returns the paths of [implied] files in a directory.
func inside(dir string) (out []string) {
	for _, name := range implied {
		out = append(out, dir+"/"+name)
	}
	return out
}

// changed returns an error if a file is not in the state that it had when the person was asked.
func (r *runs) changed() error {
	if r == nil {
		return nil
	}
	for path, before := range r.files {
		if r.host.stamp(path) != before {
			return tool.Errorf(tool.Security, "%s changed after the call was permitted, so it was not run. Read it, and run the call again.", filepath.Clean(path))
		}
	}
	return nil
}

// stamp returns the stamp of a regular file. It follows links. For any other file, it returns a zero Stamp. The results
// can be compared with ==, because their field Taken is zero.
func (h hostFiles) stamp(path string) (out stamp.Stamp) {
	target, err := h.Follow(path)
	var st unix.Stat_t
	if err != nil || unix.Lstat(scratch.OnHost(h.roots, target), &st) != nil {
		return out
	}
	if s := stamp.Of(&st, out.Taken); s.IsFile() {
		return s
	}
	return out
}
