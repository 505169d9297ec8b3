package filetype

import "testing"

func TestTable(t *testing.T) {
	names := Names()
	if len(names) < 200 {
		t.Fatalf("only %d types", len(names))
	}
	for _, name := range names {
		if _, ok := Find(name); !ok {
			t.Errorf("%s is not found", name)
		}
	}
}

// TestSynonyms checks that each synonym leads to a type. It also checks that no synonym is the name of another type.
func TestSynonyms(t *testing.T) {
	for name, to := range synonyms {
		if _, own := types()[name]; own {
			t.Errorf("%s is a type", name)
		}
		if _, ok := types()[to]; !ok {
			t.Errorf("%s is for %s, which is no type", name, to)
		}
	}
	if golang, ok := Find("Golang"); !ok || !golang.Match("main.go") {
		t.Error("Golang is not found")
	}
}

func TestMatch(t *testing.T) {
	for _, tc := range []struct {
		typ, name string
		want      bool
	}{
		{"go", "a.go", true}, {"go", "a.gox", false}, {"go", "go", false},
		{"make", "Makefile", true}, {"make", "a.mk", true}, {"make", "Makefile.am", true}, {"make", "remake", false},
		{"ts", "a.tsx", true}, {"ts", "a.d.mts", true}, {"ts", "a.js", false},
		{"markdown", "README.md", true}, {"cpp", "a.H", true}, {"c", "a.h", true},
		{"sh", ".bashrc", true}, {"docker", "Dockerfile.dev", true},
	} {
		typ, ok := Find(tc.typ)
		if !ok {
			t.Fatalf("no type %s", tc.typ)
		}
		if got := typ.Match(tc.name); got != tc.want {
			t.Errorf("%s matches %s: %v, want %v", tc.typ, tc.name, got, tc.want)
		}
	}
	if _, ok := Find("nosuch"); ok {
		t.Error("found a type that is not there")
	}
}
