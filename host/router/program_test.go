package router_test

import "toolhost.dev/sdk/tool"

// gnuGrep is the description of GNU grep that the bundled tool has.
var gnuGrep = tool.Program{
	Operands: 2, First: "pattern", Number: "C", Otherwise: "dialect=bre", Special: `\+?(){}|`,
	Options: map[string]tool.ProgramOption{
		"r": {}, "R": {}, "recursive": {}, "dereference-recursive": {},
		"s": {}, "no-messages": {}, "I": {}, "H": {}, "with-filename": {},
		"color": {Optional: true}, "colour": {Optional: true}, "line-buffered": {},
		"G": {Argument: "dialect=bre"}, "basic-regexp": {Argument: "dialect=bre"},
		"E": {Argument: "dialect=ere"}, "extended-regexp": {Argument: "dialect=ere"},
		"F": {Argument: "dialect=fixed"}, "fixed-strings": {Argument: "dialect=fixed"},
		"n": {Argument: "line_numbers=true"}, "line-number": {Argument: "line_numbers=true"},
		"i": {Argument: "ignore_case=true"}, "ignore-case": {Argument: "ignore_case=true"},
		"l": {Argument: "output_mode=files_with_matches"}, "files-with-matches": {Argument: "output_mode=files_with_matches"},
		"c": {Argument: "output_mode=count"}, "count": {Argument: "output_mode=count"},
		"o": {Argument: "only_matching=true"}, "only-matching": {Argument: "only_matching=true"},
		"v": {Argument: "invert_match=true"}, "invert-match": {Argument: "invert_match=true"},
		"L": {Argument: "files_without_match=true"}, "files-without-match": {Argument: "files_without_match=true"},
		"a": {Argument: "text=true"}, "text": {Argument: "text=true"},
		"m": {Argument: "max_count=", Value: true}, "max-count": {Argument: "max_count=", Value: true},
		"A": {Argument: "after=", Value: true}, "after-context": {Argument: "after=", Value: true},
		"B": {Argument: "before=", Value: true}, "before-context": {Argument: "before=", Value: true},
		"C": {Argument: "context=", Value: true}, "context": {Argument: "context=", Value: true},
		"e": {Argument: "pattern=", Value: true}, "regexp": {Argument: "pattern=", Value: true},
		"include": {Argument: "glob=", Value: true}, "exclude": {Argument: "glob=!", Value: true}, "exclude-dir": {Argument: "glob=!**/", Value: true, Suffix: "/**"},
	},
}
