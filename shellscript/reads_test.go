package shellscript_test

import (
	"testing"

	"toolhost.dev/shellscript"
)

func TestReadsOnly(t *testing.T) {
	for text, want := range map[string]bool{
		"ls -la": true, "cat a | grep b | wc -l": true, "cd d && cat x 2>/dev/null": true, "for f in a b; do cat $f; done": true, "git status; git log -3": true, "find . -name x": true, "echo $(cat a)": true, "[ -e a ] && echo yes": true,
		"ls > out": false, "cat a >> b": false, "rm a": false, "git commit -m x": false, "git diff --output=x": false, "find . -delete": false, "find . -exec rm {} +": false, "sort -o a a": false, "make": false, "./cat a": false,
		"echo $(rm a)": false, "xargs rm": false, "$X a": false, "sh -c 'rm a'": false, "tee a": false, "ls; touch a": false, "cat() { rm a; }; cat": false, "eval rm a": false, "echo x | tee a": false, "git": false, "": true, "env rm a": false, "cat <(rm a)": false, "> a": false, "sed -i s/a/b/ f": false,
	} {
		if got := shellscript.ReadsOnly(text, shellscript.Options{Dir: "/w"}); got != want {
			t.Errorf("%q: %t", text, got)
		}
	}
}

func TestOnlyRemoves(t *testing.T) {
	for text, want := range map[string]bool{
		"rm -rf a b": true, "cd d && rm x; rmdir y; ls": true, "rm a > log": false, "rm a; touch b": false, "find . -delete": false, "rm $(mktemp)": false, "make clean": false,
	} {
		if got := shellscript.OnlyRemoves(text, shellscript.Options{Dir: "/w"}); got != want {
			t.Errorf("%q: %t", text, got)
		}
	}
}
