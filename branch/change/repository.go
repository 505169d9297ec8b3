package change

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"toolhost.dev/branch/internal/filetree"
	"toolhost.dev/branch/internal/gitstate"
)

// Repository plans the changes in a directory of git that both the branch and the workspace changed:
//
//  1. Objects are added, and never removed.
//  2. Each ref is compared with its value in the workspace. If it is known, it is also compared with its value when
//     the branch began. A ref is changed only if the workspace did not change it, or if the new commit contains the
//     commit of the workspace.
//  3. HEAD and the index are taken from the branch only if the workspace changed neither HEAD nor the index nor the
//     current commit. Otherwise the commits of the branch are saved below refs/toolhost, and their files are left to
//     "git merge".
type Repository struct {
	w *walker
	// Dir is the directory of git, relative to the base.
	Dir string
	// cur contains the refs in the workspace, and next contains the refs in the branch.
	cur, next map[string]string
	objects   *gitstate.Objects // nil if git is not installed
	// diverged means that both the branch and the workspace changed HEAD, its ref or the index.
	diverged bool
	// set contains the new values of the refs that an apply changes in the workspace. An empty value deletes a ref.
	set map[string]string
	// saved is the name of the ref under which the commits of the branch are saved. files contains the files that these
	// commits change. Both are empty if the branch and the workspace did not diverge.
	saved string
	oid   string // the commit to which saved points
	files map[string]gitstate.Blob
	later []later
	// unreadable is a path in the repository. The path exists but cannot be read. A plan made without the content of
	// this path could remove refs.
	unreadable string
	// Notes are messages for people about what an apply does in the repository.
	Notes []string
	out   []Change
}

// repository adds the changes in a directory of git.
func (w *walker) repository(dir string) error {
	plain := w.part()
	if err := plain.walk(dir); err != nil {
		return err
	}
	w.ancestors = plain.ancestors
	conflict := slices.ContainsFunc(plain.out, func(c Change) bool { return c.Conflict != "" || c.Merge })
	if reftable := filetree.IsDirectory(filepath.Join(w.base, dir, "reftable")); !conflict &&
		!w.removesObjects(plain.out, dir) || w.exact || reftable {
		w.out, w.unite = append(w.out, plain.out...), append(w.unite, plain.unite...)
		return nil
	}
	w.unite = append(w.unite, plain.unite...)
	g := &Repository{w: w, Dir: dir, set: make(map[string]string)}
	w.repos = append(w.repos, g)
	err := g.plan(plain)
	w.out = append(w.out, g.out...)
	return err
}

// removesObjects reports whether a branch removes objects of git. New commits of the workspace can need these objects.
func (w *walker) removesObjects(changes []Change, dir string) bool {
	removes := slices.ContainsFunc(changes, func(c Change) bool {
		return strings.HasPrefix(c.Path, dir+"/objects/") && (c.Op == OpDelete || c.Op == OpReplace)
	})
	if !removes {
		return false
	}
	for _, name := range []string{"refs", "logs", "packed-refs", "HEAD", "index"} {
		at := filepath.Join(dir, name)
		if _, err := os.Lstat(filepath.Join(w.base, at)); err == nil {
			if _, touched := w.l.touchedBelow(at); touched {
				return true
			}
		}
	}
	return false
}

func (g *Repository) plan(plain *walker) error {
	base, branch := View{Base: g.w.base}, g.w.l.view()
	g.cur, g.next = g.refs(base), g.refs(branch)
	g.unshadow()
	oid := ""
	for _, value := range g.cur {
		if gitstate.IsObject(value) {
			oid = value
		}
	}
	objects, err := gitstate.Open(g.w.l.State, oid, filepath.Join(g.w.base, g.Dir, "objects"),
		filepath.Join(g.w.upper, g.Dir, "objects"))
	if err == nil {
		g.objects = objects
	}
	head := g.heads(base, branch)
	g.compareRefs(head)
	if err := g.saveHead(head); err != nil {
		return err
	}
	g.planRefs()
	for _, c := range plain.out {
		g.sort(c, head)
	}
	err = errors.Join(g.union("objects", plain, g.object), g.union("logs", plain, func(c Change) { g.log(c, head) }))
	if g.unreadable != "" {
		err = errors.Join(err, fmt.Errorf("%s cannot be read, or is larger than %d MiB", g.unreadable, maxPackedRefs>>20))
	}
	return err
}

