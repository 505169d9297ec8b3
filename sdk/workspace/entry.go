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

// Entry is what a listing shows of a file, a directory or another thing.
type Entry struct {
	// Name as it is shown: of the entry, or its path beneath what is listed.
	Name string
	// Mode has the type bits; the others do not matter.
	Mode fs.FileMode
	// Size is in bytes.
	Size int64
	// Modified is the time of the last change; zero: neither that nor the size is known.
	Modified time.Time
	// Target is what a symbolic link says.
	Target string
}

// Type returns the word for what it is: file, directory, symlink, fifo, socket or device.
func (e Entry) Type() string { return TypeName(e.Mode) }

// Line writes an entry for a model: a directory with a slash at the end, a file with size
// and time in UTC, a link with where it leads. Names that would not be read as they are are
// quoted: not UTF-8, with line feeds in them, or with a quotation mark at the beginning.
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

// TypeName returns the word for type bits: file, directory, symlink, fifo, socket or device.
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
	if utf8.ValidString(name) && !strings.HasPrefix(name, `"`) && !strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return name
	}
	return strconv.Quote(name)
}
