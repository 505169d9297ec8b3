package change

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/aymanbagabas/go-udiff"
	"golang.org/x/sys/unix"

	"toolhost.dev/host/internal/filetree"
)

// maxDiff is the maximum size of a file whose lines a diff shows, in bytes.
const maxDiff = 1 << 20

// Diff writes changes as a unified diff. For a content that is not text, it writes one line that begins with "#". It
// also writes such a line for each deleted or replaced path.
func Diff(w io.Writer, before, after View, changes []Change) error {
	for i := range changes {
		c := &changes[i]
		text := diffOf(before, after, c)
		below, more := after.below(c, maxListed)
		for j := range below {
			text += diffOf(before, after, &below[j])
		}
		if more > 0 {
			text += fmt.Sprintf("# %d more entries of %s are not shown\n", more, QuotePath(c.Path))
		}
		if _, err := io.WriteString(w, text); err != nil {
			return err
		}
	}
	return nil
}

// ShortDiff returns changes as a diff of about limit bytes. Deleted and replaced paths come first and are always
// listed. If other changes exceed the limit, only their number is shown.
func ShortDiff(before, after View, changes []Change, limit int) string {
	var out strings.Builder
	var others []*Change
	for i := range changes {
		if c := &changes[i]; c.Op == OpDelete || c.Op == OpReplace {
			out.WriteString("# " + Describe(*c) + remarks(c) + "\n")
		} else {
			others = append(others, c)
		}
	}
	limit += out.Len()
	// List the content of new directories last, so that a directory with many files cannot hide the change of another
	// file.
	hidden, room := 0, maxListed
	for i := range changes {
		below, more := after.below(&changes[i], room)
		for j := range below {
			others = append(others, &below[j])
		}
		hidden, room = hidden+more, room-len(below)
	}
	for _, c := range others {
		if out.Len() >= limit { // do not read the rest, because a layer can have many large files
			hidden++
			continue
		}
		text := diffOf(before, after, c)
		if out.Len()+len(text) > limit {
			text = "# " + Describe(*c) + remarks(c) + " [its lines are not shown, because the diff is long]\n"
		}
		if out.Len()+len(text) > limit {
			hidden++
			continue
		}
		out.WriteString(text)
	}
	if hidden > 0 {
		fmt.Fprintf(&out, "# %d more changes are not shown, because the diff is long. No file is deleted or replaced in them.\n", hidden)
	}
	return out.String()
}

func diffOf(before, after View, c *Change) string {
	line := "# " + Describe(*c) + remarks(c) + "\n"
	if c.Never != "" || c.Op == OpMetadata || c.Is == "directory" || c.Is == "" && c.Was == "directory" {
		return line
	}
	was := c.Was
	if was == "directory" {
		was = "" // show only the lines of the new content
	}
	old, okBefore := before.Text(c.Path, was)
	now, okAfter := after.Text(c.Path, c.Is)
	if c.Content != nil {
		now, okAfter = *c.Content, isText(*c.Content)
	}
	if !okBefore || !okAfter {
		return line
	}
	out := ""
	if c.Op != OpModify || c.Mode != c.OldMode || remarks(c) != "" || old == now {
		out = line
	}
	from, to := QuotePath("a/"+c.Path), QuotePath("b/"+c.Path)
	if was == "" {
		from = "/dev/null"
	}
	if c.Is == "" {
		to = "/dev/null"
	}
	return out + udiff.Unified(from, to, old, now)
}

// maxListed is the maximum number of entries of new directories that a diff lists.
const maxListed = 1000

// below lists the entries of a new directory, each as a change. It also returns the number of entries that exceed the
// limit.
func (v View) below(c *Change, limit int) (out []Change, more int) {
	if c.Is != "directory" || c.Op != OpCreate && c.Op != OpReplace || c.Never != "" {
		return nil, 0
	}
	top := filepath.Join(v.Upper, c.Path)
	_ = filetree.WalkOwn(top, 0o500, func(_, rel string, st *unix.Stat_t, err error) error {
		if err != nil || rel == "." || filetree.IsWhiteout(st) {
			return nil //nolint:nilerr // a directory that cannot be read has a line of its own
		}
		if len(out) >= limit {
			more++
			return nil
		}
		e := Change{Path: filepath.Join(c.Path, rel), Op: OpCreate, Is: typeOf(uint32(st.Mode)), Mode: uint32(st.Mode) & 0o7777, Size: st.Size} //nolint:unconvert // not all systems have 32 bits here
		if e.Is == "other" {
			e.Never = "it is a pipe, a socket or a device"
		}
		out = append(out, e)
		return nil
	})
	return out, more
}

