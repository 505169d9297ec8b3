package policy

import (
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"toolhost.dev/host/internal/script"
	"toolhost.dev/sdk/tool"
)

// facts are what built-in rules know about a command. loss finds what the command removes, once for all rules.
type facts struct {
	req     *Request
	c       *script.Command
	lost    place
	checked bool
}

// place is a kind of directory whose loss is judged. Later places are more than earlier ones.
type place int

const (
	nowhere place = iota
	repository
	workspace
	home
)

// target is a path that a command removes, moves away or overwrites.
type target struct {
	path string
	all  bool // whether all files in the directory are meant, but not the directory
	kept bool // whether the file stays below its directory
}

// loss returns the most that the command removes. Paths that are unknown before the command runs are not considered.
func (f *facts) loss() place {
	if !f.checked {
		f.checked = true
		if targets, recursive := removed(f.c); len(targets) > 0 && !f.c.Remote {
			f.lost = f.covered(targets, recursive)
		}
	}
	return f.lost
}

// removers lists the programs that [removed] knows.
var removers = []string{"rm", "unlink", "shred", "truncate", "mv", "chmod", "tee", "rsync", "tar", "srm", "wipe", "rimraf", "trash", "trash-put"}

// removed returns the paths that a command removes, moves away, overwrites or makes unreadable. The result recursive
// reports whether the command does so with all files in the directories among them.
func removed(c *script.Command) (targets []target, recursive bool) {
	short, long, operands := arguments(c)
	has := func(names ...string) bool {
		return slices.ContainsFunc(long, func(l string) bool {
			return slices.ContainsFunc(names, func(n string) bool { return l == n || strings.HasPrefix(l, n+"=") })
		})
	}
	switch c.Name() {
	case "rm", "srm", "wipe":
		return files(c, operands), isRecursive(short, long, "rR")
	case "rimraf", "trash", "trash-put":
		return files(c, operands), true
	case "unlink", "shred", "truncate":
		return files(c, operands), false
	case "tee":
		if strings.Contains(short, "a") || has("append") {
			return nil, false
		}
		return files(c, operands), false
	case "mv":
		return moved(c, operands, strings.Contains(short, "t") || has("target-directory")), true
	case "chmod":
		if len(operands) > 1 && locks(operands[0]) || len(operands) > 0 && locks("-"+short) {
			return files(c, operands), true
		}
	case "rsync":
		if slices.ContainsFunc(long, func(l string) bool { return strings.HasPrefix(l, "del") }) && len(operands) > 1 {
			if last := operands[len(operands)-1]; !strings.Contains(last, ":") {
				return []target{{path: resolve(c, last), all: true}}, true
			}
		}
	case "tar":
		if has("remove-files") {
			return files(c, operands), true
		}
	}
	return nil, false
}

// moved returns the files that mv moves. The last operand is their new place, unless an option names it.
func moved(c *script.Command, operands []string, option bool) []target {
	to := ""
	if n := len(operands) - 1; n > 0 && !option {
		to, operands = resolve(c, operands[n]), operands[:n]
	}
	out := files(c, operands)
	for i := range out {
		dir := filepath.Dir(out[i].path)
		if out[i].all {
			dir = out[i].path
		}
		out[i].kept = to != "" && within(to, dir)
	}
	return out
}

// locks reports whether a mode for chmod takes a permission from the owner of a directory, which makes its files
// unreadable.
func locks(mode string) bool {
	if strings.Trim(mode, "01234567") == "" && mode != "" {
		return len(mode) < 3 || mode[len(mode)-3] < '5'
	}
	for _, clause := range strings.Split(mode, ",") {
		who, what, ok := strings.Cut(clause, "-")
		if ok && (who == "" || strings.ContainsAny(who, "ua")) && strings.ContainsAny(what, "rx") {
			return true
		}
		who, what, ok = strings.Cut(clause, "=")
		if ok && (who == "" || strings.ContainsAny(who, "ua")) && !strings.Contains(what, "r") {
			return true
		}
	}
	return false
}

