package policy

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"toolhost.dev/host/internal/scratch"
	"toolhost.dev/sdk/tool"
	"toolhost.dev/shellscript"
)

// facts describes a command for the built-in rules. The method loss determines the lost files once and caches the
// result.
type facts struct {
	req     *Request
	c       *shellscript.Command
	lost    place
	unsure  bool // whether the value of the field "lost" is only suspected
	checked bool
	// uncertain reports that a rule applies only because the file system did not show the effect of the command.
	uncertain bool
}

// suspect reports whether the file system did not show the effect of the command.
func (f *facts) suspect() bool {
	f.uncertain = f.uncertain || f.req.files().uncertain
	return f.uncertain
}

// place is a kind of directory whose loss is judged. The kinds are in ascending order of damage.
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
	all  bool // whether the target is the content of the directory without the directory itself
	kept bool // whether mv moves the file within its directory or to a subdirectory
}

// loss returns the most valuable kind of directory that the command removes. It ignores paths that are unknown before
// the command runs.
func (f *facts) loss() place {
	if !f.checked {
		f.checked = true
		if targets, recursive := f.removed(); len(targets) > 0 && !f.c.Remote {
			f.lost = f.covered(targets, recursive)
			f.unsure = f.uncertain
		}
	}
	f.uncertain = f.unsure
	return f.lost
}

// removers lists the programs that the method "removed" handles.
var removers = []string{"rm", "unlink", "shred", "truncate", "mv", "chmod", "tee", "rsync", "tar", "zip", "7z", "7za",
	"7zr", "7zz", "srm", "wipe", "rimraf", "trash", "trash-put"}

// removed returns the paths that a command removes, moves away, overwrites or makes unreadable. The result
// "recursive" reports whether the files in target directories are also affected.
func (f *facts) removed() (targets []target, recursive bool) {
	c := f.c
	short, long, operands := arguments(c)
	switch c.Name() {
	case "rm", "srm", "wipe":
		return f.targets(operands), isRecursive(short, long, "rR")
	case "rimraf", "trash", "trash-put":
		return f.targets(operands), true
	case "unlink":
		return f.targets(operands), false
	case "shred", "truncate":
		return f.followed(operands), false
	case "tee":
		if strings.Contains(short, "a") || slices.Contains(long, "append") {
			return nil, false
		}
		return f.followed(operands), false
	case "mv":
		to, option := f.destination(), strings.Contains(short, "t") || canHave(long, "target-directory")
		return slices.DeleteFunc(f.moved(operands, option), func(t target) bool { return option && t.path == to }), true
	case "chmod":
		if len(operands) > 1 && locks(operands[0]) || len(operands) > 0 && locks("-"+short) {
			return f.followed(operands), true
		}
	case "rsync":
		return f.synchronized(long, operands), true
	case "zip":
		if (strings.Contains(short, "m") || canHave(long, "move")) && len(operands) > 1 {
			return append(f.targets(operands[1:]), f.listed(strings.Contains(short, "@"))...),
				strings.Contains(short, "r") || canHave(long, "recurse-paths")
		}
	case "7z", "7za", "7zr", "7zz":
		if strings.Contains(short, "sdel") && len(operands) > 2 {
			return append(f.targets(operands[2:]),
				f.listed(slices.ContainsFunc(operands, func(o string) bool { return o[0] == '@' }))...), true
		}
	case "tar":
		if canHave(long, "recursive-unlink") { // the archive determines the removed directories, so assume all
			return f.listed(true), true
		}
		if canHave(long, "remove-files") {
			return f.archived(long, operands), true
		}
	}
	return nil, false
}

// followed returns the targets of a program that follows links in its operands.
func (f *facts) followed(operands []string) []target {
	out := f.targets(operands)
	for i := range out {
		out[i].path = f.follow(out[i].path)
	}
	return out
}

