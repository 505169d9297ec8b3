package branch

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
)

// gitState plans the changes in a directory of git that both the branch and the workspace changed:
//
//  1. Objects are added, and never removed.
//  2. Each ref is compared with its value in the workspace and, where it is known, with its value when the branch began. It is
//     changed only if the workspace did not change it, or if the new commit contains that of the workspace.
//  3. HEAD and the index are taken from the branch only if the workspace changed neither of them nor the current commit.
//     Otherwise the commits are saved below refs/toolhost, and the files in them are left to git merge.
type gitState struct {
	w   *walker
	dir string // relative to the base
	// cur and next are the refs in the workspace and in the branch.
	cur, next map[string]string
	objects   *gitObjects // nil if git is not installed
	// diverged means that both the branch and the workspace moved.
	diverged bool
	// set lists the new values of refs that the workspace gets. An empty value deletes a ref.
	set map[string]string
	// saved is the ref with the commits of the branch, and files are the files in them. They are empty if nothing diverged.
	saved string
	oid   string // the commit of saved
	files map[string]blob
	later []later
	notes []string
	out   []Change
}

// repository adds the changes in a directory of git.
func (w *walker) repository(dir string) error {
	plain := &walker{b: w.b, base: w.base, upper: w.upper, exact: w.exact, ancestors: w.ancestors}
	if err := plain.walk(dir); err != nil {
		return err
	}
	w.ancestors = plain.ancestors
	conflict := slices.ContainsFunc(plain.out, func(c Change) bool { return c.Conflict != "" || c.Merge })
	if reftable := isDirectory(filepath.Join(w.base, dir, "reftable")); !conflict && !w.removesObjects(plain.out, dir) || w.exact || reftable {
		w.out, w.unite = append(w.out, plain.out...), append(w.unite, plain.unite...)
		return nil
	}
	w.unite = append(w.unite, plain.unite...)
	g := &gitState{w: w, dir: dir, set: make(map[string]string)}
	w.repos = append(w.repos, g)
	err := g.plan(plain)
	w.out = append(w.out, g.out...)
	return err
}

// removesObjects reports whether a branch removes objects of git, which new commits of the workspace can need.
func (w *walker) removesObjects(changes []Change, dir string) bool {
	removes := slices.ContainsFunc(changes, func(c Change) bool {
		return strings.HasPrefix(c.Path, dir+"/objects/") && (c.Op == OpDelete || c.Op == OpReplace)
	})
	if !removes {
		return false
	}
	since := w.b.since(dir)
	for _, name := range []string{"refs", "logs", "packed-refs", "HEAD", "index"} {
		at := filepath.Join(w.base, dir, name)
		if _, err := os.Lstat(at); err == nil && newest(at, since, true) != "" {
			return true
		}
	}
	return false
}

func (g *gitState) plan(plain *walker) error {
	base, branch := view{base: g.w.base}, g.w.b.after()
	g.cur, g.next = g.refs(base), g.refs(branch)
	g.unshadow()
	oid := ""
	for _, value := range g.cur {
		if isObject(value) {
			oid = value
		}
	}
	objects, err := openObjects(g.w.b.dir, oid, filepath.Join(g.w.base, g.dir, "objects"), filepath.Join(g.w.upper, g.dir, "objects"))
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
	return errors.Join(g.union("objects", plain, g.object), g.union("logs", plain, func(c Change) { g.log(c, head) }))
}

// heads describes what is checked out.
type heads struct {
	ref          string // of the branch; empty for a commit without a branch of git
	oid          string // the commit of the branch
	was          string // the current commit of the workspace
	branchMoved  bool
	workspaceRef string
}

