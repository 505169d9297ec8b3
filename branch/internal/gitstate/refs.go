package gitstate

import (
	"encoding/hex"
	"slices"
	"strings"
)

// ParsePacked returns the refs in the text of a packed-refs file.
func ParsePacked(text string) map[string]string {
	out := make(map[string]string)
	for line := range strings.Lines(text) {
		if oid, name, ok := strings.Cut(strings.TrimSpace(line), " "); ok && IsObject(oid) {
			out[name] = oid
		}
	}
	return out
}

// Repack returns the text of a packed-refs file with changed values. An empty value removes the ref.
func Repack(text string, values map[string]string) string {
	lines := make(map[string]string)
	last := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if oid, name, ok := strings.Cut(line, " "); ok && IsObject(oid) {
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

// IsObject reports whether a text is the name of an object.
func IsObject(oid string) bool {
	_, err := hex.DecodeString(oid)
	return err == nil && (len(oid) == 40 || len(oid) == 64)
}

// HeadRef returns the name of the ref to which HEAD points. It returns "" if HEAD contains a commit.
func HeadRef(head string) string {
	name, _ := strings.CutPrefix(strings.TrimSpace(head), "ref: ")
	if !strings.HasPrefix(name, "refs/") {
		return ""
	}
	return name
}
