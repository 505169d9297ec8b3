package change

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

// file returns the content of a file of the repository, as the tree v shows it. It returns "" if the file does not
// exist.
func (g *Repository) file(v View, name string) string {
	path := g.Dir + "/" + name
	text, ok := v.read(path, "file", maxPackedRefs)
	if ok {
		return text
	}
	if at, there := v.Find(path); there {
		if _, is := regular(at); is {
			g.unreadable = path
		}
	}
	return ""
}

// refs returns the values of all refs of the repository, as the tree v shows them. A value is the name of an object, or
// "ref: " and the name of another ref.
func (g *Repository) refs(v View) map[string]string {
	out := parsePacked(g.file(v, "packed-refs"))
	var walk func(dir string)
	walk = func(dir string) {
		names, err := v.names(g.Dir + "/" + dir)
		if err != nil {
			g.unreadable = g.Dir + "/" + dir
		}
		for _, name := range names {
			ref := dir + "/" + name
			at, ok := v.Find(g.Dir + "/" + ref)
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

// unshadow corrects refs that the branch packed. If the workspace has a newer file for such a ref, the file hides the
// packed value.
func (g *Repository) unshadow() {
	for name, value := range parsePacked(g.file(View{Base: g.w.upper}, "packed-refs")) {
		path := g.Dir + "/" + name
		var st unix.Stat_t
		if unix.Lstat(filepath.Join(g.w.upper, path), &st) != nil && g.w.l.Touched(path) {
			g.next[name] = value
		}
	}
}

// parsePacked returns the refs in the text of a packed-refs file.
func parsePacked(text string) map[string]string {
	out := make(map[string]string)
	for line := range strings.Lines(text) {
		if oid, name, ok := strings.Cut(strings.TrimSpace(line), " "); ok && isObject(oid) {
			out[name] = oid
		}
	}
	return out
}

// repack returns the text of a packed-refs file with changed values. An empty value removes the ref.
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
	// The header does not contain "peeled", because the new lines lack the objects to which tags point.
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

// headRef returns the name of the ref to which HEAD points. It returns "" if HEAD contains a commit.
func headRef(head string) string {
	name, _ := strings.CutPrefix(strings.TrimSpace(head), "ref: ")
	if !strings.HasPrefix(name, "refs/") {
		return ""
	}
	return name
}

// saveAs returns the name of a ref under which a commit is saved. Either no ref has this name yet, or the existing ref
// contains the same commit or one of its ancestors.
func (g *Repository) saveAs(ref, oid string) string {
	base := "refs/toolhost/" + g.w.l.Name + "/" + strings.TrimPrefix(ref, "refs/")
	name := base
	for i := 2; ; i++ {
		old := g.cur[name]
		if old == "" && !g.taken(name) || old == oid || old != "" && g.objects != nil && g.objects.contains(oid, old) {
			return name
		}
		name = fmt.Sprintf("%s-%d", base, i)
	}
}

// taken reports whether a ref cannot be created under a name, because the name is a directory in the name of another
// ref, or the other ref's name is a directory in this name.
func (g *Repository) taken(name string) bool {
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
