package outline

import (
	"bytes"
	"regexp"

	"toolhost.dev/plugins/grep/symbol"
)

// This expression matches lines that look like declarations, for languages without a parser. Its last group is the
// name. The group before the name is the keyword that determines the kind.
var declaring = regexp.MustCompile(`^[ \t]*(?:(?:export|default|public|private|protected|internal|static|abstract|final|sealed|open|override|virtual|async|` +
	`partial|inline|suspend|data|case|pub|local|readonly|extern|unsafe|const|implicit|lazy|fileprivate|mutating|indirect|operator|inner|value)[ \t]+)*` +
	`(class|struct|interface|protocol|trait|enum|record|object|module|namespace|package|extension|type|typealias|message|service|rpc|contract|` +
	`def|defp|defmacro|defmodule|func|fun|function|fn|sub|proc|method|macro|let|val|var|const)[ \t]+` +
	`(?:self\.)?([\pL_$@][\pL\pN_$]*(?:(?:::|\.|:)[\pL_$][\pL\pN_$]*)*[?!]?)`)

// shellFunction matches lines such as "name() {" in shell scripts.
var shellFunction = regexp.MustCompile(`^[ \t]*([A-Za-z_][\w-]*)[ \t]*\([ \t]*\)[ \t]*\{?[ \t]*$`)

var declaredKinds = map[string]symbol.Kind{
	"class": symbol.Class, "struct": symbol.Struct, "interface": symbol.Interface, "protocol": symbol.Interface, "trait": symbol.Trait, "enum": symbol.Enum,
	"record": symbol.Record, "object": symbol.Class, "module": symbol.Module, "namespace": symbol.Namespace, "package": symbol.Module,
	"extension": symbol.Class, "type": symbol.Type, "typealias": symbol.Type, "message": symbol.Struct, "service": symbol.Interface, "contract": symbol.Class,
	"defmodule": symbol.Module, "macro": symbol.Macro, "defmacro": symbol.Macro, "method": symbol.Method, "let": symbol.Variable,
	"val": symbol.Variable, "var": symbol.Variable, "const": symbol.Constant,
}

const (
	// maxLineSymbols is the maximum number of declarations found in one text without a parser.
	maxLineSymbols = 50_000
	longestLine    = 1000
)

// byLines returns a table of the lines that look like declarations.
func byLines(text []byte) *symbol.Table {
	var out []symbol.Symbol
	number, start, next := int32(0), 0, 0
	if len(text) > MaxText {
		text = text[:MaxText]
	}
	for line := range bytes.Lines(text) {
		number++
		start, next = next, next+len(line)
		if len(line) > longestLine {
			continue
		}
		kind := symbol.Function
		var from, to int
		if m := declaring.FindSubmatchIndex(line); m != nil {
			from, to = m[4], m[5]
			if k, ok := declaredKinds[string(line[m[2]:m[3]])]; ok {
				kind = k
			}
			if kind >= symbol.Variable && (line[0] == ' ' || line[0] == '\t') { // skip an indented variable, because it is probably local
				continue
			}
		} else if m := shellFunction.FindSubmatchIndex(bytes.TrimRight(line, "\r\n")); m != nil {
			from, to = m[2], m[3]
		} else {
			continue
		}
		name := line[from:to]
		container := ""
		if i := bytes.LastIndexAny(name, ".:"); i >= 0 {
			container = string(bytes.ReplaceAll(bytes.Trim(name[:i], ":."), []byte("::"), []byte(".")))
			from += i + 1
			name = name[i+1:]
		}
		out = append(out, symbol.Symbol{
			Name: string(name), Container: container, Kind: kind, Line: number, Column: int32(from + 1),
			EndLine: number, Offset: int32(start + from), // #nosec G115 -- below MaxText
		})
		if len(out) == maxLineSymbols {
			break
		}
	}
	return symbol.NewTable(symbol.ByPattern, out)
}
