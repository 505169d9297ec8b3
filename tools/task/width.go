package main

import (
	"fmt"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"unicode/utf8"
)

// longText is the width from which on a string literal does not count: a message stays in one piece, so that it is found.
const longText = 40

var (
	generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)
	// row matches the beginning of a row of a table.
	row = regexp.MustCompile(`^\s*("|\{|\d|[\w.]+\(|\[)`)
)

// wideCode returns the lines of code below dir that have more than [maxComment] columns, each with its file and line number. It
// ignores tests and generated code.
func wideCode(root, dir string) (found []string, err error) {
	sources := os.DirFS(root)
	err = fs.WalkDir(sources, dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == "node_modules"):
			return fs.SkipDir
		case filepath.Ext(path) != ".go" || strings.HasSuffix(path, ".pb.go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		src, err := fs.ReadFile(sources, path)
		if err != nil || generated.Match(src) {
			return err
		}
		lines := strings.Split(string(src), "\n")
		for _, i := range wideLines(src, lines) {
			found = append(found, fmt.Sprintf("%s:%d: %s", path, i+1, strings.TrimSpace(lines[i])))
		}
		return nil
	})
	return found, err
}

// wideLines returns the indexes of the lines of code that are too wide. A line counts without its comment and without long
// texts. Rows of tables, texts of several lines and lines with a nolint directive can be wider.
func wideLines(src []byte, lines []string) (wide []int) {
	set := token.NewFileSet()
	file := set.AddFile("", set.Base(), len(src))
	var s scanner.Scanner
	s.Init(file, src, nil, scanner.ScanComments)
	exempt := make(map[int]bool)
	uncounted := make(map[int]int)
	for {
		pos, tok, text := s.Scan()
		if tok == token.EOF {
			break
		}
		at := file.PositionFor(pos, false)
		i := at.Line - 1
		switch {
		case (tok == token.STRING || tok == token.COMMENT) && strings.Contains(text, "\n"):
			for n := range strings.Count(text, "\n") + 1 {
				exempt[i+n] = true
			}
		case tok == token.COMMENT:
			exempt[i] = exempt[i] || strings.HasPrefix(text, "//nolint")
			if at.Column <= len(lines[i]) { // else after another comment
				lines[i] = strings.TrimRight(lines[i][:at.Column-1], " \t")
			}
		case tok == token.STRING && utf8.RuneCountInString(text) > longText:
			uncounted[i] += utf8.RuneCountInString(text)
		}
	}
	for i, line := range lines {
		width := utf8.RuneCountInString(strings.ReplaceAll(line, "\t", "    ")) - uncounted[i]
		if width > maxComment && !exempt[i] && !isRow(lines, i) {
			wide = append(wide, i)
		}
	}
	return wide
}

// isRow reports whether a line is a row of a table: a line beside it begins in the same way, and both end with a comma.
func isRow(lines []string, i int) bool {
	begin := row.FindString(lines[i])
	if begin == "" || !strings.HasSuffix(lines[i], ",") {
		return false
	}
	for _, j := range []int{i - 1, i + 1} {
		if j >= 0 && j < len(lines) && row.FindString(lines[j]) == begin && strings.HasSuffix(lines[j], ",") {
			return true
		}
	}
	return false
}
