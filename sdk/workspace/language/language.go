// Package language detects the programming language of a file. [Of] returns its name.
//
// The names are those of GitHub Linguist, such as "Go", "C++" or "Shell". The tables of extensions, file names and
// interpreters also come from Linguist. The program in gen copies them from go-enry. This package does not import
// go-enry, because its initialization takes 22 ms and 16 MB per process, and it adds 9 MB to the binary. A whole cold
// start of a plugin takes only a few milliseconds. The tables here need no initialization.
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

// Of returns the language of a file. The argument "head" is the beginning of the content. A few hundred bytes are
// enough. If the language is unknown, Of returns an empty string.
func Of(path string, head []byte) string {
	name := filepath.Base(path)
	if l := find(filenames[:], name); l != "" {
		return l
	}
	// Try the longest extension first, for example ".blade.php" before ".php".
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

// byContent determines the language of a file from the first line of its content. It is used if the name does not
// determine the language.
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
		// In "env -S VAR=value python3 -u", the program is the first word that is not an option and not a variable.
		if i == 0 && name == "env" || strings.HasPrefix(w, "-") || strings.Contains(w, "=") {
			continue
		}
		if l := find(interpreters[:], name); l != "" {
			return l
		}
		return find(interpreters[:], strings.TrimRight(name, "0123456789.")) // remove the version number, as in python3.12
	}
	return ""
}
