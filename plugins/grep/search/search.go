// Package search searches one file for a pattern. If a match cannot span lines, it searches line by line in a small
// buffer, which works for files of any size. Otherwise it searches the whole file in memory. The results equal the
// results of ripgrep, even in binary files and files that are not UTF-8.
package search

import (
	"context"
	"errors"
	"io"

	"toolhost.dev/plugins/grep/pattern"
	"toolhost.dev/sdk/workspace/text"
)

// Mode selects the kind of result.
type Mode uint8

// Values of [Mode].
const (
	Lines Mode = iota // return matching lines and their context
	Count             // return the number of matches
	First             // return whether the file has a match
)

// Options are the options of a [Searcher].
type Options struct {
	Mode Mode
	// Before and After are the numbers of context lines before and after a match. They apply only to the mode Lines.
	Before, After int
	// MaxLine is the maximum number of characters of a returned line; 0 means no limit.
	MaxLine int
	// MaxCount is the maximum number of matching lines in a file, or of matches if a match can span lines. 0 means no
	// limit.
	MaxCount int
	// The option Only adds the single matches to each line. The option Each counts single matches in the mode Count.
	// Both options apply only to patterns that match within lines.
	Only, Each bool
	// Invert finds the lines without a match. It applies only to patterns that match within lines.
	Invert bool
	// Text makes the search treat binary files as text.
	Text bool
}

// Result is the result of searching one file.
type Result struct {
	// Matches is the number of matching lines. If a match can span lines, Matches is the number of groups of
	// consecutive matching lines, or in mode Count the number of single matches.
	Matches int
	// Lines contains the lines of the matches in the window, with their context.
	Lines []Line
	// Binary is the offset of a NUL byte. It is negative if no NUL byte was found. The search ended at the NUL byte
	// unless the caller named the file.
	Binary int64
	// BinaryMatch is true if a match is omitted because of a NUL byte.
	BinaryMatch bool
}

// Inverted converts a result to the result of a search for files without a match. If an error or a NUL byte ended the
// search, the rest of the file can contain a match.
func (r Result) Inverted(err error) Result {
	found := r.Matches > 0 || r.Binary >= 0 || err != nil
	r.Matches, r.BinaryMatch = 1, false
	if found {
		r.Matches = 0
	}
	return r
}

// Line is one line of a file without its line break.
type Line struct {
	Number int
	// Text is valid UTF-8. U+FFFD replaces invalid bytes.
	Text string
	// CutBefore and CutAfter are the numbers of characters that were removed at the start and at the end of the line
	// because of MaxLine.
	CutBefore, CutAfter int
	// Match is true if the line belongs to a match.
	Match bool
	// Column is the start of the line's first match, in bytes, counted from 1. It is 0 if no match starts in the line.
	Column int
	// Parts contains the single matches if Options.Only is set. Empty matches are left out.
	Parts []Match
}

// Match is a match within a line.
type Match struct {
	Text string
	// Column is the start of the match in the line, in bytes, counted from 1. Cut is the number of characters that were
	// removed at the end of the text because of MaxLine.
	Column, Cut int
}

// Errors that [Searcher.Search] can return in addition to read errors.
var (
	// ErrTooLarge is the error for a file that is larger than MaxWhole if a match can span lines.
	ErrTooLarge = errors.New("search: the file is too large to be searched across lines")
	// ErrLongLine is the error for a line longer than MaxLineBytes.
	ErrLongLine = errors.New("search: a line is too long")
)

const (
	// MaxWhole is the maximum size in bytes of a file in which matches can span lines.
	MaxWhole = 128 << 20
	// MaxLineBytes is the maximum length of a line in bytes.
	MaxLineBytes = 64 << 20
	// MaxKept is the maximum memory in bytes for the lines of one file.
	MaxKept = 8 << 20
)

// File is a file to search.
type File struct {
	io.Reader
	// Size is the size of the file in bytes. Zero means that the size is unknown.
	Size int64
	// Explicit is true if the caller named the file. Such a file is searched to its end even if it contains NUL bytes.
	// Other files are searched only up to the first NUL byte.
	Explicit bool
}

// Window selects the matches of a file whose numbers are in [From,To), counted from 0.
type Window struct{ From, To int }

// Searcher searches files one after the other. It is not safe for concurrent use.
type Searcher struct {
	ctx  context.Context // the context of all searches; a searcher serves one call
	m    *pattern.Matcher
	opts Options
	head []byte
	buf  lineBuffer
}

// New returns a searcher. If ctx ends, a search stops in the middle of a file.
func New(ctx context.Context, p *pattern.Pattern, o Options) *Searcher {
	if o.Mode != Lines {
		o.Before, o.After = 0, 0
	}
	return &Searcher{ctx: ctx, m: p.Matcher(ctx), opts: o}
}

// Search searches a file. It returns the lines of the matches in the window. It can return both a result and an error.
func (s *Searcher) Search(file File, w Window) (Result, error) {
	if s.m.Crossing() && file.Size > MaxWhole {
		return Result{Binary: -1}, ErrTooLarge
	}
	if s.head == nil {
		s.head = make([]byte, capacity)
	}
	_, seekable := file.Reader.(io.Seeker)
	res, err := s.search(file, w, !seekable || file.Size > text.MaxDecoded)
	if errors.Is(err, errLegacy) {
		return s.again(file, w)
	}
	return res, err
}

// search searches a file. If decoded is false and the text is not UTF-8, it returns errLegacy.
func (s *Searcher) search(file File, w Window, decoded bool) (Result, error) {
	src, encoded, err := sniff(file.Reader, s.head)
	if err != nil {
		return Result{Binary: -1}, err
	}
	binary := quit
	switch {
	case s.opts.Text:
		binary = asText
	case file.Explicit && encoded && !s.m.Crossing():
		binary = convert
	case file.Explicit:
		binary = notice
	}
	f := &finding{s: s, binary: binary, window: w, result: Result{Binary: -1}, line: 1, decoded: decoded || encoded}
	if s.m.Crossing() {
		err = f.whole(src, file.Size)
	} else {
		err = f.byLine(src)
	}
	if f.result.Binary >= 0 && binary == quit && (s.opts.Mode == Count || s.opts.Mode == First && s.opts.Invert) {
		f.result.Matches = 0 // the number is wrong, because only a part of the file was counted
	}
	return f.result, err
}
