package tape

import (
	"bufio"
	"bytes"
	"compress/flate"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// maxLine is the maximum length of a line in bytes. A result has at most 64 MiB, but its JSON form can be several times
// longer.
const maxLine = 512 << 20

// Tape is a tape that was read. It must not be changed.
type Tape struct {
	Header
	Files    []File
	Tools    []Tool
	Sessions []Session
	// Calls are in the order in which they began.
	Calls []Call
	// Sum identifies the content of the tape.
	Sum string

	blobs map[string]blob
}

// FormatError reports that a file is not a complete and unchanged tape.
type FormatError struct {
	// Path is the file. Line is the number of the line with the problem, counted from 1.
	Path string
	Line int
	// Problem describes the problem.
	Problem string
}

func (e *FormatError) Error() string {
	return fmt.Sprintf("%s:%d: %s", e.Path, e.Line, e.Problem)
}

// Open reads a tape. For a tape that was truncated or changed, the error is a [*FormatError].
func Open(path string) (*Tape, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	r := reader{tape: &Tape{blobs: make(map[string]blob)}}
	in := bufio.NewReaderSize(f, 1<<16)
	for {
		text, err := readLine(in)
		if errors.Is(err, io.EOF) && len(text) == 0 {
			break
		}
		r.line++
		var problem string
		switch {
		case errors.Is(err, io.EOF):
			problem = "the tape was cut in this line; record it again"
		case err != nil:
			return nil, fmt.Errorf("%s:%d: %w", path, r.line, err)
		default:
			problem = r.add(text)
		}
		if problem != "" {
			return nil, &FormatError{Path: path, Line: r.line, Problem: problem}
		}
	}
	switch {
	case r.line == 0:
		return nil, &FormatError{Path: path, Line: 1, Problem: "the file is empty; record it with toolhost record"}
	case !r.ended:
		return nil, &FormatError{Path: path, Line: r.line + 1, Problem: "the tape was cut after this line: its end is missing; record it again"}
	}
	return r.tape, r.finish(path)
}

// readLine returns the next line without its end. If the file ends before the line ending, readLine returns the
// incomplete line and io.EOF.
func readLine(in *bufio.Reader) ([]byte, error) {
	var text []byte
	for {
		part, err := in.ReadSlice('\n')
		text = append(text, part...)
		switch {
		case err == nil:
			return text[:len(text)-1], nil
		case len(text) > maxLine:
			return nil, fmt.Errorf("the line has more than %d bytes", maxLine)
		case !errors.Is(err, bufio.ErrBufferFull):
			return text, err
		}
	}
}

// reader collects the entries of a tape.
type reader struct {
	tape  *Tape
	line  int
	last  string
	ended bool
}

// add reads a line. It returns the problem of the line, or "".
func (r *reader) add(text []byte) string {
	var l line
	if err := json.Unmarshal(text, &l); err != nil {
		return "this is not a line of a tape: " + err.Error()
	}
	if (r.line == 1) != (l.Kind == kindHeader) {
		return "a tape begins with exactly one header; this file is not a tape, or was changed"
	}
	next := sum(r.last, append([]byte(l.Kind), l.Value...))
	if next != l.Sum {
		return "the tape was changed in this line, or a line before it is missing; record it again"
	}
	if r.ended {
		return "there is text after the end of the tape; remove it"
	}
	r.last = next
	if problem := r.value(l.Kind, l.Value); problem != "" {
		return problem
	}
	return ""
}

// value reads the value of an entry.
func (r *reader) value(kind string, raw json.RawMessage) string {
	t := r.tape
	var err error
	switch kind {
	case kindHeader:
		if err = json.Unmarshal(raw, &t.Header); err == nil && t.Format > Format {
			return fmt.Sprintf("the tape has the format %d, and this program reads up to %d; use the toolhost that recorded it", t.Format, Format)
		}
	case kindBlob:
		var b blob
		err = json.Unmarshal(raw, &b)
		t.blobs[b.Hash] = b
	case kindFile:
		t.Files, err = appended(t.Files, raw)
	case kindTool:
		t.Tools, err = appended(t.Tools, raw)
	case kindSession:
		t.Sessions, err = appended(t.Sessions, raw)
	case kindCall:
		t.Calls, err = appended(t.Calls, raw)
	case kindEnd:
		var e End
		if err = json.Unmarshal(raw, &e); err == nil && e.Calls != len(t.Calls) {
			return fmt.Sprintf("the tape has %d calls, and %d were recorded", len(t.Calls), e.Calls)
		}
		r.ended = true
	default: // a later version of this format can add kinds of entries
	}
	if err != nil {
		return fmt.Sprintf("the entry %q cannot be read: %v", kind, err)
	}
	return ""
}

func appended[T any](all []T, raw json.RawMessage) ([]T, error) {
	var v T
	err := json.Unmarshal(raw, &v)
	return append(all, v), err
}

// finish completes the tape after its last line.
func (r *reader) finish(path string) error {
	t := r.tape
	t.Sum = r.last
	slices.SortStableFunc(t.Calls, func(a, b Call) int { return a.Began.Compare(b.Began) })
	for _, f := range t.Files {
		if !filepath.IsLocal(filepath.FromSlash(f.Path)) {
			return fmt.Errorf("%s: the file %q is outside of the workspace; do not replay this tape", path, f.Path)
		}
		if _, known := t.blobs[f.Content]; f.Content != "" && !known {
			return fmt.Errorf("%s: the tape lacks the content of %s; record it again", path, f.Path)
		}
	}
	return nil
}

// Tool returns a tool by its full name, or nil.
func (t *Tape) Tool(name string) *Tool {
	i := slices.IndexFunc(t.Tools, func(v Tool) bool { return v.FullName() == name })
	if i < 0 {
		return nil
	}
	return &t.Tools[i]
}

// PluginWith returns the plugin on the tape that serves most of the given tools. The argument contains the names of the
// tools within their plugin, without a namespace. PluginWith returns "" if no plugin serves any of them.
func (t *Tape) PluginWith(tools []string) string {
	best, counts := "", make(map[string]int)
	for _, v := range t.Tools {
		if !slices.Contains(tools, v.Definition.Name) {
			continue
		}
		if counts[v.Plugin]++; counts[v.Plugin] > counts[best] {
			best = v.Plugin
		}
	}
	return best
}

// Restore writes the files of the tape below an empty directory. It follows no symbolic link.
func (t *Tape) Restore(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // only a directory
	for _, f := range t.Files {
		if err := t.restore(root, f); err != nil {
			return fmt.Errorf("%s of the tape cannot be written: %w", f.Path, err)
		}
	}
	for _, f := range slices.Backward(t.Files) { // a directory comes after its files, because a change of a file can change the time of its directory
		if f.Link != "" {
			continue
		}
		if err := root.Chtimes(f.Path, f.ModTime, f.ModTime); err != nil {
			return err
		}
		if mode, err := strconv.ParseUint(f.Mode, 8, 32); err == nil && f.Directory {
			if err := root.Chmod(f.Path, os.FileMode(mode).Perm()); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *Tape) restore(root *os.Root, f File) error {
	mode, err := strconv.ParseUint(f.Mode, 8, 32)
	if err != nil {
		mode = 0o644
	}
	switch {
	case f.Directory:
		return root.MkdirAll(f.Path, 0o700)
	case f.Link != "":
		return root.Symlink(f.Link, f.Path)
	}
	content, err := t.Content(f.Content)
	if err != nil {
		return err
	}
	out, err := root.OpenFile(f.Path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = out.Write(content)
	return errors.Join(err, out.Chmod(os.FileMode(mode).Perm()), out.Close())
}

// maxContent is the maximum size of a file in a tape, in bytes.
const maxContent = 1 << 30

// Content returns the content of a file by its hash.
func (t *Tape) Content(hash string) ([]byte, error) {
	b, known := t.blobs[hash]
	if !known {
		return nil, errors.New("the tape lacks its content")
	}
	content, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(b.Data)), min(b.Size, maxContent)+1))
	if err != nil {
		return nil, fmt.Errorf("its content cannot be read: %w", err)
	}
	if h := sha256.Sum256(content); hex.EncodeToString(h[:]) != hash {
		return nil, errors.New("its content does not have the hash in the tape")
	}
	return content, nil
}
