// Package search implements the search for a pattern in one file: line by line in a small buffer,
// whatever the file's size, or in the whole file if a match may span lines. It finds what ripgrep
// finds, also in files that are not text or not UTF-8.
package search

import (
	"context"
	"errors"
	"io"

	"toolhost.dev/plugins/grep/pattern"
)

// Mode selects what a search returns.
type Mode uint8

// The modes.
const (
	Lines Mode = iota // the lines with matches and their context
	Count             // the number of matches
	First             // whether there is a match
)

// Options of a [Searcher].
type Options struct {
	Mode Mode
	// Before and After are the numbers of context lines in mode Lines.
	Before, After int
	// MaxLine is the maximal number of characters to keep of a line; 0 keeps all.
	MaxLine int
}

// Result is the result of searching a file.
type Result struct {
	// Matches counts lines with a match. If a match may span lines, it counts groups of consecutive matched lines, or in
	// mode Count the single matches.
	Matches int
	// Lines are the lines of the matches in the window, with their context.
	Lines []Line
	// Binary is the offset of a NUL byte, or negative if none was found. The search ended there, except in files that
	// the caller named.
	Binary int64
	// BinaryMatch means that there is a match which is not shown because of the NUL byte.
	BinaryMatch bool
}

// Line is a line of a file, without its line break.
type Line struct {
	Number int
	// Text is valid UTF-8, with U+FFFD for invalid bytes.
	Text string
	// CutBefore and CutAfter are the numbers of characters that MaxLine removed at either end.
	CutBefore, CutAfter int
	// Match means that the line belongs to a match.
	Match bool
	// Column is the beginning of a match, in bytes from 1. It is 0 for a line that continues the match of the line
	// before.
	Column int
}

// Errors that [Searcher.Search] returns besides errors of reading.
var (
	// ErrTooLarge means that the file must be searched as a whole and is larger than MaxWhole.
	ErrTooLarge = errors.New("search: the file is too large to be searched across lines")
	// ErrLongLine means that a line is longer than MaxLineBytes.
	ErrLongLine = errors.New("search: a line is too long")
)

const (
	// MaxWhole is the maximal size of a file that is searched across lines.
	MaxWhole = 128 << 20
	// MaxLineBytes is the maximal length of a line.
	MaxLineBytes = 64 << 20
	// MaxKept is the memory limit for the lines of a file.
	MaxKept = 8 << 20
)

// File is a file to search.
type File struct {
	io.Reader
	// Size is the size of the file; 0 if unknown.
	Size int64
	// Explicit means that the caller named the file. Such a file is searched completely even if it contains NUL bytes.
	// Other files are searched up to the first one.
	Explicit bool
}

// Window selects the matches of a file with numbers in [From,To), counted from 0.
type Window struct{ From, To int }

// Searcher searches one file after the other.
type Searcher struct {
	ctx  context.Context // of all searches: a searcher lives as long as a call
	m    *pattern.Matcher
	opts Options
	head []byte
	buf  lineBuffer
}

// New returns a searcher. It stops in the middle of a file when ctx ends.
func New(ctx context.Context, p *pattern.Pattern, o Options) *Searcher {
	if o.Mode != Lines {
		o.Before, o.After = 0, 0
	}
	return &Searcher{ctx: ctx, m: p.Matcher(ctx), opts: o}
}

// Search searches a file and keeps the lines of the matches in the window. It may return both a result and an error.
func (s *Searcher) Search(file File, w Window) (Result, error) {
	if s.m.Crossing() && file.Size > MaxWhole {
		return Result{Binary: -1}, ErrTooLarge
	}
	if s.head == nil {
		s.head = make([]byte, capacity)
	}
	src, encoded, err := sniff(file.Reader, s.head)
	if err != nil {
		return Result{Binary: -1}, err
	}
	binary := quit
	switch {
	case file.Explicit && encoded && !s.m.Crossing():
		binary = convert
	case file.Explicit:
		binary = notice
	}
	f := &finding{s: s, binary: binary, window: w, result: Result{Binary: -1}, line: 1}
	if s.m.Crossing() {
		err = f.whole(src, file.Size)
	} else {
		err = f.byLine(src)
	}
	if f.result.Binary >= 0 && binary == quit && s.opts.Mode == Count {
		f.result.Matches = 0 // the number would count only a part of the file
	}
	return f.result, err
}