// follow resolves all links in a path of [facts.resolve]. It leaves standard streams, which would be those of the host.
func (f *facts) follow(path string) string {
	if path == "" || isStream(path) {
		return path
	}
	return f.req.files().follow(path)
}

// listed returns all files of the working directory if the command reads the names of the removed files
// from a file.
func (f *facts) listed(yes bool) []target {
	if !yes || f.c.Dir == "" {
		return nil
	}
	return []target{{path: f.req.files().follow(f.c.Dir), all: true}}
}

// synchronized returns the files that rsync removes. With a --delete option, these are files that exist
// only in the destination. With --remove-source-files, these are the source files.
func (f *facts) synchronized(long, operands []string) (out []target) {
	n := len(operands) - 1
	if n < 1 {
		return nil
	}
	for _, l := range long {
		if last := operands[n]; strings.HasPrefix(l, "del") && !isRemotePath(last) {
			out = append(out, target{path: f.resolve(last), all: true})
		}
		if l == "remove-source-files" || l == "remove-sent-files" {
			out = append(out, f.targets(slices.DeleteFunc(slices.Clone(operands[:n]), isRemotePath))...)
		}
	}
	return out
}

// archived returns the files that tar adds to an archive. If tar first changes to a directory, the result
// contains the whole directory.
func (f *facts) archived(long, operands []string) []target {
	all := slices.Clone(operands)
	for _, o := range operands {
		all = append(all, o+"/")
	}
	list := false
	for _, w := range f.c.Words[1:] {
		if dir, ok := strings.CutPrefix(w.Text, "-C"); ok && dir != "" {
			all = append(all, dir+"/")
		}
		list = list || strings.HasPrefix(w.Text, "-") && !strings.HasPrefix(w.Text, "--") &&
			strings.Contains(w.Text, "T")
	}
	for _, l := range long {
		if name, dir, _ := strings.Cut(l, "="); shellscript.Abbreviates(name, "directory") && dir != "" {
			all = append(all, dir+"/")
		}
		list = list || canHave([]string{l}, "files-from")
	}
	list = list || len(operands) > 0 && len(f.c.Words) > 1 && f.c.Words[1].Text == operands[0] &&
		strings.Contains(operands[0], "T") // the first word of tar can contain options without a dash
	return append(f.targets(all), f.listed(list)...)
}

// moved returns the files that mv moves. The last operand is the destination, unless an option names the
// destination.
func (f *facts) moved(operands []string, option bool) []target {
	to := ""
	if n := len(operands) - 1; n > 0 && !option {
		to, operands = f.resolve(operands[n]), operands[:n]
	}
	out := f.targets(operands)
	for i := range out {
		dir := filepath.Dir(out[i].path)
		if out[i].all {
			dir = out[i].path
		}
		out[i].kept = to != "" && within(to, dir)
	}
	return out
}

// Move is a file or directory that gets another path.
type Move struct{ From, To string }

// Moves returns what a program moves, as far as its arguments show it. It returns nil if the policy does not need it.
func (p *Policy) Moves(x *Execution) (out []Move) {
	if !p.rules.Careful {
		return nil
	}
	commands, _ := p.carried(x)
	for i := range commands {
		c := &commands[i]
		if c.Name() == "git" && len(c.Words) > 1 {
			c.Words = c.Words[1:]
		}
		if c.Name() != "mv" || c.Remote {
			continue
		}
		f := &facts{req: &Request{Call: x.Call, tree: newTree(x.Files)}, c: c}
		to, into := f.destination(), false
		if _, dir, _ := f.req.files().lstat(f.req.files().follow(to)); dir {
			to, into = f.req.files().follow(to), true
		}
		targets, _ := f.removed()
		for _, t := range targets {
			at := to
			if into {
				at = filepath.Join(to, filepath.Base(t.path))
			}
			out = append(out, Move{t.path, at})
		}
	}
	return out
}

// locks reports whether a mode for chmod removes a permission of the owner, so that files in the
// directory become unreadable.
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

