package change

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/aymanbagabas/go-udiff"
	"golang.org/x/sys/unix"

	"toolhost.dev/branch/internal/filetree"
)

// maxDiff is the maximum size of a file whose lines a diff shows, in bytes.
const maxDiff = 1 << 20

// Diff writes changes as a unified diff. For a content that is not text, it writes one line that begins with "#". It
// also writes such a line for each deleted or replaced path, and for the entries of directories; see [maxListed].
func Diff(w io.Writer, before, after View, changes []Change) error {
	for i := range changes {
		c := &changes[i]
		if _, err := io.WriteString(w, diffOf(before, after, c)); err != nil {
			return err
		}
		below, rest := entriesOf(before, after, c, maxListed)
		for j := range below {
			if _, err := io.WriteString(w, diffOf(before, after, &below[j])); err != nil {
				return err
			}
		}
		if _, err := io.WriteString(w, rest.line(c)); err != nil {
			return err
		}
	}
	return nil
}

// ShortDiff returns changes as a diff of about limit bytes. Deleted and replaced paths come first and are always
// listed. A directory that is deleted as a whole has one line with the number of its entries. If other changes exceed
// the limit, only their number is shown.
func ShortDiff(before, after View, changes []Change, limit int) string {
	var out strings.Builder
	var others, inside []*Change
	hidden, room := 0, maxListed
	for i := range changes {
		c := &changes[i]
		if c.Op == OpDelete || c.Op == OpReplace {
			out.WriteString("# " + Describe(*c) + remarks(c) + "\n")
		} else {
			others = append(others, c)
		}
		if c.Is != "directory" {
			continue // the line of a directory that is deleted as a whole has the number of its entries
		}
		below, rest := entriesOf(before, after, c, room)
		for j := range below {
			if e := &below[j]; e.Op == OpDelete || e.Op == OpReplace {
				out.WriteString("# " + Describe(*e) + remarks(e) + "\n")
			} else {
				inside = append(inside, e)
			}
		}
		if rest.lost > 0 {
			out.WriteString(rest.line(c))
		} else {
			hidden += rest.more
		}
		room -= len(below)
	}
	limit += out.Len()
	// List the content of directories last. Otherwise, a directory with many files could hide other changes.
	others = append(others, inside...)
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
	if c.Never != "" || c.Op == OpMetadata ||
		(c.Is == "" || c.Is == "directory") && (c.Was == "" || c.Was == "directory") {
		return line
	}
	was, is := c.Was, c.Is
	if was == "directory" {
		was = "" // show only the lines of the new content
	}
	if is == "directory" {
		is = "" // and only those of the old content
	}
	old, okBefore := before.Text(c.Path, was)
	now, okAfter := after.Text(c.Path, is)
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
	if is == "" {
		to = "/dev/null"
	}
	return out + udiff.Unified(from, to, old, now)
}

// maxListed is the maximum number of entries that a diff lists of a directory that is created, replaced or deleted.
const maxListed = 1000

// unlisted counts the changed entries that a diff does not list. The number "lost" counts those that were deleted or
// replaced.
type unlisted struct{ more, lost int }

// line returns the line of a diff about the entries of c that exceed the limit.
func (u unlisted) line(c *Change) string {
	switch {
	case u.more == 0:
		return ""
	case u.lost == 0:
		return fmt.Sprintf("# %d more entries of %s are not shown\n", u.more, QuotePath(c.Path))
	}
	return fmt.Sprintf("# %d more entries of %s are not shown; %d of them are deleted or replaced\n", u.more, QuotePath(c.Path), u.lost)
}