// heads finds out whether the branch and the workspace moved since the branch began.
func (g *gitState) heads(base, branch view) heads {
	mine, theirs := g.file(branch, "HEAD"), g.file(base, "HEAD")
	before, known := g.before("HEAD", theirs)
	h := heads{ref: headRef(mine), workspaceRef: headRef(theirs)}
	h.branchMoved = mine != theirs && (!known || mine != before)
	moved := !known && mine != theirs || known && theirs != before
	h.oid, h.was = cmp.Or(g.next[h.ref], strings.TrimSpace(mine)), cmp.Or(g.cur[h.workspaceRef], strings.TrimSpace(theirs))
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

// indexes reports whether the branch and the workspace changed entries of the index.
func (g *gitState) indexes() (branch, base bool) {
	path := g.dir + "/index"
	upper, lower := filepath.Join(g.w.upper, path), filepath.Join(g.w.base, path)
	var st unix.Stat_t
	there := unix.Lstat(upper, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG
	touched := unix.Lstat(lower, &st) == nil && st.Ctim.Nano() >= g.w.b.since(path)
	mine, theirs := "", indexSum(lower)
	if there {
		mine = indexSum(upper)
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

// before returns what a file of the base was when the branch began. The argument is its content now.
func (g *gitState) before(name, now string) (text string, known bool) {
	path := g.dir + "/" + name
	if k := g.w.ancestorOf(path); k != nil {
		text, err := k.text(g.w.b)
		return text, err == nil
	}
	var st unix.Stat_t
	if unix.Lstat(filepath.Join(g.w.base, path), &st) != nil {
		return "", false
	}
	return now, st.Ctim.Nano() < g.w.b.since(path)
}

// refBefore returns the value of a ref when the branch began.
func (g *gitState) refBefore(name string) (value string, known bool) {
	if name == "" {
		return "", true
	}
	base := view{base: g.w.base}
	if text := g.file(base, name); text != "" {
		text, known = g.before(name, text)
		return strings.TrimSpace(text), known
	}
	if k := g.w.ancestorOf(g.dir + "/" + name); k != nil { // it was packed or deleted since
		text, err := k.text(g.w.b)
		return strings.TrimSpace(text), err == nil
	}
	packed := g.file(base, "packed-refs")
	if packed == "" {
		return "", true
	}
	packed, known = g.before("packed-refs", packed)
	return parsePacked(packed)[name], known
}

// compareRefs decides about all refs but HEAD and the ref that it is.
func (g *gitState) compareRefs(head heads) {
	for _, name := range slices.Sorted(maps.Keys(g.names())) {
		now, next := g.cur[name], g.next[name]
		if now == next || name == head.ref && g.diverged && now != "" || strings.HasPrefix(next, "ref: ") || strings.HasPrefix(now, "ref: ") {
			continue
		}
		before, known := g.refBefore(name)
		switch {
		case known && next == before, next == "" && (!known || now != before):
			// only the workspace changed it
		case known && now == before && (now != "" || !g.taken(name)):
			g.set[name] = next
		case now == "" && !g.taken(name):
			g.set[name] = next
		case now != "" && g.objects != nil && g.objects.contains(now, next):
			// the workspace has the commit
		case now != "" && g.objects != nil && g.objects.contains(next, now), name == "refs/stash":
			g.set[name] = next // entries of the stash are in its log
		default:
			saved := g.saveAs(name, next)
			g.set[saved] = next
			g.notes = append(g.notes, fmt.Sprintf("The branch and the workspace both changed %s of %s, so that of the branch is saved as %s. To see what it has: git log %[3]s", name, g.dir, saved))
		}
	}
}

// names returns a map with the names of all refs.
func (g *gitState) names() map[string]string {
	all := maps.Clone(g.cur)
	maps.Copy(all, g.next)
	return all
}

// saveHead saves the commits of a branch if the workspace moved, too.
func (g *gitState) saveHead(head heads) error {
	if !g.diverged || !isObject(head.oid) {
		return nil
	}
	if head.oid == head.was || g.objects != nil && g.objects.contains(head.was, head.oid) {
		return nil // only the index differs
	}
	if g.objects == nil {
		return errors.New("the branch and the workspace both have new commits, and git is not installed, which compares them. Install git")
	}
	if g.oid, g.saved = head.oid, head.ref; g.set[head.ref] != head.oid {
		g.saved = g.saveAs(cmp.Or(head.ref, "HEAD"), head.oid)
		g.set[g.saved] = head.oid
	}
	var err error
	if g.files, err = g.objects.changed(head.oid, head.was); err != nil {
		return fmt.Errorf("the commits of the branch in %s cannot be read: %w", g.dir, err)
	}
	in := ""
	if at := filepath.Dir(g.dir); at != "." {
		in = "-C " + at + " "
	}
	g.notes = append(g.notes, fmt.Sprintf("The branch and the workspace both have new commits or a changed index. What the branch committed (commits: %d, files: %d) is saved as %s and was not made in the files. To bring it in: git %smerge %[3]s", g.objects.count(head.oid, head.was), len(g.files), g.saved, in))
	return nil
}

// planRefs adds the changes of refs. A ref with a file gets another file, and all others are in the list of refs.
func (g *gitState) planRefs() {
	packed := make(map[string]string)
	base := view{base: g.w.base}
	list := g.file(base, "packed-refs")
	listed := parsePacked(list)
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
		g.write("packed-refs", repack(list, packed), op)
	}
}

// change returns a change of a file of the repository.
func (g *gitState) change(name string, op Op) Change {
	path := g.dir + "/" + name
	c := Change{Path: path, Op: op, Is: "file", Mode: 0o644}
	var lo, up unix.Stat_t
	if g.w.reachable(path) {
		_ = unix.Lstat(filepath.Join(g.w.upper, path), &up) // ignore the error: then the layer does not have it
	}
	if op != OpCreate && unix.Lstat(filepath.Join(g.w.base, path), &lo) == nil {
		c.Was, c.OldMode, c.OldSize, c.old = "file", uint32(lo.Mode)&0o7777, lo.Size, stampFrom(&lo) //nolint:unconvert // not all systems have 32 bits here
		c.Mode = c.OldMode
	}
	if op == OpDelete {
		c.Is, c.Mode = "", 0
	}
	if up.Mode&unix.S_IFMT == unix.S_IFREG || op == OpDelete && isWhiteout(&up) {
		c.inode = up.Ino
	}
	return c
}

// reachable reports whether no directory above a path of the layer is dropped as a whole.
func (w *walker) reachable(path string) bool {
	for at := filepath.Dir(path); at != "."; at = filepath.Dir(at) {
		if isOpaque(filepath.Join(w.upper, at)) || !isDirectory(filepath.Join(w.base, at)) {
			return false
		}
	}
	return true
}

// write adds a change that gives a file of the repository another content.
func (g *gitState) write(name, text string, op Op) {
	c := g.change(name, op)
	c.made, c.Size = &text, int64(len(text))
	g.out = append(g.out, c)
}

// sort decides about a change of the layer that is no object, no log and no ref.
func (g *gitState) sort(c Change, head heads) {
	name := strings.TrimPrefix(c.Path, g.dir+"/")
	top, _, _ := strings.Cut(name, "/")
	if c.drop || c.Never != "" {
		g.out = append(g.out, c)
		return
	}
	switch top {
	case "objects", "logs":
		return
	case "refs", "packed-refs":
		written := slices.ContainsFunc(g.out, func(o Change) bool { return o.Path == c.Path && o.inode != 0 })
		if written {
			return
		}
		c.drop = true
	case "HEAD", "index":
		if c.drop = g.diverged || !head.branchMoved; !c.drop {
			c.Merge, c.made = false, nil
		}
	case "COMMIT_EDITMSG", "ORIG_HEAD", "FETCH_HEAD", "AUTO_MERGE", "MERGE_RR", "gc.log":
		c.drop = c.Conflict != "" || c.Merge
	case "MERGE_HEAD", "MERGE_MSG", "MERGE_MODE", "CHERRY_PICK_HEAD", "REVERT_HEAD", "REBASE_HEAD", "rebase-merge", "rebase-apply", "sequencer", "BISECT_LOG":
		c.drop = g.diverged
	default:
		g.out = append(g.out, c)
		return
	}
	c.Conflict = ""
	g.out = append(g.out, c)
}

// union walks a directory of the repository in the layer, and adds to what the base has. Deletions are left out.
func (g *gitState) union(name string, plain *walker, add func(Change)) error {
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
			if e.IsDir() && isDirectory(filepath.Join(g.w.base, path)) {
				if isOpaque(filepath.Join(g.w.upper, path)) {
					g.w.unite = append(g.w.unite, path)
				}
				if err := walk(path); err != nil {
					return err
				}
				continue
			}
			one := &walker{b: plain.b, base: plain.base, upper: plain.upper, exact: true}
			if err := one.entry(path); err != nil {
				return err
			}
			for _, c := range one.out {
				add(c)
			}
		}
		return err
	}
	return walk(g.dir + "/" + name)
}

// object adds a new object. An object with the same name has the same content.
func (g *gitState) object(c Change) {
	c.drop = c.Op != OpCreate && c.Never == ""
	c.Conflict = ""
	g.out = append(g.out, c)
}

// log adds what is new in the log of a ref.
func (g *gitState) log(c Change, head heads) {
	ref := strings.TrimPrefix(c.Path, g.dir+"/logs/")
	value, set := g.set[ref]
	used := set || ref == "HEAD" && head.branchMoved && !g.diverged
	switch {
	case c.Never != "":
	case c.Op == OpCreate, c.Op == OpDelete && set && value == "":
		c.Conflict = ""
	case c.Op == OpModify && used && c.Conflict == "":
	case c.Op == OpModify && used:
		mine, theirs := g.file(g.w.b.after(), "logs/"+ref), g.file(view{base: g.w.base}, "logs/"+ref)
		text := theirs + chain(newLines(mine, theirs), theirs)
		c.made, c.Conflict, c.Size = &text, "", int64(len(text))
	default:
		c.Conflict, c.drop = "", true
	}
	g.out = append(g.out, c)
}

// chain makes the old value in the first line of a log the last value in another log. Git reads logs as such chains.
func chain(log, before string) string {
	lines := strings.Split(strings.TrimSuffix(before, "\n"), "\n")
	fields := strings.SplitN(lines[len(lines)-1], " ", 3)
	old, rest, ok := strings.Cut(log, " ")
	if len(fields) < 3 || !ok || !isObject(old) || !isObject(fields[1]) {
		return log
	}
	return fields[1] + " " + rest
}

// newLines returns the lines of a log after those that another log has, too.
func newLines(log, other string) string {
	for {
		line, rest, ok := strings.Cut(log, "\n")
		if !ok || !strings.HasPrefix(other, line+"\n") {
			return log
		}
		log, other = rest, other[len(line)+1:]
	}
}
