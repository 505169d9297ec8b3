package language

import "bytes"

// mark is a text that identifies the language of a file whose extension belongs to several languages. A text that
// begins with a newline must be at the beginning of a line. A text that begins with ^ must be at the beginning of
// the file.
type mark struct {
	ext, language string
	signs         []string
}

// This list contains the extensions that several common languages share.
var marks = []mark{
	{".h", "Objective-C", []string{"\n@interface", "\n@protocol", "\n@class", "\n@import", "\n#import"}},
	{".h", "C++", []string{"\nclass ", "\ntemplate", "\nnamespace ", "\nusing namespace", "std::", "\npublic:", "\nprivate:", "\nprotected:",
		"#include <cstdint>", "#include <string>", "#include <vector>", "#include <map>", "#include <memory>",
		"#include <algorithm>", "#include <iostream>"}},
	{".m", "MATLAB", []string{"\n%", "\nfunction "}},
	{".m", "Wolfram Language", []string{"^(*", "\n(*"}},
	{".mm", "XML", []string{"^<"}},
	{".ts", "XML", []string{"^<?xml", "^<!DOCTYPE TS", "^<TS"}},
	{".tsx", "XML", []string{"^<?xml"}},
	{".rs", "XML", []string{"^<?xml"}},
	{".pl", "Prolog", []string{"\n:- ", " :- ", " :-\n"}},
	{".pl", "Raku", []string{"\nuse v6"}},
	{".pm", "Raku", []string{"\nuse v6", "\nunit module", "\nunit class"}},
	{".t", "Raku", []string{"\nuse v6"}},
	{".php", "Hack", []string{"^<?hh"}},
	{".hh", "Hack", []string{"^<?hh"}},
	{".cs", "Smalltalk", []string{"methodsFor:"}},
	{".d", "Makefile", []string{".o: "}},
	{".f", "Forth", []string{"\n: "}},
	{".fs", "GLSL", []string{"\n#version", "\nprecision ", "\nuniform ", "\nvarying "}},
	{".fs", "Forth", []string{"\n: ", "\n\\ "}},
	{".v", "Rocq Prover", []string{"\nRequire ", "\nLemma ", "\nTheorem ", "\nDefinition ", "\nInductive "}},
	{".v", "V", []string{"\nfn ", "\npub ", "\nimport "}},
	{".inc", "C++", []string{"\n#include", "\n#define", "\n#if"}},
	{".plist", "OpenStep Property List", []string{"^{", "^("}},
}

// refineLength is the number of bytes at the beginning of a file in which marks are searched.
const refineLength = 4 << 10

func refine(ext, language string, head []byte) string {
	head = bytes.TrimLeft(head[:min(len(head), refineLength)], "\ufeff \t\r\n")
	for _, m := range marks {
		if m.ext == ext && m.occursIn(head) {
			return m.language
		}
	}
	return language
}

func (m *mark) occursIn(head []byte) bool {
	for _, s := range m.signs {
		if s[0] == '^' || s[0] == '\n' {
			if bytes.HasPrefix(head, []byte(s[1:])) {
				return true
			}
		}
		if s[0] != '^' && bytes.Contains(head, []byte(s)) {
			return true
		}
	}
	return false
}