// entriesOf lists the changes of entries in a directory that c creates, replaces or deletes. New entries come last,
// because a list that exceeds the limit loses its end.
func entriesOf(before, after View, c *Change, limit int) (out []Change, rest unlisted) {
	if c.Never != "" || c.Op == OpMetadata || c.Op == OpModify {
		return nil, rest
	}
	var created []Change
	both := make(map[string]bool)
	if c.Is == "directory" {
		_ = filetree.WalkOwn(filepath.Join(after.Upper, c.Path), 0o500,
			func(at, rel string, st *unix.Stat_t, err error) error {
				if err != nil || rel == "." || filetree.IsWhiteout(st) {
					return nil //nolint:nilerr // a directory that cannot be read has a line of its own
				}
				e := before.entry(filepath.Join(c.Path, rel), at, st)
				if e.Was != "" {
					both[e.Path] = true
				}
				switch {
				case e.Op == OpCreate:
					created = rest.add(created, &e, limit)
				case e.Op != "":
					out = rest.add(out, &e, limit)
				}
				return nil
			})
	}
	if c.Was == "directory" {
		before.walk(c.Path, func(path string, st *unix.Stat_t) {
			if !both[path] {
				e := Change{Path: path, Op: OpDelete, Was: typeOf(uint32(st.Mode)), OldMode: uint32(st.Mode) & 0o7777, OldSize: st.Size} //nolint:unconvert // not all systems have 32 bits here
				out = rest.add(out, &e, limit)
			}
		})
	}
	slices.SortFunc(out, func(a, b Change) int { return strings.Compare(a.Path, b.Path) })
	fits := min(len(created), limit-len(out))
	rest.more += len(created) - fits
	return append(out, created[:fits]...), rest
}

// add appends a change to a list, or counts it if the list is full.
func (u *unlisted) add(list []Change, e *Change, limit int) []Change {
	if len(list) < limit {
		return append(list, *e)
	}
	u.more++
	if e.Op == OpDelete || e.Op == OpReplace {
		u.lost++
	}
	return list
}

// entry compares a path in v with the file "at" in a layer and returns the change. The argument st is the state of the
// file in the layer. If both files are equal, the field Op of the change is empty.
func (v View) entry(path, at string, st *unix.Stat_t) Change {
	e := Change{Path: path, Op: OpCreate, Is: typeOf(uint32(st.Mode)), Mode: uint32(st.Mode) & 0o7777, Size: st.Size} //nolint:unconvert // not all systems have 32 bits here
	if e.Is == "other" {
		e.Never = "it is a pipe, a socket or a device"
	}
	var old unix.Stat_t
	was, there := v.Find(path)
	if !there || unix.Lstat(was, &old) != nil {
		return e
	}
	e.Was, e.OldMode, e.OldSize = typeOf(uint32(old.Mode)), uint32(old.Mode)&0o7777, old.Size //nolint:unconvert // as above
	switch equal, err := filetree.Same(was, at, &old, st); {
	case e.Was != e.Is:
		e.Op = OpReplace
	case err == nil && equal:
		e.Op = ""
	case e.Is == "directory":
		e.Op = OpMetadata
	default:
		e.Op = OpModify
	}
	return e
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
	// A program can replace a directory of the base by a link at any time. os.Root does not follow links out of the
	// root.
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
	if utf8.ValidString(path) && !strings.ContainsFunc(path, func(r rune) bool { return !unicode.IsPrint(r) }) &&
		!strings.HasPrefix(path, `"`) {
		return path
	}
	return strconv.Quote(path)
}

// Describe describes a change in a few words, in one line.
func Describe(c Change) string {
	verb := map[Op]string{OpCreate: "new", OpModify: "changed", OpDelete: "deleted", OpReplace: "replaced",
		OpMetadata: "mode or attributes changed"}[c.Op]
	what := c.Is
	if what == "" {
		what = c.Was
	}
	text, entries := fmt.Sprintf("%s %s %s", verb, what, QuotePath(c.Path)), ""
	switch {
	case c.Entries == 1:
		entries = " with 1 entry"
	case c.Entries > 0:
		entries = fmt.Sprintf(" with %d entries", c.Entries)
	}
	switch {
	case c.Op == OpReplace && c.Was == "directory" && c.Is != c.Was:
		text += " (was a directory" + entries + ")"
	case c.Op == OpReplace && c.Was != c.Is:
		text += " (was a " + c.Was + ")" + entries
	default:
		text += entries
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
			if p = filepath.Clean(p); p == "." || c.Path == p || strings.HasPrefix(c.Path, p+"/") ||
				strings.HasPrefix(p, c.Path+"/") {
				out = append(out, c)
				break
			}
		}
	}
	return out
}
