package workspace

import (
	"io/fs"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"toolhost.dev/sdk/workspace/text"
)

// Entry is one entry of a directory listing.
type Entry struct {
	// Name is the displayed name. It is either the name of the entry or its path relative to the listed directory.
	Name string
	// Mode contains the type bits of the entry. All other bits are ignored.
	Mode fs.FileMode
	// Size is the size of the entry in bytes.
	Size int64
	// Modified is the time of the last change. A zero Modified means that neither the time nor the size is known.
	Modified time.Time
	// Target is the target of a symbolic link.
	Target string
}

// Type returns the type as a word: file, directory, symlink, fifo, socket or device.
func (e Entry) Type() string { return TypeName(e.Mode) }

// Line formats an entry for a model. The line of a directory ends in a slash. The line of a file contains the size
// and the time in UTC. The line of a link contains the target. Line quotes ambiguous names: names that are not
// UTF-8, contain line feeds or begin with a quotation mark.
func (e Entry) Line() string {
	name := printable(e.Name)
	switch typ := e.Type(); typ {
	case "directory":
		return name + "/"
	case "symlink":
		return name + " -> " + printable(e.Target)
	case "file":
		if e.Modified.IsZero() {
			return name + "  (size and time not known)"
		}
		return name + "  " + text.FormatSize(e.Size) + "  " + e.Modified.UTC().Format("2006-01-02 15:04")
	default:
		return name + "  (" + typ + ")"
	}
}

// TypeName returns the word for the type bits of a mode: file, directory, symlink, fifo, socket or device.
func TypeName(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "directory"
	case mode&fs.ModeSymlink != 0:
		return "symlink"
	case mode&fs.ModeNamedPipe != 0:
		return "fifo"
	case mode&fs.ModeSocket != 0:
		return "socket"
	case mode&fs.ModeDevice != 0:
		return "device"
	}
	return "file"
}

func printable(name string) string {
	if utf8.ValidString(name) && !strings.HasPrefix(name, `"`) &&
		!strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return name
	}
	return strconv.Quote(name)
}