// heads describes what is checked out in the branch and in the workspace.
type heads struct {
	ref          string // ref to which HEAD of the branch points; empty if it contains a commit
	oid          string // current commit of the branch
	was          string // current commit of the workspace
	branchMoved  bool
	workspaceRef string
}

// heads determines whether the branch and the workspace have changed HEAD, its ref or the index since the branch began.
func (g *Repository) heads(base, branch View) heads {
	mine, theirs := g.file(branch, "HEAD"), g.file(base, "HEAD")
	before, known := g.ancestor("HEAD", theirs)
	h := heads{ref: gitstate.HeadRef(mine), workspaceRef: gitstate.HeadRef(theirs)}
	h.branchMoved = mine != theirs && (!known || mine != before)
	moved := !known && mine != theirs || known && theirs != before
	h.oid, h.was = cmp.Or(g.next[h.ref], strings.TrimSpace(mine)),
		cmp.Or(g.cur[h.workspaceRef], strings.TrimSpace(theirs))
	if value, known := g.refBefore(h.ref); g.next[h.ref] != g.cur[h.ref] && (!known || g.next[h.ref] != value) {
		h.branchMoved = true
	}
	if value, known := g.refBefore(h.workspaceRef); h.workspaceRef != "" && (!known || value != g.cur[h.workspaceRef]) {
		moved = true
	}
	branchIndex, baseIndex := g.indexes()
	h.branchMoved = h.branchMoved || branchIndex
	g.diverged = h.branchMoved && (moved || baseIndex)
	return h
}