// files returns the paths of operands. An operand for all files in a directory is a target with all set.
func files(c *script.Command, operands []string) (out []target) {
	for _, o := range operands {
		dir, base := filepath.Split(o)
		if (base == "*" || base == "**") && isPattern(c, o) {
			if dir == "" {
				dir = "."
			}
			o = dir
		} else {
			base = ""
		}
		if path := resolve(c, o); path != "" {
			out = append(out, target{path: path, all: base != ""})
		}
	}
	return out
}

// isPattern reports whether the shell expands the wildcards in an operand.
func isPattern(c *script.Command, operand string) bool {
	return slices.ContainsFunc(c.Words, func(w script.Word) bool { return w.Split && w.Text == operand })
}

// resolve returns the absolute path of an operand. The directories in the path are resolved, and also the last element if
// a slash follows. The result is empty for an unknown path.
func resolve(c *script.Command, operand string) string {
	if operand == "" || strings.Contains(operand, script.Unknown) || c.Dir == "" && !filepath.IsAbs(operand) {
		return ""
	}
	for _, self := range []string{"/proc/self/cwd", "/proc/thread-self/cwd"} {
		if rest, ok := strings.CutPrefix(operand, self); ok && (rest == "" || rest[0] == '/') && c.Dir != "" {
			operand = c.Dir + rest
		}
	}
	path := operand // not cleaned, because .. after a link leads elsewhere
	if !filepath.IsAbs(path) {
		path = c.Dir + "/" + operand
	}
	if base := filepath.Base(operand); strings.HasSuffix(operand, "/") || base == "." || base == ".." {
		if target, _, err := follow(nil, path); err == nil {
			return target
		}
		return filepath.Clean(path)
	}
	parent, base := filepath.Split(path)
	if target, _, err := follow(nil, parent); err == nil {
		return filepath.Join(target, base)
	}
	return filepath.Clean(path)
}

// guarded is a directory whose loss is judged.
type guarded struct {
	path string
	kind place
	info os.FileInfo // nil if the directory does not exist
}

// places returns the directories whose loss is judged: the home directory, the workspace, the writable roots, and the
// repositories that contain them or the working directory.
func (f *facts) places() []guarded {
	kinds := make(map[string]place)
	add := func(path string, kind place) {
		if path != "" && path != "/" {
			kinds[path] = max(kinds[path], kind)
			path = resolve(&script.Command{Dir: "/"}, path+"/")
			kinds[path] = max(kinds[path], kind)
		}
	}
	add(homeDir(), home)
	add(f.req.Workspace, workspace)
	if f.req.Workspace != "" && f.req.Workspace == homeDir() {
		kinds[f.req.Workspace] = workspace // the operator permits changes there
	}
	if f.req.Call != nil {
		for _, root := range f.req.Call.Roots {
			if root.Writable {
				add(root.Path, workspace)
			}
		}
	}
	for _, path := range slices.Collect(maps.Keys(kinds)) {
		add(repositoryOf(path), repository)
	}
	add(repositoryOf(f.c.Dir), repository)
	out := make([]guarded, 0, len(kinds))
	for path, kind := range kinds {
		info, _ := os.Stat(path) // ignore the error: the directory need not exist
		out = append(out, guarded{path, kind, info})
	}
	return out
}

// at returns the kind of a directory. It recognizes a directory that has several paths, for example through a mount.
func at(path string, places []guarded) (out place) {
	st, err := os.Lstat(path)
	for _, g := range places {
		if g.path == path || err == nil && st.IsDir() && g.info != nil && os.SameFile(st, g.info) {
			out = max(out, g.kind)
		}
	}
	return out
}

// repositoryOf returns the top of the repository that contains a directory. It is empty without a repository.
func repositoryOf(dir string) string {
	if !filepath.IsAbs(dir) {
		return ""
	}
	for {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			return dir
		}
		if dir == "/" || dir == homeDir() {
			return ""
		}
		dir = filepath.Dir(dir)
	}
}

