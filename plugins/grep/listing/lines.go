package listing

import (
	"toolhost.dev/plugins/grep/walk"
	"toolhost.dev/sdk/workspace"
)

// Line writes an entry for a model: a directory with a slash at the end, a file with size
// and time, a link with where it leads.
func (e *Entry) Line() string {
	name := printable(e.Rel)
	switch typ := walk.TypeName(e.Type); typ {
	case "directory":
		return name + "/"
	case "symlink":
		return name + " -> " + printable(e.Target)
	case "file":
		return name + "  " + workspace.FormatSize(e.Size) + "  " + e.Modified.UTC().Format("2006-01-02 15:04")
	default:
		return name + "  (" + typ + ")"
	}
}
