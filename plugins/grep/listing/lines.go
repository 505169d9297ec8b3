package listing

import (
	"io/fs"

	"toolhost.dev/sdk/workspace"
)

// TypeName gives the word for type bits.
func TypeName(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "directory"
	case m&fs.ModeSymlink != 0:
		return "symlink"
	case m&fs.ModeNamedPipe != 0:
		return "fifo"
	case m&fs.ModeSocket != 0:
		return "socket"
	case m&fs.ModeDevice != 0:
		return "device"
	}
	return "file"
}

// Line writes an entry for a model: a directory with a slash at the end, a file with size
// and time, a link with where it leads.
func (e *Entry) Line() string {
	name := printable(e.Rel)
	switch typ := TypeName(e.Type); typ {
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