// covered returns the most that is lost with the targets.
func (f *facts) covered(targets []target, recursive bool) (lost place) {
	places := f.places()
	inside := make(map[string]map[string]bool) // the targets in each directory
	add := func(dir, name string, whole bool) {
		if inside[dir] == nil {
			inside[dir] = make(map[string]bool)
		}
		inside[dir][name] = inside[dir][name] || whole
	}
	for i, t := range targets {
		stays := t.all && t.kept // all files of the directory stay below it
		for _, g := range places {
			if !stays && (recursive && within(g.path, t.path) || t.all && g.path == t.path) {
				lost = max(lost, g.kind)
			}
		}
		if recursive && !stays && i < maxTargets {
			lost = max(lost, at(t.path, places))
		}
		if i < maxTargets && f.isGit(t, recursive) {
			lost = max(lost, repository)
		}
		if !t.all && !t.kept {
			dir := filepath.Dir(t.path)
			add(dir, filepath.Base(t.path), true)
			for _, g := range places {
				if rel, ok := (tool.Root{Path: g.path}).Rel(t.path); ok && dir != g.path && rel != "." {
					first, _, _ := strings.Cut(rel, "/")
					add(g.path, first, false)
				}
			}
		}
	}
	for dir, names := range inside {
		if len(names) >= fewEntries {
			if kind := at(dir, places); kind > lost && most(dir, names, recursive) {
				lost = kind
			}
		}
	}
	return lost
}

// within reports whether a path is in a directory, or the directory.
func within(path, dir string) bool {
	_, ok := tool.Root{Path: dir}.Rel(path)
	return ok
}

const (
	// fewEntries is the number of entries below which a loss of all entries is not judged as the loss of the directory.
	fewEntries = 3
	// maxTargets limits the number of targets that are compared with directories under other paths.
	maxTargets = 1000
	// maxEntries limits the number of entries that are read.
	maxEntries = 100_000
)

// most reports whether the names are nearly all entries of a directory. Hidden entries do not count, because the pattern
// * of a shell does not match them. A name is true for a target, and false for a directory that contains one.
func most(dir string, names map[string]bool, recursive bool) bool {
	d, err := openDir(dir)
	if err != nil {
		return false
	}
	defer d.Close()                          //nolint:errcheck // nothing was written
	entries, _ := d.Readdirnames(maxEntries) // ignore the error: the entries read so far are judged
	all, count := 0, 0
	for _, e := range entries {
		if strings.HasPrefix(e, ".") {
			continue
		}
		whole, gone := names[e]
		switch path := filepath.Join(dir, e); {
		case gone && (!whole || recursive || !isDir(path)):
			count++
		case isEmpty(path):
			continue // nothing is left there, either
		}
		all++
	}
	return count >= fewEntries && count*10 >= all*9
}

// openDir opens a directory. It fails for other files, without waiting for the other end of a named pipe.
func openDir(path string) (*os.File, error) {
	return os.OpenFile(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK, 0)
}

// isEmpty reports whether a path is a directory without entries.
func isEmpty(path string) bool {
	d, err := openDir(path)
	if err != nil {
		return false
	}
	defer d.Close() //nolint:errcheck // nothing was written
	_, err = d.Readdirnames(1)
	return errors.Is(err, io.EOF)
}

// isGit reports whether a target is the data of a repository in a root or in the home directory: the directory .git, the
// file .git, or what a repository cannot do without.
func (f *facts) isGit(t target, recursive bool) bool {
	base := filepath.Base(t.path)
	switch {
	case base == ".git" && (recursive || t.all || !isDir(t.path)):
	case slices.Contains([]string{"objects", "refs", "HEAD", "packed-refs"}, base) && isGitDir(filepath.Dir(t.path)):
	case (recursive || t.all) && isGitDir(t.path):
	default:
		return false
	}
	top := repositoryOf(f.c.Dir)
	in := f.req.Workspace != "" && within(t.path, f.req.Workspace) || top != "" && within(t.path, top)
	if !in && f.req.Call != nil {
		_, in = containing(f.req.Call.Roots, t.path)
	}
	return in
}

// isGitDir reports whether a directory contains the data of a repository.
func isGitDir(dir string) bool {
	for _, name := range []string{"HEAD", "objects", "refs"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err != nil {
			return false
		}
	}
	return true
}
