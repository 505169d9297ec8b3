package shellscript

import (
	"slices"
	"strings"
)

// awkCode matches the parts of an awk program that can run other programs.
var awkCode = lazily(`system|getline|@|\|`)

// checkAwk refuses awk programs that are unknown or can run other programs.
func (w *walker) checkAwk(name string, args []Word) {
	i := 0
	for ; i < len(args) && strings.HasPrefix(args[i].Text, "-") && args[i].Text != "--"; i++ {
		switch a := args[i].Text; {
		case a == "-F" || a == "-v":
			i++
		case strings.HasPrefix(a, "-F") || strings.HasPrefix(a, "-v"):
		default:
			w.refuse("%s with the option %s is not in the subset", name, shortened(a))
			return
		}
	}
	if i < len(args) && args[i].Text == "--" {
		i++
	}
	if i >= len(args) {
		return
	}
	if text := args[i]; !text.Known() || text.Split || awkCode().MatchString(strings.ReplaceAll(text.Text, "||", "")) {
		w.refuse("the program of %s can run other programs, or is unknown; write it without system, getline, @ and |", name)
	}
}

// checkSed refuses sed scripts that are unknown or can run other programs.
func (w *walker) checkSed(name string, args []Word) {
	var scripts []Word
	var operands []Word
	for i := 0; i < len(args); i++ {
		switch a := args[i].Text; {
		case a == "--":
			operands = append(operands, args[i+1:]...)
			i = len(args)
		case a == "-e" || a == "-ne" || a == "-Ee" || a == "-re":
			if i++; i < len(args) {
				scripts = append(scripts, args[i])
			}
		case slices.Contains([]string{"-n", "-E", "-r", "-s", "-z", "-u", "-nE", "-En", "-nr", "-rn", "--quiet",
			"--silent", "--posix", "--regexp-extended", "--in-place"}, a) || strings.HasPrefix(a, "-i"):
		case strings.HasPrefix(a, "-") && len(a) > 1:
			w.refuse("%s with the option %s is not in the subset", name, shortened(a))
			return
		default:
			operands = append(operands, args[i])
		}
	}
	if len(scripts) == 0 && len(operands) > 0 {
		scripts = operands[:1]
	}
	for _, text := range scripts {
		if !text.Known() || text.Split || !harmlessSed(text.Text) {
			w.refuse("the script of %s can run other programs, or is not understood; use simple commands such as s/a/b/g and 1,5p", name)
			return
		}
	}
}

var (
	sedAddress = lazily(`^([0-9]+|\$|\+[0-9]+|~[0-9]+)(~[0-9]+)?`)
	sedFlags   = lazily(`^[gpiIM0-9]*`)
)

// harmlessSed reports whether no command in a sed script can run another program.
func harmlessSed(s string) bool {
	for {
		if s = strings.TrimLeft(s, " \t\n;"); s == "" {
			return true
		}
		var ok bool
		if s, ok = sedAddresses(s); !ok || s == "" {
			return false
		}
		command := s[0]
		s = s[1:]
		switch {
		case strings.IndexByte("{}=dDgGhHnNpPxzFqQ", command) >= 0:
			s = strings.TrimLeft(s, " \t0123456789")
			if s != "" && strings.IndexByte("\n;}#", s[0]) < 0 && command != '{' && command != '}' {
				return false
			}
		case strings.IndexByte("aicrRwWbtT:#", command) >= 0:
			_, s, _ = strings.Cut(s, "\n")
		case command == 's' || command == 'y':
			if s, ok = sedParts(s); !ok {
				return false
			}
			if command == 's' {
				s = s[len(sedFlags().FindString(s)):]
			}
			s = strings.TrimLeft(s, " \t")
			if s != "" && strings.IndexByte("\n;}#", s[0]) < 0 {
				return false
			}
		default:
			return false
		}
	}
}

// sedAddresses returns the rest of a sed command after its addresses.
func sedAddresses(s string) (rest string, ok bool) {
	for {
		s = strings.TrimLeft(s, " \t")
		switch {
		case sedAddress().MatchString(s):
			s = s[len(sedAddress().FindString(s)):]
		case strings.HasPrefix(s, "/"):
			if s, ok = sedUntil(s[1:], '/'); !ok {
				return s, false
			}
			s = strings.TrimLeft(s, "IM")
		}
		s = strings.TrimLeft(s, " \t")
		switch {
		case strings.HasPrefix(s, ","):
			s = s[1:]
			continue
		case strings.HasPrefix(s, "!"):
			s = strings.TrimLeft(s, "! \t")
		}
		return s, true
	}
}