// indexes reports whether the branch and whether the workspace changed entries of the index.
func (g *Repository) indexes() (branch, base bool) {
	path := g.Dir + "/index"
	upper, lower := filepath.Join(g.w.upper, path), filepath.Join(g.w.base, path)
	var st unix.Stat_t
	there := unix.Lstat(upper, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG
	touched := g.w.l.Touched(path)
	mine, theirs := "", gitstate.IndexSum(lower)
	if there {
		mine = gitstate.IndexSum(upper)
	}
	before := ""
	if k := g.w.ancestorOf(path); k != nil {
		before = k.Index
	}
	if !touched {
		before = theirs
	}
	branch = there && (mine == "" || mine != theirs && mine != before)
	return branch, touched && (before == "" || theirs != before) && (!there || mine == "" || mine != theirs)
}

// ancestor returns the content that a file of the base had when the branch began. The argument "now" is its current
// content.
func (g *Repository) ancestor(name, now string) (text string, known bool) {
	path := g.Dir + "/" + name
	if k := g.w.ancestorOf(path); k != nil {
		text, err := k.text(g.w.l)
		return text, err == nil
	}
	var st unix.Stat_t
	if unix.Lstat(filepath.Join(g.w.base, path), &st) != nil {
		return "", false
	}
	return now, !g.w.l.Touched(path)
}

// refBefore returns the value that a ref had when the branch began.
func (g *Repository) refBefore(name string) (value string, known bool) {
	if name == "" {
		return "", true
	}
	base := View{Base: g.w.base}
	if text := g.file(base, name); text != "" {
		text, known = g.ancestor(name, text)
		return strings.TrimSpace(text), known
	}
	if k := g.w.ancestorOf(g.Dir + "/" + name); k != nil { // the ref was packed or deleted since then
		text, err := k.text(g.w.l)
		return strings.TrimSpace(text), err == nil
	}
	packed := g.file(base, "packed-refs")
	if packed == "" {
		return "", true
	}
	packed, known = g.ancestor("packed-refs", packed)
	return gitstate.ParsePacked(packed)[name], known
}

// compareRefs decides about all refs except HEAD and the ref to which HEAD points.
func (g *Repository) compareRefs(head heads) {
	for _, name := range slices.Sorted(maps.Keys(g.names())) {
		now, next := g.cur[name], g.next[name]
		if now == next || name == head.ref && g.diverged && now != "" || strings.HasPrefix(next, "ref: ") ||
			strings.HasPrefix(now, "ref: ") {
			continue
		}
		before, known := g.refBefore(name)
		switch {
		case known && next == before, next == "" && (!known || now != before):
			// the branch did not change the ref
		case known && now == before && (now != "" || !g.taken(name)):
			g.set[name] = next
		case now == "" && !g.taken(name):
			g.set[name] = next
		case now != "" && g.objects != nil && g.objects.Contains(now, next):
			// the workspace already contains the commit
		case now != "" && g.objects != nil && g.objects.Contains(next, now), name == "refs/stash":
			g.set[name] = next // for the stash, its log contains the earlier entries
		default:
			saved := g.saveAs(name, next)
			g.set[saved] = next
			g.Notes = append(g.Notes, fmt.Sprintf("The branch and the workspace both changed %s of %s, so the branch's version is saved as %s. To see its commits: git log %[3]s", name, g.Dir, saved))
		}
	}
}

// names returns a map with the names of all refs.
func (g *Repository) names() map[string]string {
	all := maps.Clone(g.cur)
	maps.Copy(all, g.next)
	return all
}

// saveHead saves the commits of the branch under another ref if the branch and the workspace diverged.
func (g *Repository) saveHead(head heads) error {
	if !g.diverged || !gitstate.IsObject(head.oid) {
		return nil
	}
	if head.oid == head.was || g.objects != nil && g.objects.Contains(head.was, head.oid) {
		return nil // do nothing, because the workspace already contains the commits
	}
	if g.objects == nil {
		return errors.New("the branch and the workspace both have new commits, and git is not installed, which compares them. Install git")
	}
	if g.oid, g.saved = head.oid, head.ref; g.set[head.ref] != head.oid {
		g.saved = g.saveAs(cmp.Or(head.ref, "HEAD"), head.oid)
		g.set[g.saved] = head.oid
	}
	var err error
	if g.files, err = g.objects.Changed(head.oid, head.was); err != nil {
		return fmt.Errorf("the commits of the branch in %s cannot be read: %w", g.Dir, err)
	}
	in := ""
	if at := filepath.Dir(g.Dir); at != "." {
		in = "-C " + at + " "
	}
	g.Notes = append(g.Notes, fmt.Sprintf("The branch and the workspace both have new commits or a changed index. What the branch committed (commits: %d, files: %d) is saved as %s and was not made in the files. To bring it in: git %smerge %[3]s", g.objects.Count(head.oid, head.was), len(g.files), g.saved, in))
	return nil
}

// planRefs adds the changes of refs. If a ref has its own file, the file is changed. All other refs are changed in
// packed-refs.
func (g *Repository) planRefs() {
	packed := make(map[string]string)
	base := View{Base: g.w.base}
	list := g.file(base, "packed-refs")
	listed := gitstate.ParsePacked(list)
	for _, name := range slices.Sorted(maps.Keys(g.set)) {
		value := g.set[name]
		loose := g.file(base, name) != ""
		switch {
		case loose && value != "":
			g.write(name, value+"\n", OpModify)
		case loose:
			c := g.change(name, OpDelete)
			g.out = append(g.out, c)
		}
		if !loose && value != "" || value == "" && listed[name] != "" {
			packed[name] = value
		}
	}
	if len(packed) > 0 {
		op := OpModify
		if list == "" {
			op = OpCreate
		}
		g.write("packed-refs", gitstate.Repack(list, packed), op)
	}
}

// change returns a change of the given kind for a file of the repository.
func (g *Repository) change(name string, op Op) Change {
	path := g.Dir + "/" + name
	c := Change{Path: path, Op: op, Is: "file", Mode: 0o644}
	var lo, up unix.Stat_t
	if g.w.reachable(path) {
		// Ignore the error: it means that the layer does not contain the file.
		_ = unix.Lstat(filepath.Join(g.w.upper, path), &up)
	}
	if op != OpCreate && unix.Lstat(filepath.Join(g.w.base, path), &lo) == nil {
		c.Was, c.OldMode, c.OldSize, c.Before = "file", uint32(lo.Mode)&0o7777, lo.Size, StampOf(&lo) //nolint:unconvert // not all systems have 32 bits here
		c.Mode = c.OldMode
	}
	if op == OpDelete {
		c.Is, c.Mode = "", 0
	}
	if up.Mode&unix.S_IFMT == unix.S_IFREG || op == OpDelete && filetree.IsWhiteout(&up) {
		c.Inode = up.Ino
	}
	return c
}

// reachable reports whether all directories above a path of the layer exist and stay, so that the layer's file can be
// moved.
func (w *walker) reachable(path string) bool {
	for at := filepath.Dir(path); at != "."; at = filepath.Dir(at) {
		if opaque, err := filetree.IsOpaque(filepath.Join(w.upper, at)); opaque || err != nil ||
			!filetree.IsDirectory(filepath.Join(w.base, at)) {
			return false
		}
	}
	return true
}

// write adds a change that replaces the content of a file of the repository.
func (g *Repository) write(name, text string, op Op) {
	c := g.change(name, op)
	c.Content, c.Size = &text, int64(len(text))
	g.out = append(g.out, c)
}

// sort decides about a change of the layer to a file that is not an object, a log or a ref.
func (g *Repository) sort(c Change, head heads) {
	name := strings.TrimPrefix(c.Path, g.Dir+"/")
	top, _, _ := strings.Cut(name, "/")
	if c.Dropped || c.Never != "" {
		g.out = append(g.out, c)
		return
	}
	switch top {
	case "objects", "logs":
		return
	case "refs", "packed-refs":
		written := slices.ContainsFunc(g.out, func(o Change) bool { return o.Path == c.Path && o.Inode != 0 })
		if written {
			return
		}
		c.Dropped = true
	case "HEAD", "index":
		if c.Dropped = g.diverged || !head.branchMoved; !c.Dropped {
			c.Merge, c.Content = false, nil
		}
	case "COMMIT_EDITMSG", "ORIG_HEAD", "FETCH_HEAD", "AUTO_MERGE", "MERGE_RR", "gc.log":
		c.Dropped = c.Conflict != "" || c.Merge
	case "MERGE_HEAD", "MERGE_MSG", "MERGE_MODE", "CHERRY_PICK_HEAD", "REVERT_HEAD", "REBASE_HEAD", "rebase-merge",
		"rebase-apply", "sequencer", "BISECT_LOG":
		c.Dropped = g.diverged
	default:
		g.out = append(g.out, c)
		return
	}
	c.Conflict = ""
	g.out = append(g.out, c)
}

// union walks a directory of the repository in the layer, and adds its files to the files of the base. It ignores
// deletions.
func (g *Repository) union(name string, plain *walker, add func(Change)) error {
	var walk func(dir string) error
	walk = func(dir string) error {
		entries, err := os.ReadDir(filepath.Join(g.w.upper, dir))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		for _, e := range entries {
			path := filepath.Join(dir, e.Name())
			var up unix.Stat_t
			if err := unix.Lstat(filepath.Join(g.w.upper, path), &up); err != nil {
				return err
			}
			if e.IsDir() && filetree.IsDirectory(filepath.Join(g.w.base, path)) {
				opaque, err := filetree.IsOpaque(filepath.Join(g.w.upper, path))
				if err != nil {
					return err
				}
				if opaque {
					g.w.unite = append(g.w.unite, path)
				}
				if err := walk(path); err != nil {
					return err
				}
				continue
			}
			one := plain.part()
			one.exact, one.ancestors = true, nil
			if err := one.entry(path); err != nil {
				return err
			}
			for _, c := range one.out {
				add(c)
			}
		}
		return err
	}
	return walk(g.Dir + "/" + name)
}

// object adds a new object. An object with the same name has the same content.
func (g *Repository) object(c Change) {
	c.Dropped = c.Op != OpCreate && c.Never == ""
	c.Conflict = ""
	g.out = append(g.out, c)
}

// log adds the new lines in the log of a ref.
func (g *Repository) log(c Change, head heads) {
	ref := strings.TrimPrefix(c.Path, g.Dir+"/logs/")
	value, set := g.set[ref]
	used := set || ref == "HEAD" && head.branchMoved && !g.diverged
	switch {
	case c.Never != "":
	case c.Op == OpCreate, c.Op == OpDelete && set && value == "":
		c.Conflict = ""
	case c.Op == OpModify && used && c.Conflict == "":
	case c.Op == OpModify && used:
		mine, theirs := g.file(g.w.l.view(), "logs/"+ref), g.file(View{Base: g.w.base}, "logs/"+ref)
		text := theirs + chain(newLines(mine, theirs), theirs)
		c.Content, c.Conflict, c.Size = &text, "", int64(len(text))
	default:
		c.Conflict, c.Dropped = "", true
	}
	g.out = append(g.out, c)
}

// chain changes the first line of a log, so that its old value is the last value of another log. Git expects that the
// lines of a log form such a chain.
func chain(log, before string) string {
	lines := strings.Split(strings.TrimSuffix(before, "\n"), "\n")
	fields := strings.SplitN(lines[len(lines)-1], " ", 3)
	old, rest, ok := strings.Cut(log, " ")
	if len(fields) < 3 || !ok || !gitstate.IsObject(old) || !gitstate.IsObject(fields[1]) {
		return log
	}
	return fields[1] + " " + rest
}

// newLines returns the lines of a log without the first lines that another log also contains.
func newLines(log, other string) string {
	for {
		line, rest, ok := strings.Cut(log, "\n")
		if !ok || !strings.HasPrefix(other, line+"\n") {
			return log
		}
		log, other = rest, other[len(line)+1:]
	}
}