// targets returns the paths of operands. If an operand means all files in a directory, the field "all" of its target is
// true.
func (f *facts) targets(operands []string) (out []target) {
	patterns := make(map[string]bool) // paths of operands in which the shell expands wildcards
	for _, w := range f.c.Words {
		if w.Split {
			patterns[w.Text] = true
		}
	}
	for _, o := range operands {
		dir, base := filepath.Split(o)
		if (base == "*" || base == "**") && patterns[o] {
			if dir == "" {
				dir = "."
			}
			o = dir
		} else {
			base = ""
		}
		if path := f.resolve(o); path != "" {
			out = append(out, target{path: path, all: base != ""})
		}
	}
	return out
}

// resolve returns the absolute path of an operand and resolves the directories in the path. It resolves the last
// element only if a slash follows. The result is empty for an unknown path.
func (f *facts) resolve(operand string) string {
	dir, files := f.c.Dir, f.req.files()
	if operand == "" || strings.Contains(operand, shellscript.Unknown) || dir == "" && !filepath.IsAbs(operand) {
		return ""
	}
	if _, host := files.files.(hostFiles); host { // in the file system of the host, /proc/self is the host process
		operand = ofSelf(operand, dir)
	}
	path := operand // do not clean the path, because ".." after a link leads elsewhere
	if !filepath.IsAbs(path) {
		path = dir + "/" + operand
	}
	if base := filepath.Base(operand); strings.HasSuffix(operand, "/") || base == "." || base == ".." {
		return files.follow(path)
	}
	parent, base := filepath.Split(path)
	return filepath.Join(files.follow(parent), base)
}

// ofSelf replaces a leading /proc/self/cwd or /proc/self/root in a path by the directory or root of the process.
func ofSelf(path, dir string) string {
	for range maxLinks {
		rest, ok := strings.CutPrefix(path, "/proc/self/")
		if !ok {
			rest, ok = strings.CutPrefix(path, "/proc/thread-self/")
		}
		name, below, _ := strings.Cut(rest, "/")
		switch {
		case ok && name == "cwd" && dir != "":
			path = dir + "/" + below
		case ok && name == "root":
			path = "/" + below
		default:
			return path
		}
	}
	return path
}

// guarded is a directory whose loss is judged.
type guarded struct {
	path   string
	kind   place
	id     identity
	exists bool
}

// places returns the directories whose loss is judged. These are the home directory, the workspace and the writable
// roots. Repositories that contain these directories or the working directory are included.
func (f *facts) places() []guarded {
	files := f.req.files()
	kinds, tops := make(map[string]place), make(map[string]bool)
	add := func(path string, kind place) {
		if path != "" && path != "/" {
			kinds[path] = max(kinds[path], kind)
			path = files.follow(path)
			kinds[path] = max(kinds[path], kind)
		}
	}
	add(homeDir(), home)
	add(f.req.Workspace, workspace)
	if f.req.Workspace != "" && f.req.Workspace == homeDir() {
		kinds[f.req.Workspace] = workspace // the operator permits changes to the workspace
	}
	if f.req.Call != nil {
		rest, _ := scratch.Split(f.req.Call.Roots)
		for _, root := range rest {
			if root.Writable {
				add(root.Path, workspace)
			}
		}
	}
	for _, path := range slices.Collect(maps.Keys(kinds)) {
		tops[files.repositoryOf(path)] = true
	}
	tops[files.repositoryOf(f.c.Dir)] = true
	for top := range tops {
		if top == "" {
			continue
		}
		add(top, repository)
		for _, name := range []string{"objects", "objects/pack", "refs"} { // without these directories, the history is lost
			add(filepath.Join(top, ".git", name), repository)
		}
	}
	out := make([]guarded, 0, len(kinds))
	for path, kind := range kinds {
		id, _, exists := files.lstat(path)
		out = append(out, guarded{path, kind, id, exists})
	}
	return out
}

