package repository

import (
	"os"
	"path/filepath"
	"testing"
)

// TestLedger checks that a record stays until a host ends regularly. A damaged record must cause an error.
func TestLedger(t *testing.T) {
	dir := t.TempDir()
	open := func() (*ledger, *record) {
		l, before, err := openLedger(dir, "/r")
		if err != nil {
			t.Fatal(err)
		}
		return l, before
	}
	end := func(how func() error) {
		if err := how(); err != nil {
			t.Fatal(err)
		}
	}
	l, before := open()
	if before != nil {
		t.Errorf("%+v", before)
	}
	if err := l.write(&record{Root: "/r", Known: []string{"k"}}); err != nil {
		t.Fatal(err)
	}
	end(l.abandon) // simulates a host that is killed or cannot write the record
	l, before = open()
	if before == nil || len(before.Known) != 1 {
		t.Errorf("%+v", before)
	}
	end(l.close)
	if l, before = open(); before != nil {
		t.Errorf("%+v", before)
	}
	end(l.close)
	if err := os.WriteFile(filepath.Join(dir, hash([]byte("/r"))+".json"), []byte(`{"root":"/r","kn`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, before, err := openLedger(dir, "/r"); err == nil {
		t.Errorf("%+v", before)
	}
}
