package lazyregexp_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"toolhost.dev/host/internal/lazyregexp"
)

func TestRegexp(t *testing.T) {
	r := lazyregexp.New(`a(b+)`)
	if !r.MatchString("xab") || r.FindString("xabb") != "abb" || r.FindStringSubmatch("abb")[1] != "bb" || len(r.FindAllString("ab ab", -1)) != 2 ||
		r.FindAllStringSubmatch("ab abb", -1)[1][1] != "bb" || r.ReplaceAllString("ab.", "c") != "c." || r.FindAllStringSubmatchIndex("xabb", -1)[0][2] != 2 || string(r.FindSubmatch([]byte("xabb"))[1]) != "bb" ||
		len(r.Split("1ab2abb3", -1)) != 3 {
		t.Error("the results differ from package regexp")
	}
}

// TestExpressions compiles all expressions of the host, because an invalid expression would be noticed only at its
// first use.
func TestExpressions(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", `{{$d := .Dir}}{{range .GoFiles}}{{$d}}/{{.}}{{"\n"}}{{end}}`, "toolhost.dev/host/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	call := regexp.MustCompile("lazyregexp\\.New\\((`[^`]*`|\"[^\"\\n]*\")\\)|lazyregexp\\.New\\(")
	n := 0
	for _, file := range strings.Fields(string(out)) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range call.FindAllSubmatch(text, -1) {
			expression, err := strconv.Unquote(string(bytes.TrimSpace(m[1])))
			if err != nil {
				t.Logf("%s: an expression of several literals is not checked", filepath.Base(file))
				continue
			}
			if _, err := regexp.Compile(expression); err != nil {
				t.Errorf("%s: %v", file, err)
			}
			n++
		}
	}
	if n < 30 {
		t.Errorf("only %d expressions were found", n)
	}
}
