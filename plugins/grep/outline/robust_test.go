package outline

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// FuzzOutline checks that the table of any text contains only valid positions.
func FuzzOutline(f *testing.F) {
	files, err := filepath.Glob("testdata/*")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil && filepath.Ext(file) != ".outline" {
			for i := range ways {
				f.Add(uint8(i), text) // #nosec G115 -- a small number
			}
		}
	}
	o := New()
	f.Fuzz(func(t *testing.T, way uint8, text []byte) {
		table, err := o.Table(t.Context(), "x."+ways[int(way)%len(ways)], text)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range table.Symbols {
			if s.Line < 1 || s.Column < 1 || s.EndLine < s.Line || s.Offset < 0 || int(s.Offset) > len(text) || s.Name == "" || int(s.Line) != 1+bytes.Count(text[:s.Offset], []byte("\n")) {
				t.Errorf("%+v", s)
			}
		}
	})
}

var ways = []string{"go", "py", "js", "ts", "tsx", "rs", "java", "c", "cpp", "h", "rb", "sh"}
