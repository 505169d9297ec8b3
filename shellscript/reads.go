package shellscript

import (
	"slices"
	"strings"
)

// readers lists programs that change no file, whatever their arguments are. See also readsOnly.
var readers = []string{
	"ls", "cat", "head", "tail", "wc", "nl", "tac", "cut", "paste", "tr", "comm", "join", "fold", "column", "rev", "seq", "expr", "sleep", "pwd", "echo", "printf", "true", "false", ":", "test", "[", "cd",
	"basename", "dirname", "realpath", "readlink", "stat", "file", "du", "df", "which", "id", "whoami", "uname", "nproc", "diff", "cmp", "md5sum", "sha1sum", "sha256sum", "cksum", "od", "hexdump",
	"strings", "base64", "jq", "grep", "egrep", "fgrep", "rg", "type", "exit", "return", "wait",
}

// gitReaders lists subcommands of git that change no file except the index. They only refresh the index.
var gitReaders = []string{"status", "diff", "log", "show", "blame", "rev-parse", "rev-list", "ls-files", "ls-tree",
	"cat-file", "describe", "shortlog", "merge-base", "grep", "check-ignore"}

// ReadsOnly reports whether a script certainly changes no file. It also returns false for many scripts that change no
// file, because it does not recognize them. Do not rely on ReadsOnly for security.
func ReadsOnly(text string, o Options) bool {
	a := Analyze(text, o)
	if len(a.Doubts) > 0 || len(a.Unknown) > 0 || a.ForkBomb {
		return false
	}
	for _, w := range a.Writes {
		if !w.Path.Known() || w.Path.Text != "/dev/null" {
			return false
		}
	}
	return !slices.ContainsFunc(a.Commands, func(c Command) bool { return !readsOnly(&c) })
}

// removers lists programs that only remove files.
var removers = []string{"rm", "rmdir", "unlink"}

// OnlyRemoves reports whether a script certainly changes files only by removing them.
func OnlyRemoves(text string, o Options) bool {
	a := Analyze(text, o)
	return len(a.Doubts)+len(a.Unknown)+len(a.Writes) == 0 && !a.ForkBomb &&
		!slices.ContainsFunc(a.Commands, func(c Command) bool {
			return !readsOnly(&c) && (c.Wrapper || !c.Words[0].Known() || !slices.Contains(removers, c.Words[0].Text))
		})
}

func readsOnly(c *Command) bool {
	if c.Wrapper || len(c.Words) == 0 || !c.Words[0].Known() || strings.Contains(c.Words[0].Text, "/") {
		return false
	}
	word := func(prefixes ...string) bool { // reports whether an argument begins with one of the prefixes, or is unknown
		return slices.ContainsFunc(c.Words[1:], func(w Word) bool {
			return !w.Known() ||
				slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(w.Text, p) })
		})
	}
	switch name := c.Words[0].Text; name {
	case "find":
		return !word("-delete", "-exec", "-ok", "-fprint", "-fls")
	case "sort":
		return !word("-o", "--o", "--compress")
	case "date":
		return !word("-s", "--s")
	case "git":
		return len(c.Words) > 1 && slices.Contains(gitReaders, c.Words[1].Text) &&
			!word("--output", "-O", "--open", "--ext")
	case "rg":
		return !word("--pre")
	default:
		return slices.Contains(readers, name)
	}
}
