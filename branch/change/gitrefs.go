package change

import (
	"fmt"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"toolhost.dev/branch/internal/gitstate"
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
	out := gitstate.ParsePacked(g.file(v, "packed-refs"))
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
	for name, value := range gitstate.ParsePacked(g.file(View{Base: g.w.upper}, "packed-refs")) {
		path := g.Dir + "/" + name
		var st unix.Stat_t
		if unix.Lstat(filepath.Join(g.w.upper, path), &st) != nil && g.w.l.Touched(path) {
			g.next[name] = value
		}
	}
}

// saveAs returns the name of a ref under which a commit is saved. Either no ref has this name yet, or the existing ref
// contains the same commit or one of its ancestors.
func (g *Repository) saveAs(ref, oid string) string {
	base := "refs/toolhost/" + g.w.l.Name + "/" + strings.TrimPrefix(ref, "refs/")
	name := base
	for i := 2; ; i++ {
		old := g.cur[name]
		if old == "" && !g.taken(name) || old == oid || old != "" && g.objects != nil && g.objects.Contains(oid, old) {
			return name
		}
		name = fmt.Sprintf("%s-%d", base, i)
	}
}

// taken reports whether another ref prevents the creation of a ref with a name. Git stores refs as files, so no ref can
// have the name of a directory of another ref.
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
