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

// Entry is a file, a directory or another thing in a listing.
type Entry struct {
	// Name is the shown name: that of the entry, or its path beneath the listed directory.
	Name string
	// Mode has the type bits. The other bits are ignored.
	Mode fs.FileMode
	// Size is in bytes.
	Size int64
	// Modified is the time of the last change. If it is zero, neither that time nor the size is
	// known.
	Modified time.Time
	// Target is the target of a symbolic link.
	Target string
}

// Type returns the word for the type: file, directory, symlink, fifo, socket or device.
func (e Entry) Type() string { return TypeName(e.Mode) }

// Line returns the line of an entry for a model: a directory with a slash at the end, a file with
// size and time in UTC, a link with its target. It quotes names that would be misread: those that
// are not UTF-8, contain line feeds or begin with a quotation mark.
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
