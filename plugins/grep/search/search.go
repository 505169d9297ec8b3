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

// Mode is how much to find out.
type Mode uint8

// The modes.
const (
	Lines Mode = iota // the lines with matches, and those around them
	Count             // how many there are
	First             // whether there is one
)

// Options of a [Searcher].
type Options struct {
	Mode Mode
	// Before and After are the lines of context to give in mode Lines.
	Before, After int
	// MaxLine is the number of characters kept of a line; 0 means all.
	MaxLine int
}

// Result is what was found in a file.
type Result struct {
	// Matches counts lines with a match; where a match may go over several lines,
	// groups of lines that matches hold together, in mode Count single matches.
	Matches int
	// Lines are the lines of the matches that were to be kept, with their context.
	Lines []Line
	// Binary is where a NUL byte was found; below zero: nowhere. The search ended
	// there, unless nothing but a number was asked for.
	Binary int64
	// BinaryMatch: there is a match, but it is not shown because of the NUL byte.
	BinaryMatch bool
}

// Line is a line of a file, without its line break.
type Line struct {
	Number int
	// Text is UTF-8; bytes that were none are U+FFFD.
	Text string
	// CutBefore and CutAfter are the characters that MaxLine left out at either end.
	CutBefore, CutAfter int
	// Match: the line belongs to a match.
	Match bool
	// Column is where a match begins, in bytes from 1. A line of a match without one
	// goes on with the match of the line before.
	Column int
}

// Errors of [Searcher.Search] beside those of reading.
var (
	// ErrTooLarge: the file would have to be searched whole and is larger than MaxWhole.
	ErrTooLarge = errors.New("search: the file is too large to be searched across lines")
	// ErrLongLine: a line is longer than MaxLineBytes.
	ErrLongLine = errors.New("search: a line is too long")
)

const (
	// MaxWhole is the size up to which a file is searched across lines.
	MaxWhole = 128 << 20
	// MaxLineBytes is the length up to which a line is searched.
	MaxLineBytes = 64 << 20
	// MaxKept is the memory up to which lines of a file are kept.
	MaxKept = 8 << 20
)

// File is a file to search.
type File struct {
	io.Reader
	// Size is the file's size; 0: not known.
	Size int64
	// Explicit files were named by the caller: they are searched even if they have NUL
	// bytes in them, others only up to there.
	Explicit bool
}

// Window is the matches of a file from number From on and below To, counted from 0.
type Window struct{ From, To int }

// Searcher searches files, one after the other.
type Searcher struct {
	ctx  context.Context // of all its searches: a searcher lives as long as a call
	m    *pattern.Matcher
	opts Options
	head []byte
	buf  lineBuffer
}

// New makes a searcher, which stops in the middle of a file when ctx ends.
func New(ctx context.Context, p *pattern.Pattern, o Options) *Searcher {
	if o.Mode != Lines {
		o.Before, o.After = 0, 0
	}
	return &Searcher{ctx: ctx, m: p.Matcher(ctx), opts: o}
}

// Search searches a file, and keeps the lines of the matches in the window. An error
// may come with a result.
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
		f.result.Matches = 0 // the number would be that of a part of the file
	}
	return f.result, err
}