// Text returns the text of a file, or the target of a link. It returns false for a file that is not text or too large.
func (v View) Text(path, kind string) (string, bool) {
	text, ok := v.read(path, kind, maxDiff)
	return text, ok && isText(text)
}

// read returns the content of a file of at most limit bytes, or the target of a link.
func (v View) read(path, kind string, limit int64) (string, bool) {
	if kind == "" {
		return "", true
	}
	at, ok := v.Find(path)
	if !ok || kind != "link" && kind != "file" {
		return "", false
	}
	dir := v.Base
	if v.Upper != "" && strings.HasPrefix(at, v.Upper+"/") {
		dir = v.Upper
	}
	// A program can replace a directory of the base by a link at any time. os.Root does not follow links out of the root.
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", false
	}
	defer root.Close() //nolint:errcheck // only read
	if kind == "link" {
		to, err := root.Readlink(path)
		return to + "\n", err == nil
	}
	f, err := root.OpenFile(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return "", false
	}
	defer f.Close() //nolint:errcheck // only read
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	return string(text), err == nil && int64(len(text)) <= limit
}

// QuotePath returns a path in a form for one line of a diff. It quotes a path that contains line breaks, characters
// that a terminal interprets or hides, or bytes that are not UTF-8.
func QuotePath(path string) string {
	if utf8.ValidString(path) && !strings.ContainsFunc(path, func(r rune) bool { return !unicode.IsPrint(r) }) && !strings.HasPrefix(path, `"`) {
		return path
	}
	return strconv.Quote(path)
}

// Describe describes a change in a few words, in one line.
func Describe(c Change) string {
	verb := map[Op]string{OpCreate: "new", OpModify: "changed", OpDelete: "deleted", OpReplace: "replaced", OpMetadata: "mode or attributes changed"}[c.Op]
	what := c.Is
	if what == "" {
		what = c.Was
	}
	text := fmt.Sprintf("%s %s %s", verb, what, QuotePath(c.Path))
	if c.Op == OpReplace && c.Was != c.Is {
		text += " (was a " + c.Was + ")"
	}
	switch {
	case c.Entries == 1:
		text += " with 1 entry"
	case c.Entries > 0:
		text += fmt.Sprintf(" with %d entries", c.Entries)
	}
	if c.Was != "" && c.Is != "" && c.Mode != c.OldMode {
		text += fmt.Sprintf(" (mode %04o, was %04o)", c.Mode, c.OldMode)
	}
	if c.Is == "file" && c.Was != "directory" {
		text += fmt.Sprintf(" (%d bytes)", c.Size)
	}
	return text
}

func remarks(c *Change) (out string) {
	if gained := c.Mode &^ c.OldMode; c.Is == "file" && gained&0o6000 != 0 {
		out += " [runs with the rights of its owner or group (setuid or setgid)]"
	}
	if c.WasHardLink {
		out += " [was a hard link; its other names keep the old content]"
	}
	if c.Never != "" {
		out += " [never applied: " + c.Never + "]"
	}
	if c.Merge {
		out += " [merged with the changes of the workspace]"
	}
	if c.Commit != "" {
		out += " [in the commits that an apply saves as " + c.Commit + "; git merge makes it]"
	}
	if c.Waits != "" {
		out += " [stays in the branch: " + c.Waits + "]"
	}
	if c.Conflict != "" {
		out += " [CONFLICT: " + c.Conflict + "]"
	}
	return out
}

// Select returns the changes that concern the given paths: changes of a path itself, of entries below it, and of
// directories above it. The paths are relative to the base. Without paths, Select returns all changes.
func Select(changes []Change, paths ...string) []Change {
	out := []Change{}
	for _, c := range changes {
		if len(paths) == 0 {
			out = append(out, c)
		}
		for _, p := range paths {
			if p = filepath.Clean(p); p == "." || c.Path == p || strings.HasPrefix(c.Path, p+"/") || strings.HasPrefix(p, c.Path+"/") {
				out = append(out, c)
				break
			}
		}
	}
	return out
}
