// Package language implements the recognition of a file's programming language. [Of] returns its
// name.
//
// The names are those of GitHub Linguist ("Go", "C++", "Shell"). The tables of extensions, file
// names and interpreters come from Linguist too: the program in gen copies them from go-enry. The
// package does not import go-enry, because setting up its tables takes 22 ms and 16 MB in every
// process, and 9 MB of binary, while a plugin's whole cold start takes a few milliseconds. The
// tables here need no setup.
package language

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"
)

//go:generate env GOWORK=off go run -C gen .

type entry struct{ key, language string }

func find(table []entry, key string) string {
	i, ok := slices.BinarySearchFunc(table, key, func(e entry, key string) int { return strings.Compare(e.key, key) })
	if !ok {
		return ""
	}
	return table[i].language
}

// Of returns the language of a file by its name and the beginning of its content, of which a few
// hundred bytes are enough. It returns an empty string if the language is not known.
func Of(path string, head []byte) string {
	name := filepath.Base(path)
	if l := find(filenames[:], name); l != "" {
		return l
	}
	// The longest known extension counts: ".blade.php" before ".php".
	for rest := strings.TrimLeft(name, "."); ; {
		i := strings.IndexByte(rest, '.')
		if i < 0 {
			break
		}
		ext := rest[i:]
		rest = rest[i+1:]
		l := find(extensions[:], ext)
		if l == "" {
			l = find(extensions[:], strings.ToLower(ext))
		}
		if l != "" {
			return refine(strings.ToLower(ext), l, head)
		}
	}
	return byContent(head)
}

// byContent returns the language by the first line of a file whose name is not known.
func byContent(head []byte) string {
	line, _, _ := bytes.Cut(head, []byte{'\n'})
	if interpreter, ok := bytes.CutPrefix(line, []byte("#!")); ok {
		return byInterpreter(strings.Fields(string(interpreter)))
	}
	switch {
	case bytes.HasPrefix(line, []byte("<?xml")):
		return "XML"
	case bytes.HasPrefix(line, []byte("<?php")):
		return "PHP"
	case len(line) >= 14 && bytes.EqualFold(line[:14], []byte("<!doctype html")):
		return "HTML"
	}
	return ""
}

func byInterpreter(words []string) string {
	for i, w := range words {
		name := filepath.Base(w)
		// "env -S VAR=value python3 -u": the program is the first plain word.
		if i == 0 && name == "env" || strings.HasPrefix(w, "-") || strings.Contains(w, "=") {
			continue
		}
		if l := find(interpreters[:], name); l != "" {
			return l
		}
		return find(interpreters[:], strings.TrimRight(name, "0123456789.")) // python3.12
	}
	return ""
}
