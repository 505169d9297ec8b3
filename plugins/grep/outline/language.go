// Package outline finds the declarations in a source text. For Go it uses Go's own parser. For languages with a
// grammar it uses package grammar. For all other languages it finds the lines that look like declarations.
package outline

import (
	"bytes"
	"slices"
	"strings"
)

// Language is the name of a programming language, such as "go" or "python".
type Language string

// Names of the languages that have a parser.
const (
	Go         Language = "go"
	Python     Language = "python"
	JavaScript Language = "javascript"
	TypeScript Language = "typescript"
	Rust       Language = "rust"
	Java       Language = "java"
	C          Language = "c"
	Cpp        Language = "cpp"
)

// dialect is a language and the name of the grammar that parses it.
type dialect struct {
	language Language
	grammar  string // "" for Go and for languages that are searched by lines
}

var byExtension = map[string]dialect{
	"go": {Go, ""},
	"py": {Python, "python"}, "pyi": {Python, "python"}, "pyw": {Python, "python"},
	"js": {JavaScript, "javascript"}, "jsx": {JavaScript, "javascript"}, "mjs": {JavaScript, "javascript"}, "cjs": {JavaScript, "javascript"},
	"ts": {TypeScript, "typescript"}, "mts": {TypeScript, "typescript"}, "cts": {TypeScript, "typescript"}, "tsx": {TypeScript, "tsx"},
	"rs": {Rust, "rust"}, "java": {Java, "java"}, "c": {C, "c"},
	"h":  {C, "c"}, // can also be C++; see parsedAs
	"cc": {Cpp, "cpp"}, "cpp": {Cpp, "cpp"}, "cxx": {Cpp, "cpp"}, "c++": {Cpp, "cpp"}, "hpp": {Cpp, "cpp"}, "hh": {Cpp, "cpp"}, "hxx": {Cpp, "cpp"},
	"h++": {Cpp, "cpp"}, "ipp": {Cpp, "cpp"}, "tpp": {Cpp, "cpp"}, "inl": {Cpp, "cpp"},
	"rb": {"ruby", ""}, "rake": {"ruby", ""}, "php": {"php", ""}, "cs": {"csharp", ""}, "kt": {"kotlin", ""}, "kts": {"kotlin", ""},
	"swift": {"swift", ""}, "scala": {"scala", ""}, "sh": {"shell", ""}, "bash": {"shell", ""}, "zsh": {"shell", ""}, "lua": {"lua", ""},
	"pl": {"perl", ""}, "pm": {"perl", ""}, "ex": {"elixir", ""}, "exs": {"elixir", ""}, "dart": {"dart", ""}, "zig": {"zig", ""},
	"groovy": {"groovy", ""}, "gradle": {"groovy", ""}, "jl": {"julia", ""}, "nim": {"nim", ""}, "cr": {"crystal", ""}, "vue": {"vue", ""},
	"svelte": {"svelte", ""}, "m": {"objc", ""}, "mm": {"objc", ""}, "fs": {"fsharp", ""}, "vb": {"vb", ""}, "d": {"d", ""}, "proto": {"protobuf", ""},
	"sql": {"sql", ""}, "ps1": {"powershell", ""}, "hs": {"haskell", ""}, "erl": {"erlang", ""}, "clj": {"clojure", ""}, "r": {"r", ""},
	"thrift": {"thrift", ""}, "graphql": {"graphql", ""}, "sol": {"solidity", ""}, "v": {"v", ""}, "vala": {"vala", ""}, "hx": {"haxe", ""},
}

var aliases = map[string]Language{
	"golang": Go, "py": Python, "js": JavaScript, "jsx": JavaScript, "ts": TypeScript, "tsx": TypeScript, "rs": Rust, "c++": Cpp, "cxx": Cpp,
	"c#": "csharp", "cs": "csharp", "rb": "ruby", "kt": "kotlin", "sh": "shell", "bash": "shell",
}

// Languages returns the sorted names of all languages.
func Languages() []string {
	var out []string
	for _, d := range byExtension {
		if !slices.Contains(out, string(d.language)) {
			out = append(out, string(d.language))
		}
	}
	slices.Sort(out)
	return out
}

// Find returns the language with a name such as "go", "TypeScript" or "c++".
func Find(name string) (Language, bool) {
	name = strings.ToLower(name)
	if l, ok := aliases[name]; ok {
		return l, true
	}
	return Language(name), slices.Contains(Languages(), name)
}

// Of returns the language that belongs to a file name. If the language is unknown, it returns "".
func Of(name string) Language { return dialectOf(name).language }

func dialectOf(name string) dialect {
	name = name[strings.LastIndexByte(name, '/')+1:]
	dot := strings.LastIndexByte(name, '.')
	if dot < 0 {
		return dialect{}
	}
	ext := name[dot+1:]
	d, ok := byExtension[ext]
	if !ok && strings.ToLower(ext) != ext {
		if ext == "C" || ext == "H" {
			return dialect{Cpp, "cpp"}
		}
		d = byExtension[strings.ToLower(ext)]
	}
	return d
}

// Way identifies the method with which a file is parsed. If two files have the same text and the same Way, their
// outlines are equal. If [Of] returns "", Way also returns "".
func Way(name string) string {
	d := dialectOf(name)
	switch {
	case strings.HasSuffix(name, ".h"):
		return "h"
	case d.grammar != "":
		return d.grammar
	}
	return string(d.language)
}

// Is reports whether a file with the given name can be in the language. A C header can be in C or in C++.
func (l Language) Is(name string) bool {
	of := Of(name)
	return l == of || l == Cpp && of == C && strings.HasSuffix(name, ".h")
}

// parsedAs returns the dialect in which a file is parsed. The dialect depends on the file's name and text.
func parsedAs(name string, text []byte) dialect {
	d := dialectOf(name)
	switch {
	case d.language == C && strings.HasSuffix(name, ".h") && looksLikeCpp(text):
		return dialect{Cpp, "cpp"}
	case d.language == JavaScript && bytes.Contains(text[:min(len(text), 512)], []byte("@flow")):
		return dialect{JavaScript, "tsx"} // the types of Flow resemble the types of TypeScript
	}
	return d
}

// looksLikeCpp reports whether a header contains lines that are valid in C++ but not in C.
func looksLikeCpp(text []byte) bool {
	for line := range bytes.Lines(text) {
		line = bytes.TrimSpace(line)
		for _, s := range cppLines {
			if bytes.HasPrefix(line, s) {
				return true
			}
		}
	}
	return false
}

var cppLines = [][]byte{
	[]byte("class "), []byte("namespace "), []byte("template <"), []byte("template<"), []byte("public:"), []byte("private:"), []byte("protected:"),
	[]byte("using "), []byte("constexpr "), []byte("enum class "), []byte("virtual "), []byte("explicit "), []byte("inline namespace "),
}
