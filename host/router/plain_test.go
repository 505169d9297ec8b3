package router

import (
	"reflect"
	"testing"
)

// TestPlainIsWhatTheGrammarSays checks that the function "plain" and the shell parser return the same results.
func TestPlainIsWhatTheGrammarSays(t *testing.T) {
	taken := 0
	for _, command := range []string{
		"read main.go", "  read   main.go  ", "read a=b --limit=3 -- -x", "grep TODO src/a.go", "a", "go test ./...", "x:y z",
		"git@host:path +x %1 a,b -", "VAR=1 read x", "a+=1 b", "time read x", "if x", "function f", "for i in a", "select x in y",
		"coproc x", "then", "in", "read $x", "read *", "read 'a'", "read a;b", "read a&", "read <x", "read a#b", "read #b", "! read",
		"", " ", "read ~", "read {a,b}", "read \\a", "read a\nb", "read a\tb", "[ a ]", "é", "read é", "do", "esac",
		"export A", "let x", "declare x", "local x", "readonly x", "typeset x", "nameref x",
	} {
		short, ok := plain(command)
		if !ok {
			continue
		}
		taken++
		file, err := parseShell(command)
		if err != nil {
			t.Errorf("%q: the grammar refuses it: %v", command, err)
			continue
		}
		long, why := simpleCommand(command, file)
		if long == nil {
			t.Errorf("%q: the grammar finds no simple command: %s", command, why)
			continue
		}
		if !reflect.DeepEqual(short.words, long.words) || len(long.heredocs) != 0 {
			t.Errorf("%q: %+v, and by the grammar %+v", command, short.words, long.words)
		}
	}
	if taken != 8 {
		t.Errorf("%d commands went the short way", taken)
	}
}

func FuzzPlain(f *testing.F) {
	f.Add("read main.go --limit 3")
	f.Fuzz(func(t *testing.T, command string) {
		short, ok := plain(command)
		if !ok {
			return
		}
		file, err := parseShell(command)
		if err != nil {
			t.Fatalf("the grammar refuses %q: %v", command, err)
		}
		long, why := simpleCommand(command, file)
		if long == nil {
			t.Fatalf("%q: %s", command, why)
		}
		if !reflect.DeepEqual(short.words, long.words) {
			t.Fatalf("%q: %+v, and by the grammar %+v", command, short.words, long.words)
		}
	})
}
