package branch

import (
	"encoding/hex"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// maxPackedRefs is the maximum size of a list of refs, in bytes.
const maxPackedRefs = 64 << 20

// file returns the content of a file of the repository in a tree.
func (g *gitState) file(v view, name string) string {
	text, _ := v.read(g.dir+"/"+name, "file", maxPackedRefs) // what cannot be read counts as missing
	return text
}

// refs returns the values of all refs of the repository in a tree: names of objects, or "ref: " and the name of another ref.
func (g *gitState) refs(v view) map[string]string {
	out := parsePacked(g.file(v, "packed-refs"))
	var walk func(dir string)
	walk = func(dir string) {
		for _, name := range v.names(g.dir + "/" + dir) {
			ref := dir + "/" + name
			at, ok := v.find(g.dir + "/" + ref)
			var st unix.Stat_t
			switch {
			case !ok || unix.Lstat(at, &st) != nil || strings.HasSuffix(name, ".lock"):
			case st.Mode&unix.S_IFMT == unix.S_IFDIR:
				walk(ref)
			case st.Mode&unix.S_IFMT == unix.S_IFREG:
				if value := strings.TrimSpace(g.file(v, ref)); value != "" {
					out[ref] = value
				}
			}
		}
	}
	walk("refs")
	return out
}

// unshadow corrects refs that the branch packed and for which the workspace has a newer file, which hides the packed value.
func (g *gitState) unshadow() {
	for name, value := range parsePacked(g.file(view{base: g.w.upper}, "packed-refs")) {
		path := g.dir + "/" + name
		var st unix.Stat_t
		if unix.Lstat(filepath.Join(g.w.upper, path), &st) != nil && unix.Lstat(filepath.Join(g.w.base, path), &st) == nil && st.Ctim.Nano() >= g.w.b.since(path) {
			g.next[name] = value
		}
	}
}

// parsePacked returns the refs in a list.
func parsePacked(text string) map[string]string {
	out := make(map[string]string)
	for line := range strings.Lines(text) {
		if oid, name, ok := strings.Cut(strings.TrimSpace(line), " "); ok && isObject(oid) {
			out[name] = oid
		}
	}
	return out
}

// repack returns a list of refs with other values. An empty value removes a ref.
func repack(text string, values map[string]string) string {
	lines := make(map[string]string)
	last := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if oid, name, ok := strings.Cut(line, " "); ok && isObject(oid) {
			last = name
			lines[name] = line + "\n"
		} else if strings.HasPrefix(line, "^") {
			lines[last] += line + "\n"
		}
	}
	for name, value := range values {
		if delete(lines, name); value != "" {
			lines[name] = value + " " + name + "\n"
		}
	}
	// The header does not say "peeled": the new lines do not have the objects to which tags point.
	var out strings.Builder
	out.WriteString("# pack-refs with: sorted \n")
	names := make([]string, 0, len(lines))
	for name := range lines {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		out.WriteString(lines[name])
	}
	return out.String()
}

func isObject(oid string) bool {
	_, err := hex.DecodeString(oid)
	return err == nil && (len(oid) == 40 || len(oid) == 64)
}

// headRef returns the name of the ref that HEAD is, or "" for a commit without a branch of git.
func headRef(head string) string {
	name, _ := strings.CutPrefix(strings.TrimSpace(head), "ref: ")
	if !strings.HasPrefix(name, "refs/") {
		return ""
	}
	return name
}

// saveAs returns the name under which a commit is saved: one that no ref has, or that one which the commit replaces.
func (g *gitState) saveAs(ref, oid string) string {
	base := "refs/toolhost/" + g.w.b.Name + "/" + strings.TrimPrefix(ref, "refs/")
	name := base
	for i := 2; ; i++ {
		old := g.cur[name]
		if old == "" && !g.taken(name) || old == oid || old != "" && g.objects != nil && g.objects.contains(oid, old) {
			return name
		}
		name = fmt.Sprintf("%s-%d", base, i)
	}
}

// taken reports whether a ref cannot exist, because another one has its name as a directory, or the other way round.
func (g *gitState) taken(name string) bool {
	for other := range g.cur {
		if strings.HasPrefix(other, name+"/") {
			return true
		}
	}
	for at := path.Dir(name); at != "."; at = path.Dir(at) {
		if g.cur[at] != "" {
			return true
		}
	}
	return false
}
