//go:build oracle && !race

package outline

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"toolhost.dev/plugins/grep/symbol"
)

// pythonOracle is a program that prints the declarations in Python's own library. Each line contains the file, line,
// kind and name.
const pythonOracle = `
import ast, os, sys, sysconfig
root = sysconfig.get_paths()["stdlib"]
for where, step in (root, 4), (root + "/asyncio", 1), (root + "/email", 1):
    for name in sorted(os.listdir(where))[::step] if os.path.isdir(where) else ():
        path = where + "/" + name
        if not name.endswith(".py"): continue
        text = open(path, "rb").read()
        try: tree = ast.parse(text)
        except Exception: continue
        if text.startswith(b"\xef\xbb\xbf") or b"\x0c" in text or b"\r" in text: continue
        print("F", path)
        for n in ast.walk(tree):
            if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef)): print("D", n.lineno, "f", n.name)
            elif isinstance(n, ast.ClassDef): print("D", n.lineno, "c", n.name)
`

// TestOraclePython compares functions and classes with the results of Python's own parser.
func TestOraclePython(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3 to compare with")
	}
	out, err := exec.CommandContext(t.Context(), python, "-c", pythonOracle).Output()
	if err != nil {
		t.Fatal(err)
	}
	o := New()
	defer o.Close()
	found := make(map[string]int)
	path, n := "", 0
	check := func() {
		for s, left := range found {
			if left > 0 {
				t.Errorf("%s: %s is found, and not there for Python", path, s)
			}
		}
		clear(found)
	}
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		f := strings.Fields(lines.Text())
		if f[0] == "F" {
			check()
			path = f[1]
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			table, err := o.Table(t.Context(), path, text)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range table.Symbols {
				switch s.Kind {
				case symbol.Function, symbol.Method:
					found[fmt.Sprint(s.Line, " f ", s.Name)]++
				case symbol.Class:
					found[fmt.Sprint(s.Line, " c ", s.Name)]++
				}
			}
			continue
		}
		n++
		s := strings.Join(f[1:], " ")
		if found[s]--; found[s] < 0 {
			t.Errorf("%s: %s is not found", path, s)
		}
	}
	check()
	if n < 1000 {
		t.Errorf("Python sees only %d declarations", n)
	}
	t.Logf("%d declarations compared", n)
}