// sedParts returns the rest of the sed command "s" or "y" after its two parts.
func sedParts(s string) (rest string, ok bool) {
	if s == "" || s[0] == '\n' || s[0] == '\\' || s[0] >= 0x80 || s[0] == ' ' {
		return s, false
	}
	delim := s[0]
	if s, ok = sedUntil(s[1:], delim); !ok {
		return s, false
	}
	return sedUntil(s, delim)
}

// sedUntil returns the rest of a text after the delimiter. If versions of sed read the text differently, ok is false.
func sedUntil(s string, delim byte) (rest string, ok bool) {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case delim:
			text := s[:i]
			return s[i+1:], strings.Count(text, "[") == strings.Count(text, "]") && !strings.Contains(text, "\n")
		}
	}
	return s, false
}

// interpreters maps programs to the options whose argument is code. The option "" means that the first operand is code.
var interpreters = map[string][]string{
	"python": {"-c"}, "python3": {"-c"}, "python2": {"-c"}, "pypy": {"-c"}, "pypy3": {"-c"}, "perl": {"-e", "-E", "-ne", "-pe", "-pi", "-lane", "-lne"}, "ruby": {"-e", "-ne", "-pe"},
	"node": {"-e", "--eval", "-p", "--print"}, "bun": {"-e", "--eval"}, "deno": {"eval"}, "php": {"-r"}, "lua": {"-e"}, "luajit": {"-e"}, "Rscript": {"-e"}, "julia": {"-e", "-E"}, "tclsh": {""},
	"osascript": {"-e"}, "expect": {"-c"}, "awk": {""}, "gawk": {""}, "mawk": {""}, "nawk": {""}, "sqlite3": {""}, "psql": {"-c", "--command"}, "mysql": {"-e", "--execute"}, "gdb": {"-ex", "-iex"}, "lldb": {"-o"},
	"vim": {"-c", "--cmd"}, "nvim": {"-c", "--cmd"}, "vi": {"-c"}, "ex": {"-c"}, "emacs": {"--eval", "-eval"}, "dc": {"-e"}, "m4": {""}, "ed": {""}, "jshell": {""}, "groovy": {"-e"}, "ghc": {"-e"}, "elixir": {"-e"},
	"erl": {"-eval"}, "pwsh": {"-c", "-Command"}, "make": {"--eval"},
}

// noteCode records the code in a command that the analysis does not understand.
func (w *walker) noteCode(base string, words []Word) {
	options, ok := interpreters[base]
	if !ok {
		if (base == "sed" || base == "gsed") &&
			slices.ContainsFunc(words[1:], func(a Word) bool { return !strings.HasPrefix(a.Text, "-") }) {
			i := slices.IndexFunc(words[1:], func(a Word) bool { return !strings.HasPrefix(a.Text, "-") })
			if text := words[1+i]; !text.Known() || !harmlessSed(text.Text) {
				w.unknown("code in a word is not judged: %s", w.shown(words))
			}
		}
		return
	}
	for _, a := range words[1:] {
		if slices.Contains(options, a.Text) || slices.Contains(options, "") {
			w.unknown("code in a word is not judged: %s", w.shown(words))
			return
		}
	}
	operand := slices.IndexFunc(words[1:], func(a Word) bool { return !strings.HasPrefix(a.Text, "-") })
	switch {
	case operand >= 0:
		w.unknown("the commands in a file are not judged: %s", w.shown(words))
	case !slices.ContainsFunc(words[1:],
		func(a Word) bool { return slices.Contains([]string{"--version", "-V", "-v", "--help", "-h"}, a.Text) }):
		w.unknown("code from standard input is not judged: %s", w.shown(words))
	}
}

// shown returns a command in the form for messages.
func (w *walker) shown(words []Word) string {
	c := Command{Words: words}
	s := c.String()
	if r := []rune(s); len(r) > 120 {
		s = string(r[:119]) + "…"
	}
	return s
}