// placeOf returns the kind of a directory. It also recognizes a directory that is reached by a second path, for
// example through a mount.
func (f *facts) placeOf(path string, places []guarded) (kind place, dir bool) {
	id, dir, exists := f.req.files().lstat(path)
	for _, g := range places {
		if g.path == path || exists && dir && g.exists && g.id == id {
			kind = max(kind, g.kind)
		}
	}
	return kind, dir
}

// covered returns the most valuable kind of directory that the targets remove.
func (f *facts) covered(targets []target, recursive bool) (lost place) {
	places := f.places()
	inside := make(map[string]map[string]bool) // names of the targets in each directory
	add := func(dir, name string, whole bool) {
		if inside[dir] == nil {
			inside[dir] = make(map[string]bool)
		}
		inside[dir][name] = inside[dir][name] || whole
	}
	for _, t := range targets {
		stays := t.all && t.kept // mv keeps all files in or below the directory
		for _, g := range places {
			if !stays && (recursive && within(g.path, t.path) || t.all && g.path == t.path) {
				lost = max(lost, g.kind)
			}
		}
		dir := false
		if recursive && !stays {
			var kind place
			kind, dir = f.placeOf(t.path, places)
			lost = max(lost, kind)
		}
		if f.isGit(t, recursive, dir) {
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
			if kind, _ := f.placeOf(dir, places); kind > lost && f.most(dir, names, recursive) {
				lost = kind
			}
		}
	}
	if lost < workspace && f.suspect() {
		lost = workspace
	}
	return lost
}

// within reports whether a path equals dir or is below dir.
func within(path, dir string) bool {
	_, ok := tool.Root{Path: dir}.Rel(path)
	return ok
}

const (
	// fewEntries is the minimum number of lost entries for a loss to count as the loss of the directory.
	fewEntries = 3
	// maxEntries limits the number of entries that are read from one directory.
	maxEntries = 100_000
)

// most reports whether the map "names" contains nearly all entries of a directory. Hidden entries do not
// count, because the shell pattern * does not match them. The value for a name is true for a target, and false for a
// directory that contains a target.
func (f *facts) most(dir string, names map[string]bool, recursive bool) bool {
	files := f.req.files()
	entries, _ := files.names(dir, maxEntries)
	gone, left := 0, 0
	for _, e := range entries {
		if strings.HasPrefix(e, ".") {
			continue
		}
		whole, named := names[e]
		path := filepath.Join(dir, e)
		if named && whole && !recursive {
			_, isDir, _ := files.lstat(path)
			named = !isDir
		}
		switch {
		case named:
			gone++
		case !files.isEmpty(path): // an empty directory does not count as remaining
			left++
		}
		if left*9 > len(names) { // the remaining entries cannot change the result
			return false
		}
	}
	if len(entries) == maxEntries {
		files.uncertain = true
	}
	return gone >= fewEntries && gone >= left*9
}

// isGit reports whether a target is essential data of a repository in a root or in the home directory. Essential data
// is .git or a file that the repository requires. The argument "dir" reports whether the target is a directory that is
// removed with all its files.
func (f *facts) isGit(t target, recursive, dir bool) bool {
	files, base := f.req.files(), filepath.Base(t.path)
	switch {
	case base == ".git" && (recursive || t.all):
	case base == ".git":
		if _, dir, _ := files.lstat(t.path); dir { // without recursion, a directory cannot be removed
			return false
		}
	case slices.Contains([]string{"objects", "refs", "HEAD", "packed-refs"}, base) &&
		files.isGitDir(filepath.Dir(t.path)):
	case (dir || t.all) && files.isGitDir(t.path):
	default:
		return false
	}
	top := files.repositoryOf(f.c.Dir)
	in := f.req.Workspace != "" && within(t.path, f.req.Workspace) || top != "" && within(t.path, top)
	if !in && f.req.Call != nil {
		rest, _ := scratch.Split(f.req.Call.Roots)
		_, in = containing(rest, t.path)
	}
	return in
}
